/** The words that compete with the second word of a pair. */

import {ahead, places} from '../alignment/links.js';
import {antecedentsOf} from '../sentence/gold.js';

/**
 * {nouns, columns}: if the mentions of the text are known and the word in `column` is one, the nouns that mention something else before the
 * word of `row`; otherwise all other words that it can attend to. `gold`: pairs as from goldPairs; words with the same text and
 * pronouns that stand for it do not compete, nor do other gold columns of the row with one of them.
 */
export function rivalsOf(frame, row, column, gold) {
  const own = frame.rows[row].positions.map((position) => position + ahead(frame));
  const linked = gold.filter((pair) => pair.row === row).map((pair) => pair.column);
  const right = new Set(linked.includes(column) ? linked : []);
  const same = frame.columns[column].text;
  const pronouns = gold.filter((pair) => frame.columns[pair.column].text === same).map(({row: at}) => frame.rows[at].positions[0] + ahead(frame));
  const repeats = ({text, positions}) => text === same || (frame.kind !== 'cross' && pronouns.includes(positions[0]));
  const competes = (at) => at !== column && !right.has(at) && !repeats(frame.columns[at]);
  const nouns = otherMentions(frame, own[0], column);
  if (nouns) return {nouns: true, columns: nouns.filter(competes)};
  const words = [...frame.columns.keys()].filter((at) => {
    const {special, text, positions} = frame.columns[at];
    const seen = frame.kind === 'cross' || (!own.includes(positions[0]) && (frame.kind === 'encoder' || positions[0] < own[0]));
    return seen && !special && /[\p{L}\p{N}]/u.test(text);
  });
  return {nouns: false, columns: words.filter(competes)};
}

/** Columns of the nouns that mention another referent than the one in `column` before a position; null if `column` mentions none. */
function otherMentions(frame, position, column) {
  const columns = places(frame.columns);
  const before = (antecedentsOf(frame)?.mentions ?? [])
    .filter(([, stop, , pronoun]) => stop <= position && !pronoun)
    .map(([start, stop, referent]) => ({referent, columns: Array.from({length: stop - start}, (_, i) => columns.get(start + i))}));
  const own = before.find((mention) => mention.columns.includes(column));
  if (!own) return null;
  return [...new Set(before.filter(({referent}) => referent !== own.referent).flatMap((mention) => mention.columns))].filter(
    (at) => at !== undefined,
  );
}

/** {column, weight} of the rival that a head of [H,Q,K] attends to most from some query positions, null without rivals. */
export function strongestRival({numbers, shape: [, queries, keys]}, head, query, rivals, labels) {
  const weightOf = (column) => {
    let total = 0;
    for (const row of query) for (const key of labels[column].positions) total += numbers[(head * queries + row) * keys + key];
    return total / query.length || 0; // NaN, of a model that diverged, is no attention
  };
  const all = rivals.map((column) => ({column, weight: weightOf(column)}));
  return all.length ? all.reduce((best, one) => (one.weight > best.weight ? one : best)) : null;
}

/** Whether a rival gets attention that is not rounded away. */
export function isSeen(rival) {
  return rival?.weight >= 0.0005;
}
