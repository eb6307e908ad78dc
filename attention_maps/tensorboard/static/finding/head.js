/** The head of a finding, by scores, weights or contributions to logits. Pure functions; weights are tensors [H,Q,K], one per layer. */

import {measureOf} from '../core/measures.js';
import {goldLinks, judge, readOut} from '../views/alignment/links.js';
import {isHead} from '../views/prediction/contributions.js';
import {isWord, labelled} from './word.js';

/** Kind -> the measure of its heads against gold labels. */
export const SCORED = {encoder: 'antecedent', decoder: 'antecedent', cross: 'alignment_error'};

/**
 * The score of each head against gold labels that a recording contains: [{layer, head, value, rows, count}], the best one first. `rows`: the
 * scored row of a word, null if unknown; `count`: on how many examples, null if unknown.
 */
export function scoredHeads({measures = {}, scores = []}, kind) {
  const measure = SCORED[kind];
  const ofHeads = scores.filter((score) => score.measure === measure && score.kind === kind && Number.isFinite(score.head ?? NaN));
  const count = scores.find((score) => score.measure === measure && score.count)?.count ?? null;
  const places = new Map(); // "layer head" -> its score
  const add = (layer, head, value) => Number.isFinite(value ?? NaN) && places.set(`${layer} ${head}`, {layer, head, value, rows: null, count});
  for (const {layer, head, value} of [...ofHeads].sort((a, b) => -better(measure, a.value, b.value))) add(layer, head, value);
  (measures[measure]?.[kind] ?? []).forEach((heads, layer) => heads.forEach((value, head) => add(layer, head, value)));
  return [...places.values()]
    .map((one) => ({...one, rows: rowsOf(one, ofHeads)}))
    .sort((a, b) => better(measure, a.value, b.value));
}

/** The last scores of the heads of a kind in the curves of a run, {step, measures, scores} for scoredHeads; null if there are none. */
export function lastScores({steps, measures, counts = {}}, kind) {
  const measure = SCORED[kind];
  const matrices = measures[measure]?.[kind] ?? [];
  const last = matrices.findLastIndex((matrix) => matrix?.flat().some(Number.isFinite));
  if (last < 0) return null;
  return {step: steps[last], measures: {[measure]: {[kind]: matrices[last]}}, scores: [{measure, count: counts[measure]}]};
}

/** Negative if the first value of a measure is better. */
function better(measure, one, other) {
  return measureOf(measure).first === 'low' ? one - other : other - one;
}

/** The row of a word in which a head has its score: that of the named score nearest to it. */
function rowsOf({layer, head, value}, scores) {
  const own = scores.filter((score) => score.layer === layer && score.head === head && score.rows);
  const distance = (score) => Math.abs(score.value - value);
  return own.length ? own.reduce((best, one) => (distance(one) < distance(best) ? one : best)).rows : null;
}

/** {layer, head, rows, weight} of the head that attends most from one of the rows of a word to `keys`; null if no weight is a number. */
export function mostAttending(tensors, {query, keys}) {
  const all = tensors.flatMap((tensor, layer) =>
    Array.from({length: tensor.shape[0]}, (_, head) => ({layer, head, ...betterRow(tensor, head, query, keys)})),
  );
  const known = all.filter(({weight}) => Number.isFinite(weight));
  return known.length ? known.reduce((best, one) => (one.weight > best.weight ? one : best)) : null;
}

/** {rows, weight}: in which of its rows a word attends more to `keys` in a head. */
export function betterRow({numbers, shape: [, queries, columns]}, head, query, keys) {
  const weightIn = (row) => keys.reduce((sum, key) => sum + numbers[(head * queries + row) * columns + key], 0);
  const rows = Object.entries(query).map(([name, row]) => ({rows: name, weight: weightIn(row)}));
  return rows.reduce((best, one) => (one.weight > best.weight ? one : best));
}

/** {layer, head, rows, error} of the head whose links in one text have the lowest alignment error; null without gold links. */
export function bestAligning(tensors, sample) {
  const errors = ['predicts', 'reads'].flatMap((rows) => {
    const frame = labelled(sample, 'cross', rows);
    const gold = goldLinks(frame);
    if (!gold?.length) return [];
    return tensors.flatMap(({numbers, shape: [heads, queries, keys]}, layer) =>
      Array.from({length: heads}, (_, head) => {
        const weights = numbers.subarray(head * queries * keys, (head + 1) * queries * keys);
        return {layer, head, rows, error: judge(readOut({...frame, weights}), gold).error};
      }),
    );
  });
  return errors.length ? errors.reduce((best, one) => (one.error < best.error ? one : best)) : null;
}

/**
 * {layer, head, position, contribution} of the head of a kind that adds most to the logit of the actual next token at one of some positions;
 * null if no head adds anything. `attribution` [N,P,T] as recorded, `parts` as in the metadata; `place`: only this head, if one is given.
 */
export function mostAdding({numbers, shape: [, , length]}, parts, kind, positions, place = null) {
  let best = null;
  parts.forEach((part, number) => {
    const [name, layer, head] = part;
    if (!isHead(part) || name !== kind || (place && (place.layer !== layer || place.head !== head))) return;
    for (const position of positions) {
      const contribution = numbers[number * length + position];
      if (contribution > (best?.contribution ?? 0)) best = {layer, head, position, contribution};
    }
  });
  return best;
}

/**
 * {layer, head, row, key, weight} of the largest weight from one word to another that is not its neighbour and, in a causal map, not the
 * first token, on which much attention rests that is not needed elsewhere. In a text too short for that, of any weight. Null if no weight is
 * a number. `place`: {layer, head}, `row`: only there, if given.
 */
export function largestWeight(tensors, {kind, rows, columns}, {place = null, row = null} = {}) {
  const isFar = (query, key) => kind === 'cross' || (Math.abs(query - key) > 1 && !(kind === 'decoder' && key === 0));
  const isPair = (query, key) => isWord(columns, key) && (row !== null || isWord(rows, query)) && isFar(query, key);
  const isOther = (query, key) => kind === 'cross' || query !== key;
  return [isPair, isOther, () => true].reduce((found, rule) => found ?? largest(tensors, rule, place, row), null);
}

function largest(tensors, isPair, place, row) {
  let best = null;
  tensors.forEach(({numbers, shape: [heads, queries, keys]}, layer) => {
    if (place && place.layer !== layer) return;
    for (let query = row ?? 0; query <= (row ?? queries - 1); query++) {
      for (let key = 0; key < keys; key++) {
        if (!isPair(query, key)) continue;
        for (let head = place?.head ?? 0; head <= (place?.head ?? heads - 1); head++) {
          const weight = numbers[(head * queries + query) * keys + key];
          if (weight > (best?.weight ?? 0)) best = {layer, head, row: query, key, weight};
        }
      }
    }
  });
  return best;
}
