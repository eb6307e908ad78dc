/**
 * Recordings of an example by the model in the page, in the form in which a page holds recordings: {meta: as the plugin's route /meta, tensors:
 * {`${sample}|${kind}|${layer}|${what}`: {numbers: Float32Array, shape}}}. The computations are those of interpretability/recorder.py.
 */

import {Recording} from '../model/recording.js';
import {headLabels, headMeasures} from './head_measures.js';
import {lossesOf, mostLikely} from './predictions.js';
import {attribution, centredLogits, lens, partsOf} from './residual_stream.js';
import {rollout} from './rollout.js';

const KINDS = ['encoder', 'decoder', 'cross'];

/** A forward pass over an example: {example, logits [T, V], record: what was computed on the way}. replace: see `changedOutputs`. */
export function forwardPass(model, example, replace = null) {
  const record = new Recording();
  const {logits} = model.forward(example, {record, replace});
  return {example, logits, record};
}

/** The recording of a pass. name: of the example; labels: of the heads, null for those of this example. */
export function recordingOf(checkpoint, {example, logits, record}, name, labels) {
  const {source, target: reads, next} = example;
  const {model, target: tokenizer} = checkpoint;
  const {predictions: most, lens: mostOfLayers} = checkpoint.data.limits;
  const vocabulary = model.vocabSize;
  const tokens = (ids, spelt) => ({ids, pieces: spelt.pieces(ids), special: ids.map((id) => Number(tokenizer.specialIds.has(id)))});
  const predictions = mostLikely(logits, vocabulary, tokenizer, most);
  const losses = lossesOf(logits, vocabulary, next, 5);
  const sample = {
    name,
    reads: tokens(reads, tokenizer),
    predicts: tokens(next, tokenizer),
    source: source && tokens(source, checkpoint.source),
    losses,
    predictions,
    length: reads.length,
    source_length: source?.length ?? 0,
    truncated: false,
    links: null,
    antecedents: null,
    lens: record.stream.layers
      .slice(0, -1)
      .map((_, layer) => mostLikely(lens(model, record.stream, layer), vocabulary, tokenizer, mostOfLayers)),
  };
  const candidates = predictions.map((likely, row) => [next[row] ?? likely[0][0], ...likely.map(([id]) => id)]);
  const weights = weightsByKind(record);
  const marks = {encoder: sample.source?.special, decoder: sample.reads.special, cross: sample.source?.special};
  const measures = headMeasures(weights, marks);
  const parts = partsOf(model);
  const meta = {
    step: checkpoint.step,
    samples: [sample],
    kinds: Object.fromEntries(Object.entries(weights).map(([kind, layers]) => [kind, {layers: layers.length, heads: layers[0].shape[0]}])),
    parts,
    measures,
    labels: labels ?? headLabels(measures),
    scores: [],
    loss: losses.length ? losses.reduce((sum, loss) => sum + loss, 0) / losses.length : null,
    layer_numbers: {},
  };
  const shape = [candidates[0].length, parts.length, reads.length];
  const tensors = {
    ...attentionTensors(record, weights),
    '0|||attribution': {numbers: attribution(model, record.stream, candidates), shape},
    '0|||logits': {numbers: centredLogits(logits, vocabulary, candidates), shape: [shape[0], shape[2]]},
  };
  return {meta, tensors};
}

/** {kind: tensors of the weights by layer}. */
function weightsByKind({shapes, weights}) {
  const byKind = {};
  for (const kind of KINDS) {
    const places = [...shapes.keys()].filter((place) => place.startsWith(`${kind}|`));
    const tensor = (_, layer) => {
      const {heads, queries, keys} = shapes.get(`${kind}|${layer}`);
      return {numbers: weights.get(`${kind}|${layer}`), shape: [heads, queries, keys]};
    };
    if (places.length) byKind[kind] = places.map(tensor);
  }
  return byKind;
}

function attentionTensors(record, weights) {
  const tensors = {};
  for (const [kind, layers] of Object.entries(weights)) {
    for (const [layer, tensor] of layers.entries()) {
      const place = `${kind}|${layer}`;
      const {heads, queries, keys, headWidth} = record.shapes.get(place);
      tensors[`0|${place}|weights`] = tensor;
      tensors[`0|${place}|norms`] = {numbers: rowNorms(record.outputs.get(place), headWidth), shape: [heads, queries]};
      tensors[`0|${place}|values`] = {numbers: record.valueNorms.get(place), shape: [heads, keys]};
    }
    if (kind !== 'cross') tensors[`0|${kind}||rollout`] = rollout(layers);
  }
  return tensors;
}

function rowNorms(rows, width) {
  const norms = new Float32Array(rows.length / width);
  for (let place = 0; place < rows.length; place++) norms[Math.floor(place / width)] += rows[place] ** 2;
  return norms.map(Math.sqrt);
}
