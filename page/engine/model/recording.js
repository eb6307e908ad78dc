/**
 * What a forward pass computed: the attention of every head, and the decoder's residual stream. The names are those of model/recording.py
 * and interpretability/residual_stream.py. Pass a new one to `forward`. Shapes: T tokens, Q queries, K keys, H heads, D head width, C width.
 */
export class Recording {
  constructor() {
    /** By `${kind}|${layer}`: {heads, queries, keys, headWidth}. */
    this.shapes = new Map();
    /** Attention weights [H, Q, K]: rows are queries and sum to 1. Of a replaced head, those that it would have. */
    this.weights = new Map();
    /** Output of each head, weights @ values, [H, Q, D], before it is replaced and projected. */
    this.outputs = new Map();
    /** Value of each key, [H, K, D]; with grouped queries, the same for all heads of a group. */
    this.values = new Map();
    /** ‖W_O v‖ of each key, [H, K]: the norm of what its value adds to the stream when attended to (Kobayashi et al. 2020). */
    this.valueNorms = new Map();
    /** The decoder's residual stream. */
    this.stream = {
      /** Token vectors, with positions and token shift, [T, C]. */
      embedding: null,
      /** By `${kind}|${layer}`: head outputs side by side, [T, H · D], as the output projection reads them: replaced heads included. */
      heads: new Map(),
      /** Output of the MLP of each layer, [T, C]. */
      mlps: [],
      /** The stream after each layer, [T, C]. */
      layers: [],
      /** By norm: the stream before the final norm, or in a post-norm model before each norm of the decoder, [T, C]. */
      beforeNorms: new Map(),
      /** [T, V]. */
      logits: null,
    };
  }

  /** mixed [Q, H · D]; value [K, Hkv · D], perhaps a view of a cache. */
  keepAttention(module, weights, mixed, value) {
    const {place, heads, kvHeads, headWidth} = module;
    const [queries, keys] = [mixed.length / (heads * headWidth), value.length / (kvHeads * headWidth)];
    const values = byHead(value, keys, heads, kvHeads, headWidth);
    this.shapes.set(place, {heads, queries, keys, headWidth});
    this.weights.set(place, weights);
    this.outputs.set(place, byHead(mixed, queries, heads, heads, headWidth));
    this.values.set(place, values);
    this.valueNorms.set(place, valueNorms(module, values, keys));
  }

  keepHeads(module, mixed) {
    if (module.kind !== 'encoder') this.stream.heads.set(module.place, mixed);
  }

  keepMlp(block, output) {
    if (block.kind === 'decoder') this.stream.mlps[block.layer] = output;
  }

  keepLayer(block, x) {
    if (block.kind === 'decoder') this.stream.layers[block.layer] = x;
  }

  keepBeforeNorm(block, norm, x) {
    if (block.kind === 'decoder') this.stream.beforeNorms.set(norm, x);
  }
}

/** x [rows, N · D] -> Float32Array [H, rows, D]; with N < H, each of the N serves H / N heads. */
function byHead(x, rows, heads, count, headWidth) {
  const y = new Float32Array(heads * rows * headWidth);
  for (let head = 0; head < heads; head++) {
    const column = Math.floor((head * count) / heads) * headWidth;
    for (let row = 0; row < rows; row++) {
      const from = row * count * headWidth + column;
      y.set(x.subarray(from, from + headWidth), (head * rows + row) * headWidth);
    }
  }
  return y;
}

/** ‖W_O v‖ for values [H, K, D], Float32Array [H, K], as √(vᵀ (Wᵀ W) v): without vectors of width C. */
function valueNorms(module, values, keys) {
  const {heads, headWidth} = module;
  const norms = new Float32Array(heads * keys);
  grams.has(module) || grams.set(module, gramOf(module));
  const gram = grams.get(module);
  for (let head = 0; head < heads; head++) {
    for (let key = 0; key < keys; key++) {
      const v = (head * keys + key) * headWidth;
      let square = 0;
      for (let i = 0; i < headWidth; i++) {
        const row = (head * headWidth + i) * headWidth;
        let sum = 0;
        for (let j = 0; j < headWidth; j++) sum += gram[row + j] * values[v + j];
        square += values[v + i] * sum;
      }
      norms[head * keys + key] = Math.sqrt(Math.max(square, 0));
    }
  }
  return norms;
}

/** Wᵀ W of the part of the output projection that belongs to each head, Float64Array [H, D, D]. */
function gramOf({heads, headWidth, output}) {
  const gram = new Float64Array(heads * headWidth * headWidth);
  for (let row = 0; row < output.outputs; row++) {
    for (let head = 0; head < heads; head++) {
      const w = row * output.inputs + head * headWidth;
      for (let i = 0; i < headWidth; i++) {
        const place = (head * headWidth + i) * headWidth;
        const weight = output.weight[w + i];
        for (let j = 0; j < headWidth; j++) gram[place + j] += weight * output.weight[w + j];
      }
    }
  }
  return gram;
}

/** Of each attention module, computed when it is first recorded. */
const grams = new WeakMap();
