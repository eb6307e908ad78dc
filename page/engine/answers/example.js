/** The tokens that a model reads of a text, or of a sentence and its translation: run.py and attention_maps/record/example.py. */

import {sourceTokens} from '../decoding/source_tokens.js';
import {Refusal} from './refusal.js';
import {stripped} from './text.js';
import {translation} from './writing.js';

/**
 * {source: ids or null, target: ids that the decoder reads, next: the known next token of each, which may be one fewer}. target: the
 * translation, null for that of the model; reverse and decoding: of the question. A text longer than the model reads is cut to its end. Throws
 * Refusal for a longer sentence.
 */
export function exampleOf(checkpoint, text, target, {reverse, decoding}, onText = () => {}) {
  const {source: tokenizer, target: written, data} = checkpoint;
  if (data.task === 'gpt') return textExample([tokenizer.startId, ...tokenizer.encode(text)].slice(-data.longest));
  const source = sourceIds(checkpoint, text, reverse);
  if (target === null) {
    const {ids} = translation(checkpoint, source, decoding, null, onText);
    return pairExample(source, ids.slice(0, data.longest - 1), written);
  }
  const ids = written.encode(stripped(target));
  checkLength(ids.length + 1, 'target', data);
  return pairExample(source, ids, written);
}

/** A text for a GPT: each token predicts the next one. */
export function textExample(ids) {
  return {source: null, target: ids, next: ids.slice(1)};
}

/** The ids that the encoder reads of a sentence, with their end. Throws Refusal if there are more than the model reads. */
function sourceIds({source: tokenizer, data}, text, reverse) {
  const ids = tokenizer.encode(stripped(text));
  checkLength(ids.length + (reverse ? 2 : 1), 'source', data);
  const {bosId, eosId} = tokenizer;
  return sourceTokens(ids, {bosId, eosId, context: data.context, reverse});
}

function pairExample(source, ids, {bosId, eosId}) {
  return {source, target: [bosId, ...ids], next: [...ids, eosId]};
}

function checkLength(count, side, {longest}) {
  if (count > longest) throw new Refusal(`the ${side} has ${count} tokens, and at most ${longest} can be read`);
}
