/** Since which recorded step something holds: the one meaning of "since" in all views. */

/**
 * The first index from which all of `holds` (one boolean per recorded step) are true, single dips aside; -1 if the last one is false, and
 * for an empty list. A dip is one step between steps at which it holds, two on each side where there are so many.
 */
export function sinceIndex(holds) {
  if (!holds.at(-1)) return -1;
  let first = holds.length - 1;
  while (first > 0 && (holds[first - 1] || isDip(holds, first - 1))) first--;
  return first;
}

function isDip(holds, at) {
  const around = [at - 2, at - 1, at + 1, at + 2].filter((place) => place >= 0 && place < holds.length);
  return at > 0 && around.every((place) => holds[place]);
}
