/** The pairs of words of a text that have a gold label. */

import {readable} from '../../core/format.js';
import {ahead, goldLinks, places} from '../alignment/links.js';
import {antecedentsOf} from '../sentence/gold.js';

/**
 * [{row, column, repeats}] in the order of the recording: a pronoun and its antecedent, an answer and the noun that it `repeats`, or a word
 * and its translation. Of several tokens of an antecedent, the last one, the noun. Pairs without a row or column are left out.
 */
export function goldPairs(frame) {
  if (frame.kind === 'cross') return (goldLinks(frame) ?? []).map(({row, column}) => ({row, column, repeats: false}));
  const [rows, columns] = [places(frame.rows), places(frame.columns)];
  const found = (antecedentsOf(frame)?.pairs ?? []).map(([start, stop, , to]) => ({
    row: rows.get(ahead(frame) ? start - 1 : stop - 1), // of several tokens, as in training/evaluation/head_scores.py
    column: columns.get(to - 1),
  }));
  return found
    .filter(({row, column}) => row !== undefined && column !== undefined)
    .map(({row, column}) => ({row, column, repeats: lower(frame.rows[row]) === lower(frame.columns[column])}));
}

/** The pair that a text is about: its last pronoun, since answers to questions come last and repeat a noun; of a translation the first. */
export function mainPair(pairs, kind) {
  return kind === 'cross' ? pairs[0] : (pairs.findLast(({repeats}) => !repeats) ?? pairs.at(-1));
}

/**
 * The answer to a question in a text, {position, piece}: where its first token is predicted; null unless gold labels say that a word after a
 * question mark repeats a noun before it.
 */
export function answerOf({antecedents, reads, predicts}) {
  if (antecedents?.side !== 'reads') return null;
  const last = (stop) => readable(reads.pieces[stop - 1] ?? '').toLowerCase();
  const asks = (from, to) => reads.pieces.slice(from, to).some((piece) => /[?？]/.test(piece));
  const [start] = antecedents.pairs.findLast(([from, stop, , to]) => asks(to, from) && last(stop) === last(to)) ?? [];
  return start === undefined ? null : {position: start - 1, piece: predicts.pieces[start - 1]};
}

/** Whether a row is that of a word with an antecedent, a pronoun or an answer. */
export function hasAntecedent(frame, row) {
  const own = frame.rows[row].positions.map((position) => position + ahead(frame));
  return (antecedentsOf(frame)?.pairs ?? []).some(([start, stop]) => own.some((position) => position >= start && position < stop));
}

function lower({text}) {
  return text.toLowerCase();
}
