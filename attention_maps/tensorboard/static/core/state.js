/** What is being looked at: one object, mirrored in the URL, so that a link or a reload shows the same again. */

const INITIAL = {
  run: '', // '' until the list of runs is known
  recording: '', // step_00001000 or generated_00001
  sample: 0,
  kind: '', // encoder, decoder or cross; '' means the telling one: cross where there is one
  layer: -1, // below 0: the telling one, of cross-attention the last but one
  head: 'mean', // a number, or mean, max, rollout
  view: 'map',
  rows: '', // reads or predicts; '' means predicts for cross, reads otherwise
  hide: false, // leave special tokens out and renormalise the rest
  merge: false, // pieces to words
  values: false, // weigh every key by the norm of its value vector
  scale: 'map', // each map its own maximum; or one: 0 to 1 everywhere
  gamma: 1, // below 1 lifts small weights
  against: '', // compare: '' nothing, step:<recording> of this run, run:<run> at the nearest step
  top: 3, // lines per row
  mass: 0, // lines: instead of `top`, the largest until this share is reached; 0 is off
  token: '', // r3: row 3 is selected, c5: column 5
  heads: '', // lines: several heads over one another, "0,2" or "mean,3"; '' is the head of the map
  layout: '', // lines: columns or text; '' chooses by length
  losses: false, // sentence: underline every token by its loss
  bars: 'all', // strength: the head against `all` heads together, or `each` head
  sort: 'order', // strength: tokens in their order or by strength
  readout: 'argmax', // alignment: argmax, mutual, grown or threshold
  threshold: 0.2, // alignment: the least weight that links
  averaged: '', // alignment: '' reads out the map that is shown, or the mean of its layer, or of all layers
  paper: 'matrix', // alignment: drawn as a matrix or as text
  measure: 'entropy', // what the curves show and the overview is outlined and sorted by
  scope: 'all', // curves of all layers, or of the chosen layer
  order: 'layer', // the overview: by layer, or by score
  follow: false, // jump to the newest step as it appears
};

const PREFIX = 'p.attention.';

/** Links are written by hand, by older versions and by strangers: what is none of these is left out, as if it were not said. */
const CHOICES = {
  kind: ['', 'encoder', 'decoder', 'cross'],
  rows: ['', 'reads', 'predicts'],
  scale: ['map', 'one'],
  layout: ['', 'columns', 'text'],
  bars: ['all', 'each'],
  sort: ['order', 'strength'],
  readout: ['argmax', 'mutual', 'grown', 'threshold'],
  averaged: ['', 'layer', 'all'],
  paper: ['matrix', 'text'],
  scope: ['all', 'layer'],
  order: ['layer', 'score'],
};
const RANGES = {gamma: [0.2, 2], top: [1, 12], mass: [0, 1], threshold: [0, 1]};
const TOKEN = /^([rc]\d{1,6})?$/;

/** A state with `set`, `subscribe` and the URL kept in step. */
export class State {
  constructor() {
    this.values = {...INITIAL, ...fromHash(hostHash())};
    this.listeners = new Set();
    host()?.addEventListener('hashchange', () => {
      const told = fromHash(hostHash());
      if (Object.keys(told).length)
        this.set({...INITIAL, ...told}, {url: false}); // what a link does not name is as at first
      else this.tell();
    });
  }

  /** All values, read-only by agreement. */
  get now() {
    return this.values;
  }

  /** Change some values and tell everybody once; nothing happens where nothing differs. */
  set(changes, {url = true} = {}) {
    const differing = Object.entries(changes).filter(([key, value]) => this.values[key] !== value);
    if (!differing.length) return;
    this.values = {...this.values, ...Object.fromEntries(differing)};
    if (url) writeHash(this.values);
    for (const listener of this.listeners) listener(this.values, new Set(differing.map(([key]) => key)));
  }

  /** Write the URL again: TensorBoard forgets ours while another tab is in front. */
  tell() {
    writeHash(this.values);
  }

  /** listener(values, Set of changed keys) is called after every change; returns what ends the subscription. */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** TensorBoard shows the page in an iframe of the same origin; alone, or where the parent is closed to us, it is our own window. */
export function host() {
  try {
    return window.parent.location.hash === undefined ? window : window.parent;
  } catch {
    return window;
  }
}

function hostHash() {
  return host().location.hash;
}

/** The values that a hash holds, each of the type of its initial value and within its limits; what is not is left out. */
export function fromHash(hash) {
  const found = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#(attention&?)?/, ''))) {
    const key = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : '';
    if (!Object.hasOwn(INITIAL, key)) continue;
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
  if (CHOICES[key]) return CHOICES[key].includes(value);
  const [least, most] = RANGES[key] ?? [-Infinity, Infinity];
  if (typeof INITIAL[key] === 'number') return value >= least && value <= most;
  return key !== 'token' || TOKEN.test(value);
}

/** Values that differ from the initial ones, as TensorBoard's own plugins write theirs: #attention&p.attention.layer=5. */
export function toHash(values) {
  const told = Object.entries(values).filter(([key, value]) => value !== INITIAL[key]);
  const parameters = new URLSearchParams(told.map(([key, value]) => [PREFIX + key, String(value)]));
  return `#attention${told.length ? '&' : ''}${parameters}`;
}

function writeHash(values) {
  const page = host();
  const hash = toHash(values);
  if (page.location.hash === hash || (page !== window && !/^(#attention\b|$)/.test(page.location.hash))) return; // the URL is another tab's
  try {
    page.history.replaceState(page.history.state, '', hash);
  } catch {
    // Browsers limit how often a page may do this; the next change writes it all again.
  }
}
