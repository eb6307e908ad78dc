/** Measures of heads: display name, unit, sort order and explanation of each. */

/**
 * `first`: which values come first in sorting and get the strongest outline. `share`: a fraction, shown as percent. `gold`: scored
 * against gold labels, so that `first` also means better.
 */
const MEASURES = {
  entropy: {title: 'entropy', unit: 'nats', first: 'low', meaning: 'how widely attention is spread; 0 means all on one token'},
  spread: {
    title: 'spread',
    unit: '%',
    share: true,
    first: 'low',
    meaning: 'entropy relative to uniform attention: 100 % is uniform',
  },
  first: {title: 'to the first token', unit: '%', share: true, first: 'high', meaning: 'mean attention to the first token'},
  special: {title: 'to special tokens', unit: '%', share: true, first: 'high', meaning: 'mean attention to special tokens'},
  previous: {title: 'to the previous token', unit: '%', share: true, first: 'high', meaning: 'mean attention to the previous token'},
  diagonal: {title: 'to itself', unit: '%', share: true, first: 'high', meaning: 'mean attention to the token itself (diagonal)'},
  induction: {
    title: 'induction',
    unit: '%',
    share: true,
    first: 'high',
    meaning: 'random words, repeated once: mean attention to the token after the first occurrence, which comes next',
  },
  duplicate: {
    title: 'to the duplicate',
    unit: '%',
    share: true,
    first: 'high',
    meaning: 'random words, repeated once: mean attention to the first occurrence of the token',
  },
  repeat_previous: {
    title: 'to the previous token, random text',
    unit: '%',
    share: true,
    first: 'high',
    meaning: 'random words, repeated once: mean attention to the previous token',
  },
  copying: {
    title: 'copying',
    unit: '',
    first: 'high',
    meaning: 'random words: correlation of attention to a token and what the head adds to its logit; negative: suppression',
  },
  coverage: {
    title: 'source coverage',
    unit: '%',
    share: true,
    first: 'high',
    meaning: 'source tokens that are the argmax of at least one row',
  },
  alignment_error: {title: 'alignment error (AER)', unit: '%', first: 'low', gold: true, meaning: 'against gold word alignments'},
  antecedent: {
    title: 'pronouns resolved',
    unit: '%',
    first: 'high',
    gold: true,
    meaning: 'pronouns whose antecedent gets the most attention of all preceding nouns',
  },
  antecedent_agreeing: {
    title: 'pronouns resolved, agreeing nouns',
    unit: '%',
    first: 'high',
    gold: true,
    meaning: 'the same, only among nouns that agree with the pronoun, often a single one',
  },
  importance: {
    title: 'importance',
    unit: 'nats',
    first: 'high',
    meaning: 'how much the model needs the head: the rise of its loss per token without it; below 0, the model is better without it',
  },
};

export const MEASURE_NAMES = Object.keys(MEASURES);

/** Title, unit, meaning and order of a measure; an unknown one (of a later version) is shown under its own name. */
export function measureOf(name) {
  if (Object.hasOwn(MEASURES, name)) return MEASURES[name];
  return {title: name.replaceAll('_', ' '), unit: '', first: 'high', meaning: ''};
}

/** `names` sorted: known measures first, in the order above. */
export function sortedMeasures(names) {
  const rank = (name) => (MEASURE_NAMES.includes(name) ? MEASURE_NAMES.indexOf(name) : MEASURE_NAMES.length);
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** A value as it is plotted: fractions become percent. */
export function plotted(name, value) {
  return measureOf(name).share && Number.isFinite(value) ? 100 * value : value;
}

/** "lower is better" or "higher is better" for measures against gold labels, '' for others. */
export function better(name) {
  const {gold, first} = measureOf(name);
  return gold ? `${first === 'low' ? 'lower' : 'higher'} is better` : '';
}

/** [name, value] of the best rule that needs no model, of {measure: {rule: value}}; undefined if none is known. */
export function bestRule(baselines, name) {
  const sign = measureOf(name).first === 'low' ? 1 : -1;
  return Object.entries(baselines?.[name] ?? {}).sort(([, a], [, b]) => sign * (a - b))[0];
}

/** A value with its unit: "1.32 nats", "42.1 %", "–" for a missing one. */
export function measureText(name, value) {
  if (!Number.isFinite(value)) return '–';
  const {unit} = measureOf(name);
  const number = plotted(name, value).toFixed(unit === '%' ? 1 : Math.abs(value) < 0.1 ? 4 : 2);
  return unit ? `${number} ${unit}` : number;
}

/** The names in a stored label: "coreference, diagonal" is a head that does both. */
export function namesIn(label) {
  return label ? label.split(', ') : [];
}

/** One of them as shown to users: nearly uniform attention is stored as "broad". */
export function shownName(name) {
  return name === 'broad' ? 'uniform' : name;
}

/** The names in the label of a head as shown to users; empty if it has none. */
export function namesAt(meta, kind, layer, head) {
  return namesIn(meta.labels?.[kind]?.[layer]?.[head]).map(shownName);
}

/** The value of a head in meta.measures; null if there is none, as for mean, max and rollout. */
export function measureAt(meta, name, kind, layer, head) {
  return meta.measures?.[name]?.[kind]?.[layer]?.[head] ?? null;
}
