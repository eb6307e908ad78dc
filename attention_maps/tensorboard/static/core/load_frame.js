/** From a UI state to its frame: which tensors are read, and what is subtracted in a comparison. */

import {chooseHead, kindsOf, makeFrame, shapesOf, weightByValues} from './frame.js';
import {stepName, stepOf} from './recordings.js';
import {Unavailable} from './unavailable.js';

/** A recording with scores and measures in `meta`, but without examples. */
export class NoExamples extends Unavailable {
  constructor(meta) {
    super('it contains no examples, only measures of heads; train with attention.examples or attention.probes to record some');
    this.meta = meta;
  }
}

/**
 * The state clamped to a recording: sample, kind, layer and head, or the nearest that exist (another run may be smaller). Without a finding,
 * the default layer is the second-to-last, as in the Images tab and in `show`: its mean over heads aligns best (Garg et al. 2019). Throws
 * NoExamples if the recording has no examples.
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
  const layer = state.layer < 0 ? Math.max(layers - 2, 0) : Math.min(Math.trunc(state.layer), layers - 1);
  return {...state, sample, kind, layer, head};
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

/** The matrix [Q,K] that a fitted state names. */
export async function loadMatrix(source, state) {
  const place = [state.run, state.recording, state.sample, state.kind];
  if (state.head === 'rollout') return (await source.tensor(...place, '', 'rollout')).numbers;
  return chooseHead(await loadLayer(source, state), state.head);
}

/** All heads of the layer that a fitted state names: {numbers, shape: [H,Q,K]}, weighted by value norms if it says so. */
export async function loadLayer(source, state) {
  const place = [state.run, state.recording, state.sample, state.kind, state.layer];
  const weights = await source.tensor(...place);
  if (!state.values) return weights;
  const values = await source.tensor(...place, 'values').catch((error) => {
    if (error instanceof Unavailable) throw new Unavailable('this recording has no value norms (another model, or an older version)');
    throw error;
  });
  return weightByValues(weights, values);
}

/** "step:step_00001000" or "run:name" -> {run, recording}; of another run, the step nearest to that of the model whose maps are shown. */
export async function otherPlace(source, state) {
  const separator = state.against.indexOf(':');
  const [what, name] = [state.against.slice(0, separator), state.against.slice(separator + 1)];
  if (what === 'step') return {run: state.run, recording: name};
  const steps = (source.listed ?? (await source.index())).runs[name]?.steps ?? [];
  if (!steps.length) throw new Unavailable(`run ${name} has no recorded steps`);
  const here = stepOf(state.recording) ?? (await source.meta(state.run, state.recording)).step;
  const nearest = steps.reduce((best, step) => (Math.abs(step - here) < Math.abs(best - here) ? step : best));
  return {run: name, recording: stepName(nearest)};
}

async function loadOther(source, state, meta) {
  const {there, layers, heads} = await otherSide(source, state, meta);
  if (state.layer >= layers || (typeof state.head === 'number' && state.head >= heads)) {
    throw new Unavailable(`the other recording has ${layers} layers of ${heads} heads: no layer ${state.layer}, head ${state.head}`);
  }
  return loadMatrix(source, there);
}

/** What a fitted state is compared with: {there: the state of that side, layers, heads}. Throws Unavailable if nothing can be compared. */
export async function otherSide(source, state, meta) {
  const place = await otherPlace(source, state);
  const otherMeta = await source.meta(place.run, place.recording);
  const sample = sameTokens(meta.samples[state.sample], otherMeta, state.sample);
  if (sample < 0) {
    throw new Unavailable(
      'the other recording has no example with the same tokens, so nothing can be subtracted. ' +
        'A probe without a given translation shows the output of the model at that step: choose another example',
    );
  }
  const {layers, heads} = shapesOf(otherMeta, sample)[state.kind] ?? {layers: 0, heads: 0};
  return {there: {...state, ...place, sample, against: ''}, layers, heads};
}

/** The index of the sample of `meta` with the same pieces, source and target; the same `number` is tried first. -1 if none. */
export function sameTokens(sample, meta, number) {
  const text = (one) => JSON.stringify([one.reads.pieces, one.source?.pieces ?? null]);
  const wanted = text(sample);
  if (meta.samples[number] && text(meta.samples[number]) === wanted) return number;
  return meta.samples.findIndex((candidate) => text(candidate) === wanted);
}
