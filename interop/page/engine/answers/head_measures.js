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

/** {measure: {kind: [per layer [per head]]}} of a text: `layers` by kind are tensors {numbers, shape: [H, Q, K]}, `special` the marks of its keys. */
export function headMeasures(layers, special) {
  const measures = {};
  for (const [kind, tensors] of Object.entries(layers)) {
    const measured = tensors.map((tensor) => measuresOf(tensor, kind, special[kind]));
    for (const name of Object.keys(measured[0])) {
      measures[name] ??= {};
      measures[name][kind] = measured.map((layer) => layer[name].map((head) => rounded(head, 5)));
    }
  }
  return measures;
}

/** {measure: [per head]} of the maps of a layer; empty if no row has more than one key. */
function measuresOf({numbers, shape: [heads, queries, keys]}, kind, special) {
  const first = kind === 'decoder' ? 1 : 0;
  const rows = Array.from({length: queries - first}, (_, row) => first + row);
  if (rows.length < 1) return {};
  const marked = places(special, true);
  const plain = places(special, false);
  const uniform = Math.max(mean(rows.map((row) => Math.log(kind === 'decoder' ? row + 1 : keys))), 1e-9);
  const ofHeads = (measure) => Array.from({length: heads}, (_, head) => measure((row, key) => numbers[(head * queries + row) * keys + key]));
  const mass = (chosen) => ofHeads((weight) => mean(rows.map((row) => sum(chosen.map((key) => weight(row, key))))));
  const beside = (offset) => {
    const inside = rows.filter((row) => row + offset >= 0 && row + offset < keys);
    return ofHeads((weight) => (inside.length ? mean(inside.map((row) => weight(row, row + offset))) : 0));
  };
  const all = [...special.keys()];
  const entropy = ofHeads((weight) => mean(rows.map((row) => -sum(all.map((key) => xLogX(weight(row, key)))))));
  const measures = {entropy, spread: entropy.map((head) => head / uniform), first: mass([0]), special: mass(marked)};
  if (kind !== 'cross') return {...measures, diagonal: beside(0), previous: beside(-1)};
  const coverage = ofHeads((weight) => {
    const best = new Set(rows.map((row) => all.reduce((most, key) => (weight(row, key) > weight(row, most) ? key : most), 0)));
    return plain.filter((key) => best.has(key)).length / Math.max(plain.length, 1);
  });
  return {...measures, coverage};
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

function places(marks, wanted) {
  return [...marks.keys()].filter((place) => Boolean(marks[place]) === wanted);
}

function xLogX(x) {
  return x > 0 ? x * Math.log(x) : 0;
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

function mean(numbers) {
  return sum(numbers) / numbers.length;
}
