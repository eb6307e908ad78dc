/** What a model writes: continuations of a GPT, and translations. */

import {translate} from '../decoding/beam_search.js';
import {uniformNumbers} from '../decoding/random.js';
import {writtenTokens} from '../decoding/sampling.js';

/**
 * {ids, text} of at most `count` tokens that a GPT writes after some ids. decoding: of the question; replace: of heads, or null. onText gets the
 * text so far with each token.
 */
export function continuation({model, target: tokenizer}, before, count, decoding, replace, onText) {
  const ids = [];
  const {temperature, top_k: topK, top_p: topP, seed} = decoding;
  const {stopIds, neverWritten} = tokenizer;
  const limits = {maxTokens: count, stopIds, bannedIds: neverWritten};
  const options = {temperature, topK, topP, random: uniformNumbers(seed), replace, ...limits};
  for (const id of count > 0 ? writtenTokens(model, before, options) : []) {
    ids.push(id);
    onText(tokenizer.decode(ids));
  }
  return {ids, text: tokenizer.decode(ids)};
}

/** {ids, text} of the best translation of the ids of a source. decoding, replace: as above; onText gets the best text so far with each token. */
export function translation({model, target: tokenizer}, source, {beam_size: beamSize}, replace, onText) {
  const {bosId, eosId, neverWritten} = tokenizer;
  const onStep = (ids) => onText(oneLine(tokenizer.decode(ids)));
  const {ids} = translate(model, source, {beamSize, bosId, eosId, bannedIds: neverWritten, replace, onStep});
  return {ids, text: oneLine(tokenizer.decode(ids))};
}

/** A text with spaces in place of its line breaks. */
function oneLine(text) {
  return text.replace(/\r\n|\n|\r/g, ' ');
}
