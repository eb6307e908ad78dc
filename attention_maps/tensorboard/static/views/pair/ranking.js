/** Heads by the weight between two words. */

import {sinceIndex} from '../since.js';

/**
 * The heads by the weight from a word, in that of its rows in which each head attends more: a word has one that predicts it and one that
 * reads it. `rows` -> answer of pairs.js or null; the entries are those of `ranked`, with `rows`.
 */
export function rankedByWord(answers) {
  const best = new Map();
  for (const [rows, answer] of Object.entries(answers)) {
    for (const one of answer ? ranked(answer) : []) {
      const place = `${one.layer}.${one.head}`;
      if (!(best.get(place)?.weight >= one.weight)) best.set(place, {...one, rows});
    }
  }
  return inOrder([...best.values()]);
}

const NOTICED = 0.1; // smallest last weight of a head that is said to attend "since" a step

/**
 * [{layer, head, weight, course: the weight at every step, since: index}] for an answer of pairs.js. `since`: from this step on, the weight
 * is at least half of the last one (../since.js); -1 if that is below 10 %, or no step has this text.
 */
function ranked({chosen, weights}) {
  return chosen
    .flatMap((heads, layer) => heads.map((weight, head) => ({layer, head, weight})))
    .map((one) => ({...one, course: weights.map((step) => step[one.layer]?.[one.head] ?? 0)}))
    .map((one) => ({...one, since: sinceOf(one.course)}));
}

function inOrder(heads) {
  return heads.sort((a, b) => b.weight - a.weight || a.layer - b.layer || a.head - b.head);
}

function sinceOf(course) {
  const last = course.at(-1) ?? 0;
  return last < NOTICED ? -1 : sinceIndex(course.map((weight) => weight >= last / 2));
}
