/**
 * A frame: one attention matrix ready to draw, after selecting the head, weighting by value norms, subtracting, hiding special tokens and
 * merging pieces. Pure functions; views draw frames and nothing else.
 *
 * {rows: [label], columns: [label], weights: Float32Array (rows x columns, row-major), difference, weighted, causal, maximum, hidden, kind,
 *  layer, head, rowsNamed, name, meta, sample, tokens: {rows, columns}}
 * label = {text, special, positions: [token positions], language}; `hidden` is the attention to hidden columns, per row, or null
 * when nothing is hidden; a `difference` holds values from -1 to 1; `maximum` is the largest absolute value of the colour scale;
 * `weighted`: whether weights were multiplied by value norms.
 */

import {languageOf, readable} from './format.js';
import {wordGroups, wordText} from './word_groups.js';

export const KINDS = ['encoder', 'decoder', 'cross'];
export const KIND_NAMES = {encoder: 'encoder self-attention', decoder: 'decoder self-attention', cross: 'cross-attention'};

/** The kinds of attention that a sample has, the most informative one first. */
export function kindsOf(meta, sample) {
  const kinds = shapesOf(meta, sample);
  return ['cross', 'decoder', 'encoder'].filter((kind) => kinds[kind]);
}

/** {kind: {layers, heads}} of a sample; `meta.kinds` holds one such object for all samples or a list with one for each. */
export function shapesOf(meta, sample) {
  return Array.isArray(meta.kinds) ? (meta.kinds[sample] ?? {}) : meta.kinds;
}

/** The model's own number of a layer: of other models, only some layers may be recorded. */
export function layerNumber(meta, kind, layer) {
  return meta?.layer_numbers?.[kind]?.[layer] ?? layer;
}

/** What the tokens of an encoder are called: an encoder alone has no target. */
export function sourceName(sample) {
  return sample.reads.pieces.length ? 'source' : 'text';
}

/** What rows are labelled by: `predicts` for cross-attention unless the state says otherwise; an encoder predicts nothing. */
export function rowsNamed(state, kind) {
  if (kind === 'encoder') return 'reads';
  return state.rows || (kind === 'cross' ? 'predicts' : 'reads');
}

/**
 * The selection `token` after rows were labelled by the other tokens, `rows`: the same word, which is predicted one row before it is read;
 * '' if that row does not exist.
 */
export function sameWord(token, rows) {
  if (!token.startsWith('r')) return token;
  const row = Number(token.slice(1)) + (rows === 'predicts' ? -1 : 1);
  return row < 0 ? '' : `r${row}`;
}

/** The tokens that label the rows. In a plain text nothing is known to follow the last token: its label is '…'. */
function queryTokens(sample, kind, rows) {
  if (kind === 'encoder') return sample.source;
  if (rows === 'reads') return sample.reads;
  const {pieces, special} = sample.predicts;
  const lacking = sample.reads.pieces.length - pieces.length;
  return {pieces: [...pieces, ...Array(lacking).fill('…')], special: [...special, ...Array(lacking).fill(0)]};
}

/** The tokens that label the columns. */
function keyTokens(sample, kind) {
  return kind === 'decoder' ? sample.reads : sample.source;
}

/** One head, or the mean or maximum over heads, of [H,Q,K] -> Float32Array [Q,K]. Throws RangeError for a head that does not exist. */
export function chooseHead({numbers, shape: [heads, queries, keys]}, head) {
  const size = queries * keys;
  if (typeof head === 'number') {
    if (head >= heads) throw new RangeError(`no head ${head}: there are ${heads}, counted from 0`);
    return numbers.subarray(head * size, (head + 1) * size);
  }
  const chosen = new Float32Array(size);
  for (let h = 0; h < heads; h++) {
    const offset = h * size;
    if (head === 'max') for (let i = 0; i < size; i++) chosen[i] = Math.max(chosen[i], numbers[offset + i]);
    else for (let i = 0; i < size; i++) chosen[i] += numbers[offset + i] / heads;
  }
  return chosen;
}

/** Weights [H,Q,K] times value norms [H,K], rows renormalised: each key's fraction of the head's output (Kobayashi et al. 2020). */
export function weightByValues(weights, values) {
  const {numbers, shape} = weights;
  const [heads, queries, keys] = shape;
  const weighted = new Float32Array(numbers.length);
  for (let h = 0; h < heads; h++) {
    for (let q = 0; q < queries; q++) {
      const offset = (h * queries + q) * keys;
      let sum = 0;
      for (let k = 0; k < keys; k++) sum += weighted[offset + k] = numbers[offset + k] * values.numbers[h * keys + k];
      if (sum > 0) for (let k = 0; k < keys; k++) weighted[offset + k] /= sum;
    }
  }
  return {numbers: weighted, shape};
}

/**
 * The frame of a matrix [Q,K] (Float32Array). `meta` and `sampleIndex` name the recorded sample; `other` is a matrix over the same tokens
 * to subtract, or null.
 */
export function makeFrame(state, meta, sampleIndex, kind, matrix, other = null) {
  const sample = meta.samples[sampleIndex];
  const {rows, columns, tokens} = labelsOf(state, sample, kind);
  const [rowGroups, columnGroups] = [rows, columns].map((labels) => labels.map(({positions}) => positions));
  const width = tokens.columns.pieces.length;
  const pick = (numbers) => pooled(numbers, width, rowGroups, columnGroups, state.hide);
  const {weights, hidden} = pick(matrix);
  if (other) {
    const subtracted = pick(other).weights;
    for (let i = 0; i < weights.length; i++) weights[i] -= subtracted[i];
  }
  return {
    rows,
    columns,
    weights,
    hidden,
    difference: Boolean(other),
    weighted: state.values && state.head !== 'rollout',
    causal: kind === 'decoder',
    maximum: strongestColour(weights, rowGroups, columnGroups, kind === 'decoder'),
    kind,
    layer: state.layer,
    head: state.head,
    rowsNamed: rowsNamed(state, kind),
    name: mapName(state, kind, shapesOf(meta, sampleIndex)[kind], layerNumber(meta, kind, state.layer)),
    meta,
    sample,
    tokens,
  };
}

/** The labels of the rows and columns of all maps of a kind of a sample, and their tokens: {rows, columns, tokens: {rows, columns}}. */
export function labelsOf(state, sample, kind) {
  const tokens = {rows: queryTokens(sample, kind, rowsNamed(state, kind)), columns: keyTokens(sample, kind)};
  const labels = (side, hide) => groups(tokens[side], state, hide).map((group) => label(tokens[side], group));
  return {rows: labels('rows', false), columns: labels('columns', state.hide), tokens};
}

/** "cross-attention · layer 2 · head 0". */
function mapName(state, kind, {layers, heads}, layer) {
  if (state.head === 'rollout') return `${KIND_NAMES[kind]} · rollout over ${layers} layers`;
  const head = typeof state.head === 'number' ? `head ${state.head}` : `${state.head} of ${heads} heads`;
  return `${KIND_NAMES[kind]} · layer ${layer} · ${head}`;
}

function groups(tokens, state, hide) {
  const all = state.merge ? wordGroups(tokens) : tokens.pieces.map((_, position) => [position]);
  const kept = hide ? all.filter((group) => !group.every((position) => tokens.special[position])) : all;
  return kept.length ? kept : all;
}

function label(tokens, positions) {
  const text = readable(wordText(tokens.pieces, positions));
  return {text, special: positions.every((p) => tokens.special[p]), positions, language: languageOf(text)};
}

/**
 * Sums weights over the keys of a word and averages them over its queries; with `hide`, rows are renormalised over the columns left.
 * `matrix` [Q,K] row-major of `width` K, groups of positions -> {weights: Float32Array (rows x columns), hidden: Float32Array (rows) or
 * null}.
 */
export function pooled(matrix, width, rowGroups, columnGroups, hide) {
  const whole = rowGroups.length * columnGroups.length === matrix.length;
  if (whole && !hide) return {weights: matrix.slice(), hidden: null};
  const weights = new Float32Array(rowGroups.length * columnGroups.length);
  const hidden = hide ? new Float32Array(rowGroups.length) : null;
  rowGroups.forEach((rowGroup, row) => {
    const offset = row * columnGroups.length;
    let shown = 0;
    let all = 0;
    for (const query of rowGroup) {
      for (let key = 0; key < width; key++) all += matrix[query * width + key];
      columnGroups.forEach((columnGroup, column) => {
        for (const key of columnGroup) weights[offset + column] += matrix[query * width + key] / rowGroup.length;
      });
    }
    if (!hide) return;
    for (let column = 0; column < columnGroups.length; column++) shown += weights[offset + column];
    hidden[row] = all > 0 ? Math.max(0, 1 - shown / (all / rowGroup.length)) : 0;
    if (shown > 0) for (let column = 0; column < columnGroups.length; column++) weights[offset + column] /= shown;
  });
  return {weights, hidden};
}

/**
 * The largest absolute value for the colour scale of a map with groups of positions as rows and columns. In a causal map, rows that see a
 * single column are left out: their weight is always 1 and would make all others pale.
 */
export function strongestColour(weights, rows, columns, causal) {
  if (!causal) return largest(weights);
  const second = columns[1]?.[0] ?? Infinity;
  const free = rows.flatMap((positions, row) =>
    positions.at(-1) >= second ? [weights.subarray(row * columns.length, (row + 1) * columns.length)] : [],
  );
  return free.length ? free.reduce((most, row) => Math.max(most, largestIn(row)), 0) || 1 : largest(weights);
}

/** The largest absolute finite value; 1 for an empty map. */
function largest(weights) {
  return largestIn(weights) || 1;
}

function largestIn(weights) {
  let most = 0;
  for (const weight of weights) if (Math.abs(weight) > most && Number.isFinite(weight)) most = Math.abs(weight);
  return most;
}

/** Columns of a row by descending weight, none of weight 0: the first `top`, or as many as cover the fraction `mass` of the row. */
export function strongest(frame, row, {top = 3, mass = 0} = {}) {
  const width = frame.columns.length;
  const weights = frame.weights.subarray(row * width, (row + 1) * width);
  const order = Array.from(weights.keys())
    .filter((column) => weights[column]) // neither 0 nor NaN
    .sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]));
  if (!(mass > 0)) return order.slice(0, top);
  const total = order.reduce((sum, column) => sum + Math.abs(weights[column]), 0);
  const kept = [];
  let held = 0;
  for (const column of order) {
    if (held >= mass * total) break;
    kept.push(column);
    held += Math.abs(weights[column]);
  }
  return kept;
}
