/** Heads by the weight between two words. */

const NOTICED = 0.1; // smallest last weight of a head that is said to attend "since" a step

/**
 * [{layer, head, weight, course: the weight at every step, since: index}] for an answer of pairs.js, the largest weight first. `since`:
 * from this step on, the weight is at least half of the last one; -1 if that is below 10 %, or no step has this text.
 */
export function ranked({chosen, weights}) {
  return chosen
    .flatMap((heads, layer) => heads.map((weight, head) => ({layer, head, weight})))
    .map((one) => ({...one, course: weights.map((step) => step[one.layer]?.[one.head] ?? 0)}))
    .map((one) => ({...one, since: sinceOf(one.course)}))
    .sort((a, b) => b.weight - a.weight || a.layer - b.layer || a.head - b.head);
}

function sinceOf(course) {
  const last = course.at(-1) ?? 0;
  if (last < NOTICED) return -1;
  let first = course.length - 1;
  while (first > 0 && course[first - 1] >= last / 2) first--;
  return first;
}
