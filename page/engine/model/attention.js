/**
 * Attention, softmax(Q Kᵀ / √D) V, and its two modules. Shapes: T queries, S keys, C width, H heads (Hkv of keys and values), D head width;
 * queries are [T, H · D], keys and values [S, Hkv · D].
 *
 * Which keys a query sees is a list of their places (`visible`), one Int32Array for each query: consecutive places for causal attention,
 * those of its own document or of the whole source, and in a beam search the places of a hypothesis and its ancestors.
 */

import {dot} from './linear_algebra.js';

/**
 * Returns the outputs of all heads, Float32Array [T, H · D]. shape: {heads, kvHeads, headWidth}; query head h uses key head
 * h // (H / Hkv). weights: if given, Float32Array [H, T, S] of zeros, which receives softmax(Q Kᵀ / √D).
 */
export function attend(query, key, value, visible, {heads, kvHeads, headWidth}, weights = null) {
  const queries = visible.length;
  const keyRow = kvHeads * headWidth;
  const keys = key.length / keyRow;
  const scale = 1 / Math.sqrt(headWidth);
  const mixed = new Float32Array(queries * heads * headWidth);
  const scores = new Float64Array(visible.reduce((most, places) => Math.max(most, places.length), 0));
  for (let head = 0; head < heads; head++) {
    const column = Math.floor((head * kvHeads) / heads) * headWidth;
    for (let row = 0; row < queries; row++) {
      const places = visible[row];
      const place = (row * heads + head) * headWidth;
      let largest = -Infinity;
      for (let i = 0; i < places.length; i++) {
        scores[i] = dot(query, place, key, places[i] * keyRow + column, headWidth) * scale;
        if (scores[i] > largest) largest = scores[i];
      }
      let total = 0;
      for (let i = 0; i < places.length; i++) total += scores[i] = Math.exp(scores[i] - largest);
      for (let i = 0; i < places.length; i++) {
        const weight = scores[i] / total;
        if (weights) weights[(head * queries + row) * keys + places[i]] = weight;
        const from = places[i] * keyRow + column;
        for (let d = 0; d < headWidth; d++) mixed[place + d] += weight * value[from + d];
      }
    }
  }
  return mixed;
}

/** The places from `start` to `end` - 1, Int32Array. */
export function places(start, end) {
  if (end > consecutive.length) consecutive = Int32Array.from({length: 2 * end}, (_, place) => place);
  return consecutive.subarray(start, end);
}

let consecutive = new Int32Array(0);

/** What both modules share. `kind`: decoder, encoder or cross; with `layer` it names the module. `output`: the output projection. */
class Attention {
  constructor(kind, layer, shape, output) {
    Object.assign(this, {kind, layer, output, ...shape, shape});
  }

  get place() {
    return `${this.kind}|${this.layer}`;
  }

  /** Attends with all heads and projects the result: Float32Array [T, C]. pass: see `Block.apply`. */
  mix(query, key, value, visible, {recording, replace}) {
    const {heads, headWidth} = this;
    const weights = recording && new Float32Array((heads * visible.length * key.length) / (this.kvHeads * headWidth));
    const mixed = attend(query, key, value, visible, this.shape, weights);
    recording?.keepAttention(this, weights, mixed, value);
    if (replace) this.replaceOutputs(mixed, replace);
    recording?.keepHeads(this, mixed);
    return this.output.apply(mixed, visible.length);
  }

  /**
   * Replaces the outputs of some heads in mixed [T, H · D]. replace: Map from `${kind}|${layer}|${head}` to a number, a vector [D] for all
   * positions, or [T · D] by position. RangeError for another length.
   */
  replaceOutputs(mixed, replace) {
    const {heads, headWidth} = this;
    for (let head = 0; head < heads; head++) {
      const output = replace.get(`${this.place}|${head}`);
      if (output === undefined) continue;
      const rows = mixed.length / (heads * headWidth);
      const number = typeof output === 'number';
      if (!number && output.length !== headWidth && output.length !== rows * headWidth) {
        throw new RangeError(`${output.length} numbers replace the output of a head of width ${headWidth} at ${rows} positions`);
      }
      const step = !number && output.length > headWidth ? headWidth : 0;
      for (let row = 0; row < rows; row++) {
        for (let d = 0; d < headWidth; d++) mixed[(row * heads + head) * headWidth + d] = number ? output : output[row * step + d];
      }
    }
  }
}

/** Self-attention, causal or not: `visible` decides. */
export class SelfAttention extends Attention {
  /** fused: the projection to queries, keys and values, in this order; norm: of each query and key, or null; rotary: or null. */
  constructor(kind, layer, shape, fused, norm, rotary, output) {
    super(kind, layer, shape, output);
    Object.assign(this, {queryKeyValue: fused, norm, rotary});
  }

  /** x [T, C] -> [T, C]. pass: see `Block.apply`. */
  apply(x, pass) {
    const {query, key, value} = this.queriesKeysValues(x, pass.positions);
    const all = pass.cache ? pass.cache.append(this.layer, key, value) : {key, value};
    return this.mix(query, all.key, all.value, pass.visible, pass);
  }

  /** {query [T, H · D], key, value [T, Hkv · D]} of x [T, C] at positions [T]; queries and keys normalised and rotated. */
  queriesKeysValues(x, positions) {
    const rows = positions.length;
    const {heads, kvHeads, headWidth, norm, rotary} = this;
    const widths = [heads * headWidth, kvHeads * headWidth, kvHeads * headWidth];
    let [query, key, value] = split(this.queryKeyValue.apply(x, rows), rows, widths);
    if (norm) [query, key] = [norm.apply(query, rows * heads), norm.apply(key, rows * kvHeads)];
    rotary?.rotate(query, positions);
    rotary?.rotate(key, positions);
    return {query, key, value};
  }
}

/** Every target token attends to all source tokens. */
export class CrossAttention extends Attention {
  constructor(layer, shape, query, keyValue, norm, output) {
    super('cross', layer, shape, output);
    Object.assign(this, {query, keyValue, norm});
  }

  /** {key, value}, [S, Hkv · D] each, of the encoder output [S, C]. */
  keysValues(encoded, length) {
    const {kvHeads, headWidth, norm} = this;
    const [key, value] = split(this.keyValue.apply(encoded, length), length, [kvHeads * headWidth, kvHeads * headWidth]);
    return {key: norm ? norm.apply(key, length * kvHeads) : key, value};
  }

  /** Queries [T, H · D] of x [T, C], normalised. */
  queries(x, rows) {
    const query = this.query.apply(x, rows);
    return this.norm ? this.norm.apply(query, rows * this.heads) : query;
  }

  /** x [T, C] -> [T, C]; source: from `keysValues`. */
  apply(x, {key, value}, pass) {
    const rows = pass.positions.length;
    const all = places(0, key.length / (this.kvHeads * this.headWidth));
    return this.mix(this.queries(x, rows), key, value, Array(rows).fill(all), pass);
  }
}

/** Splits the columns of x [rows, sum of widths]: one Float32Array [rows, width] for each width. */
function split(x, rows, widths) {
  const total = x.length / rows;
  let column = 0;
  return widths.map((width) => {
    const part = new Float32Array(rows * width);
    for (let row = 0; row < rows; row++) part.set(x.subarray(row * total + column, row * total + column + width), row * width);
    column += width;
    return part;
  });
}
