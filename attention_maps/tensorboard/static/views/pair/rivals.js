/** What competes with the second word of a pair. */

import {ahead} from '../alignment/links.js';
import {antecedentsOf, referents} from '../sentence/gold.js';

/**
 * {nouns, own, rivals: [{column, columns}]}. If the mentions of the text are known and `column` is a noun among them: `own` has the columns of
 * all mentions of what it stands for before the word of `row`, as in the score of the heads, and each rival those of something else, with
 * the column of its last noun. Otherwise `own` is the column alone, and rivals are all other words that the row can attend to. `gold`: pairs
 * as from goldPairs; words with the same text do not compete, nor do other gold columns of the row with one of them.
 */
export function rivalsOf(frame, row, column, gold) {
  const position = frame.rows[row].positions[0] + ahead(frame);
  const known = referents(frame, antecedentsOf(frame)?.mentions ?? [], position);
  const own = known.find(({nouns}) => nouns.includes(column));
  if (own) {
    const others = known.filter((one) => one !== own).map(({named, all}) => ({column: named.at(-1), columns: all}));
    return {nouns: true, own: own.all, rivals: others};
  }
  return {nouns: false, own: [column], rivals: otherWords(frame, row, column, gold).map((at) => ({column: at, columns: [at]}))};
}

/** The columns of all words but those that stand for the same as the one in `column`. */
function otherWords(frame, row, column, gold) {
  const own = frame.rows[row].positions.map((position) => position + ahead(frame));
  const linked = gold.filter((pair) => pair.row === row).map((pair) => pair.column);
  const right = new Set(linked.includes(column) ? linked : []);
  const same = frame.columns[column].text;
  const pronouns = gold.filter((pair) => frame.columns[pair.column].text === same).map(({row: at}) => frame.rows[at].positions[0] + ahead(frame));
  const repeats = ({text, positions}) => text === same || (frame.kind !== 'cross' && pronouns.includes(positions[0]));
  return [...frame.columns.keys()].filter((at) => {
    const {special, text, positions} = frame.columns[at];
    const seen = frame.kind === 'cross' || (!own.includes(positions[0]) && (frame.kind === 'encoder' || positions[0] < own[0]));
    return seen && !special && /[\p{L}\p{N}]/u.test(text) && at !== column && !right.has(at) && !repeats(frame.columns[at]);
  });
}

/** {column, weight} of the rival that a head of [H,Q,K] attends to most from some query positions, null without rivals. */
export function strongestRival({numbers, shape: [, queries, keys]}, head, query, rivals, labels) {
  const weightOf = (columns) => {
    let total = 0;
    const positions = columns.flatMap((column) => labels[column].positions);
    for (const row of query) for (const key of positions) total += numbers[(head * queries + row) * keys + key];
    return total / query.length || 0; // NaN, of a model that diverged, is no attention
  };
  const all = rivals.map(({column, columns}) => ({column, weight: weightOf(columns)}));
  return all.length ? all.reduce((best, one) => (one.weight > best.weight ? one : best)) : null;
}

/** Whether a rival gets attention that is not rounded away. */
export function isSeen(rival) {
  return rival?.weight >= 0.0005;
}
