/**
 * Builds a model from the description and the bytes that `describe_weights` of page/weights.py writes.
 *
 * The model has `task` ('gpt' or 'translate'), `config` (the values of ModelConfig by their Python names), `vocabSize`, `parameters` (their
 * number) and `forward({source, target}, {record, replace})`. Its parts, for those who look inside: `embedding`, `blocks`, `norm` and `head`
 * of the decoder (a GPT is one); `sourceEmbedding`, `encoderBlocks` and `encoderNorm`; in each block `attention`, `crossAttention`,
 * `feedForward` and their norms. Weights are Float32Arrays with the shapes that they have in torch.
 */

import {CrossAttention, SelfAttention} from './attention.js';
import {Block} from './block.js';
import {Embedding, LearnedPositions, Rotary, SinusoidalPositions, TokenShift} from './embedding.js';
import {EncoderDecoder} from './encoder_decoder.js';
import {GPT} from './gpt.js';
import {FeedForward, Linear, Norm} from './layers.js';

/** description: see page/weights.py; bytes: ArrayBuffer of all weights. */
export function loadModel(description, bytes) {
  const {config, task} = description;
  const weights = new Weights(description, bytes);
  const parts = new Parts(config, weights, task === 'translate');
  const head = weights.linear('head');
  if (task === 'gpt') {
    const tokenShift = config.token_shift ? new TokenShift(weights.tensor('token_shift.gain')) : null;
    const blocks = parts.blocks('blocks', 'decoder', config.layers);
    return new GPT(description, {embedding: parts.embedding('embedding'), tokenShift, blocks, norm: parts.finalNorm('norm'), head});
  }
  return new EncoderDecoder(description, {
    sourceEmbedding: parts.embedding('source_embedding'),
    encoderBlocks: parts.blocks('encoder', 'encoder', config.encoder_layers),
    encoderNorm: parts.finalNorm('encoder_norm'),
    embedding: parts.embedding('target_embedding'),
    blocks: parts.blocks('decoder', 'decoder', config.layers),
    norm: parts.finalNorm('decoder_norm'),
    head,
  });
}

/** Makes the parts of a model from the weights whose names begin with a prefix. */
class Parts {
  constructor(config, weights, translates) {
    Object.assign(this, {config, weights, translates});
    this.shape = {heads: config.heads, kvHeads: config.kv_heads, headWidth: config.width / config.heads};
    this.rotary = config.position === 'rotary' ? new Rotary(this.shape.headWidth, config.rotary_base) : null;
  }

  blocks(prefix, kind, count) {
    return Array.from({length: count}, (_, layer) => this.block(`${prefix}.${layer}`, kind, layer));
  }

  block(prefix, kind, layer) {
    const {config, weights} = this;
    const crosses = kind === 'decoder' && this.translates;
    return new Block({
      kind,
      layer,
      postNorm: config.block === 'post_norm',
      attentionNorm: this.norm(`${prefix}.attention_norm`),
      attention: this.selfAttention(`${prefix}.attention`, kind, layer),
      crossNorm: crosses ? this.norm(`${prefix}.cross_norm`) : null,
      crossAttention: crosses ? this.crossAttention(`${prefix}.cross_attention`, layer) : null,
      feedForwardNorm: this.norm(`${prefix}.feed_forward_norm`),
      feedForward: new FeedForward(
        config.activation,
        weights.linear(`${prefix}.feed_forward.expand`),
        weights.linear(`${prefix}.feed_forward.project`),
      ),
    });
  }

  selfAttention(prefix, kind, layer) {
    const {weights, shape, rotary, config} = this;
    const norm = config.qk_norm ? this.queryKeyNorm(prefix) : null;
    return new SelfAttention(kind, layer, shape, weights.linear(`${prefix}.query_key_value`), norm, rotary, weights.linear(`${prefix}.output`));
  }

  crossAttention(prefix, layer) {
    const {weights, shape, config} = this;
    const norm = config.cross_qk_norm ? this.queryKeyNorm(prefix) : null;
    const [query, keyValue, output] = ['query', 'key_value', 'output'].map((name) => weights.linear(`${prefix}.${name}`));
    return new CrossAttention(layer, shape, query, keyValue, norm, output);
  }

  embedding(prefix) {
    const {weights, config} = this;
    const {width} = config;
    const added = {
      learned: () => new LearnedPositions(weights.tensor(`${prefix}.positions.weight`), width),
      sinusoidal: () => new SinusoidalPositions(width),
      rotary: () => null,
    };
    return new Embedding(weights.tensor(`${prefix}.tokens.weight`), width, config.embedding_scale, added[config.position]());
  }

  norm(prefix) {
    const {weights, config} = this;
    const bias = weights.has(`${prefix}.bias`) ? weights.tensor(`${prefix}.bias`) : null;
    return new Norm(weights.tensor(`${prefix}.weight`), bias, config.norm_eps, config.norm === 'layer');
  }

  /** A post-norm block ends with a norm itself. */
  finalNorm(prefix) {
    return this.config.block === 'post_norm' ? null : this.norm(prefix);
  }

  queryKeyNorm(prefix) {
    return new Norm(this.weights.tensor(`${prefix}.query_key_norm.weight`), null, this.config.qk_norm_eps, false);
  }
}

/** The tensors of a file by name. Tied tensors, which have one offset, are one array. */
class Weights {
  constructor({tensors, dtype}, bytes) {
    Object.assign(this, {tensors, dtype, bytes});
    this.loaded = new Map();
  }

  has(name) {
    return name in this.tensors;
  }

  /** Float32Array, row-major. */
  tensor(name) {
    const {shape, offset} = this.tensors[name];
    if (!this.loaded.has(offset)) {
      const bits = new Uint16Array(this.bytes, offset, shape.reduce((product, size) => product * size, 1));
      this.loaded.set(offset, DECODERS[this.dtype](bits));
    }
    return this.loaded.get(offset);
  }

  linear(prefix) {
    const [outputs, inputs] = this.tensors[`${prefix}.weight`].shape;
    const bias = this.has(`${prefix}.bias`) ? this.tensor(`${prefix}.bias`) : null;
    return new Linear(this.tensor(`${prefix}.weight`), bias, outputs, inputs);
  }
}

/** From the bits of finite numbers, Uint16Array, to Float32Array; every platform with a browser is little-endian. */
const DECODERS = {
  /** bfloat16 is the upper half of float32. */
  bf16(bits) {
    const wide = new Uint32Array(bits.length);
    for (let i = 0; i < bits.length; i++) wide[i] = bits[i] << 16;
    return new Float32Array(wide.buffer);
  },
  /** The bits of float16, moved to their places in float32, are the number times 2^-112, whose exponent is biased by 15 instead of 127. */
  f16(bits) {
    const wide = new Uint32Array(bits.length);
    for (let i = 0; i < bits.length; i++) wide[i] = ((bits[i] & 0x8000) << 16) | ((bits[i] & 0x7fff) << 13);
    const numbers = new Float32Array(wide.buffer);
    for (let i = 0; i < numbers.length; i++) numbers[i] *= 2 ** 112;
    return numbers;
  },
};
