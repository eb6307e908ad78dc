/** Selects the lines to draw: the strongest of every row, never all of them. */

import {strongest} from '../../core/frame.js';

/** More lines are unreadable and slow. */
export const LIMIT = 4000;

/**
 * The lines of several frames over the same tokens: {lines: [{row, column, weight, of}] by ascending weight, all}; `of` is the index of the
 * frame, `all` the number of lines without the limit. `rule` holds `top` and `mass` for `strongest`.
 */
export function strongestLines(frames, rule) {
  return limited(frames.flatMap((frame, of) => frame.rows.flatMap((_, row) => ofRow(frame, row, rule, of))));
}

/** The lines of one token, {side, index}; for a key also those of the rows that attend to it most, however small their weight. */
export function linesOfToken({side, index}, overview, frames, rule) {
  if (side === 'row') return limited(frames.flatMap((frame, of) => ofRow(frame, index, rule, of)));
  const met = overview.lines.filter(({column}) => column === index);
  const known = new Set(met.map(({row, of}) => `${row} ${of}`));
  const more = frames.flatMap((frame, of) => ofColumn(frame, index, rule, of)).filter(({row, of}) => !known.has(`${row} ${of}`));
  return limited([...met, ...more]);
}

function limited(lines) {
  lines.sort((a, b) => Math.abs(a.weight) - Math.abs(b.weight));
  return {lines: lines.slice(-LIMIT), all: lines.length};
}

function ofRow(frame, row, rule, of) {
  const width = frame.columns.length;
  return strongest(frame, row, rule).map((column) => ({row, column, weight: frame.weights[row * width + column], of}));
}

function ofColumn(frame, column, {top}, of) {
  const width = frame.columns.length;
  const lines = frame.rows.map((_, row) => ({row, column, weight: frame.weights[row * width + column], of}));
  return lines
    .filter(({weight}) => weight) // neither 0 nor NaN
    .sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight))
    .slice(0, top);
}
