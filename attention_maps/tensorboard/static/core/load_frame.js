/** From a state to the frame that it asks for: which tensors are read, and what is compared with what. */

import {chooseHead, kindsOf, makeFrame, shapesOf, weighByValues} from './frame.js';
import {SourceError} from './source.js';

/** A comparison that cannot be made; the message says why. */
export class Incomparable extends Error {}

/** A recording of scores and measures alone, in `meta`. */
export class NoExamples extends SourceError {
  constructor(meta) {
    super('it holds no examples, only what was measured of heads; attention.samples and attention.probes of a training record some');
    this.meta = meta;
  }
}

/**
 * The state with everything in range for a recording: sample, kind, layer and head that are there, the nearest ones otherwise (another
 * run may be smaller), the telling layer where none is chosen. Raises NoExamples where there is nothing to choose from.
 */
export function fitting(state, meta) {
  if (!meta.samples.length) throw new NoExamples(meta);
  const sample = Math.min(Math.max(Math.trunc(state.sample), 0), meta.samples.length - 1);
  const kinds = kindsOf(meta, sample);
  const kind = kinds.includes(state.kind) ? state.kind : kinds[0];
  const {layers, heads} = shapesOf(meta, sample)[kind];
  let head = state.head;
  if (typeof head === 'number') head = Math.min(Math.max(Math.trunc(head), 0), heads - 1);
  else if (!['mean', 'max', 'rollout'].includes(head) || (head === 'rollout' && kind === 'cross')) head = 'mean';
  const layer = state.layer < 0 ? tellingLayer(kind, layers) : Math.min(Math.trunc(state.layer), layers - 1);
  return {...state, sample, kind, layer, head};
}

/** The mean over heads of the last layer but one aligns best without supervision (Garg et al. 2019). */
function tellingLayer(kind, layers) {
  return kind === 'cross' ? Math.max(layers - 2, 0) : 0;
}

/** The frame of `state` changed by `overrides`, e.g. {head: 3} or {recording: 'step_00000100'}. */
export async function loadFrame(source, state, overrides = {}) {
  const wanted = {...state, ...overrides};
  const meta = await source.meta(wanted.run, wanted.recording);
  const fitted = fitting(wanted, meta);
  const matrix = await loadMatrix(source, fitted);
  const other = fitted.against ? await loadOther(source, fitted, meta) : null;
  return makeFrame(fitted, meta, fitted.sample, fitted.kind, matrix, other);
}

/** The matrix [Q,K] that a fitting state names. */
export async function loadMatrix(source, state) {
  const place = [state.run, state.recording, state.sample, state.kind];
  if (state.head === 'rollout') return (await source.tensor(...place, '', 'rollout')).numbers;
  return chooseHead(await loadLayer(source, state), state.head);
}

/** All heads of the layer that a fitting state names: {numbers, shape: [H,Q,K]}, weighed by value norms where it asks for that. */
export async function loadLayer(source, state) {
  const place = [state.run, state.recording, state.sample, state.kind, state.layer];
  const weights = await source.tensor(...place);
  if (!state.values) return weights;
  const values = await source.tensor(...place, 'values').catch((error) => {
    if (error instanceof SourceError) throw new SourceError('this recording holds no value norms: it was made by an older version');
    throw error;
  });
  return weighByValues(weights, values);
}

/** "step:step_00001000" or "run:name" -> {run, recording}; a run is compared at its recorded step nearest to the state's. */
export async function otherPlace(source, state) {
  const separator = state.against.indexOf(':');
  const [what, name] = [state.against.slice(0, separator), state.against.slice(separator + 1)];
  if (what === 'step') return {run: state.run, recording: name};
  const steps = (source.listed ?? (await source.index())).runs[name]?.steps ?? [];
  if (!steps.length) throw new Incomparable(`run ${name} has no recorded step`);
  const here = stepOf(state.recording) ?? Infinity;
  const nearest = steps.reduce((best, step) => (Math.abs(step - here) < Math.abs(best - here) ? step : best));
  return {run: name, recording: stepName(nearest)};
}

async function loadOther(source, state, meta) {
  const {there, layers, heads} = await otherSide(source, state, meta);
  if (state.layer >= layers || (typeof state.head === 'number' && state.head >= heads)) {
    throw new Incomparable(`the other recording has ${layers} layers of ${heads} heads: no layer ${state.layer}, head ${state.head}`);
  }
  return loadMatrix(source, there);
}

/** What a fitting state is compared with: {there: the state of that side, layers, heads}. Raises Incomparable. */
export async function otherSide(source, state, meta) {
  const place = await otherPlace(source, state);
  const otherMeta = await source.meta(place.run, place.recording);
  const sample = sameTokens(meta.samples[state.sample], otherMeta, state.sample);
  if (sample < 0) {
    throw new Incomparable(
      'the other recording has no example with the tokens of this one: nothing can be subtracted. ' +
        'A probe without a translation shows the one that the model makes at that step; choose another example',
    );
  }
  const {layers, heads} = shapesOf(otherMeta, sample)[state.kind] ?? {layers: 0, heads: 0};
  return {there: {...state, ...place, sample, against: ''}, layers, heads};
}

/** The sample of `meta` with the same pieces on every side: first the one of the same number, then any. -1 if none. */
export function sameTokens(sample, meta, number) {
  const text = (one) => JSON.stringify([one.reads.pieces, one.source?.pieces ?? null]);
  const wanted = text(sample);
  if (meta.samples[number] && text(meta.samples[number]) === wanted) return number;
  return meta.samples.findIndex((candidate) => text(candidate) === wanted);
}

/** step_00001000 -> 1000; null for a recording that is no training step. */
export function stepOf(recording) {
  const match = /^step_(\d+)$/.exec(recording);
  return match ? Number(match[1]) : null;
}

/** 1000 -> step_00001000. */
export function stepName(step) {
  return `step_${String(step).padStart(8, '0')}`;
}

/** 3 -> generated_00003. */
export function generatedName(number) {
  return `generated_${String(number).padStart(5, '0')}`;
}
