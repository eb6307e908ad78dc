/** A compact matrix of weights with the links of an alignment marked in it. */

import {columnLabel, cut, marginsFor} from '../../draw/axis_labels.js';
import {isFuture} from '../../draw/matrix_pixels.js';
import {hex} from '../../draw/pen.js';

const LABEL = {size: 12, most: 104};
const CELL = {least: 11, most: 28};

/** Marks of right, wrong and missed links; `plain` without gold links. They differ in shape as well as colour. */
export const MARKS = {
  right: {name: 'right', colour: '#009e73'},
  wrong: {name: 'wrong', colour: '#d55e00'},
  missed: {name: 'missed', colour: '#e69f00'},
  plain: {name: 'link', colour: '#d55e00'},
};

/** Sizes in pixels for a frame in an area `width` wide. */
export function matrixLayout(frame, width) {
  const {left, top} = marginsFor(frame.rows, frame.columns, LABEL.size, LABEL.most);
  const cell = Math.min(CELL.most, Math.max(CELL.least, Math.floor((width - left - 12) / frame.columns.length)));
  return {left, top, cell, width: left + frame.columns.length * cell + 8, height: top + frame.rows.length * cell + 8};
}

/** The cell at a point of the matrix, {row, column}, or null. */
export function cellAt(layout, frame, x, y) {
  const [column, row] = [Math.floor((x - layout.left) / layout.cell), Math.floor((y - layout.top) / layout.cell)];
  return column >= 0 && row >= 0 && column < frame.columns.length && row < frame.rows.length ? {row, column} : null;
}

/** The scroll position nearest to {left, top} at which the selected {side, index} is visible in an area of {width, height}. */
export function inSight(layout, {side, index}, {left, top, width, height}) {
  const moved = (from, room) => Math.min(Math.max(from, (index + 1) * layout.cell - room), index * layout.cell);
  return side === 'row' ? {left, top: moved(top, height - layout.top)} : {left: moved(left, width - layout.left), top};
}

/** Draw the part in `visible`; labels do not scroll. `marked`: {name of a mark: links}; `chosen`: the selected {side, index} or null. */
export function paintMatrix(pen, visible, {frame, layout, marked, chosen, palette, inks, gamma, maximum}) {
  const {left, top, cell} = layout;
  const width = frame.columns.length;
  const [firstRow, lastRow] = range(visible.top, visible.height, top, cell, frame.rows.length);
  const [firstColumn, lastColumn] = range(visible.left, visible.width, left, cell, width);
  for (let row = firstRow; row < lastRow; row++) {
    for (let column = firstColumn; column < lastColumn; column++) {
      const weight = frame.weights[row * width + column];
      const future = weight === 0 && isFuture(frame, row, column);
      const colour = future ? palette.future : palette.of(frame, weight, {gamma, maximum});
      pen.rect(left + column * cell, top + row * cell, cell - 1, cell - 1, {fill: hex(colour)});
    }
  }
  for (const [name, links] of Object.entries(marked)) {
    for (const {row, column} of links) {
      if (row < firstRow || row >= lastRow || column < firstColumn || column >= lastColumn) continue;
      mark(pen, name, left + (column + 0.5) * cell - 0.5, top + (row + 0.5) * cell - 0.5, cell, inks.paper);
    }
  }
  const at = {x: visible.left, y: visible.top};
  pen.rect(at.x, at.y, visible.width, top - 1, {fill: inks.paper});
  pen.rect(at.x, at.y, left - 1, visible.height, {fill: inks.paper});
  const strong = (side, index) => chosen?.side === side && chosen.index === index;
  const size = Math.min(LABEL.size, cell - 1);
  for (let column = firstColumn; column < lastColumn; column++) {
    const label = frame.columns[column];
    const x = left + (column + 0.5) * cell - 0.5;
    if (x < at.x + left) continue;
    columnLabel(
      pen,
      x,
      at.y + top - 6,
      label,
      size,
      LABEL.most,
      strong('column', column) ? inks.accent : label.special ? inks.muted : inks.ink,
    );
  }
  for (let row = firstRow; row < lastRow; row++) {
    const label = frame.rows[row];
    const y = top + (row + 0.5) * cell - 0.5;
    if (y < at.y + top) continue;
    const style = {size, anchor: 'end', fill: strong('row', row) ? inks.accent : label.special ? inks.muted : inks.ink};
    pen.text(at.x + left - 7, y, cut(label.text, size, LABEL.most), {...style, weight: strong('row', row) ? 700 : 400});
  }
  pen.rect(at.x, at.y, left - 1, top - 1, {fill: inks.paper}); // the corner, over labels scrolled out of view
  if (chosen?.side === 'row') pen.rect(left - 1, top + chosen.index * cell - 1, width * cell + 1, cell + 1, {stroke: inks.ink, width: 1.5});
  if (chosen?.side === 'column')
    pen.rect(left + chosen.index * cell - 1, top - 1, cell + 1, frame.rows.length * cell + 1, {stroke: inks.ink, width: 1.5});
}

/** One mark centred at (x, y): a disc for right, a cross for wrong, a dashed box for missed. */
export function mark(pen, name, x, y, cell, paper) {
  const {colour} = MARKS[name];
  const reach = Math.min(cell * 0.3, 7);
  if (name === 'right' || name === 'plain') {
    pen.circle(x, y, reach, {fill: colour, stroke: paper, width: 1.5});
  } else if (name === 'wrong') {
    const under = {stroke: paper, width: 4.5};
    for (const style of [under, {stroke: colour, width: 2.2}]) {
      pen.line(x - reach, y - reach, x + reach, y + reach, style);
      pen.line(x - reach, y + reach, x + reach, y - reach, style);
    }
  } else {
    const size = 2 * reach + 3;
    pen.rect(x - size / 2, y - size / 2, size, size, {stroke: paper, width: 4});
    pen.rect(x - size / 2, y - size / 2, size, size, {stroke: colour, width: 2, dash: [3, 2]});
  }
}

function range(start, length, margin, cell, count) {
  const clamp = (place) => Math.min(Math.max(place, 0), count);
  return [clamp(Math.floor((start - margin) / cell)), clamp(Math.ceil((start + length - margin) / cell))];
}
