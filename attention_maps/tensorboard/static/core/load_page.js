/** What a page needs to be drawn: the frame that was asked for, or the nearest that can be had, and all maps of the overview. */

import {shapesOf} from './frame.js';
import {fitting, Incomparable, loadFrame, loadLayer, loadMatrix, otherPlace, otherSide} from './load_frame.js';
import {SourceError} from './source.js';

/** Recordings of older versions, by their meta: they hold no rollout, and need not be asked again. */
const withoutRollout = new WeakSet();

/**
 * {meta, fitted, frame, problem, compared}: `fitted` is the state as it is drawn, `problem` says what of it had to be given up and why, and
 * `compared` names both sides {a, b: {run, recording}} of a difference, else null. Raises SourceError where nothing can be drawn.
 */
export async function load(source, state) {
  const meta = await source.meta(state.run, state.recording);
  const wanted = fitting(state, meta);
  let problem = '';
  for (const given of [wanted, ...lesser(wanted)]) {
    try {
      const frame = await loadFrame(source, given);
      const sides = given.against ? {a: {run: given.run, recording: given.recording}, b: await otherPlace(source, given)} : null;
      return {meta, fitted: given, frame, problem, compared: sides};
    } catch (error) {
      if (!isTold(error)) throw error;
      problem ||= error.message;
    }
  }
  throw new SourceError(problem);
}

/** Errors whose message is written for people. */
export function isTold(error) {
  return error instanceof SourceError || error instanceof Incomparable;
}

/** What can be drawn where a state cannot: without the comparison, without value norms, without the rollout, without all of these. */
function lesser(state) {
  const head = state.head === 'rollout' ? 'mean' : state.head;
  const candidates = [
    {...state, against: ''},
    {...state, values: false},
    {...state, head},
    {...state, against: '', values: false, head},
  ];
  return candidates.filter((candidate) => JSON.stringify(candidate) !== JSON.stringify(state));
}

/** All maps of a fitting state's kind: {layers: [{numbers, shape}], rollout: numbers or null, others: those of the other side or null}. */
export async function loadOverview(source, state, meta) {
  const {layers} = shapesOf(meta, state.sample)[state.kind];
  const mine = await allMaps(source, state, layers, meta);
  if (!state.against) return {...mine, others: null};
  const other = await otherSide(source, state, meta);
  const otherMeta = await source.meta(other.there.run, other.there.recording);
  return {...mine, others: await allMaps(source, other.there, Math.min(layers, other.layers), otherMeta)};
}

async function allMaps(source, state, count, meta) {
  const layers = Array.from({length: count}, (_, layer) => loadLayer(source, {...state, layer}));
  return {layers: await Promise.all(layers), rollout: await rolloutOf(source, state, meta)};
}

async function rolloutOf(source, state, meta) {
  if (state.kind === 'cross' || withoutRollout.has(meta)) return null;
  try {
    return await loadMatrix(source, {...state, head: 'rollout'});
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    withoutRollout.add(meta);
    return null;
  }
}
