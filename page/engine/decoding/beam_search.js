/** Beam search: a probable translation, from the best few hypotheses of each step, as generation/beam_search.py finds it. */

/**
 * Translates the ids of a source, which end with eos (see `sourceTokens`). Returns the best hypothesis: {ids: target ids without bos and eos,
 * score, logProbability, cut: whether it reached the maximal length before its end}.
 *
 * beamSize: 1 is greedy decoding. maxLength: of the translation; by default `longestTarget`. bosId, eosId: of the target. bannedIds are never
 * written. replace: outputs of heads (see `EncoderDecoder.forward`), a number or one vector each. onStep: called after each step with the ids of
 * the most probable unfinished hypothesis.
 */
export function translate(model, sourceIds, options) {
  const maxLength = options.maxLength ?? longestTarget(sourceIds.length, model.config.context);
  const [best] = beamSearch(model, sourceIds, {...options, maxLength});
  return {...best, cut: best.ids.length === maxLength};
}

/** The maximal length of a translation, of the number of source tokens with eos. */
export function longestTarget(sourceLength, context) {
  return Math.min(3 * sourceLength + 10, context - 1);
}

/**
 * All hypotheses that ended, best first: [{ids, score, logProbability}]; arguments as of `translate`.
 *
 * Score: log-probability / length ** lengthPenalty, where length counts eos. Each step keeps the `beamSize` most probable unfinished
 * hypotheses. Finished ones among the `beamSize` most probable of all are set aside; `beamSize` of them end the search. A hypothesis of the
 * maximal length is ranked as it is.
 */
export function beamSearch(model, sourceIds, options) {
  const {beamSize = 4, lengthPenalty = 1, maxLength, bosId, eosId, bannedIds = [], replace = null, onStep = () => {}} = options;
  const ended = [];
  const setAside = (ids, logProbability, length) => ended.push({ids, score: logProbability / length ** lengthPenalty, logProbability});
  const banned = [...bannedIds];
  // The encoder runs once; every step attends to the keys and values that it leaves in the cache.
  const cache = model.newBeamCache(maxLength, beamSize);
  model.cacheSource(sourceIds, cache, replace);
  let beam = [{ids: [], last: bosId, logProbability: 0}];
  for (let length = 1; ; length++) {
    const logits = model.nextLogits(beam.map(({last}) => last), cache, replace);
    // Of twice as many candidates at most `beamSize` end, one of each hypothesis, so that `beamSize` can continue.
    const candidates = bestContinuations(logits, model.vocabSize, beam, banned, 2 * beamSize);
    for (const {parent, token, logProbability} of candidates.slice(0, beamSize)) {
      if (token === eosId) setAside(beam[parent].ids, logProbability, length);
    }
    // Those that end are counted before the beam is refilled.
    const finished = ended.length >= beamSize;
    const continued = candidates.filter(({token}) => token !== eosId).slice(0, beamSize);
    if (finished || continued.length === 0) break;
    // The best continuations may all come from one hypothesis, so each takes over the tokens and the cache of its parent.
    cache.follow(continued.map(({parent}) => parent));
    beam = continued.map(({parent, token, logProbability}) => ({ids: [...beam[parent].ids, token], last: token, logProbability}));
    onStep(beam[0].ids);
    if (length === maxLength) {
      for (const {ids, logProbability} of beam) setAside(ids, logProbability, length);
      break;
    }
  }
  return ended.sort((a, b) => b.score - a.score); // stable: of equal ones, the first that ended
}

/**
 * The `count` most probable continuations of all hypotheses, best first: [{parent, token, logProbability}]. logits [K, V], from which
 * banned tokens are removed before the softmax: the others share the whole probability. Of equal ones, the first is better.
 */
function bestContinuations(logits, vocabSize, beam, banned, count) {
  const best = [];
  beam.forEach(({logProbability: before}, parent) => {
    const row = logits.subarray(parent * vocabSize, (parent + 1) * vocabSize);
    for (const token of banned) row[token] = -Infinity;
    const normaliser = logSumExp(row);
    let threshold = best.length < count ? -Infinity : best[count - 1].logProbability;
    for (let token = 0; token < vocabSize; token++) {
      const logProbability = Math.fround(Math.fround(row[token] - normaliser) + before); // float32, as in Python
      if (!(logProbability > threshold)) continue;
      let place = best.length;
      while (place > 0 && best[place - 1].logProbability < logProbability) place--;
      best.splice(place, 0, {parent, token, logProbability});
      if (best.length > count) best.pop();
      if (best.length === count) threshold = best[count - 1].logProbability;
    }
  });
  return best;
}

/** log Σ exp of the numbers. */
function logSumExp(numbers) {
  let largest = -Infinity;
  for (const number of numbers) if (number > largest) largest = number;
  let sum = 0;
  for (const number of numbers) sum += Math.exp(number - largest);
  return largest + Math.log(sum);
}
