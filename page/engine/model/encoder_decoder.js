/** An encoder-decoder for translation: model/encoder_decoder.py. Shapes: S source tokens, T target tokens, C width, V target vocabulary. */

import {places} from './attention.js';
import {BeamCache, KVCache} from './cache.js';
import {LanguageModel} from './language_model.js';

export class EncoderDecoder extends LanguageModel {
  /** parts: as of `LanguageModel`, of the decoder, and sourceEmbedding, encoderBlocks, encoderNorm. */
  constructor(description, parts) {
    super('translate', description, parts);
    this.sourceVocabSize = description.source_vocab_size;
  }

  /**
   * Reads the ids `source` [S], which end with eos, and `target` [T], which begin with bos; returns {logits: Float32Array [T, V] of the
   * token after each, vocabSize}. record, replace, errors: as in `GPT.forward`.
   */
  forward({source, target}, {record = null, replace = null} = {}) {
    const rows = target.length;
    this.checkHeads(replace);
    const visible = Array.from({length: rows}, (_, row) => places(0, row + 1));
    const pass = {positions: places(0, rows), visible, cache: null, recording: record, replace};
    const features = this.decodeTarget(target, {...pass, source: this.sourceKeysValues(source, {recording: record, replace})});
    return this.scored(features, rows, record);
  }

  /** Source ids [S] -> Float32Array [S, C]. */
  encode(source, {recording = null, replace = null} = {}) {
    const rows = source.length;
    const positions = places(0, rows);
    const pass = {positions, visible: Array(rows).fill(positions), cache: null, recording, replace};
    let x = this.sourceEmbedding.apply(source, positions);
    for (const block of this.encoderBlocks) x = block.apply(x, pass);
    return this.encoderNorm ? this.encoderNorm.apply(x, rows) : x;
  }

  /** For each decoder layer, {key, value} of the source ids [S] for cross-attention. */
  sourceKeysValues(source, options) {
    const encoded = this.encode(source, options);
    return this.blocks.map((block) => block.crossAttention.keysValues(encoded, source.length));
  }

  /** Encodes the source once: `nextLogits` with this cache attends to it. */
  cacheSource(source, cache, replace = null) {
    this.checkHeads(replace);
    cache.source = this.sourceKeysValues(source, {replace});
  }

  /**
   * Logits, Float32Array [T, V], after each of the ids [T], which follow the tokens in a cache and are added to it. In a `BeamCache` the T
   * ids are those of the hypotheses.
   */
  nextLogits(ids, cache, replace = null) {
    cache.begin(ids.length);
    const pass = {positions: cache.positions(ids.length), visible: cache.visible(ids.length), cache, source: cache.source};
    return this.logits(this.decodeTarget(ids, {...pass, recording: null, replace}), ids.length);
  }

  decodeTarget(target, pass) {
    return this.decode(this.embedding.apply(target, pass.positions), pass);
  }

  /** An empty cache for `capacity` target tokens. */
  newCache(capacity = this.config.context) {
    return new KVCache(capacity);
  }

  /** An empty cache for `beamSize` hypotheses of `steps` tokens each. */
  newBeamCache(steps, beamSize) {
    return new BeamCache(steps, beamSize);
  }
}
