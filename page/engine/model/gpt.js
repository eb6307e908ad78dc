/** A decoder-only language model: model/gpt.py. Shapes: T tokens, C width, V vocabulary. */

import {places} from './attention.js';
import {KVCache} from './cache.js';
import {LanguageModel} from './language_model.js';

export class GPT extends LanguageModel {
  /** parts: as of `LanguageModel`, and tokenShift: `TokenShift` or null. */
  constructor(description, parts) {
    super('gpt', description, parts);
    /** The token that begins each document, for config.mask_documents; null otherwise. */
    this.eosId = description.eos_id;
  }

  /**
   * Reads the ids `target` [T]; returns {logits: Float32Array [T, V] of the token after each, vocabSize}. record: a new `Recording`, which
   * is filled. replace: outputs of heads, see `Attention.replaceOutputs`. RangeError for a head, an id or a position that does not exist.
   */
  forward({target}, {record = null, replace = null} = {}) {
    return this.scored(this.features(target, {recording: record, replace}), target.length, record);
  }

  /** Logits [V] after the last of the ids, which follow the tokens in a cache and are added to it. */
  nextLogits(ids, cache, replace = null) {
    const features = this.features(ids, {cache, replace});
    return this.logits(features.subarray(features.length - this.config.width), 1);
  }

  /** ids [T] -> Float32Array [T, C] after the final norm. The tokens in a cache belong to one document. */
  features(ids, {cache = null, recording = null, replace = null}) {
    const rows = ids.length;
    this.checkHeads(replace);
    cache?.begin(rows);
    const positions = cache ? cache.positions(rows) : places(0, rows);
    const starts = (row) => this.eosId !== null && ids[row] === this.eosId;
    const visible = cache ? cache.visible(rows) : visibleInDocuments(rows, starts);
    let x = this.embedding.apply(ids, positions);
    if (this.tokenShift) {
      const shifted = this.tokenShift.apply(x, cache?.lastInput ?? null, starts);
      if (cache) cache.lastInput = x.slice(-this.config.width);
      x = shifted;
    }
    return this.decode(x, {positions, visible, cache, recording, replace});
  }

  /** An empty cache for `capacity` tokens. */
  newCache(capacity = this.config.context) {
    return new KVCache(capacity);
  }
}

/** For each token, the places of the tokens that it sees: those of its document up to itself. starts: whether a row begins a document. */
function visibleInDocuments(rows, starts) {
  let first = 0;
  return Array.from({length: rows}, (_, row) => {
    if (starts(row)) first = row;
    return places(first, row + 1);
  });
}
