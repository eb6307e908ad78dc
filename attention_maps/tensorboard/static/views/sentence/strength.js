/** Activation strength: the L2 norm of the output of each head at each token. */

import {element} from '../../dom/elements.js';

const MOST = 16; // heads in the list

/**
 * Per row of a frame {heads: [strength of every head], all, mean}, out of norms {numbers, shape: [H,Q]}. `all`: all heads together, the
 * root of the sum of squares, because head outputs are concatenated before the output projection. A word's strength is the mean over its
 * pieces.
 */
export function strengths(frame, {numbers, shape: [heads, queries]}) {
  const of = (position) => Array.from({length: heads}, (_, head) => numbers[head * queries + position]);
  return frame.rows.map(({positions}) => {
    const pieces = positions.map(of);
    const average = (value) => pieces.reduce((sum, piece) => sum + value(piece), 0) / pieces.length;
    return {
      heads: Array.from({length: heads}, (_, head) => average((piece) => piece[head])),
      all: average((piece) => Math.hypot(...piece)),
      mean: average((piece) => piece.reduce((sum, norm) => sum + norm, 0) / heads),
    };
  });
}

/** The strength of the selected head; of all heads together if none is selected. */
export function selectedStrength({heads, all}, head) {
  return heads[head] ?? all;
}

/** The nodes of the panel: all heads together, their mean, and every head; `select(head)` is called for a click. */
export function strengthNodes({heads, all, mean}, selected, palette, select) {
  const bar = (name, value, colour) =>
    element(
      'li',
      {},
      element('span', {class: 'bar-text'}, name),
      element('span', {class: 'bar-room'}, element('span', {class: 'bar', style: `width: ${(100 * value) / all || 0}%; background: ${colour}`})),
      element('span', {class: 'bar-number'}, value.toFixed(2)),
    );
  const button = (head) =>
    element('button', {type: 'button', class: 'link', 'aria-pressed': String(head === selected), onclick: () => select(head)}, `head ${head}`);
  return [
    element('h4', {}, 'strength of the output here'),
    element(
      'ol',
      {class: 'bars strengths'},
      bar(`all ${heads.length} together`, all, 'var(--view-muted)'),
      bar('mean of them', mean, 'var(--view-muted)'),
      heads.slice(0, MOST).map((value, head) => bar(button(head), value, palette.head(head))),
    ),
    heads.length > MOST && element('p', {class: 'muted'}, `and ${heads.length - MOST} more heads`),
  ].filter(Boolean);
}
