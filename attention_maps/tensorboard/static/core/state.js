/** UI state: selected run, step, sample, layer, head, view and options, mirrored in the URL so that links and reloads restore it. */

import {host} from './host.js';

const INITIAL = {
  run: '', // '' until the list of runs is known
  recording: '', // step_00001000, generated_00001 or asked_00001
  sample: 0,
  kind: '', // encoder, decoder or cross; '' means the most informative one: cross if there is one
  layer: -1, // below 0: that of the finding (finding/finding.js)
  head: '', // a number, or mean, max, rollout; '' is that of the finding
  view: 'story',
  rows: '', // reads or predicts; '' is that of the finding, or, if a token is named, predicts for cross, reads otherwise
  hide: false, // hide special tokens and renormalise the rest
  merge: false, // pieces to words
  values: false, // weight every key by the norm of its value vector
  scale: 'map', // strongest colour: the maximum of each map; or one: 1 in all maps
  gamma: 1, // of the colour scale; below 1 makes small weights easier to see
  against: '', // compare with: '' nothing, step:<recording> of this run, run:<run> at its nearest step
  top: 3, // lines per row
  mass: 0, // lines: instead of `top`, the largest weights that cover this fraction; 0 is off
  token: null, // r3: row 3 is selected, c5: column 5, '': nothing; null is the word of the finding
  partner: '', // pair: c5, the column whose weight from the selected row is shown; '' is the word linked with it
  heads: '', // lines: several heads overlaid, "0,2" or "mean,3"; '' is the selected head
  layout: '', // lines: columns or text; '' decides by length
  underline: '', // sentence: tokens underlined by their loss, or by the strength of the output of the head; '' is none
  sort: 'order', // prediction: parts in the order of the model, or by strength
  candidate: 0, // prediction: the actual next token, or a likely one
  parts: 'all', // prediction: bars of `all` parts, or of the `heads` alone, which MLPs may dwarf
  versus: -1, // prediction: the candidate that it is compared with; below 0: the mean of all tokens
  readout: 'argmax', // alignment: argmax, mutual, grown or threshold
  threshold: 0.2, // alignment: the smallest weight of a link
  averaged: '', // alignment: links from the map shown, or from the mean of its layer, or of all layers
  paper: 'matrix', // alignment: drawn as a matrix or as text
  measure: '', // of heads: plotted in the curves, outlines and sorts the overview; '' is the one by which the finding chose its head
  spacing: 'log', // story: logarithmic steps, in which early ones have more room, or even
  scope: 'all', // curves: all layers, or the selected layer
  order: 'layer', // overview: by layer, or by score
  removed: '', // ask: heads without which the model is asked, "cross.0.1,decoder.2.*"
  how: 'zero', // ask: the output of a chosen head is zero, its mean, or that in another text
  temperature: 0, // ask: of a continuation; 0 is the most likely token
  top_p: 1, // ask: sample from the most likely tokens with this total probability; 1 is off
  top_k: 0, // ask: sample from this many most likely tokens; 0 is off
  seed: 1, // ask: of a sampled continuation
  beam_size: 4, // ask: hypotheses kept by the search for a translation; 1 is greedy
  checkpoint: '', // ask and circuits: best, last or the name of kept weights; '' are those nearest to the step shown
  distance: 1, // circuits: tokens from the key back to the query
  piece: '', // circuits: only the pairs with this token
  follow: false, // jump to the newest step as it appears
  options: false, // whether the display options are open
};

/** Of each pair, a change of the first one keeps the second one as shown: a token names a row by its label, a head belongs to a layer. */
const KEPT = [
  ['layer', 'head'],
  ['head', 'layer'],
  ['token', 'rows'],
];

const PREFIX = 'p.attention.';

/** Allowed values. URLs may be written by hand or by other versions: any other value is ignored. */
const CHOICES = {
  kind: ['', 'encoder', 'decoder', 'cross'],
  rows: ['', 'reads', 'predicts'],
  scale: ['map', 'one'],
  layout: ['', 'columns', 'text'],
  underline: ['', 'loss', 'strength'],
  sort: ['order', 'strength'],
  parts: ['all', 'heads'],
  readout: ['argmax', 'mutual', 'grown', 'threshold'],
  averaged: ['', 'layer', 'all'],
  paper: ['matrix', 'text'],
  spacing: ['log', 'even'],
  scope: ['all', 'layer'],
  order: ['layer', 'score'],
  how: ['zero', 'mean', 'other'],
};
const RANGES = {
  distance: [-4096, 4096],
  gamma: [0.2, 2],
  top: [1, 12],
  mass: [0, 1],
  threshold: [0, 1],
  candidate: [0, 5],
  versus: [-1, 5],
  temperature: [0, 1000],
  top_p: [0, 1],
  top_k: [0, Number.MAX_SAFE_INTEGER],
  seed: [0, Number.MAX_SAFE_INTEGER],
  beam_size: [1, 1000],
};
/** Numbers that must be whole. */
const WHOLE = ['top_k', 'seed', 'beam_size'];
const PATTERNS = {
  token: /^([rc]\d{1,6})?$/,
  partner: /^(c\d{1,6})?$/,
  removed: /^((encoder|decoder|cross)\.\d{1,5}\.(\d{1,5}|\*)(,(?!$)|$))*$/,
  piece: /^.{0,100}$/u,
  checkpoint: /^(best|last|step-\d{1,15}(-\d{1,6})?|weights-\d{1,15})?$/,
};

/** What addresses name from the time when there were more views -> where it is now. */
const MOVED = {
  'view=steps': {view: 'story'},
  'view=strength': {view: 'sentence', underline: 'strength'},
  'losses=true': {underline: 'loss'},
};

/** The state with `set` and `subscribe`; the URL follows every change. */
export class State {
  constructor() {
    this.values = {...INITIAL, ...fromHash(host().location.hash)};
    this.shown = null; // the values last drawn, in which the finding stands for what is not named
    this.listeners = new Set();
    host().addEventListener('hashchange', () => {
      const given = fromHash(host().location.hash);
      if (Object.keys(given).length)
        this.set({...INITIAL, ...given}, {url: false}); // values that a link does not name are reset
      else this.writeUrl();
    });
  }

  /** All values as they are named, by the URL or by choices on the page; treat as read-only. */
  get now() {
    return this.values;
  }

  /** The selected words {token, partner}: those that are named, or those of the finding as shown. */
  get selected() {
    const {token, partner} = this.values.token === null && this.shown ? this.shown : this.values;
    return {token: token ?? '', partner};
  }

  /** Change some values and notify the listeners once, if any value differs. */
  set(changes, {url = true} = {}) {
    const differing = Object.entries({...this.kept(changes), ...changes}).filter(([key, value]) => this.values[key] !== value);
    if (!differing.length) return;
    this.values = {...this.values, ...Object.fromEntries(differing)};
    if (url) writeHash(this.values);
    for (const listener of this.listeners) listener(this.values, new Set(differing.map(([key]) => key)));
  }

  /** What a change leaves as it is shown, although nothing has named it so far. */
  kept(changes) {
    const {values, shown} = this;
    const isKept = ([one, other]) => one in changes && changes[one] !== INITIAL[one] && values[other] === INITIAL[other];
    return Object.fromEntries(shown ? KEPT.filter(isKept).map(([, other]) => [other, shown[other]]) : []);
  }

  /** The address of what is shown, with everything that the finding stands for. */
  get address() {
    return `${host().location.href.replace(/#.*/s, '')}${toHash({...this.values, ...this.shown})}`;
  }

  /** Write the URL again: TensorBoard drops our part while another tab is active. */
  writeUrl() {
    writeHash(this.values);
  }

  /** listener(values, Set of changed keys) is called after every change; returns a function that unsubscribes. */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The values in a URL hash, converted to the type of their initial value; invalid ones are skipped. */
function fromHash(hash) {
  const found = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#(attention&?)?/, ''))) {
    const key = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : '';
    Object.assign(found, MOVED[`${key}=${text}`]);
    if (!Object.hasOwn(INITIAL, key) || MOVED[`${key}=${text}`]) continue;
    const value = parsed(key, text);
    if (isPossible(key, value)) found[key] = value;
  }
  return found;
}

function parsed(key, text) {
  const initial = INITIAL[key];
  if (key === 'head') return /^\d+$/.test(text) ? Number(text) : text;
  if (typeof initial === 'boolean') return text === 'true';
  if (typeof initial === 'number') return text === '' ? NaN : Number(text);
  return text;
}

function isPossible(key, value) {
  if (Number.isNaN(value) || Math.abs(value) === Infinity) return false;
  if (WHOLE.includes(key) && !Number.isInteger(value)) return false;
  if (CHOICES[key]) return CHOICES[key].includes(value);
  const [least, most] = RANGES[key] ?? [-Infinity, Infinity];
  if (typeof INITIAL[key] === 'number') return value >= least && value <= most;
  return !PATTERNS[key] || PATTERNS[key].test(value);
}

/** The values that differ from the initial ones, in the format of TensorBoard's own plugins: #attention&p.attention.layer=5. */
function toHash(values) {
  const changed = Object.entries(values).filter(([key, value]) => value !== INITIAL[key]);
  const parameters = new URLSearchParams(changed.map(([key, value]) => [PREFIX + key, String(value)]));
  return `#attention${changed.length ? '&' : ''}${parameters}`;
}

function writeHash(values) {
  const page = host();
  const hash = toHash(values);
  if (page.location.hash === hash || (page !== window && !/^(#attention\b|$)/.test(page.location.hash))) return; // another tab is active
  try {
    page.history.replaceState(page.history.state, '', hash);
  } catch {
    // Browsers limit the rate of replaceState; the next change writes everything again.
  }
}
