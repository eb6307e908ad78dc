/** The effect of each head on the predictions in a text: the losses of its tokens when that head alone is ablated; tab_answers/head_effects.py. */

import {largestIndices} from './numbers.js';
import {lossesOf} from './predictions.js';
import {meansOf} from './replaced_outputs.js';

/**
 * {predicts: the pieces of the T next tokens; where the text ends and none is known, the most likely one, whole: their losses [T] by the whole
 * model, in nats, heads: [kind, layer, head] of each head, losses: [heads, T] without that head, left: number of heads that were left out
 * because the time was over}. onProgress gets {done, of}: numbers of heads.
 */
export function headEffects(checkpoint, example, how, seconds, onProgress) {
  const {model, target: tokenizer, heads} = checkpoint;
  const until = performance.now() + 1000 * seconds;
  const logitsWithout = (replace) => model.forward(example, {replace}).logits;
  const logits = logitsWithout(null);
  const expected = [...example.next];
  for (let row = expected.length; row < example.target.length; row++) {
    expected.push(largestIndices(logits, row * model.vocabSize, model.vocabSize, 1)[0]);
  }
  const means = how === 'mean' ? meansOf(checkpoint, example) : null;
  const losses = [];
  for (const head of heads) {
    if (performance.now() > until) break;
    const key = head.join('|');
    losses.push(lossesOf(logitsWithout(new Map([[key, means ? means.get(key) : 0]])), model.vocabSize, expected));
    onProgress({done: losses.length, of: heads.length});
  }
  return {
    predicts: tokenizer.pieces(expected),
    whole: lossesOf(logits, model.vocabSize, expected),
    heads: heads.slice(0, losses.length),
    losses,
    left: heads.length - losses.length,
  };
}
