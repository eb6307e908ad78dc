/**
 * Splits the decoder's residual stream into the contributions of its parts, the token embedding, each head and each MLP: direct logit
 * attribution and the logit lens of interpretability/residual_stream.py. Shapes: T tokens, N candidates, P parts, C width, V vocabulary.
 */

import {dot} from '../model/linear_algebra.js';

/** The parts of a model in the order of the forward pass, [kind, layer, head]; `bias` is last, and only there if the model has any. */
export function partsOf(model) {
  const parts = [['embedding', 0, 0]];
  for (const block of model.blocks) {
    for (const {kind, layer, heads} of attentionsOf(block)) for (let head = 0; head < heads; head++) parts.push([kind, layer, head]);
    parts.push(['mlp', block.layer, 0]);
  }
  return model.config.bias || model.config.output_bias ? [...parts, ['bias', 0, 0]] : parts;
}

/**
 * The norms through which parts reach the logits, in the order of the forward pass, [{norm, after: `${kind}|${layer}` of the parts that are
 * added right before it}]: the final norm alone, or in a post-norm model those of all branches.
 */
export function normPath(model) {
  const branches = branchNorms(model.blocks);
  if (model.norm) return [{norm: model.norm, after: ['embedding|0', ...branches.map(({place}) => place)]}];
  return branches.map(({place, norm}, number) => ({norm, after: number ? [place] : ['embedding|0', place]}));
}

/** [{place: `${kind}|${layer}`, norm}] of each branch of some blocks, in the order of the forward pass; of an MLP, kind is mlp. */
export function branchNorms(blocks) {
  return blocks.flatMap((block) => [
    {place: block.attention.place, norm: block.attentionNorm},
    ...(block.crossAttention ? [{place: block.crossAttention.place, norm: block.crossNorm}] : []),
    {place: `mlp|${block.layer}`, norm: block.feedForwardNorm},
  ]);
}

/**
 * What each part adds to the logits of the tokens `candidates` (T lists of N ids), minus the mean logit of the vocabulary: Float32Array
 * [N, P, T]. stream: that of a Recording. The scales of norms are frozen at those of the whole stream; their biases belong to the part `bias`.
 */
export function attribution(model, stream, candidates) {
  const {width} = model.config;
  const parts = partsOf(model);
  const [length, count] = [candidates.length, candidates[0].length];
  const bias = new Float64Array(length * count); // [T, N]
  let rows = outputRows(model, candidates, bias); // [T, N, C]: what a unit of the stream adds to the logits
  const contributions = new Float32Array(count * parts.length * length);
  const keep = (number, position, candidate, value) => {
    contributions[(candidate * parts.length + number) * length + position] = value;
  };
  for (const {norm, after} of normPath(model).reverse()) {
    if (norm.bias) addProducts(bias, rows, norm.bias, width);
    rows = beforeNorm(norm, stream.beforeNorms.get(norm), rows, count);
    for (const [number, [kind, layer, head]] of parts.entries()) {
      if (!after.includes(`${kind}|${layer}`)) continue;
      const added = addedBy(model, stream, kind, layer, head); // [T, C]
      for (let position = 0; position < length; position++) {
        for (let candidate = 0; candidate < count; candidate++) {
          keep(number, position, candidate, dot(added, position * width, rows, (position * count + candidate) * width, width));
        }
      }
    }
    for (const {place, output} of model.blocks.flatMap(attentionsOf)) {
      if (output.bias && after.includes(place)) addProducts(bias, rows, output.bias, width);
    }
  }
  if (parts.at(-1)[0] === 'bias') bias.forEach((value, i) => keep(parts.length - 1, Math.floor(i / count), i % count, value));
  return contributions;
}

/** The logits of the same tokens minus the mean logit, Float32Array [N, T]. */
export function centredLogits(logits, vocabulary, candidates) {
  const [length, count] = [candidates.length, candidates[0].length];
  const centred = new Float32Array(count * length);
  for (const [position, ids] of candidates.entries()) {
    let sum = 0;
    for (let i = position * vocabulary; i < (position + 1) * vocabulary; i++) sum += logits[i];
    for (const [candidate, id] of ids.entries()) {
      centred[candidate * length + position] = logits[position * vocabulary + id] - sum / vocabulary;
    }
  }
  return centred;
}

/** The logits that the model would give after a layer, Float32Array [T, V]: final norm and output projection of the stream there. */
export function lens(model, stream, layer) {
  const x = stream.layers[layer];
  const rows = x.length / model.config.width;
  return model.logits(model.norm ? model.norm.apply(x, rows) : x, rows);
}

/**
 * Applies the linear parts of all norms between the part `${kind}|${layer}` and the logits to vectors x [rows, C], in place: without the
 * division by their scales and the biases.
 */
export function withoutScale(model, x, place) {
  const path = normPath(model);
  for (const {norm} of path.slice(path.findIndex(({after}) => after.includes(place)))) {
    for (let start = 0; start < x.length; start += norm.width) {
      const mean = norm.centred ? meanOf(x, start, norm.width) : 0;
      for (let i = 0; i < norm.width; i++) x[start + i] = (x[start + i] - mean) * norm.weight[i];
    }
  }
  return x;
}

/** The rows of the output projection of the candidates minus the mean row, Float32Array [T, N, C]; adds those of its bias to `bias`. */
function outputRows({head, vocabSize, config: {width}}, candidates, bias) {
  const mean = new Float64Array(width);
  for (let i = 0; i < vocabSize * width; i++) mean[i % width] += head.weight[i] / vocabSize;
  const meanBias = head.bias ? meanOf(head.bias, 0, vocabSize) : 0;
  const tokens = candidates.flat();
  const rows = new Float32Array(tokens.length * width);
  for (const [place, token] of tokens.entries()) {
    for (let i = 0; i < width; i++) rows[place * width + i] = head.weight[token * width + i] - mean[i];
    if (head.bias) bias[place] += head.bias[token] - meanBias;
  }
  return rows;
}

/** What a unit of the stream before a norm adds to the logits, given the same after it. x [T, C]: the stream there; rows [T, N, C]. */
function beforeNorm(norm, x, rows, count) {
  const {width, weight, centred} = norm;
  const before = new Float32Array(rows.length);
  for (let start = 0; start < rows.length; start += width) {
    const {scale} = norm.statistics(x, Math.floor(start / (count * width)) * width);
    for (let i = 0; i < width; i++) before[start + i] = rows[start + i] * weight[i] * scale;
    const mean = centred ? meanOf(before, start, width) : 0;
    for (let i = 0; i < width; i++) before[start + i] -= mean;
  }
  return before;
}

/** What a part adds to the stream, [T, C]. */
function addedBy(model, stream, kind, layer, head) {
  if (kind === 'embedding') return stream.embedding;
  if (kind === 'mlp') return stream.mlps[layer];
  const block = model.blocks[layer];
  const {headWidth, output} = kind === 'cross' ? block.crossAttention : block.attention;
  const mixed = stream.heads.get(`${kind}|${layer}`); // [T, H · D]
  const column = head * headWidth;
  const length = mixed.length / output.inputs;
  const added = new Float32Array(length * output.outputs);
  for (let row = 0; row < length; row++) {
    for (let i = 0; i < output.outputs; i++) {
      added[row * output.outputs + i] = dot(mixed, row * output.inputs + column, output.weight, i * output.inputs + column, headWidth);
    }
  }
  return added;
}

function attentionsOf({attention, crossAttention}) {
  return crossAttention ? [attention, crossAttention] : [attention];
}

/** Adds to each of `sums` the product of its row with a vector. */
function addProducts(sums, rows, vector, width) {
  for (let place = 0; place < sums.length; place++) sums[place] += dot(rows, place * width, vector, 0, width);
}

function meanOf(numbers, start, count) {
  let sum = 0;
  for (let i = start; i < start + count; i++) sum += numbers[i];
  return sum / count;
}
