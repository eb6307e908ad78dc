/** Keys and values of the tokens so far: a new token then costs one step instead of a full forward pass. */

import {places} from './attention.js';

/** The tokens of one text. */
export class KVCache {
  /** capacity: the largest number of tokens. */
  constructor(capacity) {
    this.capacity = capacity;
    /** Number of tokens that every layer has appended. */
    this.length = 0;
    /** Of an encoder-decoder: {key, value} of the source for each layer, from `CrossAttention.keysValues`. */
    this.source = null;
    /** Of a model with token shift: the vector [C] of the last token, before the shift. */
    this.lastInput = null;
    this.layers = [];
  }

  /** Positions [tokens] of the next tokens. */
  positions(tokens) {
    return places(this.length, this.length + tokens);
  }

  /** For each of the next tokens, the places of the tokens that it sees: all before it, and itself. */
  visible(tokens) {
    return Array.from({length: tokens}, (_, token) => places(0, this.length + token + 1));
  }

  /** Adds keys and values [T, Hkv · D] of the next tokens to a layer; returns {key, value} of all its tokens, views of the cache. */
  append(layer, key, value) {
    const width = key.length / this.added;
    const end = this.length + this.added;
    this.layers[layer] ??= {key: new Float32Array(this.capacity * width), value: new Float32Array(this.capacity * width)};
    const kept = this.layers[layer];
    kept.key.set(key, this.length * width);
    kept.value.set(value, this.length * width);
    return {key: kept.key.subarray(0, end * width), value: kept.value.subarray(0, end * width)};
  }

  /** Announces the number of tokens that every layer will append. RangeError if they do not fit. */
  begin(tokens) {
    if (this.length + tokens > this.capacity) {
      throw new RangeError(`the cache holds ${this.capacity} tokens, but ${this.length + tokens} are needed`);
    }
    this.added = tokens;
  }

  /** Counts the tokens that every layer has appended. */
  end() {
    this.length += this.added;
  }
}

/**
 * The cache of a beam search: each step adds one token for each hypothesis, all at one position. Keys and values never move when hypotheses
 * are reordered, dropped or split: a list of places says which tokens belong to each hypothesis.
 */
export class BeamCache extends KVCache {
  /** Room for `steps` tokens of each of `beamSize` hypotheses. */
  constructor(steps, beamSize) {
    super(steps * beamSize);
    this.steps = 0;
    this.ancestors = [new Int32Array(0)];
  }

  positions(tokens) {
    return new Int32Array(tokens).fill(this.steps);
  }

  visible(tokens) {
    return Array.from({length: tokens}, (_, token) => Int32Array.of(...this.ancestors[token], this.length + token));
  }

  end() {
    this.ancestors = this.visible(this.added);
    this.steps++;
    super.end();
  }

  /** Lets hypothesis k continue from hypothesis `parents[k]`; the number of hypotheses may change. */
  follow(parents) {
    this.ancestors = parents.map((parent) => this.ancestors[parent]);
  }
}
