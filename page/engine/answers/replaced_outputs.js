/** The outputs that replace those of removed and patched heads: tab_answers/replaced_outputs.py. */

import {Recording} from '../model/recording.js';
import {exampleOf} from './example.js';
import {Refusal} from './refusal.js';

/**
 * The new output of each removed or patched head, a Map for `replace` of the model: 0, its mean output [D], or its output [T, D] in the other
 * text; null if nothing is replaced. example: that of the question. Throws Refusal if a head does not exist, or if the other text has another
 * number of tokens.
 */
export function changedOutputs(question, checkpoint, example) {
  const {removed, how, patch} = question;
  const heads = checkpoint.headsOf(removed);
  const means = heads.length && how === 'mean' ? meansOf(checkpoint, example) : null;
  const outputs = new Map(heads.map((head) => [head, means ? means.get(head) : 0]));
  if (patch) for (const [head, output] of patchedOutputs(question, checkpoint, example)) outputs.set(head, output);
  return outputs.size ? outputs : null;
}

/** The mean output [D] of each head: over the recorded examples of the run or, if there are none, over the example of the question. */
export function meansOf(checkpoint, example) {
  if (checkpoint.means) return checkpoint.means;
  return new Map([...headOutputs(checkpoint, example)].map(([head, {output, width}]) => [head, meanRow(output, width)]));
}

function patchedOutputs(question, checkpoint, example) {
  const {patch} = question;
  const heads = checkpoint.headsOf(patch.heads);
  const other = exampleOf(checkpoint, patch.text, patch.target, question);
  const counts = (side) => [example[side]?.length ?? 0, other[side]?.length ?? 0];
  const sides = {target: checkpoint.data.task === 'gpt' ? 'texts' : 'translations', source: 'sources'};
  for (const [side, name] of Object.entries(sides)) {
    const [own, others] = counts(side);
    if (own === others) continue;
    throw new Refusal(`heads can be patched only between texts of equal length; the ${name} have ${own} and ${others} tokens`);
  }
  const outputs = headOutputs(checkpoint, other);
  return heads.map((head) => [head, outputs.get(head).output]);
}

/** By head, {output: Float32Array [T, D], width: D} in an example. */
function headOutputs({model}, example) {
  const record = new Recording();
  model.forward(example, {record});
  const outputs = new Map();
  for (const [place, {heads, queries, headWidth: width}] of record.shapes) {
    const size = queries * width;
    for (let head = 0; head < heads; head++) {
      outputs.set(`${place}|${head}`, {output: record.outputs.get(place).subarray(head * size, (head + 1) * size), width});
    }
  }
  return outputs;
}

function meanRow(rows, width) {
  const mean = new Float32Array(width);
  for (let column = 0; column < width; column++) {
    let sum = 0;
    for (let place = column; place < rows.length; place += width) sum += rows[place];
    mean[column] = (sum * width) / rows.length;
  }
  return mean;
}
