/** Sampling: continues a text with a GPT, one token at a time, as generation/sampling.py does. */

import {uniformNumbers} from './random.js';

const DEFAULTS = {temperature: 0.8, topK: null, topP: null, minP: null, repetitionPenalty: 1, maxTokens: 200, replace: null};

/**
 * Continues the ids of a text, at least one, with at most `maxTokens` tokens; returns the ids written, and calls `onToken(id)` with each.
 *
 * temperature: 0 takes the most likely token. topK, topP, minP: null for no limit. The text ends before a token of `stopIds`; those of
 * `bannedIds` are never written. random: a function that returns numbers in [0, 1), such as `uniformNumbers(seed)`. replace: outputs of
 * heads (see `GPT.forward`), a number or one vector each.
 *
 * A text may outgrow the context. Of a longer one the last `context` tokens are read; a text that fills the context continues from its last
 * half, whose keys and values are computed again. RangeError for an invalid option or an empty text.
 */
export function generate(model, ids, options, onToken = () => {}) {
  const written = [];
  for (const token of writtenTokens(model, ids, options)) {
    written.push(token);
    onToken(token);
  }
  return written;
}

/** A generator of the same tokens, for callers who do something else in between. */
export function* writtenTokens(model, ids, options) {
  const chosen = {...DEFAULTS, stopIds: [], bannedIds: [], random: uniformNumbers(1), ...options};
  const [stops, banned] = [new Set(chosen.stopIds), [...chosen.bannedIds]];
  check(chosen, ids);
  const seen = new Set(chosen.repetitionPenalty === 1 ? [] : ids);
  stops.forEach((token) => seen.delete(token)); // otherwise a text would not end after an eos before it
  const text = new GrowingText(model, ids, chosen);
  for (let count = 1; count <= chosen.maxTokens; count++) {
    const logits = text.logits.slice();
    for (const token of banned) logits[token] = -Infinity;
    if (chosen.repetitionPenalty !== 1) penaliseRepetition(logits, seen, chosen.repetitionPenalty);
    const token = nextToken(logits, chosen);
    if (stops.has(token)) return;
    yield token;
    if (count === chosen.maxTokens) return;
    seen.add(token);
    text.append(token);
  }
}

/** A text with its KV cache, and the logits [V] of the next token. */
class GrowingText {
  constructor(model, ids, {maxTokens, replace}) {
    const {context} = model.config;
    Object.assign(this, {model, replace, context, capacity: Math.min(context, ids.length + maxTokens)});
    this.read(ids.slice(-context));
  }

  append(token) {
    // Half the context, not all but one token: the pass over it is then paid once in `context / 2` steps.
    if (this.window.length === this.context) this.read(this.window.slice(-Math.floor(this.context / 2)));
    this.window.push(token);
    this.logits = this.model.nextLogits([token], this.cache, this.replace);
  }

  read(window) {
    this.window = [...window];
    this.cache = this.model.newCache(this.capacity);
    this.logits = this.model.nextLogits(this.window, this.cache, this.replace);
  }
}

/**
 * Samples a token from logits [V], of which those of banned tokens are -Infinity. Each filter keeps the first few of the tokens, ordered by
 * probability: topK that many; topP the fewest whose probabilities, after topK, sum to at least p (the nucleus, Holtzman et al. 2020);
 * minP those that have at least this fraction of the largest probability (Nguyen et al. 2024).
 */
export function nextToken(logits, {temperature, topK = null, topP = null, minP = null, random}) {
  if (temperature === 0) return argmax(logits);
  const ordered = logits.slice().sort().reverse();
  const weight = (logit) => Math.exp((logit - ordered[0]) / temperature);
  let count = Math.min(topK ?? Infinity, ordered.length);
  if (topP !== null) count = nucleusSize(ordered.subarray(0, count), weight, topP);
  const least = Math.max(minP ?? 0, Number.MIN_VALUE); // a weight of 0 is not sampled in any case
  while (weight(ordered[count - 1]) < least) count--;
  const ids = mostLikely(logits, ordered[count - 1], count);
  // The first token whose cumulative probability exceeds a uniform number.
  const share = random() * ids.reduce((sum, id) => sum + weight(logits[id]), 0);
  let cumulative = 0;
  return ids.find((id) => (cumulative += weight(logits[id])) > share) ?? ids[0];
}

/** How many of the logits, largest first, have probabilities that sum to at least p: the last of them crosses p. */
function nucleusSize(ordered, weight, p) {
  const total = ordered.reduce((sum, logit) => sum + weight(logit), 0);
  let before = 0;
  const end = ordered.findIndex((logit) => {
    const crossed = before >= p * total;
    before += weight(logit);
    return crossed;
  });
  return end < 0 ? ordered.length : end;
}

/** The ids of the `count` largest logits, of which `smallest` is the last; of equal ones, the first. */
function mostLikely(logits, smallest, count) {
  let above = 0;
  for (const logit of logits) if (logit > smallest) above++;
  let equal = count - above;
  const ids = [];
  logits.forEach((logit, id) => {
    if (logit > smallest || (logit === smallest && equal-- > 0)) ids.push(id);
  });
  return ids;
}

/** Makes tokens that occur in the text less likely, in place (Keskar et al. 2019). */
function penaliseRepetition(logits, seen, penalty) {
  for (const token of seen) logits[token] = logits[token] > 0 ? logits[token] / penalty : logits[token] * penalty;
}

/** The place of the largest number, the first of equal ones. */
export function argmax(numbers) {
  let best = 0;
  for (let i = 1; i < numbers.length; i++) if (numbers[i] > numbers[best]) best = i;
  return best;
}

function check({temperature, topK, topP, minP, repetitionPenalty, maxTokens}, ids) {
  const rules = [
    [ids.length > 0, 'the text has no tokens'],
    [temperature >= 0, `temperature=${temperature}: must be at least 0`],
    [topK === null || topK >= 1, `topK=${topK}: must be at least 1`],
    [topP === null || (topP > 0 && topP <= 1), `topP=${topP}: must be above 0 and at most 1`],
    [minP === null || (minP >= 0 && minP <= 1), `minP=${minP}: must be from 0 to 1`],
    [repetitionPenalty > 0, `repetitionPenalty=${repetitionPenalty}: must be above 0`],
    [maxTokens >= 1, `maxTokens=${maxTokens}: must be at least 1`],
  ];
  const problems = rules.filter(([holds]) => !holds).map(([, problem]) => problem);
  if (problems.length) throw new RangeError(problems.join('; '));
}
