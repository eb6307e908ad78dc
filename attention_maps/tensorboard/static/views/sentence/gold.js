/** Gold labels of one token: the antecedent of a pronoun, the translation of a word. */

import {ahead, goldLinks, places} from '../alignment/links.js';

/**
 * For {side, index}: {name, right: Set of indices on the other side, attended: {place, weight} or null, found}, or null without a gold
 * label. `attended` is the word with the largest weight, except special tokens, in self-attention the token itself and, if causal,
 * all tokens after it; `found`: whether it is one of the right ones. Only rows attend: for a column `attended` is null.
 */
export function goldOf(frame, {side, index}) {
  const links = frame.kind === 'cross' ? goldLinks(frame) : antecedentLinks(frame);
  const [near, far] = side === 'row' ? ['row', 'column'] : ['column', 'row'];
  const right = new Set((links ?? []).filter((link) => link[near] === index).map((link) => link[far]));
  if (!right.size) return null;
  const attended = side === 'row' ? mostAttended(frame, index) : null;
  return {
    name: frame.kind === 'cross' ? 'translation' : side === 'row' ? 'antecedent' : 'pronoun',
    right,
    attended,
    found: attended && right.has(attended.place),
  };
}

/** Links {row: of a pronoun, or of an answer to a question, column: of the noun that it repeats}, null if the recording has none for this text. */
export function antecedentLinks(frame) {
  const {antecedents} = frame.sample;
  if (!antecedents || antecedents.side !== {encoder: 'source', decoder: 'reads'}[frame.kind]) return null;
  const [rows, columns] = [places(frame.rows), places(frame.columns)];
  const found = new Map();
  for (const [start, stop, from, to] of antecedents.pairs) {
    for (let pronoun = start; pronoun < stop; pronoun++) {
      for (let word = from; word < to; word++) {
        const [row, column] = [rows.get(pronoun - ahead(frame)), columns.get(word)];
        if (row !== undefined && column !== undefined) found.set(`${row} ${column}`, {row, column});
      }
    }
  }
  return [...found.values()];
}

function mostAttended(frame, row) {
  const own = frame.rows[row].positions.map((position) => position + ahead(frame));
  const weights = frame.weights.subarray(row * frame.columns.length, (row + 1) * frame.columns.length);
  let attended = null;
  frame.columns.forEach(({special, positions}, place) => {
    if (special || (frame.kind !== 'cross' && own.includes(positions[0])) || (frame.kind === 'decoder' && positions[0] > own[0])) return;
    if (!attended || weights[place] > attended.weight) attended = {place, weight: weights[place]};
  });
  return attended;
}
