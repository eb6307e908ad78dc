/** Drawing of the story: the scale of the steps, the loss, and the band of a head. All lengths are CSS pixels. */

import {drawAxes, scales} from '../curves/axes.js';

const SHORT = {encoder: 'encoder ', decoder: 'decoder ', cross: 'cross '};
const END = 5; // width of the last step, which nothing follows

/** "layer 0 · head 1", with the kind if a model has several. */
export function nameOf({kind, layer, number = layer, head}, named = false) {
  return `${named ? SHORT[kind] : ''}layer ${number} · head ${head}`;
}

/** {x(step), indexAt(x), edges, left, width, ticks}: logarithmic, with room for step 0, or even. */
export function stepScale(steps, spacing, {left, width}) {
  const last = steps.at(-1) || 1;
  const share = spacing === 'log' ? (step) => Math.log1p(step) / Math.log1p(last) : (step) => step / last;
  const x = (step) => left + share(step) * (width - END);
  const powers = [0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6].filter((step) => step <= last);
  const even = scales({width, height: 200}, {first: 0, last, low: 0, high: 1}, 0).steps;
  const indexAt = (place) => {
    const next = steps.findIndex((step) => x(step) > place);
    return next < 0 ? steps.length - 1 : Math.max(next - 1, 0);
  };
  const edges = [...steps.map(x), left + width]; // of the bands
  return {x, indexAt, edges, left, width, ticks: spacing === 'log' ? powers : even};
}

/** "In 2,012 steps the loss of the recorded examples fell from 6.81 to 0.52 nats."; '' if no loss is recorded. */
export function lossText({steps, loss = []}) {
  const known = loss.filter(Number.isFinite);
  if (known.length < 2) return '';
  const [first, last] = [known[0], known.at(-1)];
  const moved = last < first ? 'fell' : 'rose';
  const course = `${moved} from ${first.toFixed(2)} to ${last.toFixed(2)} nats`;
  const count = steps.at(-1);
  return `In ${count.toLocaleString('en')} ${count === 1 ? 'step' : 'steps'} the loss of the recorded examples ${course}.`;
}

/** The chart of the loss, `height` high, above the bands. */
export function drawLoss(pen, {steps, loss = []}, scale, inks, height) {
  const known = loss.filter(Number.isFinite);
  const [low, high] = known.length ? [Math.min(0, ...known), Math.max(...known)] : [0, 1];
  const chart = scales({width: scale.width + scale.left, height}, {first: steps[0], last: steps.at(-1), low, high}, 0);
  const box = {...chart.box, left: scale.left, width: scale.width};
  const axes = {...chart, box, x: scale.x, steps: scale.ticks, ...(known.length ? {} : {ticks: []})};
  const vertical = known.length ? 'loss of the recorded examples [nats per token]' : 'no loss is recorded';
  drawAxes(pen, axes, inks, {vertical, horizontal: 'training step'});
  const points = loss.flatMap((value, i) => (Number.isFinite(value) ? [[scale.x(steps[i]), chart.y(value)]] : []));
  if (points.length > 1) pen.path(points, {stroke: inks.accent, width: 2});
  for (const [x, y] of points) pen.circle(x, y, 2, {fill: inks.accent});
}

/**
 * The band of a head at (left, top): a rectangle from each recorded step to the next, divided if the head does two things, and a mark at the
 * birth of each that it does at the end.
 */
export function drawBand(pen, {labels, roles}, {scale, left, top, height, palette, inks}) {
  pen.rect(left + scale.edges[0], top, scale.edges.at(-1) - scale.edges[0], height, {fill: inks.paper});
  labels.forEach((names, i) => {
    const [from, to] = [scale.edges[i], scale.edges[i + 1]];
    if (to <= from) return;
    if (!names.length) pen.rect(left + from, top, to - from, height, {fill: inks.line, alpha: 0.35});
    const part = height / names.length;
    names.forEach(({name, strength}, place) => {
      const alpha = name === 'broad' ? uniformAlpha(palette) : 0.25 + 0.75 * (Number.isFinite(strength) ? strength : 0.7);
      pen.rect(left + from, top + place * part, to - from, part, {fill: palette.label(name), alpha});
    });
  });
  const part = height / roles.length;
  roles.forEach(({birth}, place) => {
    if (birth > 0) pen.rect(left + scale.edges[birth] - 1.5, top + place * part, 3, part, {fill: inks.ink});
  });
}

/** Uniform attention, with which every head begins, is pale: on a dark page it would be the brightest of all. */
export function uniformAlpha({dark}) {
  return dark ? 0.28 : 0.8;
}
