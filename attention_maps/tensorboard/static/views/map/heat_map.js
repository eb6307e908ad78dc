/** The map view: every weight of a frame as a coloured cell, labelled by tokens, with zoom and pan. */

import {languageOf, percent, readable, short} from '../../core/format.js';
import {strongest} from '../../core/frame.js';
import {element} from '../../dom/elements.js';
import {icon} from '../../dom/icons.js';
import {hideTooltip, showTooltip} from '../../dom/tooltip.js';
import {inksOf} from '../../draw/colours.js';
import {cellPicture, colourTable, paint, reach, scaleMaximum, sharpContext} from '../../draw/matrix_pixels.js';
import {CanvasPen} from '../../draw/pen.js';
import {selection} from '../tokens.js';
import {drawCrosshair, drawGaps, drawHidden, drawLabels, drawNumbers, drawSelected, labelsNote} from './annotations.js';
import {Camera, Layout, marginsOf} from './layout.js';
import {createLegend} from './legend.js';
import {watchPointer} from './pointer.js';
import {VIEWS} from '../views.js';

export const create = (context) => new HeatMap(context);

const STEP = 1.5; // zoom factor of + and −
const LISTED = 6; // weights of the selected token below the map
const PIECES = 3; // tokens of a word in a tooltip

class HeatMap {
  constructor(context) {
    this.context = context;
    this.camera = new Camera();
    this.cells = element('canvas', {class: 'cells', role: 'img'});
    this.marks = element('canvas', {
      class: 'pointer',
      role: 'application',
      tabindex: 0,
      'aria-label': 'attention map; shift and arrow keys select a row or column',
    });
    const button = (name, label, by) =>
      element('button', {type: 'button', class: 'icon', title: label, 'aria-label': label, onclick: () => this.zoom(by)}, icon(name));
    const zoomButtons = element(
      'div',
      {class: 'zoom', role: 'group', 'aria-label': 'zoom'},
      button('minus', 'zoom out (−)', '-'),
      button('fit', 'fit the map to the window (0)', '0'),
      button('plus', 'zoom in (+)', '+'),
    );
    this.stage = element('div', {class: 'map-stage'}, this.cells, this.marks);
    this.legend = createLegend(context);
    this.readout = element('p', {class: 'readout', role: 'status'});
    this.labelled = element('span', {class: 'labelled muted'});
    const foot = element('div', {class: 'map-foot'}, this.legend.element, this.labelled, zoomButtons);
    this.element = element('div', {class: 'map-view'}, this.stage, foot, this.readout);
    this.observer = new ResizeObserver(() => this.frame && this.draw(this.frame));
    this.observer.observe(this.stage);
    watchPointer(this.marks, {
      layout: () => this.layout,
      camera: this.camera,
      moved: () => this.paint(),
      over: (event, place) => this.point(event, place),
      out: () => this.leave(),
      clicked: (place) => this.choose(place),
    });
  }

  draw(frame) {
    const labels = JSON.stringify([frame.kind, frame.rows.map(({text}) => text), frame.columns.map(({text}) => text)]);
    if (labels !== this.labels) this.camera.fit();
    this.labels = labels;
    this.frame = frame;
    this.margins = marginsOf(frame);
    this.picture = null;
    this.cells.lang = this.marks.lang = languageOf(labels);
    this.legend.draw(frame);
    this.updateReadout();
    this.paint();
  }

  /** Draw the frame as the camera shows it. */
  paint() {
    const {frame, context} = this;
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    if (!frame || !width || !height) return;
    const {state} = context;
    const palette = context.colours();
    const inks = inksOf(this.element);
    const layout = (this.layout = new Layout(frame, this.margins, width, height, this.camera));
    const chosen = selection(state.selected.token, frame);
    const {gamma} = state.now;
    const maximum = scaleMaximum(frame, state.now.scale);
    const canvas = sharpContext(this.cells, width, height);
    const pen = new CanvasPen(canvas);
    canvas.save();
    canvas.beginPath();
    canvas.rect(layout.left, layout.top, layout.viewWidth, layout.viewHeight);
    canvas.clip();
    this.drawPicture(canvas, layout, {maximum, gamma});
    drawGaps(canvas, layout, inks.paper);
    drawNumbers(pen, frame, layout, palette, {maximum, gamma});
    drawSelected(pen, layout, chosen, inks.accent);
    canvas.restore();
    drawLabels(pen, frame, layout, inks, chosen);
    this.labelled.textContent = labelsNote(layout);
    drawHidden(pen, frame, layout, inks);
    this.cells.setAttribute('aria-label', `${frame.name}: ${layout.rows} rows, ${layout.columns} columns`);
    sharpContext(this.marks, width, height);
  }

  drawPicture(canvas, layout, {maximum, gamma}) {
    const {frame} = this;
    const table = () => colourTable(this.context.colours(), {difference: frame.difference, gamma});
    const matrix = () => ({weights: frame.weights, columns: frame.columns.length, maximum, seen: reach(frame), table: table()});
    const ratio = window.devicePixelRatio || 1;
    canvas.imageSmoothingEnabled = false;
    if (Math.min(layout.cell.width, layout.cell.height) * ratio < 1) {
      const [width, height] = [Math.round(layout.mapWidth * ratio), Math.round(layout.mapHeight * ratio)];
      const image = canvas.createImageData(width, height);
      paint(new Uint32Array(image.data.buffer), width, height, matrix());
      this.picture = element('canvas', {width, height});
      this.picture.getContext('2d').putImageData(image, 0, 0);
    } else if (this.picture?.width !== frame.columns.length || this.picture.height !== frame.rows.length) {
      this.picture = cellPicture(matrix());
    }
    canvas.drawImage(this.picture, layout.left - layout.x, layout.top - layout.y, layout.mapWidth, layout.mapHeight);
  }

  /** '+', '-' or '0', from buttons and keys. */
  zoom(by) {
    if (!this.layout) return;
    const {left, top, viewWidth, viewHeight} = this.layout;
    if (by === '0') this.camera.fit();
    else this.camera.zoomAt(by === '+' ? STEP : 1 / STEP, left + viewWidth / 2, top + viewHeight / 2, this.layout);
    this.paint();
  }

  point(event, place) {
    const {frame, layout} = this;
    drawCrosshair(new CanvasPen(sharpContext(this.marks, layout.width, layout.height)), frame, layout, place, inksOf(this.element));
    showTooltip(event, ...linesAt(frame, place));
  }

  leave() {
    hideTooltip();
    if (this.layout) sharpContext(this.marks, this.layout.width, this.layout.height);
  }

  choose({row, column}) {
    const token = row >= 0 ? `r${row}` : `c${column}`;
    const {state} = this.context;
    state.set({token: state.selected.token === token ? '' : token});
  }

  /** Describe the selected row or column by its largest weights; screen readers announce it. */
  updateReadout() {
    const {frame} = this;
    const chosen = selection(this.context.state.selected.token, frame);
    if (!chosen) {
      this.readout.textContent = VIEWS.map.hint;
      return;
    }
    const {side, index} = chosen;
    const own = (side === 'row' ? frame.rows : frame.columns)[index].text;
    const width = frame.columns.length;
    const found =
      side === 'row'
        ? strongest(frame, index, {top: LISTED}).map((column) => [frame.columns[column].text, frame.weights[index * width + column]])
        : frame.rows
            .map(({text}, row) => [text, frame.weights[row * width + index]])
            .filter(([, weight]) => weight)
            .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
            .slice(0, LISTED);
    const others = side === 'row' ? frame.columns : frame.rows;
    const all = others.filter((_, place) => frame.weights[side === 'row' ? index * width + place : place * width + index]).length;
    // In quotation marks: a token may be a full stop, a comma or a question mark.
    const named = found.map(([name, weight]) => `“${name}” ${short(weight)}`);
    if (all > LISTED) named.push(`${all - LISTED} more`);
    const verb = side === 'row' ? 'attends to' : 'is attended to by';
    const text = `${frame.difference ? 'A minus B: ' : ''}“${own}” ${verb} ${inWords(named) || 'no token'}.`;
    this.readout.textContent = text;
    this.readout.lang = languageOf(text);
  }
}

/** "a, b and c". */
function inWords(names) {
  return [names.slice(0, -1).join(', '), ...names.slice(-1)].filter(Boolean).join(' and ');
}

/** Tooltip lines of a cell, a label or the hidden attention. */
function linesAt(frame, {row, column, hidden}) {
  const [query, key] = [frame.rows[row]?.text, frame.columns[column]?.text];
  if (hidden)
    return [
      `${query}: ${percent(frame.hidden[row])} hidden`,
      'of its attention is on the hidden special tokens; the rest is renormalised to sum to 1',
    ];
  if (row < 0) return [key, `column ${column}`];
  if (column < 0) return [query, `row ${row}`, ...aboutRow(frame, row)];
  const weight = frame.weights[row * frame.columns.length + column];
  const shown = frame.difference ? `A minus B: ${weight.toFixed(4)}` : `weight ${weight.toFixed(4)} (${percent(weight)})`;
  const future = frame.causal && frame.columns[column].positions[0] > frame.rows[row].positions.at(-1);
  const value = future ? 'masked: a later token' : Number.isFinite(weight) ? shown : 'not a number: the model diverged';
  return [`${query} → ${key}`, value, ...aboutRow(frame, row), `row ${row}, column ${column}`];
}

/** What a row reads and predicts, the most likely predictions of the model, and its loss. */
function aboutRow({kind, rows, sample}, row) {
  if (kind === 'encoder') return [];
  const {positions} = rows[row];
  const lines = positions.slice(0, PIECES).flatMap((position) => {
    const wanted = sample.predicts.pieces[position];
    const loss = sample.losses?.[position];
    const likely = (sample.predictions?.[position] ?? [])
      .slice(0, 4)
      .map(([, piece, probability]) => `${readable(piece)} ${percent(probability ?? NaN)}`);
    return [
      `reads ${readable(sample.reads.pieces[position])}${wanted === undefined ? '' : `, predicts ${readable(wanted)}`}`,
      likely.length ? `most likely: ${likely.join(' · ')}` : '',
      loss === undefined ? '' : `loss ${loss === null ? 'nan' : loss.toFixed(3)} nats`,
    ];
  });
  return positions.length > PIECES ? [...lines, `and ${positions.length - PIECES} more tokens of this word`] : lines;
}
