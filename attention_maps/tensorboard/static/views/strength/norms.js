/** Activation strength: the L2 norm of the output of each head at each token. */

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

/** The order of rows: text order, or descending `value(strength)`. */
export function ordered(rows, value, sort) {
  const order = [...rows.keys()];
  return sort === 'strength' ? order.sort((a, b) => value(rows[b]) - value(rows[a]) || a - b) : order;
}

/** Round numbers from 0 up to `most`, about five of them, for an axis. */
export function ticksTo(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  return Array.from({length: Math.floor(most / step + 1e-9) + 1}, (_, i) => Number((i * step).toPrecision(3)));
}
