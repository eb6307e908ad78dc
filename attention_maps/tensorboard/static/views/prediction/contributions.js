/** What each part of the model adds to the logit of a token: from recorded tensors to a list of bars. Pure functions. */

import {KIND_NAMES} from '../../core/frame.js';

const EXACT = 1e-4; // relative deviation of float32 sums

/** The position whose prediction a row shows; for a word of several pieces, that of its first piece as predicted, of its last as read. */
export function positionOf(frame, row) {
  const {positions} = frame.rows[row];
  return frame.rowsNamed === 'predicts' ? positions[0] : positions.at(-1);
}

/**
 * The tokens whose logits are recorded at a position, [{id, piece, probability, actual}], in the order of the tensors: the actual next
 * token (at the end of a plain text, where none is known, the most likely one), then the most likely ones.
 */
export function candidatesAt({predicts, predictions, losses}, position) {
  const likely = predictions[position].map(([id, piece, probability]) => ({id, piece, probability, actual: false}));
  const known = position < predicts.ids.length;
  const next = {id: predicts.ids[position], piece: predicts.pieces[position], probability: Math.exp(-losses[position]), actual: true};
  return [known ? next : likely[0], ...likely];
}

/**
 * {bars: [{part, name, value}], sum, logit} of candidate `chosen` at a position, or of its difference to candidate `versus`, if that is not
 * negative. `sum` is that of the bars, `logit` the recorded one; both are relative to the mean logit of the vocabulary, or to `versus`.
 */
export function contributions({parts, attribution, logits}, position, chosen, versus) {
  const [, count, length] = attribution.shape;
  const part = (token, number) => attribution.numbers[(token * count + number) * length + position];
  const difference = (of) => of(chosen) - (versus < 0 ? 0 : of(versus));
  const translates = parts.some(([kind]) => kind === 'cross');
  const bars = parts.map((named, number) => ({part: named, name: partName(named, translates), value: difference((token) => part(token, number))}));
  return {
    bars,
    sum: bars.reduce((sum, {value}) => sum + value, 0),
    logit: difference((token) => logits.numbers[token * length + position]),
  };
}

/** Whether the bars add up to the logit, as in float32; a model in bfloat16 and older recordings round more. */
export function isExact({sum, logit}) {
  return Math.abs(sum - logit) <= EXACT * Math.max(1, Math.abs(logit));
}

/** The name of a part [kind, layer, head]; `translates`: of the decoder of an encoder-decoder, which is then named. */
function partName([kind, layer, head], translates = false) {
  if (kind === 'embedding') return 'token embedding';
  if (kind === 'bias') return 'biases';
  const within = kind === 'cross' ? 'cross-attention · ' : translates ? 'decoder · ' : '';
  return `layer ${layer} · ${within}${kind === 'mlp' ? 'MLP' : `head ${head}`}`;
}

/** Whether a part is a head, which has a map. */
export function isHead([kind]) {
  return kind in KIND_NAMES;
}

/** The bars in the order of the model, or the largest first. */
export function inOrder(bars, sort) {
  return sort === 'strength' ? [...bars].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)) : bars;
}
