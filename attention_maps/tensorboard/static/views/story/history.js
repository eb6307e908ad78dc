/** What happened to each head during a training, from the measures of all recorded steps. Pure functions. */

import {bestRule, measureOf, measureText, namesIn} from '../../core/measures.js';
import {sinceIndex} from '../since.js';

const HALF = 'half or more of its attention';

/**
 * Name in a label -> {measure, full, why}: what is behind it, the value of the measure that counts as full strength, and the threshold of
 * the label (attention_maps/record/head_measures_and_labels.py), which for gold labels names the number of examples. `unscored`: what stands for it before the
 * first score.
 */
const BEHIND = {
  coreference: {measure: 'antecedent', full: 100, why: (count) => `it finds the antecedent of half or more of ${count} validation pronouns`},
  alignment: {
    measure: 'alignment_error',
    full: 0,
    none: 100,
    why: (count) => `alignment error of half or less on ${count} validation pairs`,
    unscored: 'by the shape of its map; scored against gold labels only later',
  },
  induction: {measure: 'induction', full: 1, why: () => `${HALF} in repeated random words`},
  'duplicate token': {measure: 'duplicate', full: 1, why: () => `${HALF} in repeated random words`},
  'previous token': {measure: 'previous', full: 1, why: () => HALF},
  'first token': {measure: 'first', full: 1, why: () => HALF},
  diagonal: {measure: 'diagonal', full: 1, why: () => HALF},
  broad: {measure: 'spread', full: 1, why: () => ''},
};

export const LABELS = Object.keys(BEHIND);

/** The measure behind a name in a label, '' if there is none. */
export function measureBehind(name) {
  return BEHIND[name]?.measure ?? '';
}

/** What a head does at least that has a name in its label since index `birth`, '' if the measure behind it was not recorded. */
export function evidence({head: {kind, layer, head}, name, birth}, {measures, counts = {}}) {
  const {measure, why, unscored} = BEHIND[name] ?? {};
  if (!Object.hasOwn(measures, measure)) return '';
  if (unscored && Number.isNaN(valueUntil(birth, measures[measure][kind], layer, head))) return unscored;
  return why(counts[measure]?.toLocaleString('en') ?? 'the');
}

/**
 * The scores of a head by which it can be checked what it does since index `since`, [{index, value}]: those of the last scored step before,
 * of the first one from there on, and of the last one. Gold scores and importance are only recorded at evaluations.
 */
export function scoresAround(measure, since, {kind, layer, head}, {measures}) {
  const all = (measures[measure]?.[kind] ?? []).map((matrix, index) => ({index, value: matrix?.[layer]?.[head]}));
  const scored = all.filter(({value}) => Number.isFinite(value));
  const chosen = [scored.findLast(({index}) => index < since), scored.find(({index}) => index >= since), scored.at(-1)];
  return [...new Set(chosen.filter(Boolean))];
}

/** Measures that are shown with the one behind a label, and what distinguishes them. */
const STRICTER = {antecedent: {antecedent_agreeing: 'Among nouns that agree with the pronoun: '}};

/** How a head compares with the best rule that needs no model, in words; '' if no rule was scored. */
export function besideRules(measure, {kind, layer, head}, {steps, measures, baselines}) {
  const parts = Object.entries({[measure]: '', ...STRICTER[measure]}).map(([name, what]) => {
    const rule = bestRule(baselines, name);
    const own = valueUntil(steps.length - 1, measures[name]?.[kind], layer, head);
    if (!rule || !Number.isFinite(own)) return '';
    const [theirs, ours] = [rule[1], own].map((value) => measureText(name, value));
    const better = measureOf(name).first === 'low' ? rule[1] < own : rule[1] > own;
    const rest = `${theirs}, ${theirs === ours ? 'the same as' : better ? 'better than' : 'worse than'} this head’s ${ours}.`;
    return what ? `${what}“${rule[0]}” ${rest}` : `The rule “${rule[0]}”, without a model: ${rest}`;
  });
  return parts.filter(Boolean).join(' ');
}

/**
 * The history of every head: [{kind, layer, head, labels: [per step: [{name, strength: 0 to 1 or NaN}]], roles: [{name, strength, birth}]
 * of the last step, importance: the last known one, or NaN}]. `birth`: index of the step since which the label has had this name, or -1.
 * `curves` as from the plugin; kinds in the order in which the model computes them.
 */
export function histories({steps, labels = {}, measures}) {
  const found = [];
  for (const kind of ['encoder', 'decoder', 'cross']) {
    const recorded = labels[kind] ?? [];
    const shape = recorded.findLast(Boolean) ?? [];
    shape.forEach((row, layer) =>
      row.forEach((_, head) => {
        const labels = steps.map((_, i) => {
          const value = (measure) => valueUntil(i, measures[measure]?.[kind], layer, head);
          return namesIn(recorded[i]?.[layer]?.[head]).map((name) => ({name, strength: strengthOf(name, value)}));
        });
        found.push({
          kind,
          layer,
          head,
          labels,
          roles: (labels.at(-1) ?? []).map((role) => ({...role, birth: birthOf(role.name, labels)})),
          importance: valueUntil(steps.length - 1, measures.importance?.[kind], layer, head),
        });
      }),
    );
  }
  return found;
}

/** Of the measure behind a name, as a fraction of the most that is possible; NaN where it was not measured. */
function strengthOf(name, value) {
  const behind = BEHIND[name];
  const number = behind ? value(behind.measure) : undefined;
  if (!Number.isFinite(number)) return NaN;
  const {full, none = 0} = behind;
  return Math.min(Math.max((number - none) / (full - none), 0), 1);
}

/** The index since which labels have a name; -1 for "broad", with which every head begins. */
function birthOf(name, labels) {
  if (name === 'broad') return -1;
  return sinceIndex(labels.map((roles) => roles.some((role) => role.name === name)));
}

/** The last known value of a head until a step: gold scores of an evaluation hold, as the labels do, until the next one. */
function valueUntil(step, matrices, layer, head) {
  if (!matrices) return NaN;
  for (let at = step; at >= 0; at--) if (Number.isFinite(matrices[at]?.[layer]?.[head])) return matrices[at][layer][head];
  return NaN;
}

/**
 * What heads begin to do, earliest first: [{head, name, birth, others}], of each name the head that does it most at the end, and the number
 * of others. What a head did from the first step on is not among it.
 */
export function births(heads) {
  const best = new Map(); // name -> {head, name, strength, birth, others}
  for (const head of heads) {
    for (const role of head.roles) {
      if (role.birth < 1) continue;
      const other = best.get(role.name);
      const others = other ? other.others + 1 : 0;
      const stronger = !other || (role.strength || 0) > (other.strength || 0);
      best.set(role.name, {...(stronger ? {...role, head} : other), others});
    }
  }
  return [...best.values()].sort((a, b) => a.birth - b.birth);
}

/** The head without which the loss rises most, or null if that was not measured or no head matters. */
export function mostImportant(heads) {
  const measured = heads.filter(({importance}) => importance > 0);
  return measured.length ? measured.reduce((best, head) => (head.importance > best.importance ? head : best)) : null;
}
