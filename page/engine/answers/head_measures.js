/**
 * Measures of each head on a text, and the labels that follow from them: attention_maps/record/head_measures_and_labels.py. The first row of
 * a decoder's map is left out: its only key gets all the attention.
 */

import {rounded} from './numbers.js';

const BY_WEIGHT = [
  ['duplicate', 'duplicate token'],
  ['previous', 'previous token'],
  ['first', 'first token'],
  ['diagonal', 'diagonal'],
];

/** {measure: {kind: [per layer [per head]]}}. layers: by kind, tensors {numbers, shape: [H, Q, K]}; special: by kind, the marks of the keys. */
export function headMeasures(layers, special) {
  const measures = {};
  for (const [kind, tensors] of Object.entries(layers)) {
    const [, queries] = tensors[0].shape;
    if (kind === 'decoder' && queries < 2) continue;
    const measured = tensors.map(({numbers, shape: [heads]}) =>
      Array.from({length: heads}, (_, head) => measuresOf(numbers, head, tensors[0].shape, kind, special[kind])),
    );
    for (const name of Object.keys(measured[0][0])) {
      measures[name] ??= {};
      measures[name][kind] = measured.map((heads) => heads.map((head) => rounded(head[name], 5)));
    }
  }
  return measures;
}

/** {measure: value} of the map of a head: means over its rows. */
function measuresOf(numbers, head, [, queries, keys], kind, special) {
  const start = kind === 'decoder' ? 1 : 0;
  const sums = {entropy: 0, uniform: 0, first: 0, special: 0, diagonal: 0, previous: 0};
  const covered = new Set();
  for (let query = start; query < queries; query++) {
    const row = (head * queries + query) * keys;
    let best = 0;
    for (let key = 0; key < keys; key++) {
      const weight = numbers[row + key];
      if (weight > 0) sums.entropy -= weight * Math.log(weight);
      if (special[key]) sums.special += weight;
      if (weight > numbers[row + best]) best = key;
    }
    if (!special[best]) covered.add(best);
    sums.uniform += Math.log(kind === 'decoder' ? query + 1 : keys);
    sums.first += numbers[row];
    sums.diagonal += query < keys ? numbers[row + query] : 0;
    sums.previous += query > 0 && query <= keys ? numbers[row + query - 1] : 0;
  }
  const rows = queries - start;
  const entropy = sums.entropy / rows;
  const spread = entropy / Math.max(sums.uniform / rows, 1e-9);
  const shared = {entropy, spread, first: sums.first / rows, special: sums.special / rows};
  if (kind === 'cross') return {...shared, coverage: covered.size / Math.max(special.filter((mark) => !mark).length, 1)};
  const before = queries - 1; // rows with a key before them, if any
  return {...shared, diagonal: sums.diagonal / rows, previous: before ? sums.previous / before : 0};
}

/** {kind: [per layer [label of each head]]}: the first two names that hold; '' if none does. */
export function headLabels(measures) {
  const labels = {};
  for (const [kind, layers] of Object.entries(measures.entropy ?? {})) {
    const known = Object.entries(measures).filter(([, kinds]) => kind in kinds);
    const head = (layer, number) => Object.fromEntries(known.map(([name, kinds]) => [name, kinds[kind][layer][number]]));
    labels[kind] = layers.map((heads, layer) => heads.map((_, number) => namesOf(head(layer, number)).slice(0, 2).join(', ')));
  }
  return labels;
}

/** What a head does, without gold labels: low entropy and high coverage make an alignment. */
function namesOf(head) {
  const names = (head.coverage ?? 0) >= 0.5 && head.spread <= 0.5 && head.special <= 0.3 ? ['alignment'] : [];
  names.push(...BY_WEIGHT.filter(([measure]) => (head[measure] ?? 0) >= 0.5).map(([, label]) => label));
  return names.length || head.spread < 0.8 ? names : ['broad'];
}
