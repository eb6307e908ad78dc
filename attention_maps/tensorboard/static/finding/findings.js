/** The findings of the texts that are shown, and the state that they complete. */

import {labelsOf, rowsNamed, shapesOf} from '../core/frame.js';
import {fitting, sameTokens} from '../core/load_frame.js';
import {stepOf} from '../core/recordings.js';
import {Unavailable} from '../core/unavailable.js';
import {findingOf} from './finding.js';

/**
 * {complete(state, fitted, meta), forget()}. `complete` is a promise of {finding, wanted}: the finding (finding.js) of the sample and kind of
 * `fitted`, which is `state` clamped to the recording of `meta`, with the `recording` and `step` from which it is; null if there is none; and
 * the state as it is drawn, in which the finding stands for what `state` does not name.
 *
 * All steps of a run have the finding of the newest one, if it has the same text: a head that is born during the training is shown from step
 * 0 on. It stays until `forget`, while new steps are recorded.
 */
export function createFindings(source, recordings, curves) {
  const known = new Map(); // sample and kind -> promise

  function of(fitted, meta) {
    const {run, recording, sample, kind} = fitted;
    const {reads, source: text} = meta.samples[sample];
    const key = JSON.stringify([run, stepOf(recording) === null && recording, sample, kind, reads.ids, text?.ids]);
    if (!known.has(key)) {
      const reading = read(fitted, meta);
      known.set(key, reading);
      reading.then((finding) => finding || known.delete(key), () => known.delete(key));
    }
    return known.get(key);
  }

  async function read({run, recording, sample, kind}, meta) {
    const newest = stepOf(recording) === null ? recording : (recordings.steps(run).at(-1) ?? recording);
    for (const from of new Set([newest, recording])) {
      try {
        const there = from === recording ? meta : await source.meta(run, from);
        const number = sameTokens(meta.samples[sample], there, sample);
        if (number < 0 || !shapesOf(there, number)[kind]) continue;
        const finding = await findingOf(source, {run, recording: from, sample: number, kind}, there, () => curves.read(run));
        return finding && {...finding, recording: from, step: there.step};
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error; // the page says so where it draws what cannot be read
      }
    }
    return null;
  }

  async function complete(state, fitted, meta) {
    const finding = await of(fitted, meta);
    return {finding, wanted: completed(state, fitted, finding, meta)};
  }

  return {complete, forget: () => known.clear()};
}

/** `fitted` with a finding for what `state` does not name; without a finding, it keeps its defaults. */
function completed(state, fitted, finding, meta) {
  if (!finding) return {...fitted, token: state.token ?? ''};
  const {kind} = fitted;
  const isFree = state.layer < 0 && state.head === '';
  const isItsLayer = state.head === '' && fitted.layer === finding.layer;
  const {layer, head} = isFree || isItsLayer ? finding : fitted;
  const usual = rowsNamed({rows: ''}, kind);
  const rows = state.rows || (state.token === null && finding.rows !== usual ? finding.rows : '');
  const given = fitting({...fitted, layer, head, rows, measure: state.measure || finding.measure}, meta);
  return state.token === null ? {...given, ...wordsOf(given, finding, meta)} : given;
}

/** {token, partner}: the two words of a finding among the rows and columns of a fitted state; a partner that it names stays. */
function wordsOf(fitted, {query, key}, meta) {
  const {rows, columns} = labelsOf(fitted, meta.samples[fitted.sample], fitted.kind);
  const place = (labels, position) => labels.findIndex(({positions}) => positions.includes(position));
  const row = place(rows, query[rowsNamed(fitted, fitted.kind)]);
  const column = place(columns, key);
  return {token: row < 0 ? '' : `r${row}`, partner: fitted.partner || (column < 0 ? '' : `c${column}`)};
}
