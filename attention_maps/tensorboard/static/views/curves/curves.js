/** The curves view: one measure of every head over the training steps, the selected head in front. */

import {layerNumber, shapesOf} from '../../core/frame.js';
import {bestRule, better, measureOf, measureText, plotted, sortedMeasures} from '../../core/measures.js';
import {stepOf} from '../../core/recordings.js';
import {element} from '../../dom/elements.js';
import {menu, segments} from '../../dom/fields.js';
import {showTooltip, watchHover} from '../../dom/tooltip.js';
import {widthOf} from '../../draw/axis_labels.js';
import {inksOf} from '../../draw/colours.js';
import {sharpContext} from '../../draw/matrix_pixels.js';
import {asText, CanvasPen, SvgPen} from '../../draw/pen.js';
import {headWithReason} from '../../finding/sentence.js';
import {drawAxes, scales} from './axes.js';
import {VIEWS} from '../views.js';

export const create = (context) => new Curves(context);

const NAME = 11; // size of the name at the end of the selected line
const RIGHT = 24; // right margin in pixels without a name
const LISTED = 5; // heads in a tooltip
const REACH = 14; // pixels from a line within which the pointer hits it

class Curves {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.measure = menu('measure', (name) => state.set({measure: name}));
    this.scope = segments('heads of', {all: 'all layers', layer: 'the selected layer'}, (scope) => state.set({scope}));
    this.controls = element('div', {class: 'view-controls'}, this.measure.element, this.scope.element);
    this.canvas = element('canvas', {role: 'img'});
    this.nothing = element('p', {class: 'nothing', role: 'status', hidden: true});
    this.stage = element('div', {class: 'chart-stage'}, this.canvas, this.nothing);
    this.legend = element('div', {class: 'curves-legend', role: 'group', 'aria-label': 'heads'});
    this.note = element('p', {class: 'view-note', role: 'status'});
    this.element = element('div', {class: 'curves-view'}, this.legend, this.stage, this.note);
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.stage);
    watchHover(this.canvas, (event) => this.point(event));
    this.canvas.addEventListener('click', (event) => this.go(event));
  }

  draw(frame) {
    this.frame = frame;
    const {context} = this;
    const {run} = context.state.now;
    const turn = (this.turn = {});
    const show = (curves) => turn === this.turn && this.show(curves);
    const known = context.curves.ready(run);
    if (known) show(known);
    else context.curves.read(run).then(show, (error) => turn === this.turn && this.explain(error.message));
  }

  show(curves) {
    const {kind} = this.frame;
    const {state} = this.context;
    this.scope.show(state.now.scope);
    const names = sortedMeasures(Object.keys(curves.measures).filter((name) => curves.measures[name][kind]?.some(Boolean)));
    this.controls.hidden = !names.length;
    const wanted = this.context.fitted().measure;
    this.name = names.includes(wanted) ? wanted : names[0];
    this.measure.show(
      names.map((name) => ({value: name, text: measureOf(name).title})),
      this.name,
    );
    if (!names.length) {
      this.explain(`No measures of ${kind} heads are recorded in this run: it was recorded by an older version.`);
      return;
    }
    this.steps = curves.steps;
    const {title, meaning} = measureOf(this.name);
    this.lines = this.linesOf(curves.measures[this.name][kind]);
    const rule = bestRule(curves.baselines, this.name); // on the same gold labels
    this.baseline = rule ? {rule: rule[0], value: plotted(this.name, rule[1])} : null;
    this.measured = [...this.steps.keys()].filter((i) => this.lines.some(({values}) => Number.isFinite(values[i])));
    if (!this.measured.length) {
      this.explain(`There are no values of ${title} for these heads.`);
      return;
    }
    this.limits = limitsOf([...this.lines, ...(this.baseline ? [{values: [this.baseline.value]}] : [])]);
    this.nothing.hidden = true;
    this.buildLegend();
    this.canvas.hidden = false;
    const lacking = !wanted || wanted === this.name ? '' : `There is no ${measureOf(wanted).title} of ${kind} heads. `;
    const about = [meaning, better(this.name)].filter(Boolean).join('; ');
    const lost = curves.unreadable ?? [];
    const missing = lost.length ? `Not shown, because their files cannot be read: step ${lost.join(', ')}. ` : '';
    this.note.textContent = `${missing}${lacking}${[title, about].filter(Boolean).join(': ')}. ${VIEWS.curves.hint}`;
    this.context.tell('curves', this.sentence());
    this.paint();
  }

  /** "The measure “entropy” of layer 0 · head 2, …: 3.20 nats at step 0, 1.47 nats at step 6,417." */
  sentence() {
    const line = this.chosen();
    const known = this.measured.filter((i) => Number.isFinite(line?.values[i]));
    if (!known.length) return '';
    const ends = [...new Set([known[0], known.at(-1)])];
    const course = ends.map((i) => `${this.text(line.values[i])} at step ${this.steps[i].toLocaleString('en')}`).join(', ');
    const {rule, value} = this.baseline ?? {};
    const beside = rule ? ` Without a model, the rule “${rule}” reaches ${this.text(value)}.` : '';
    return `The measure “${measureOf(this.name).title}” of ${headWithReason(this.context.shown())}: ${course}.${beside}`;
  }

  explain(message) {
    this.lines = null;
    this.context.tell('curves', '');
    this.legend.replaceChildren();
    this.note.textContent = '';
    this.nothing.textContent = message;
    this.nothing.hidden = false;
    this.canvas.hidden = true;
  }

  /** [{layer, head, values: one per step}]; for mean, max and rollout a line with the mean over the heads of the layer is added. */
  linesOf(series) {
    const {layers, heads} = shapesOf(this.frame.meta, this.context.fitted().sample)[this.frame.kind];
    const {layer: chosen, head} = this.context.fitted();
    const value = (matrix, layer, h) => plotted(this.name, matrix?.[layer]?.[h] ?? NaN);
    const lines = [];
    for (let layer = 0; layer < layers; layer++) {
      if (this.context.state.now.scope === 'layer' && layer !== chosen) continue;
      for (let h = 0; h < heads; h++) lines.push({layer, head: h, values: series.map((matrix) => value(matrix, layer, h))});
    }
    if (typeof head === 'number') return lines;
    const mean = series.map((matrix) => meanOf(Array.from({length: heads}, (_, h) => value(matrix, chosen, h))));
    return [...lines, {layer: chosen, head: 'mean', values: mean}];
  }

  /** The colours of the heads of the selected layer, which are buttons; other layers are grey. */
  buildLegend() {
    const {layer, head} = this.context.fitted();
    const own = this.lines.filter((line) => line.layer === layer && typeof line.head === 'number');
    const entry = (line) => {
      const colour = this.colour(line.head);
      const square = element('span', {class: 'square', style: `border-color: ${colour}; background: ${colour}`});
      const onclick = () => this.context.state.set({head: line.head});
      const attributes = {type: 'button', class: 'legend-entry', onclick, 'aria-pressed': String(line.head === head)};
      return element('button', attributes, square, `head ${line.head}`);
    };
    const others = this.lines.some((line) => line.layer !== layer) ? element('span', {class: 'legend-title'}, 'grey: other layers') : null;
    const parts = [element('span', {class: 'legend-title'}, `layer ${this.number(layer)}:`), ...own.map(entry), others];
    this.legend.replaceChildren(...parts.filter(Boolean));
  }

  number(layer) {
    return layerNumber(this.frame.meta, this.frame.kind, layer);
  }

  nameOf({layer, head}) {
    return `layer ${this.number(layer)} · ${head === 'mean' ? 'mean' : `head ${head}`}`;
  }

  chosen() {
    const {layer, head} = this.context.fitted();
    return this.lines.find((line) => line.layer === layer && line.head === (typeof head === 'number' ? head : 'mean'));
  }

  paint() {
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    if (!this.lines || !width || !height) return;
    this.compose(new CanvasPen(sharpContext(this.canvas, width, height)), width, height);
    this.canvas.setAttribute('aria-label', `${measureOf(this.name).title} of ${this.lines.length} heads over ${this.steps.length} steps`);
  }

  compose(pen, width, height) {
    const {low, high} = this.limits;
    const span = {first: this.steps[0], last: this.steps.at(-1), low: low > 0 && low < high / 2 ? 0 : low, high};
    const chosen = this.chosen();
    const right = chosen ? Math.max(RIGHT, 16 + 1.15 * widthOf(this.nameOf(chosen), NAME)) : RIGHT; // 1.15: bold text is wider
    this.scale = scales({width, height}, span, right);
    const inks = inksOf(this.element);
    const {title, unit} = measureOf(this.name);
    drawAxes(pen, this.scale, inks, {vertical: unit ? `${title} [${unit}]` : title, horizontal: 'training step'});
    this.drawNow(pen, inks);
    const {layer} = this.context.fitted();
    const rank = (line) => (line === chosen ? 2 : line.layer === layer ? 1 : 0);
    for (const line of [...this.lines].sort((a, b) => rank(a) - rank(b))) this.drawLine(pen, line, inks, rank(line));
    if (chosen) this.drawName(pen, chosen, inks);
    this.drawBaseline(pen, inks);
  }

  drawNow(pen, inks) {
    const step = stepOf(this.context.state.now.recording);
    if (step === null) return;
    const {box} = this.scale;
    const x = this.scale.x(step);
    pen.path(
      [
        [x, box.top - 6],
        [x, box.top + box.height],
      ],
      {stroke: inks.accent, width: 1.5},
    );
    const anchor = x > box.left + box.width - 40 ? 'end' : x < box.left + 40 ? 'start' : 'middle';
    pen.text(x, box.top - 13, `step ${step.toLocaleString('en')}`, {size: 11, fill: inks.accent, anchor});
  }

  drawBaseline(pen, inks) {
    if (!this.baseline) return;
    const {box} = this.scale;
    const y = this.scale.y(this.baseline.value);
    pen.line(box.left, y, box.left + box.width, y, {stroke: inks.ink, width: 1.2, dash: [5, 4]});
    pen.text(box.left + 4, y - 8, `baseline: ${this.baseline.rule}, ${this.text(this.baseline.value)}`, {size: NAME, fill: inks.ink});
  }

  drawLine(pen, {head, values}, inks, rank) {
    const stroke = rank === 0 ? inks.muted : this.colour(head);
    const style = {stroke, width: [1, 1.5, 3.2][rank], alpha: [0.3, 0.75, 1][rank]};
    let points = [];
    const end = () => {
      if (points.length > 1) pen.path(points, style);
      const marked = points.length === 1 || rank > 0 ? points : [];
      for (const point of marked) pen.circle(...point, rank > 1 ? 3 : 2, {fill: stroke, alpha: style.alpha});
      points = [];
    };
    for (const i of this.measured) {
      if (Number.isFinite(values[i])) points.push([this.scale.x(this.steps[i]), this.scale.y(values[i])]);
      else end();
    }
    end();
  }

  drawName(pen, line, inks) {
    const {head, values} = line;
    const last = values.findLastIndex(Number.isFinite);
    if (last < 0) return;
    const [x, y] = [this.scale.x(this.steps[last]) + 6, this.scale.y(values[last])];
    pen.text(x, y, this.nameOf(line), {size: NAME, fill: asText(this.colour(head), this.context.colours().dark), weight: 600});
  }

  colour(head) {
    return head === 'mean' ? inksOf(this.element).ink : this.context.colours().head(head);
  }

  /** The index of the nearest step with values: scores are only recorded at evaluations. */
  nearestStep(event) {
    const wanted = this.scale.stepAt(event.clientX - this.canvas.getBoundingClientRect().left);
    const distance = (i) => Math.abs(this.steps[i] - wanted);
    return this.measured.reduce((best, i) => (distance(i) < distance(best) ? i : best));
  }

  point(event) {
    if (!this.lines) return;
    const i = this.nearestStep(event);
    const y = event.clientY - this.canvas.getBoundingClientRect().top;
    const distance = ({values}) => Math.abs(this.scale.y(values[i]) - y);
    const all = this.lines.filter((line) => distance(line) <= REACH).sort((a, b) => distance(a) - distance(b));
    const near = all.slice(0, LISTED);
    const chosen = this.chosen();
    if (!near.length && chosen) near.push(chosen);
    const describe = (line) => `${this.nameOf(line)}: ${this.text(line.values[i])}`;
    const more = all.length > LISTED ? `and ${all.length - LISTED} more heads` : '';
    showTooltip(event, `step ${this.steps[i].toLocaleString('en')}`, ...near.map(describe), more);
  }

  text(value) {
    return measureText(this.name, measureOf(this.name).share ? value / 100 : value);
  }

  go(event) {
    if (!this.lines) return;
    this.context.goToStep(this.steps[this.nearestStep(event)]);
  }

  svg() {
    if (!this.lines) return null;
    const pen = new SvgPen();
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    this.compose(pen, width, height);
    return pen.svg(width, height, {title: `${measureOf(this.name).title}, ${this.frame.kind}`, paper: inksOf(this.element).paper});
  }
}

/** {low, high} of the values of all lines. A loop: Math.min(...) cannot take that many arguments. */
function limitsOf(lines) {
  let [low, high] = [Infinity, -Infinity];
  for (const {values} of lines) {
    for (const value of values) {
      if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
  }
  return {low, high};
}

function meanOf(values) {
  const finite = values.filter(Number.isFinite);
  return finite.length ? finite.reduce((sum, value) => sum + value, 0) / finite.length : NaN;
}
