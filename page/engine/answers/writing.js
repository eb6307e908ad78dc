/** What a model writes: continuations of a GPT, and translations. */

import {translate} from '../decoding/beam_search.js';
import {writtenTokens} from '../decoding/sampling.js';

/**
 * {ids, text} of at most `count` tokens that a GPT writes after some ids. options: those of `writtenTokens` that say how to choose, and replace.
 * onText gets the text so far with each token.
 */
export function continuation({model, target: tokenizer}, before, count, options, onText) {
  const ids = [];
  const {stopIds, neverWritten} = tokenizer;
  const limits = {maxTokens: count, stopIds, bannedIds: neverWritten};
  for (const id of count > 0 ? writtenTokens(model, before, {...options, ...limits}) : []) {
    ids.push(id);
    onText(tokenizer.decode(ids));
  }
  return {ids, text: tokenizer.decode(ids)};
}

/**
 * {ids, text, score, cut: whether it reached the maximal length before its end} of the best translation of the ids of a source. options:
 * beamSize, lengthPenalty and replace; onText gets the best text so far with each token.
 */
export function translation({model, target: tokenizer}, source, options, onText) {
  const {bosId, eosId, neverWritten} = tokenizer;
  const onStep = (ids) => onText(oneLine(tokenizer.decode(ids)));
  const {ids, score, cut} = translate(model, source, {...options, bosId, eosId, bannedIds: neverWritten, onStep});
  return {ids, text: oneLine(tokenizer.decode(ids)), score, cut};
}

/** A text with spaces in place of its line breaks. */
function oneLine(text) {
  return text.replace(/\r\n|\n|\r/g, ' ');
}
