/** Which lines the lines view draws: the few strongest of every row, never all of them. */

import {strongest} from '../../core/frame.js';

/** More lines than this are neither readable nor quick. */
export const MOST = 4000;

/**
 * The lines of several frames over the same tokens: {threads: [{row, column, weight, of}] in rising order of weight, all}; `of` is the
 * number of the frame, `all` how many there would be without the limit. `rule` holds `top` and `mass` as `strongest` takes
 * them.
 */
export function threadsOf(frames, rule) {
  return limited(frames.flatMap((frame, of) => frame.rows.flatMap((_, row) => ofRow(frame, row, rule, of))));
}

/** Of these only the lines of one token, {side, index}; of a key also the rows that look at it most: nobody may look at it much. */
export function threadsAt({side, index}, overview, frames, rule) {
  if (side === 'row') return limited(frames.flatMap((frame, of) => ofRow(frame, index, rule, of)));
  const met = overview.threads.filter(({column}) => column === index);
  const known = new Set(met.map(({row, of}) => `${row} ${of}`));
  const more = frames.flatMap((frame, of) => ofColumn(frame, index, rule, of)).filter(({row, of}) => !known.has(`${row} ${of}`));
  return limited([...met, ...more]);
}

function limited(threads) {
  threads.sort((a, b) => Math.abs(a.weight) - Math.abs(b.weight));
  return {threads: threads.slice(-MOST), all: threads.length};
}

function ofRow(frame, row, rule, of) {
  const width = frame.columns.length;
  return strongest(frame, row, rule).map((column) => ({row, column, weight: frame.weights[row * width + column], of}));
}

function ofColumn(frame, column, {top}, of) {
  const width = frame.columns.length;
  const threads = frame.rows.map((_, row) => ({row, column, weight: frame.weights[row * width + column], of}));
  return threads
    .filter(({weight}) => weight) // neither 0 nor NaN
    .sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight))
    .slice(0, top);
}
