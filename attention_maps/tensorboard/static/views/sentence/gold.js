/** Gold labels of one token: the antecedent of a pronoun, the translation of a word. */

import {ahead, goldLinks, places} from '../alignment/links.js';

/**
 * For {side, index}: {name, right: Set of indices on the other side, compared, share, found, tied}, or null without a gold label.
 * `compared`: {rivals: [{columns, share}], nouns}, what the gold label competes with, the largest weight first; null for a column, because
 * only rows attend. `share`: the weight of the gold label; `found`: whether it is the largest; `tied`: the rivals with the same weight if
 * several referents have the largest one.
 */
export function goldOf(frame, {side, index}) {
  const links = frame.kind === 'cross' ? goldLinks(frame) : antecedentLinks(frame);
  const [near, far] = side === 'row' ? ['row', 'column'] : ['column', 'row'];
  const right = new Set((links ?? []).filter((link) => link[near] === index).map((link) => link[far]));
  if (!right.size) return null;
  const name = frame.kind === 'cross' ? 'translation' : side === 'row' ? 'antecedent' : 'pronoun';
  if (side === 'column') return {name, right, compared: null};
  const compared = comparedWith(frame, index);
  const gold = compared.nouns
    ? compared.rivals.find(({columns}) => columns.some((column) => right.has(column)))
    : {share: compared.rivals.filter(({columns}) => right.has(columns[0])).reduce((sum, one) => sum + one.share, 0)};
  if (!gold || !compared.rivals.length) return {name, right, compared: null};
  const best = compared.rivals.filter(({share}) => share === compared.rivals[0].share);
  const found = best.some(({columns}) => columns.some((column) => right.has(column)));
  return {name, right, compared, share: gold.share, found, tied: compared.nouns && found && best.length > 1 ? best : null};
}

/** Links {row: of a pronoun or an answer, column: of the noun that it repeats}, null if the recording has none for this text. */
export function antecedentLinks(frame) {
  const antecedents = antecedentsOf(frame);
  if (!antecedents) return null;
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

/** Antecedents and mentions on the side that this frame attends to, null if the recording has none. */
export function antecedentsOf(frame) {
  const {antecedents} = frame.sample;
  return antecedents?.side === {encoder: 'source', decoder: 'reads'}[frame.kind] ? antecedents : null;
}

/**
 * What can be the gold label of a row. If the mentions of the text are known: each referent that a noun mentions before, with the
 * columns of its last noun and the sum of the weights of all its mentions, as in attention_maps/record/gold_scores.py.
 * Otherwise every word but special tokens and, in self-attention, the token itself and, if causal, the tokens after it.
 */
function comparedWith(frame, row) {
  const weights = frame.weights.subarray(row * frame.columns.length, (row + 1) * frame.columns.length);
  const own = frame.rows[row].positions.map((position) => position + ahead(frame));
  const shareOf = (columns) => columns.reduce((sum, column) => sum + weights[column], 0);
  const byShare = (rivals) => rivals.map((one) => ({columns: one.named, share: shareOf(one.all)})).sort((a, b) => b.share - a.share);
  const mentions = antecedentsOf(frame)?.mentions ?? [];
  if (mentions.length) return {nouns: true, rivals: byShare(referents(frame, mentions, own[0]))};
  const words = [...frame.columns.keys()].filter((column) => {
    const {special, positions} = frame.columns[column];
    const isItself = frame.kind !== 'cross' && own.includes(positions[0]);
    return !special && !isItself && !(frame.kind === 'decoder' && positions[0] > own[0]);
  });
  return {nouns: false, rivals: byShare(words.map((column) => ({named: [column], all: [column]})))};
}

/** Columns of the referents that a noun mentions before a position: {named: of the last noun, nouns: of all nouns, all: of all mentions}. */
export function referents(frame, mentions, position) {
  const columns = places(frame.columns);
  const columnsOf = (start, stop) => {
    const positions = Array.from({length: stop - start}, (_, i) => start + i);
    return positions.map((at) => columns.get(at)).filter((column) => column !== undefined);
  };
  const found = new Map();
  for (const [start, stop, referent, pronoun] of mentions) {
    if (stop > position) continue;
    const {named = [], nouns = [], all = []} = found.get(referent) ?? {};
    const here = [...new Set(columnsOf(start, stop))];
    found.set(referent, {
      named: pronoun ? named : here,
      nouns: pronoun ? nouns : [...nouns, ...here],
      all: [...new Set([...all, ...here])],
    });
  }
  return [...found.values()].filter(({named}) => named.length);
}
