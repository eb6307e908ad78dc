/** A whole table token x token as a picture; only small vocabularies have one. */

import {languageOf, readable} from '../../core/format.js';
import {showTooltip, watchHover} from '../../dom/tooltip.js';
import {inksOf} from '../../draw/colours.js';
import {ScrollingCanvas} from '../../draw/scrolling_canvas.js';
import {cellAt, matrixLayout, paintMatrix} from '../alignment/matrix.js';

export class TokenTable {
  constructor(context) {
    this.context = context;
    this.sheet = new ScrollingCanvas((pen, visible) => this.paint(pen, visible), {label: 'table of tokens', resized: () => this.fit()});
    this.element = this.sheet.element;
    this.element.hidden = true;
    watchHover(this.sheet.scroller, (event) => this.describe(event));
  }

  /** table: {rows, columns: pieces, values: numbers by row}, or null. */
  show(table) {
    this.element.hidden = !table;
    this.frame = null;
    if (!table) return;
    const labels = (pieces) => pieces.map((piece, position) => ({text: readable(piece), special: false, positions: [position]}));
    const weights = Float32Array.from(table.values.flat());
    const maximum = weights.reduce((most, weight) => Math.max(most, Math.abs(weight)), 1e-6);
    this.frame = {rows: labels(table.rows), columns: labels(table.columns), weights, maximum, difference: true, causal: false};
    this.element.lang = languageOf(table.columns.join(''));
    this.fit();
    this.sheet.repaint();
  }

  fit() {
    if (!this.frame) return;
    this.layout = matrixLayout(this.frame, this.sheet.scroller.clientWidth || 600);
    this.sheet.size(this.layout.width, this.layout.height);
  }

  paint(pen, visible) {
    const {frame, layout} = this;
    if (!frame || !layout) return;
    const looks = {palette: this.context.colours(), inks: inksOf(this.element), gamma: 0.6, maximum: frame.maximum};
    paintMatrix(pen, visible, {frame, layout, marked: {}, chosen: null, ...looks});
  }

  describe(event) {
    const {frame, layout} = this;
    const cell = frame && layout && cellAt(layout, frame, ...this.sheet.place(event));
    if (!cell) return;
    const [row, column] = [frame.rows[cell.row].text, frame.columns[cell.column].text];
    showTooltip(event, `${row} → ${column}`, frame.weights[cell.row * frame.columns.length + cell.column].toFixed(2));
  }
}
