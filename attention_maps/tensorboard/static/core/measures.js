/** What is measured of a head: names and units for people, and which end of a measure is the telling one. */

/**
 * `first`: which values are sorted to the front and drawn strongest. `share`: stored as 0 to 1, shown as percent. `gold`: measured against
 * what is right, so that `first` is also better.
 */
const MEASURES = {
  entropy: {title: 'entropy', unit: 'nats', first: 'low', meaning: 'how widely it looks: 0 is one token only'},
  spread: {
    title: 'spread',
    unit: '%',
    share: true,
    first: 'low',
    meaning: 'entropy as a share of what looking at everything alike would have',
  },
  first: {title: 'to the first token', unit: '%', share: true, first: 'high', meaning: 'mean share of attention that the first token gets'},
  special: {title: 'to special tokens', unit: '%', share: true, first: 'high', meaning: 'mean share of attention that special tokens get'},
  previous: {title: 'to the token before', unit: '%', share: true, first: 'high', meaning: 'mean share that the token before gets'},
  diagonal: {title: 'to itself', unit: '%', share: true, first: 'high', meaning: 'mean share that a token gives to its own position'},
  coverage: {title: 'source covered', unit: '%', share: true, first: 'high', meaning: 'share of source tokens that some row looks at most'},
  alignment_error: {title: 'alignment error (AER)', unit: '%', first: 'low', gold: true, meaning: 'against gold word alignments'},
  antecedent: {
    title: 'pronouns resolved',
    unit: '%',
    first: 'high',
    gold: true,
    meaning: 'pronouns from which the head looks most at whom they mean, among everybody and everything named before',
  },
  antecedent_agreeing: {
    title: 'pronouns resolved among agreeing nouns',
    unit: '%',
    first: 'high',
    gold: true,
    meaning: 'the same among the nouns that agree with the pronoun, often only one',
  },
  importance: {title: 'importance', unit: 'nats', first: 'high', meaning: 'how much the validation loss rises when the head is masked'},
};

/** Title, unit, meaning and order of a measure; one of a later version is shown under its own name. */
export function measureOf(name) {
  if (Object.hasOwn(MEASURES, name)) return MEASURES[name];
  return {title: name.replaceAll('_', ' '), unit: '', first: 'high', meaning: ''};
}

/** The measures among `names`, ours first and in our order. */
export function sortedMeasures(names) {
  const order = Object.keys(MEASURES);
  const rank = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** A value as it is plotted: shares become percent. */
export function plotted(name, value) {
  return measureOf(name).share && Number.isFinite(value) ? 100 * value : value;
}

/** "lower is better" or "higher is better" of a measure against gold, '' of others: no amount of entropy is right. */
export function better(name) {
  const {gold, first} = measureOf(name);
  return gold ? `${first === 'low' ? 'lower' : 'higher'} is better` : '';
}

/** A value with its unit: "1.32 nats", "42.1 %", "–" where there is none. */
export function measureText(name, value) {
  if (!Number.isFinite(value)) return '–';
  const {unit} = measureOf(name);
  const number = plotted(name, value).toFixed(unit === '%' ? 1 : Math.abs(value) < 0.1 ? 4 : 2);
  return unit ? `${number} ${unit}` : number;
}

/** The value of a head in meta.measures; null where it has none, as mean, max and rollout. */
export function measureAt(meta, name, kind, layer, head) {
  return meta.measures?.[name]?.[kind]?.[layer]?.[head] ?? null;
}
