/** Draws a heat map except for the cell colours: labels, numbers, hidden attention, selection and crosshair. `pen` is a CanvasPen. */

import {short} from '../../core/format.js';
import {sourceName} from '../../core/frame.js';
import {columnLabel, cut} from '../../draw/axis_labels.js';
import {isFuture} from '../../draw/matrix_pixels.js';
import {CORNER, LABEL} from './layout.js';

const SMALLEST = 9; // smallest readable font size in pixels
export const BAR = 30; // length in pixels of a bar for hidden attention of 1

/** Labels of visible rows and columns; if cells are too small, only every n-th. `selected`: {side, index} or null. */
export function drawLabels(pen, frame, layout, inks, selected) {
  const {cell, left, top, margins} = layout;
  const ink = (label) => (label.special ? inks.muted : inks.ink);
  const rowSize = sizeIn(cell.height);
  for (const row of thinned(layout.visibleRows(), cell.height, selected?.side === 'row' ? selected.index : -1)) {
    const label = frame.rows[row];
    const y = layout.rowY(row) + cell.height / 2;
    const chosen = selected?.side === 'row' && selected.index === row;
    const style = {size: rowSize, fill: chosen ? inks.accent : ink(label), weight: chosen ? 700 : 400};
    pen.text(left - 7, y, cut(label.text, rowSize, left - 12), {...style, anchor: 'end'});
    if (margins.others)
      pen.text(layout.othersLeft, y, cut(margins.others[row], rowSize, margins.right - 10), {size: rowSize, fill: inks.muted});
  }
  const columnSize = sizeIn(cell.width);
  for (const column of thinned(layout.visibleColumns(), cell.width, selected?.side === 'column' ? selected.index : -1)) {
    const label = frame.columns[column];
    const chosen = selected?.side === 'column' && selected.index === column;
    columnLabel(
      pen,
      layout.columnX(column) + cell.width / 2,
      top - 6,
      label,
      columnSize,
      margins.top - 10,
      chosen ? inks.accent : ink(label),
    );
  }
  drawTitles(pen, frame, layout, inks);
}

/** What rows and columns are, in the corner. */
export function drawTitles(pen, frame, {left, top, othersLeft, margins}, inks) {
  const style = {size: CORNER.size, fill: inks.muted};
  const rows = frame.kind === 'encoder' ? sourceName(frame.sample) : frame.rowsNamed;
  pen.text(left - CORNER.gap, top - 9, `${rows} ↓`, {...style, anchor: 'end'});
  pen.text(left - CORNER.gap, top - 25, `${frame.kind === 'decoder' ? 'text' : sourceName(frame.sample)} →`, {...style, anchor: 'end'});
  if (margins.others)
    pen.text(othersLeft, top - 9, cut(frame.rowsNamed === 'predicts' ? 'reads' : 'predicts', 11, margins.right - 10), style);
}

/** The numbers in the cells, if they fit. `maximum` and `gamma` as for the colours. */
export function drawNumbers(pen, frame, layout, palette, {maximum, gamma}) {
  const {cell} = layout;
  if (cell.width < (frame.difference ? 30 : 25) || cell.height < 13) return;
  const size = Math.min(12, cell.width * 0.36, cell.height * 0.62);
  const columns = layout.visibleColumns();
  for (const row of layout.visibleRows()) {
    for (const column of columns) {
      if (isFuture(frame, row, column)) continue;
      const weight = frame.weights[row * layout.columns + column];
      const text = short(weight);
      const fill = palette.ink(palette.of(frame, weight, {maximum, gamma}));
      pen.text(layout.columnX(column) + cell.width / 2, layout.rowY(row) + cell.height / 2, text, {
        size,
        fill: text === '0' ? faint(fill) : fill,
        anchor: 'middle',
      });
    }
  }
}

/** The attention to hidden tokens, per row, as a bar with a number if it fits. */
export function drawHidden(pen, frame, layout, inks) {
  if (!frame.hidden) return;
  const {cell, top, hiddenLeft, viewHeight} = layout;
  pen.text(hiddenLeft + BAR / 2, top - 6, 'hidden', {size: 11, fill: inks.muted, angle: -90});
  const inset = cell.height >= 8 ? 1 : 0;
  for (const row of layout.visibleRows()) {
    const share = frame.hidden[row];
    const y = Math.max(layout.rowY(row), top) + inset;
    const height = Math.min(layout.rowY(row) + cell.height, top + viewHeight) - inset - y;
    pen.rect(hiddenLeft, y, BAR, height, {fill: inks.line, alpha: 0.5});
    pen.rect(hiddenLeft, y, BAR * share, height, {fill: inks.muted, alpha: 0.55});
    if (cell.height >= 12) {
      pen.text(hiddenLeft + BAR / 2, layout.rowY(row) + cell.height / 2, short(share), {
        size: Math.min(11, cell.height * 0.62),
        fill: inks.ink,
        anchor: 'middle',
      });
    }
  }
}

/** A frame around the selected row or column. */
export function drawSelected(pen, layout, selected, colour) {
  if (!selected) return;
  const {left, top, viewWidth, viewHeight, cell} = layout;
  const band =
    selected.side === 'row'
      ? [left, layout.rowY(selected.index), viewWidth, cell.height]
      : [layout.columnX(selected.index), top, cell.width, viewHeight];
  const [x, y, width, height] = [Math.max(band[0], left), Math.max(band[1], top), band[2], band[3]];
  if (x > left + viewWidth || y > top + viewHeight || band[1] + height < top || band[0] + width < left) return;
  pen.rect(x, y, Math.max(width, 2), Math.max(height, 2), {stroke: colour, width: 2});
}

/** Thin lines between cells, if these are large enough. */
export function drawGaps(context, layout, paper) {
  const {cell, left, top, viewWidth, viewHeight} = layout;
  if (Math.min(cell.width, cell.height) < 9) return;
  context.fillStyle = paper;
  context.globalAlpha = 0.55;
  for (let column = layout.firstColumn + 1; column < layout.lastColumn; column++)
    context.fillRect(layout.columnX(column) - 0.5, top, 1, viewHeight);
  for (let row = layout.firstRow + 1; row < layout.lastRow; row++) context.fillRect(left, layout.rowY(row) - 0.5, viewWidth, 1);
  context.globalAlpha = 1;
}

/** Highlight the hovered cell, its row, its column and their labels. */
export function drawCrosshair(pen, frame, layout, place, inks) {
  const {left, top, viewWidth, viewHeight, cell} = layout;
  const {row, column} = place;
  const size = Math.max(LABEL, sizeIn(cell.height));
  if (row >= 0) {
    pen.rect(left, layout.rowY(row), viewWidth, cell.height, {fill: inks.accent, alpha: 0.13});
    pen.rect(0, layout.rowY(row) + cell.height / 2 - 9, left - 2, 18, {fill: inks.paper});
    const text = cut(frame.rows[row].text, size, left - 12);
    pen.text(left - 7, layout.rowY(row) + cell.height / 2, text, {size, fill: inks.accent, anchor: 'end', weight: 700});
  }
  if (column >= 0) {
    const x = layout.columnX(column) + cell.width / 2;
    pen.rect(layout.columnX(column), top, cell.width, viewHeight, {fill: inks.accent, alpha: 0.13});
    pen.rect(x - 9, 0, 18, top - 2, {fill: inks.paper});
    columnLabel(pen, x, top - 6, frame.columns[column], size, layout.margins.top - 10, inks.accent);
  }
  if (row >= 0 && column >= 0) {
    pen.rect(layout.columnX(column), layout.rowY(row), Math.max(cell.width, 3), Math.max(cell.height, 3), {
      stroke: inks.accent,
      width: 1.5,
    });
  }
}

function sizeIn(cell) {
  return Math.min(LABEL, Math.max(SMALLEST, cell * 0.78));
}

/** "every 2nd row and every 3rd column is labelled", '' if all are. */
export function labelsNote({cell}) {
  const sides = [
    ['row', everyIn(cell.height)],
    ['column', everyIn(cell.width)],
  ].filter(([, every]) => every > 1);
  const ordinal = (n) => `${n}${{2: 'nd', 3: 'rd'}[n] ?? 'th'}`;
  const named = sides.map(([name, every]) => `every ${ordinal(every)} ${name}`).join(' and ');
  return named && `Only ${named} is labelled: zoom in for more.`;
}

function everyIn(cell) {
  return Math.max(1, Math.ceil(SMALLEST / cell));
}

/** The indices that have room for a label, stable while the map is panned; `kept` is always among them. */
function thinned(indices, cell, kept) {
  const every = everyIn(cell);
  return indices.filter((index) => index === kept || (index % every === 0 && (kept < 0 || Math.abs(index - kept) >= every)));
}

function faint(ink) {
  return ink === '#ffffff' ? 'rgb(255 255 255 / .55)' : 'rgb(0 0 0 / .56)';
}
