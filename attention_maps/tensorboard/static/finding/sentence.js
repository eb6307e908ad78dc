/** Sentences that say what a view shows, and why. */

import {percent, signed} from '../core/format.js';
import {layerNumber, strongest} from '../core/frame.js';
import {measureText, namesAt} from '../core/measures.js';
import {goldOf} from '../views/sentence/gold.js';
import {selection} from '../views/tokens.js';
import {SCORED, scoredHeads} from './head.js';

/**
 * "“She” (row 13, which predicts it), the last pronoun, attends more to its antecedent “Nina” (64.0 %) than to any other noun in layer 1 ·
 * head 2, the head that finds antecedents best (92.0 % of 400 pronouns)." `shown` is what load_page.js returns.
 */
export function sentenceOfMap(shown) {
  const {frame, fitted} = shown;
  const chosen = selection(fitted.token, frame);
  const isItsWord = chosen?.side === 'row' && isWordOf(shown.finding, frame, chosen.index);
  const where = headWithReason(shown, isItsWord);
  if (!chosen) return `This is ${where}. Click a word to see what it attends to.`;
  if (chosen.side === 'column') return `“${frame.columns[chosen.index].text}” ${receives(frame, chosen.index)} in ${where}.`;
  return `${rowWithReason(shown, chosen.index)} ${attends(frame, chosen)} in ${where}.`;
}

/** "layer 1 · head 2, the head that finds antecedents best (92.0 % of 400 pronouns)"; `isSaid`: the sentence says what the words do. */
export function headWithReason({meta, fitted, finding}, isSaid = false) {
  return `${headName(meta, fitted)}${reasonOf(meta, fitted, finding, isSaid)}`;
}

/** "layer 1 · head 2", "the mean over the heads of layer 1". */
export function headName(meta, {kind, layer, head}) {
  const number = layerNumber(meta, kind, layer);
  if (typeof head === 'number') return `layer ${number} · head ${head}`;
  return head === 'rollout' ? 'the rollout of all layers' : `the ${head === 'max' ? 'maximum' : head} over the heads of layer ${number}`;
}

/** "“She” (row 13, which predicts it), the last pronoun," for a row of a frame. */
function rowWithReason({frame, finding}, row) {
  const {positions, text} = frame.rows[row];
  const why = isWordOf(finding, frame, row) ? whyWord(finding, frame.meta) : '';
  const does = frame.kind === 'encoder' ? '' : `, which ${frame.rowsNamed} it`;
  return `“${text}” (row ${positions[0]}${does})${why && `, ${why},`}`;
}

/** Why a finding chose its word; '' if the word was chosen by its head. `meta` is that of the recording shown. */
export function whyWord(finding, meta) {
  const {gold, before, after} = finding.why.word;
  if (gold) return gold === 'repeats' ? 'the last word with a gold label' : 'the last pronoun';
  if (before === undefined) return '';
  return `the word whose prediction changes most from the first layer to the last (${percent(before)} to ${percent(after)}${atStep(meta, finding)})`;
}

/** Whether a row is that of the word of a finding. */
function isWordOf(finding, frame, row) {
  return finding?.kind === frame.kind && frame.rows[row].positions.includes(finding.query[frame.rowsNamed]);
}

function attends(frame, chosen) {
  const gold = frame.difference ? null : goldOf(frame, chosen);
  if (gold?.compared) return judged(frame, gold);
  const [column] = strongest(frame, chosen.index, {top: 1});
  if (column === undefined) return 'attends to nothing';
  const weight = frame.weights[chosen.index * frame.columns.length + column];
  const to = `“${frame.columns[column].text}”`;
  if (frame.difference) return `differs most in its weight on ${to} (${signed(100 * weight, 1)} points)`;
  return `attends most to ${to} (${percent(weight)})`;
}

/** Whether the gold label of a row gets the most attention of all that it is compared with. */
function judged(frame, {name, right, compared, share, found, tied}) {
  const textOf = (columns) => columns.map((column) => frame.columns[column].text).join(' ');
  const own = `its ${name} “${textOf([...right])}”`;
  if (tied) return `attends alike to “${tied.map(({columns}) => textOf(columns)).join('” and “')}” (${percent(share)})`;
  const [first] = compared.rivals;
  if (!found) return `attends more to “${textOf(first.columns)}” (${percent(first.share)}) than to ${own} (${percent(share)})`;
  return compared.nouns ? `attends more to ${own} (${percent(share)}) than to any other noun` : `attends most to ${own} (${percent(share)})`;
}

function receives(frame, column) {
  const weights = frame.rows.map((_, row) => frame.weights[row * frame.columns.length + column]);
  const row = weights.reduce((best, weight, at) => (Math.abs(weight) > Math.abs(weights[best]) ? at : best), 0);
  const from = `“${frame.rows[row].text}”`;
  if (frame.difference) return `differs most in the attention from ${from} (${signed(100 * weights[row], 1)} points)`;
  return `gets most attention from ${from} (${percent(weights[row])})`;
}

/** Why a head is shown, with the comma before it: its score, what it is to the finding, or its label; '' if nothing is known of it. */
function reasonOf(meta, {kind, layer, head}, finding, isSaid) {
  if (typeof head !== 'number') return '';
  const isHere = (one) => one.layer === layer && one.head === head;
  const scored = scoredHeads(meta, kind);
  const own = scored.find(isHere);
  const text = ({value}) => measureText(SCORED[kind], value);
  if (own && own === scored[0]) return `, ${BEST[kind](text(own), own.count)})`;
  if (own) return `, ${OTHER[kind](text(own))} (best: ${headName(meta, {kind, ...scored[0]})}, ${text(scored[0])})`;
  const {head: how, value, count, step} = finding?.why ?? {};
  if (finding?.kind === kind && isHere(finding)) {
    const why = how === 'score' ? BEST[kind](measureText(SCORED[kind], value), count) : HOW[how](percent(value), finding.words, isSaid, value);
    return `, ${why}${atStep(meta, {step})})`;
  }
  const labels = namesAt(meta, kind, layer, head);
  return labels.length ? `, labelled “${labels.join(', ')}”` : '';
}

/** " at step 6,417" if a finding is from another step than the one shown. */
function atStep(meta, {step}) {
  return meta.step === step ? '' : ` at step ${step.toLocaleString('en')}`;
}

const resolves = (text, count) => `the head that finds antecedents best (${text}${count ? ` of ${count.toLocaleString('en')} pronouns` : ''}`;
/** By kind; what is in parentheses may be followed by the step. */
const BEST = {
  encoder: resolves,
  decoder: resolves,
  cross: (text, count) => `the head that aligns words best (error rate ${text}${count ? ` on ${count.toLocaleString('en')} pairs` : ''}`,
};
const finds = (text) => `which finds ${text} of the antecedents`;
const OTHER = {encoder: finds, decoder: finds, cross: (text) => `which aligns words with an error rate of ${text}`};
const HOW = {
  weight: (share, [word, linked], isSaid) => `the head that attends most ${isSaid ? 'to it' : `from “${word}” to “${linked}”`} (${share}`,
  contribution: (_, [word], isSaid, value) => `the head that adds most to ${isSaid ? 'its logit' : `the logit of “${word}”`} (${signed(value)}`,
  error: (share) => `the head whose links of this text have the lowest error (${share}`,
  largest: (share, [word, linked], isSaid) =>
    `the head with the largest weight between two words${isSaid ? '' : `, “${word}” and “${linked}”`} (${share}`,
};

