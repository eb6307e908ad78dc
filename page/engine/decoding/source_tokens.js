/** The ids that an encoder reads, as data/batches/ makes them of a sentence. */

/**
 * Returns a source's ids with eos, cut to the context. ids: of the sentence; bosId, eosId: of the source's tokenizer. reverse: whether to
 * translate from the target language to the source language, which a bos before the sentence says.
 */
export function sourceTokens(ids, {bosId, eosId, context, reverse = false}) {
  return [...(reverse ? [bosId, ...ids] : ids).slice(0, context - 1), eosId];
}
