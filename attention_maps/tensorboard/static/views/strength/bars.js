/** The bar chart of strengths, a group of bars per token: layout and drawing. */

import {readable} from '../../core/format.js';
import {cut, widthOf} from '../../draw/axis_labels.js';
import {ticksTo} from './norms.js';

const HEADER = 26; // height of the axis, which does not scroll
const LABEL = {reads: 13, predicts: 11, most: 120, gap: 6}; // font sizes, largest width, distance in pixels
const RIGHT = 56; // pixels for the number after the longest bar
const LEAST = 24; // smallest height of a group

/**
 * Groups of bars for a frame. `rows` as from `strengths`; `series` = [{name, value(strength), colour, hollow}], a bar each; `order` lists
 * the rows from top to bottom.
 */
export class Bars {
  constructor(frame, rows, series, order) {
    Object.assign(this, {frame, rows, series, order});
    this.names = namesOf(frame);
    const widest = (side) => Math.min(LABEL.most, Math.max(0, ...this.names.map((names) => widthOf(names[side], LABEL[side]))));
    this.reads = widest('reads');
    this.predicts = widest('predicts') + (frame.kind === 'encoder' ? 0 : LABEL.gap);
    this.most = Math.max(0, ...rows.flatMap((row) => series.map(({value}) => value(row))).filter(Number.isFinite)) || 1;
    this.thick = series.length <= 3 ? 9 : series.length <= 8 ? 6 : 3;
    this.group = Math.max(LEAST, series.length * this.thick + 10);
    this.height = HEADER + rows.length * this.group + 6;
  }

  /** The row at height y of a drawing scrolled by `scrolled`, or null: the axis covers the top. */
  rowAt(y, scrolled) {
    return y - scrolled < HEADER ? null : (this.order[Math.floor((y - HEADER) / this.group)] ?? null);
  }

  /** The scroll position nearest to `scrolled` at which the group at a place of the order is visible. */
  inSight(place, scrolled, height) {
    const top = place * this.group;
    return Math.min(Math.max(scrolled, top + this.group + HEADER - height), top);
  }

  /** Draw the groups in `visible` over `width` pixels; `chosen` is the selected row or null. */
  paint(pen, {top, width, height}, chosen, inks) {
    const left = 22 + this.reads + this.predicts;
    const scale = Math.max(40, width - left - RIGHT) / this.most;
    const first = Math.max(0, Math.floor((top - HEADER) / this.group));
    const last = Math.min(this.order.length, Math.ceil((top + height - HEADER) / this.group));
    for (let place = first; place < last; place++) {
      const y = HEADER + place * this.group;
      const row = this.order[place];
      if (row === chosen) pen.rect(0, y, width, this.group, {fill: inks.accent, alpha: 0.14});
      this.paintLabel(pen, row, y + this.group / 2, left - 10, inks);
      this.paintGroup(pen, row, left, y + (this.group - this.series.length * this.thick) / 2, scale, inks);
    }
    this.paintAxis(pen, top, left, scale, width, inks);
  }

  /** What a row reads and, in a muted colour, what it predicts. */
  paintLabel(pen, row, y, right, {ink, muted}) {
    const {reads, predicts} = this.names[row];
    const border = right - this.predicts;
    const fill = this.frame.rows[row].special ? muted : ink;
    pen.text(border, y, cut(reads, LABEL.reads, LABEL.most), {size: LABEL.reads, fill, anchor: 'end'});
    if (predicts) pen.text(border + LABEL.gap, y, cut(predicts, LABEL.predicts, LABEL.most), {size: LABEL.predicts, fill: muted});
  }

  paintGroup(pen, row, left, top, scale, {muted}) {
    this.series.forEach(({value, colour, hollow}, i) => {
      const strength = value(this.rows[row]);
      const length = Math.max(0.5, strength * scale || 0); // NaN: the model diverged
      const y = top + i * this.thick;
      if (hollow) pen.rect(left, y + 1, length, this.thick - 2, {stroke: colour});
      else pen.rect(left, y + 0.5, length, this.thick - 1, {fill: colour});
      if (i === 0 && this.series.length <= 3) pen.text(left + length + 5, y + this.thick / 2, strength.toFixed(2), {size: 10, fill: muted});
    });
  }

  paintAxis(pen, top, left, scale, width, {paper, line, muted}) {
    pen.rect(0, top, width, HEADER - 4, {fill: paper});
    const name = this.frame.kind === 'encoder' ? 'reads' : 'reads → predicts';
    pen.text(left - 10, top + 10, name, {size: 11, fill: muted, anchor: 'end'});
    for (const tick of ticksTo(this.most)) {
      const x = left + tick * scale;
      pen.text(x, top + 10, String(tick), {size: 11, fill: muted, anchor: 'middle'});
      pen.line(x, top + HEADER - 7, x, top + HEADER - 4, {stroke: line});
    }
    pen.line(left, top + HEADER - 4, width - 8, top + HEADER - 4, {stroke: line});
  }
}

/** What each row reads, and what it predicts. */
function namesOf({rows, sample, kind}) {
  return rows.map(({positions}) => {
    const joined = (tokens) => positions.map((position) => tokens.pieces[position] ?? '').join('');
    if (kind === 'encoder') return {reads: readable(joined(sample.source)), predicts: ''};
    const next = joined(sample.predicts);
    return {reads: readable(joined(sample.reads)), predicts: next ? `→ ${readable(next)}` : ''};
  });
}
