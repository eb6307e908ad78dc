/** The heat map as an SVG that stands alone: cells, labels, numbers, a scale of colours. */

import {short} from '../dom.js';
import {cellPicture, colourTable, isFuture, reach, scaleMaximum} from '../heatmap.js';
import {columnLabel, cut, marginsFor, widthOf} from './axis_labels.js';
import {hex, SvgPen} from './pen.js';

const LABEL = 12;
const MOST = 160; // pixels of a label
const NUMBERED = 24; // pixels that a cell needs to carry its number
const CELLS = 20_000; // more than these are drawn as a picture: a file of that many rectangles opens slowly everywhere
const TITLE = 34;
const SCALE = {width: 150, height: 10, room: 44};

/** The heat map of a frame. `inks` as from inksOf; `subtitle` says run, step and example. */
export function heatMapSvg(frame, palette, {scale, gamma}, inks, subtitle = '') {
  const {rows, columns} = frame;
  const pen = new SvgPen();
  const cell = rows.length * columns.length > CELLS ? 6 : Math.max(rows.length, columns.length) > 40 ? 13 : 30;
  const size = Math.min(LABEL, cell - 1);
  const margin = marginsFor(rows, columns, size, MOST);
  const [left, top] = [Math.ceil(margin.left + 8), Math.ceil(margin.top + TITLE + 16)]; // whole pixels: no seams
  const [across, down] = [columns.length * cell, rows.length * cell];
  const width = Math.max(left + across + 12, left + SCALE.width + 60, 24 + widthOf(frame.name, 15) * 1.1, 24 + widthOf(subtitle, 11));
  pen.text(12, 16, frame.name, {size: 15, fill: inks.ink, weight: 600});
  pen.text(12, 36, subtitle, {size: 11, fill: inks.muted});
  const maximum = scaleMaximum(frame, scale);
  if (rows.length * columns.length > CELLS) pen.image(left, top, across, down, picture(frame, palette, gamma, maximum));
  else drawCells(pen, frame, palette, {left, top, cell, gamma, maximum});
  rows.forEach((label, row) => {
    const fill = label.special ? inks.muted : inks.ink;
    pen.text(left - 6, top + (row + 0.5) * cell, cut(label.text, size, MOST), {size, fill, anchor: 'end'});
  });
  columns.forEach((label, column) =>
    columnLabel(pen, left + (column + 0.5) * cell, top - 5, label, size, MOST, label.special ? inks.muted : inks.ink),
  );
  pen.text(left - 6, top - 8, frame.rowsNamed, {size: 10, fill: inks.muted, anchor: 'end'});
  drawScale(pen, frame, palette, {x: left, y: top + down + 14, gamma, maximum}, inks);
  return pen.svg(width, top + down + SCALE.room, {title: `${frame.name} · ${subtitle}`, paper: inks.paper});
}

function drawCells(pen, frame, palette, {left, top, cell, gamma, maximum}) {
  const width = frame.columns.length;
  frame.weights.forEach((weight, i) => {
    const [row, column] = [Math.floor(i / width), i % width];
    const future = weight === 0 && isFuture(frame, row, column);
    const colour = future ? palette.future : palette.of(frame, weight, {gamma, maximum});
    const [x, y] = [left + column * cell, top + row * cell];
    pen.rect(x, y, cell, cell, {fill: hex(colour)});
    if (cell >= NUMBERED && !future)
      pen.text(x + cell / 2, y + cell / 2, short(weight), {size: 10, fill: palette.ink(colour), anchor: 'middle'});
  });
}

function drawScale(pen, frame, palette, {x, y, gamma, maximum}, {muted}) {
  const steps = 50;
  const lowest = frame.difference ? -maximum : 0;
  for (let step = 0; step < steps; step++) {
    const colour = palette.of(frame, lowest + ((maximum - lowest) * (step + 0.5)) / steps, {gamma, maximum});
    pen.rect(x + (step * SCALE.width) / steps, y, SCALE.width / steps + 0.5, SCALE.height, {fill: hex(colour)});
  }
  pen.text(x, y + SCALE.height + 9, short(lowest), {size: 10, fill: muted});
  pen.text(x + SCALE.width, y + SCALE.height + 9, short(maximum), {size: 10, fill: muted, anchor: 'end'});
}

function picture(frame, palette, gamma, maximum) {
  const table = colourTable(palette, {difference: frame.difference, gamma});
  return cellPicture({weights: frame.weights, columns: frame.columns.length, maximum, seen: reach(frame), table}).toDataURL('image/png');
}
