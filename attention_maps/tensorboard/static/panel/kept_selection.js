/** The selected words in another text, so that a change of the example keeps them. */

import {labelsOf} from '../core/frame.js';
import {fitting} from '../core/load_frame.js';

/**
 * {token, partner} of the fitted state `state` in the example `sample` of its recording: the same word at the same place, or at the nearest
 * one. If the other text lacks it, or nothing is `named`, the word of the finding (null), unless the user has selected nothing ('').
 */
export function selectionIn(state, meta, sample, named) {
  if (!named) return {token: named, partner: ''};
  const before = labelsOf(state, meta.samples[state.sample], state.kind);
  const there = fitting({...state, sample}, meta);
  const after = labelsOf(there, meta.samples[there.sample], there.kind);
  const kept = (token) => {
    const side = token.startsWith('r') ? 'rows' : 'columns';
    const place = Number(token.slice(1));
    const text = before[side][place]?.text;
    const same = after[side].flatMap((label, at) => (token && label.text === text ? [at] : []));
    if (!same.length) return '';
    return token[0] + same.reduce((best, at) => (Math.abs(at - place) < Math.abs(best - place) ? at : best));
  };
  const token = kept(state.token);
  return token ? {token, partner: kept(state.partner)} : {token: null, partner: ''};
}
