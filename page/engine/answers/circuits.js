/**
 * QK and OV circuits of a head, computed from the weights alone (Elhage et al. 2021): interpretability/circuits.py. They are tables token x token
 * of the direct path, from the token embeddings to the head and from the head to the logits. Positions that are added to embeddings, and token
 * shift, are left out. Shapes: N, M tokens of the two sides, C width, D head width.
 */

import {Linear} from '../model/layers.js';
import {branchNorms, withoutScale} from './residual_stream.js';
import {TokenTable} from './token_table.js';

/**
 * {attends: scores q · k / √D of each query token (rows) for each key token (columns), minus the mean over the keys; writes: the logit of each
 * token (columns) when a token (rows) is attended to, without the scale of the final norm, minus the means over rows and columns; null in an
 * encoder}: TokenTables. sources, targets: ids of the two sides; distance: positions from the key back to the query, negative for later keys.
 */
export function circuits(model, {kind, layer, head, distance}, sources, targets) {
  const {query, key, value, module} = vectorsOf(model, {kind, layer, head, distance}, sources, targets);
  const {headWidth, output} = module;
  const size = Math.sqrt(headWidth);
  const attends = new TokenTable(query.map((number) => number / size), centred(key, headWidth), headWidth);
  if (kind === 'encoder') return {attends, writes: null};
  const {width} = model.config;
  const added = new Float32Array(headWidth * width); // the head's columns of the output projection, [D, C]
  for (let i = 0; i < width; i++) {
    for (let d = 0; d < headWidth; d++) added[d * width + i] = output.weight[i * output.inputs + head * headWidth + d];
  }
  const project = new Linear(withoutScale(model, added, module.place), null, headWidth, width);
  const rows = centred(rowsOf(model.head.weight, targets, width), width);
  return {attends, writes: new TokenTable(centred(value, headWidth), project.apply(rows, targets.length), headWidth)};
}

/** {query, key, value: [tokens, D] each, of the head, module}. */
function vectorsOf(model, {kind, layer, head, distance}, sources, targets) {
  const {heads, kvHeads, headWidth} = model.blocks[0].attention;
  const group = Math.floor((head * kvHeads) / heads);
  if (kind === 'cross') {
    const module = model.blocks[layer].crossAttention;
    const read = readBy(model.blocks, module.place, embedded(model.embedding, targets), targets.length);
    let memory = readBy(model.encoderBlocks, null, embedded(model.sourceEmbedding, sources), sources.length);
    if (model.encoderNorm) memory = model.encoderNorm.apply(memory, sources.length);
    const query = headOf(module.query, head, headWidth).apply(read, targets.length);
    const key = headOf(module.keyValue, group, headWidth).apply(memory, sources.length);
    const value = headOf(module.keyValue, kvHeads + group, headWidth).apply(memory, sources.length);
    const {norm} = module;
    if (!norm) return {query, key, value, module};
    return {query: norm.apply(query, targets.length), key: norm.apply(key, sources.length), value, module};
  }
  const [embedding, blocks, ids] =
    kind === 'encoder' ? [model.sourceEmbedding, model.encoderBlocks, sources] : [model.embedding, model.blocks, targets];
  const module = blocks[layer].attention;
  const read = readBy(blocks, module.place, embedded(embedding, ids), ids.length);
  const placed = (number, position) => {
    let vectors = headOf(module.queryKeyValue, number, headWidth).apply(read, ids.length);
    if (module.norm) vectors = module.norm.apply(vectors, ids.length);
    module.rotary?.rotate(vectors, new Int32Array(ids.length).fill(position));
    return vectors;
  };
  const value = headOf(module.queryKeyValue, heads + kvHeads + group, headWidth).apply(read, ids.length);
  return {query: placed(head, Math.max(distance, 0)), key: placed(heads + group, Math.max(-distance, 0)), value, module};
}

/**
 * What the branch `place` of some blocks reads of the vectors x [N, C] of tokens on the direct path: normed, in a post-norm model by all norms
 * before it. place null: what leaves the last block.
 */
function readBy(blocks, place, x, count) {
  const [{postNorm}] = blocks;
  for (const {place: branch, norm} of branchNorms(blocks)) {
    if (branch === place) return postNorm ? x : norm.apply(x, count);
    if (postNorm) x = norm.apply(x, count);
  }
  return x;
}

/** Vectors of tokens without positions, [N, C]. */
function embedded({table, width, scale}, ids) {
  return rowsOf(table, ids, width).map((number) => number * scale);
}

/** The part of a projection that computes the vectors of one head, the `number`-th D rows. */
function headOf({weight, bias, inputs}, number, headWidth) {
  const [first, end] = [number * headWidth, (number + 1) * headWidth];
  return new Linear(weight.subarray(first * inputs, end * inputs), bias && bias.subarray(first, end), headWidth, inputs);
}

function rowsOf(matrix, ids, width) {
  const rows = new Float32Array(ids.length * width);
  for (const [row, id] of ids.entries()) rows.set(matrix.subarray(id * width, (id + 1) * width), row * width);
  return rows;
}

/** Vectors minus their mean, in place. */
function centred(vectors, width) {
  const mean = new Float64Array(width);
  const count = vectors.length / width;
  for (let place = 0; place < vectors.length; place++) mean[place % width] += vectors[place] / count;
  for (let place = 0; place < vectors.length; place++) vectors[place] -= mean[place % width];
  return vectors;
}
