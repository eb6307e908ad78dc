/**
 * The finding of a recording: the word and the head with which every view opens, unless the address or the user names others.
 *
 * The word is the last pronoun with a gold antecedent; in a text without one, the word whose prediction changes most from the first layer to
 * the last (of a translation with gold links, among the linked words). It is linked to its antecedent or its translation, or else to the word
 * that the head attends to most.
 *
 * The head is the one with the best score against gold labels, in this recording or the last one that was scored; without scores, the one
 * that attends most from the pronoun to its antecedent, or whose links of this translation have the lowest error; without gold labels, the one
 * that adds most to the logit of the word. If a recording has none of these, as of other programs, the largest weight between two words that
 * are not neighbours gives both the head and the word.
 */

import {readable} from '../core/format.js';
import {labelsOf, shapesOf} from '../core/frame.js';
import {loadLayer} from '../core/load_frame.js';
import {namesIn} from '../core/measures.js';
import {Unavailable} from '../core/unavailable.js';
import {measureBehind} from '../views/story/history.js';
import {bestAligning, betterRow, largestWeight, lastScores, mostAdding, mostAttending, SCORED, scoredHeads} from './head.js';
import {changedWord, isWord, predictedWord, pronounOf} from './word.js';

/**
 * The finding of a sample: {kind, layer, head, rows, query, key, words, measure, why}, null if no weight is a number. `place`: {run, recording,
 * sample, kind} of the metadata `meta`.
 *
 * `query`: positions of the rows that predict and read the word, {predicts, reads}, of which one may be missing; `rows`: the one in which
 * the head is shown; `key`: position of the word that it is linked to; `words`: the texts of the two; `measure`: the measure by which the
 * head is seen best. `why` says how they were chosen: {word: {gold: 'antecedent' or 'repeats'} or {before, after: probabilities} or {}, key:
 * whether by a gold label, head: 'score', 'weight', 'error', 'contribution' or 'largest', value, count: examples of the score, step: of the
 * score or of this recording}.
 * `curves()` is a promise of the measures of the run. Throws Unavailable if a tensor cannot be read.
 */
export async function findingOf(source, place, meta, curves) {
  const text = textOf(source, place, meta, curves);
  const {kind, sample} = text;
  const chosen = await wordAndHead(text, pronounOf(sample, kind) ?? changedWord(sample, kind));
  if (!chosen) return null;
  const {word, layer, head, how, value, count = null, step = meta.step} = chosen;
  const rows = chosen.rows ?? (await rowsOf(text, word, layer, head));
  const key = await keyOf(text, word, rows, layer, head);
  const measure = how === 'score' ? SCORED[kind] : measureBehind(namesIn(meta.labels?.[kind]?.[layer]?.[head])[0]);
  const words = [textAt(sample, kind, word.query), readable(tokensOf(sample, kind, rows).columns.pieces[key] ?? '')];
  const why = {word: word.why, key: word.keys.length > 0, head: how, value, count, step};
  return {kind, layer, head, rows, query: word.query, key, words, measure, why};
}

/** The text of a word. */
function textAt({reads, predicts, source}, kind, query) {
  if (kind === 'encoder') return readable(source.pieces[query.reads]);
  return readable(query.reads === undefined ? predicts.pieces[query.predicts] : reads.pieces[query.reads]);
}

/** What the rules read: the sample, and its tensors once they are needed. */
function textOf(source, place, meta, curves) {
  const {run, recording, sample, kind} = place;
  const {layers} = shapesOf(meta, sample)[kind];
  let read = null;
  const tensors = () => (read ??= Promise.all(Array.from({length: layers}, (_, layer) => loadLayer(source, {...place, layer, values: false}))));
  const attribution = () => source.tensor(run, recording, sample, '', '', 'attribution');
  return {meta, kind, sample: meta.samples[sample], tensors, attribution, curves};
}

/**
 * {word, layer, head, rows, how, value}, null if no weight is a number; `word` may be null if nothing but its head tells which one it is;
 * `rows` is null if the head does not tell in which row of the word it is shown.
 */
async function wordAndHead(text, word) {
  const {kind, sample, tensors} = text;
  const scored = await bestScored(text);
  if (scored) {
    const {layer, head, rows, value, count, step} = scored;
    const found = word ? {word} : await ownWord(text, scored);
    return found && {...found, layer, head, how: 'score', value, count, step, rows: found.word.query[rows] === undefined ? null : rows};
  }
  if (kind === 'cross' && sample.links?.length) {
    const {error, ...place} = bestAligning(await tensors(), sample);
    const found = word ? {word} : await ownWord(text, place);
    return found && {...found, ...place, how: 'error', value: error};
  }
  const attending = word?.keys.length ? mostAttending(await tensors(), word) : null;
  return attending ? {word, ...attending, how: 'weight', value: attending.weight} : strongest(text, word);
}

/** The word that a head shows best: of a translation with gold links the one whose link has the largest weight, else as `strongest`. */
async function ownWord(text, place) {
  const {kind, sample, tensors} = text;
  const word = kind === 'cross' && sample.links?.length ? linkedWord(sample, (await tensors())[place.layer], place) : null;
  return word ? {word} : strongest(text, null, place);
}

function linkedWord(sample, {numbers, shape: [, queries, columns]}, {head, rows}) {
  const rowOf = (target) => target + (rows === 'reads' ? 1 : 0);
  const weightOf = ([source, target]) => numbers[(head * queries + rowOf(target)) * columns + source] || 0;
  const links = sample.links.filter(([, target]) => isWord(sample.predicts, target) && rowOf(target) < queries);
  if (!links.length) return null;
  const [, target] = links.reduce((best, link) => (weightOf(link) > weightOf(best) ? link : best));
  return {...predictedWord(sample, target), keys: links.filter((link) => link[1] === target).map(([source]) => source)};
}

/** The best head by gold scores, as scoredHeads, and the step at which it was scored; a label tells that an earlier recording has scores. */
async function bestScored({meta, kind, curves}) {
  const [here] = scoredHeads(meta, kind);
  if (here) return {...here, step: meta.step};
  const names = (meta.labels?.[kind] ?? []).flat().flatMap(namesIn);
  if (!names.some((name) => name === 'coreference' || name === 'alignment')) return null;
  const last = lastScores(await curves(), kind);
  return last && {...scoredHeads(last, kind)[0], step: last.step};
}

/** The head that adds most to the logit of a word, or else has the largest weight, as wordAndHead; with a `place`, the word of this head. */
async function strongest(text, word, place = null) {
  return (await contributing(text, word, place)) ?? attendingMost(text, word, place);
}

async function contributing({meta, kind, sample, attribution}, word, place) {
  if (kind === 'encoder' || !meta.parts?.length) return null;
  const all = sample.predicts.ids.map((_, position) => position).filter((position) => isWord(sample.predicts, position));
  const positions = word ? [word.query.predicts].filter((position) => position !== undefined) : all;
  try {
    const found = mostAdding(await attribution(), meta.parts, kind, positions, place);
    if (!found) return null;
    const {layer, head, position, contribution} = found;
    return {word: word ?? predictedWord(sample, position), layer, head, rows: 'predicts', how: 'contribution', value: contribution};
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return null; // of an older version, which did not record contributions
  }
}

async function attendingMost({kind, sample, tensors}, word, place) {
  const rows = kind !== 'encoder' && (kind === 'cross' || word?.query.predicts !== undefined) ? 'predicts' : 'reads';
  const found = largestWeight(await tensors(), tokensOf(sample, kind, rows), {place, row: word?.query[rows] ?? null});
  if (!found) return null;
  const {layer, head, row, weight} = found;
  return {word: word ?? wordAt(sample, kind, rows, row), layer, head, rows, how: 'largest', value: weight};
}

/** In which row of a word a head is shown if nothing else says so: where it attends more to the gold label, else the one that predicts it. */
async function rowsOf({kind, tensors}, {query, keys}, layer, head) {
  if (keys.length) return betterRow((await tensors())[layer], head, query, keys).rows;
  const usual = kind === 'encoder' ? 'reads' : 'predicts';
  return usual in query ? usual : Object.keys(query)[0];
}

/** The position that a word is linked to: by its gold label, else the one that the head attends to most. */
async function keyOf({kind, sample, tensors}, {query, key, keys}, rows, layer, head) {
  if (key !== undefined) return key;
  if (keys.length === 1) return keys[0];
  const all = await tensors();
  if (keys.length) return mostAttended(all[layer], head, query[rows], keys);
  return largestWeight(all, tokensOf(sample, kind, rows), {place: {layer, head}, row: query[rows]})?.key ?? 0;
}

function mostAttended({numbers, shape: [, queries, columns]}, head, row, keys) {
  const weight = (key) => numbers[(head * queries + row) * columns + key];
  return keys.reduce((best, key) => (weight(key) > weight(best) ? key : best));
}

function tokensOf(sample, kind, rows) {
  return {kind, ...labelsOf({rows, merge: false, hide: false}, sample, kind).tokens};
}

/** A word without a gold label, as pronounOf, by its row. */
function wordAt(sample, kind, rows, row) {
  if (kind !== 'encoder' && rows === 'predicts') return predictedWord(sample, row);
  return {query: {reads: row, ...(kind !== 'encoder' && row > 0 && {predicts: row - 1})}, keys: [], why: {}};
}
