/** What happened to each head during a training, from the measures of all recorded steps. Pure functions. */

/** Label -> {measure, unit}: what is behind a label, and the value of the measure that counts as full strength. */
const BEHIND = {
  coreference: {measure: 'antecedent', full: 100},
  alignment: {measure: 'alignment_error', full: 0, none: 100},
  induction: {measure: 'induction', full: 1},
  'duplicate token': {measure: 'duplicate', full: 1},
  'previous token': {measure: 'previous', full: 1},
  'first token': {measure: 'first', full: 1},
  diagonal: {measure: 'diagonal', full: 1},
  broad: {measure: 'spread', full: 1},
};

export const LABELS = Object.keys(BEHIND);

/**
 * The history of every head: [{kind, layer, head, labels: [per step], strengths: [per step, 0 to 1 or NaN], label: the last one, birth:
 * index of the step since which the head has had its last label, or -1, importance: the last known one, or NaN}]. `curves` as from the
 * plugin; kinds in the order in which the model computes them.
 */
export function histories({steps, labels = {}, measures}) {
  const found = [];
  for (const kind of ['encoder', 'decoder', 'cross']) {
    const recorded = labels[kind] ?? [];
    const shape = recorded.findLast(Boolean) ?? [];
    shape.forEach((row, layer) =>
      row.forEach((_, head) => {
        const named = steps.map((_, i) => recorded[i]?.[layer]?.[head] ?? '');
        found.push({
          kind,
          layer,
          head,
          labels: named,
          strengths: named.map((label, i) => strengthOf(label, (name) => measures[name]?.[kind]?.[i]?.[layer]?.[head])),
          label: named.at(-1) ?? '',
          birth: birthOf(named),
          importance: lastKnown((measures.importance?.[kind] ?? []).map((matrix) => matrix?.[layer]?.[head])),
        });
      }),
    );
  }
  return found;
}

/** Of the measure behind a label, as a fraction of the most that is possible; NaN where it was not measured. */
function strengthOf(label, value) {
  const behind = BEHIND[label];
  const number = behind ? value(behind.measure) : undefined;
  if (!Number.isFinite(number)) return NaN;
  const {full, none = 0} = behind;
  return Math.min(Math.max((number - none) / (full - none), 0), 1);
}

/** The first index from which all labels are the last one; -1 if the last one is '' or "broad", with which every head begins. */
function birthOf(labels) {
  const last = labels.at(-1);
  if (!last || last === 'broad') return -1;
  let first = labels.length - 1;
  while (first > 0 && labels[first - 1] === last) first--;
  return first;
}

function lastKnown(values) {
  return values.findLast(Number.isFinite) ?? NaN;
}

/** The heads that begin to do something, earliest first; those that were so from the first step on are not among them. */
export function births(heads) {
  return heads.filter(({birth}) => birth > 0).sort((a, b) => a.birth - b.birth);
}

/** The head without which the loss rises most, or null if that was not measured or no head matters. */
export function mostImportant(heads) {
  const measured = heads.filter(({importance}) => importance > 0);
  return measured.length ? measured.reduce((best, head) => (head.importance > best.importance ? head : best)) : null;
}
