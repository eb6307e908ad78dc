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

/** The recording of a pass, {meta, tensors}. name: of the example; labels: of the heads, null for those of this example. */
export function recordingOf(checkpoint, pass, name, labels) {
  const {model, step} = checkpoint;
  const {logits, record} = pass;
  const sample = sampleOf(checkpoint, pass, name);
  const {reads, predicts, source, predictions, losses} = sample;
  const weights = weightsByKind(record);
  const measures = headMeasures(weights, {encoder: source?.special, decoder: reads.special, cross: source?.special});
  const parts = partsOf(model);
  const meta = {
    step,
    samples: [sample],
    kinds: Object.fromEntries(Object.entries(weights).map(([kind, layers]) => [kind, {layers: layers.length, heads: layers[0].shape[0]}])),
    parts,
    measures,
    labels: labels ?? headLabels(measures),
    scores: [],
    loss: losses.length ? losses.reduce((sum, loss) => sum + loss, 0) / losses.length : null,
    layer_numbers: {},
  };
  // The known next token of each row (after the end of a text, the most likely one), and the most likely ones.
  const candidates = predictions.map((likely, row) => [predicts.ids[row] ?? likely[0][0], ...likely.map(([id]) => id)]);
  const [length, count] = [candidates.length, candidates[0].length];
  const tensors = {
    ...attentionTensors(record, weights),
    '0|||attribution': {numbers: attribution(model, record.stream, candidates), shape: [count, parts.length, length]},
    '0|||logits': {numbers: centredLogits(logits, model.vocabSize, candidates), shape: [count, length]},
  };
  return {meta, tensors};
}

/** What a recording says of its example: tokens, losses and predictions. */
function sampleOf(checkpoint, {example, logits, record: {stream}}, name) {
  const {source, target: reads, next} = example;
  const {model, target: tokenizer} = checkpoint;
  const {predictions: most, lens: mostOfLayer} = checkpoint.data.limits;
  const tokens = (ids, spelt) => ({ids, pieces: spelt.pieces(ids), special: ids.map((id) => Number(tokenizer.specialIds.has(id)))});
  const likely = (rows, count) => mostLikely(rows, model.vocabSize, tokenizer, count);
  return {
    name,
    reads: tokens(reads, tokenizer),
    predicts: tokens(next, tokenizer),
    source: source && tokens(source, checkpoint.source),
    losses: lossesOf(logits, model.vocabSize, next, 5),
    predictions: likely(logits, most),
    length: reads.length,
    source_length: source?.length ?? 0,
    truncated: false,
    links: null,
    antecedents: null,
    lens: stream.layers.slice(0, -1).map((_, layer) => likely(lens(model, stream, layer), mostOfLayer)),
  };
}

/** {kind: tensors of the weights by layer}. */
function weightsByKind({shapes, weights}) {
  const byKind = {};
  for (const kind of KINDS) {
    for (let layer = 0; shapes.has(`${kind}|${layer}`); layer++) {
      const {heads, queries, keys} = shapes.get(`${kind}|${layer}`);
      byKind[kind] ??= [];
      byKind[kind].push({numbers: weights.get(`${kind}|${layer}`), shape: [heads, queries, keys]});
    }
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
