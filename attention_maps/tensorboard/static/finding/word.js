/** The word of a finding. Pure functions of the metadata of a sample. */

import {labelsOf} from '../core/frame.js';
import {goldLinks} from '../views/alignment/links.js';
import {goldPairs, mainPair} from '../views/pair/gold_pairs.js';
import {rivalsOf} from '../views/pair/rivals.js';

const ROWS = ['predicts', 'reads'];
const PARTICLE = /^▁?\p{Script=Hiragana}{1,2}$/u; // は, です: grammar rather than content

/** Whether the token at a position is a word rather than a special token or punctuation. */
export function isWord({pieces, special}, position) {
  return !special[position] && /[\p{L}\p{N}]/u.test(pieces[position] ?? '');
}

/**
 * The last pronoun with a gold antecedent, or the last word that repeats a noun, {query, key, keys, why}; null without such labels.
 *
 * `query`: the position of the row that `predicts` the word, and of the one that `reads` it, of which one may be missing; `key`: the position
 * of its antecedent, `keys`: those of all mentions of what it stands for.
 */
export function pronounOf(sample, kind) {
  const query = {};
  let named = null;
  for (const rows of kind === 'encoder' ? ['reads'] : ROWS) {
    const labels = labelled(sample, kind, rows);
    const gold = goldPairs(labels);
    const pair = kind === 'cross' ? undefined : mainPair(gold, kind);
    if (!pair) continue;
    query[rows] = pair.row;
    named = {key: pair.column, keys: rivalsOf(labels, pair.row, pair.column, gold).own, why: {gold: pair.repeats ? 'repeats' : 'antecedent'}};
  }
  return named && {query, ...named};
}

/**
 * The word of content whose prediction changes most from the first layer to the last, as pronounOf; of a text with gold links, among the
 * linked words.
 * Null if the recording lacks the predictions after each layer (logit lens).
 */
export function changedWord(sample, kind) {
  const {predicts, lens} = sample;
  if (kind === 'encoder' || !lens?.length) return null;
  const links = kind === 'cross' ? goldLinks(labelled(sample, kind, 'predicts')) : null;
  const linked = links && new Set(links.map(({row}) => row));
  const places = predicts.ids.map((_, position) => position).filter((at) => isWord(predicts, at) && (linked?.has(at) ?? true));
  const changes = places.map((at) => ({at, ...probabilitiesAt(sample, at)})).filter(({before, after}) => Number.isFinite(after - before));
  if (!changes.length) return null;
  const ofContent = changes.filter(({at}) => !PARTICLE.test(predicts.pieces[at]));
  const larger = (best, one) => (one.after - one.before > best.after - best.before ? one : best);
  const {at, before, after} = (ofContent.length ? ofContent : changes).reduce(larger);
  const keys = (links ?? []).filter(({row}) => row === at).map(({column}) => column);
  return {...predictedWord(sample, at), keys, why: {before, after}};
}

/** A word by the position that predicts it, as pronounOf, without a gold label. */
export function predictedWord({reads}, position) {
  const query = {predicts: position, ...(position + 1 < reads.ids.length && {reads: position + 1})};
  return {query, keys: [], why: {}};
}

/** The probability of the actual next token by the first layer alone, 0 if it is not listed, and by the model. */
function probabilitiesAt({predicts, losses, lens}, position) {
  const [, , before = 0] = lens[0][position].find(([id]) => id === predicts.ids[position]) ?? [];
  return {before, after: Math.exp(-(losses[position] ?? NaN))};
}

/** A frame without weights, as far as gold labels need one: rows and columns are tokens. */
export function labelled(sample, kind, rows) {
  return {kind, sample, rowsNamed: rows, ...labelsOf({rows, merge: false, hide: false}, sample, kind)};
}
