/** A checkpoint of the run in the page: its model, and what answer_data.py has measured with it. */

import {float32Of} from './numbers.js';
import {Refusal} from './refusal.js';

export class Checkpoint {
  /** name: such as step-00000500; loaded: {step, model}; data: the JSON of answer_data.py. */
  constructor(name, loaded, tokenizers, data) {
    const {best, last, labels, means} = data.checkpoints[name];
    Object.assign(this, {name, loaded, data, step: loaded.step, best, last});
    this.source = tokenizers[0]; // tokenizer of what a translator reads; of a GPT, the only one
    this.target = tokenizers.at(-1);
    /** Labels of the heads, {kind: [per layer [per head]]}, of the recorded step nearest to this one; null if none is known. */
    this.labels = labels;
    /** Mean output [D] of each head over recorded examples, by `${kind}|${layer}|${head}`; null if there are no such examples. */
    this.means = means && decodedMeans(means);
  }

  get model() {
    return this.loaded.model;
  }

  /** [kind, layer, head] of every head, ordered by kind and layer. */
  get heads() {
    const modules = [...this.model.attentions.values()].sort((a, b) => (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : a.layer - b.layer));
    return modules.flatMap(({kind, layer, heads}) => Array.from({length: heads}, (_, head) => [kind, layer, head]));
  }

  /** The heads that are named, `${kind}|${layer}|${head}`, each once; a head of null names all heads of its layer. Throws Refusal. */
  headsOf(named) {
    const keys = new Set();
    for (const [kind, layer, head] of named) {
      const count = this.model.attentions.get(`${kind}|${layer}`)?.heads ?? 0;
      if (head === null && !count) throw new Refusal(`the model has no ${kind} layer ${layer}`);
      if (head !== null && head >= count) throw new Refusal(`the model has no head ${head} in ${kind} layer ${layer}`);
      const [first, end] = head === null ? [0, count] : [head, head + 1];
      for (let number = first; number < end; number++) keys.add(`${kind}|${layer}|${number}`);
    }
    return [...keys];
  }
}

/** By head, [D], from {heads, data: base64 of [H, D] float32} by `${kind}|${layer}`. */
function decodedMeans(means) {
  const byHead = new Map();
  for (const [place, {heads, data}] of Object.entries(means)) {
    const numbers = float32Of(data);
    const width = numbers.length / heads;
    for (let head = 0; head < heads; head++) byHead.set(`${place}|${head}`, numbers.subarray(head * width, (head + 1) * width));
  }
  return byHead;
}
