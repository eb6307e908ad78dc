/** Axes of a line chart: scales, ticks at round numbers, grid lines. All lengths are CSS pixels. */

import {widthOf} from '../../draw/axis_labels.js';

const SIZE = 11;

/** Linear scales for values in [low, high] over steps in [first, last]: {x(step), y(value), stepAt(x), box}. */
export function scales({width, height}, {first, last, low, high}, right) {
  const spread = high - low || Math.abs(high) || 1;
  const ticks = roundTicks(low, low === high ? low + spread : high, Math.max(2, Math.floor(height / 56)));
  const [bottom, top] = [Math.min(low, ticks[0]), Math.max(high, ticks.at(-1))];
  const left = Math.max(...ticks.map((tick) => widthOf(tickText(tick, ticks), SIZE))) + 16;
  const box = {left, top: 34, width: Math.max(20, width - left - right), height: Math.max(20, height - 34 - 40)};
  const duration = last - first || 1;
  return {
    box,
    ticks,
    steps: roundTicks(first, last, Math.max(2, Math.floor(box.width / 90))).filter(
      (step) => step >= first && step <= last && Number.isInteger(step),
    ),
    x: (step) => box.left + (last === first ? 0.5 : (step - first) / duration) * box.width,
    y: (value) => box.top + (1 - (value - bottom) / (top - bottom)) * box.height,
    stepAt: (x) => first + ((x - box.left) / box.width) * duration,
  };
}

/** Draw grid lines, tick labels and titles of both axes. */
export function drawAxes(pen, {box, ticks, steps, x, y}, inks, {vertical, horizontal}) {
  const bottom = box.top + box.height;
  for (const tick of ticks) {
    pen.path(
      [
        [box.left, y(tick)],
        [box.left + box.width, y(tick)],
      ],
      {stroke: inks.line, width: 1},
    );
    pen.text(box.left - 7, y(tick), tickText(tick, ticks), {size: SIZE, fill: inks.muted, anchor: 'end'});
  }
  for (const step of steps) {
    pen.path(
      [
        [x(step), bottom],
        [x(step), bottom + 4],
      ],
      {stroke: inks.muted, width: 1},
    );
    pen.text(x(step), bottom + 14, step.toLocaleString('en'), {size: SIZE, fill: inks.muted, anchor: 'middle'});
  }
  pen.text(8, 10, vertical, {size: 12, fill: inks.ink});
  pen.text(box.left + box.width / 2, bottom + 31, horizontal, {size: 12, fill: inks.muted, anchor: 'middle'});
}

/** Ticks at 1, 2 or 5 times a power of ten that cover [low, high], about `count` of them. */
function roundTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const stride = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const from = Math.floor(low / stride + 1e-9);
  const to = Math.ceil(high / stride - 1e-9);
  return Array.from({length: to - from + 1}, (_, i) => (from + i) * stride);
}

function tickText(tick, ticks) {
  const stride = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  return tick.toFixed(Math.max(0, -Math.floor(Math.log10(stride) + 1e-9))).replace('-', '−');
}
