/** What the page draws: the requested frame, or the closest available one, and all maps of the overview. */

import {shapesOf} from './frame.js';
import {fitting, loadFrame, loadLayer, loadMatrix, otherPlace, otherSide} from './load_frame.js';
import {Unavailable} from './unavailable.js';

/** The `meta` of recordings without a rollout (of older versions), so that it is not requested again. */
const withoutRollout = new WeakSet();

/**
 * {meta, fitted, finding, frame, problem, compared}: `fitted` is the state that is drawn, `problem` explains why it is not the requested one
 * ('' if it is), `compared` names both sides {a, b: {run, recording}} of a difference, else null. `findings` (finding/findings.js) complete
 * what `state` does not name; without them, the defaults do. Throws Unavailable if nothing can be drawn.
 */
export async function load(source, state, findings = null) {
  const meta = await source.meta(state.run, state.recording);
  const clamped = fitting(state, meta);
  const {finding, wanted} = (await findings?.complete(state, clamped, meta)) ?? {finding: null, wanted: clamped};
  let problem = '';
  for (const given of [wanted, ...fallbacks(wanted)]) {
    try {
      const frame = await loadFrame(source, given);
      const sides = given.against ? {a: {run: given.run, recording: given.recording}, b: await otherPlace(source, given)} : null;
      return {meta, fitted: given, finding, frame, problem, compared: sides};
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      problem ||= error.message;
    }
  }
  throw new Unavailable(problem);
}

/** What to try for a state that cannot be drawn: without the comparison, without value norms, without the rollout, without all three. */
function fallbacks(state) {
  const head = state.head === 'rollout' ? 'mean' : state.head;
  const candidates = [
    {...state, against: ''},
    {...state, values: false},
    {...state, head},
    {...state, against: '', values: false, head},
  ];
  return candidates.filter((candidate) => JSON.stringify(candidate) !== JSON.stringify(state));
}

/** All maps of a fitted state's kind: {layers: [{numbers, shape}], rollout: numbers or null, others: those of the other side or null}. */
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
    if (!(error instanceof Unavailable)) throw error;
    withoutRollout.add(meta);
    return null;
  }
}
