/** One drawing interface with two back ends, canvas and SVG. All lengths are CSS pixels. */

import {languageOf} from '../core/format.js';
import {svgElement} from '../dom/elements.js';
import {rgb} from './colours.js';

export const FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans CJK JP", "Hiragino Sans", "Yu Gothic", sans-serif';

const BASELINE = 0.36; // distance from the middle of a letter to the baseline, relative to the font size

/** [r, g, b] -> "#rrggbb", which all SVG programs understand. */
export function hex(colour) {
  return `#${colour.map((part) => Math.round(part).toString(16).padStart(2, '0')).join('')}`;
}

/** A colour "#rrggbb" of a head that is readable as text: mixed with white on a dark page, with black on a light one. */
export function asText(colour, dark) {
  return hex(rgb(colour).map((part) => (dark ? 255 - (255 - part) * 0.6 : part * 0.63)));
}

/** Draws on a canvas. */
export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  /** A rectangle; like all shapes filled, outlined or both. */
  rect(x, y, width, height, style) {
    this.context.beginPath();
    this.context.roundRect(x, y, width, height, style.radius ?? 0);
    this.#ink(style);
  }

  circle(x, y, radius, style) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.#ink(style);
  }

  /** Straight lines through [x, y] points. */
  path(points, style) {
    this.context.beginPath();
    points.forEach(([x, y], i) => (i ? this.context.lineTo(x, y) : this.context.moveTo(x, y)));
    this.#ink(style);
  }

  line(x0, y0, x1, y1, style) {
    this.context.beginPath();
    this.context.moveTo(x0, y0);
    this.context.lineTo(x1, y1);
    this.#ink(style);
  }

  /** An S-shaped curve that leaves and arrives along the x axis (`across`) or the y axis. */
  curve(x0, y0, x1, y1, across, style) {
    this.context.beginPath();
    this.context.moveTo(x0, y0);
    this.context.bezierCurveTo(...bends(x0, y0, x1, y1, across), x1, y1);
    this.#ink(style);
  }

  /** A line of text, vertically centred at y; `anchor` start, middle or end; `angle` in degrees around its anchor. */
  text(x, y, string, {size = 13, fill, anchor = 'start', angle = 0, weight = 400}) {
    const {context} = this;
    context.font = `${weight} ${size}px ${FONT}`;
    context.fillStyle = fill;
    context.textAlign = anchor === 'middle' ? 'center' : anchor;
    context.save();
    context.translate(x, y);
    if (angle) context.rotate((angle * Math.PI) / 180);
    context.fillText(string, 0, BASELINE * size);
    context.restore();
  }

  #ink({fill, stroke, width = 1, alpha = 1, dash}) {
    const {context} = this;
    context.globalAlpha = alpha;
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dash ?? []);
      context.stroke();
    }
    context.globalAlpha = 1;
  }
}

/** Builds an SVG from the same calls. */
export class SvgPen {
  constructor() {
    this.nodes = [];
  }

  rect(x, y, width, height, style) {
    this.#add('rect', {x: round(x), y: round(y), width: round(width), height: round(height), rx: style.radius || null, ...inks(style)});
  }

  circle(x, y, radius, style) {
    this.#add('circle', {cx: round(x), cy: round(y), r: round(radius), ...inks(style)});
  }

  path(points, style) {
    this.#add('path', {d: `M${points.map(([x, y]) => `${round(x)} ${round(y)}`).join('L')}`, ...inks(style)});
  }

  line(x0, y0, x1, y1, style) {
    this.#add('line', {x1: round(x0), y1: round(y0), x2: round(x1), y2: round(y1), ...inks(style)});
  }

  curve(x0, y0, x1, y1, across, style) {
    const numbers = [...bends(x0, y0, x1, y1, across), x1, y1].map(round);
    this.#add('path', {d: `M${round(x0)} ${round(y0)}C${numbers.join(' ')}`, ...inks(style)});
  }

  text(x, y, string, {size = 13, fill, anchor = 'start', angle = 0, weight = 400}) {
    const at = {x: round(x), y: round(y + BASELINE * size), 'font-size': round(size), fill, lang: languageOf(string)};
    const turn = angle ? `rotate(${angle} ${round(x)} ${round(y)})` : null;
    const style = {'text-anchor': anchor === 'start' ? null : anchor, 'font-weight': weight === 400 ? null : weight, transform: turn};
    this.#add('text', {...at, ...style}, string);
  }

  /** A picture from a data URL, scaled without smoothing. */
  image(x, y, width, height, href) {
    this.#add('image', {x, y, width, height, href, preserveAspectRatio: 'none', style: 'image-rendering: pixelated'});
  }

  /** The finished drawing as a standalone SVG with title, background and a margin in pixels. */
  svg(width, height, {title = '', paper = '#ffffff', margin = 0} = {}) {
    const size = {width: Math.ceil(width) + 2 * margin, height: Math.ceil(height) + 2 * margin};
    const viewBox = `${-margin} ${-margin} ${size.width} ${size.height}`;
    const svg = svgElement('svg', {xmlns: 'http://www.w3.org/2000/svg', ...size, viewBox, 'font-family': FONT, role: 'img'});
    if (title) svg.append(svgElement('title', {}, title));
    svg.append(svgElement('rect', {x: -margin, y: -margin, ...size, fill: paper}), ...this.nodes);
    return svg;
  }

  #add(tag, attributes, ...children) {
    this.nodes.push(svgElement(tag, attributes, ...children));
  }
}

/** The cross-axis position (0 to 1) of a `curve` at the position `along` (0 to 1) of its main axis, for hit tests. */
export function sideways(along) {
  let [low, high] = [0, 1];
  for (let i = 0; i < 24; i++) {
    const t = (low + high) / 2;
    if (1.5 * t * (1 - t) + t ** 3 < along) low = t;
    else high = t;
  }
  return low * low * (3 - 2 * low);
}

function bends(x0, y0, x1, y1, across) {
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return across ? [x, y0, x, y1] : [x0, y, x1, y];
}

function inks({fill, stroke, width = 1, alpha = 1, dash}) {
  return {
    fill: fill ?? 'none',
    stroke,
    'stroke-width': stroke && width !== 1 ? round(width) : null,
    'stroke-dasharray': dash?.join(' '),
    opacity: alpha === 1 ? null : round(alpha),
  };
}

function round(number) {
  return Math.round(number * 100) / 100;
}
