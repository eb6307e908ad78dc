/** The heat map as a standalone SVG: cells, labels, numbers, colour scale and notes. */

import {short} from '../../core/format.js';
import {columnLabel, cut, marginsFor, widthOf} from '../../draw/axis_labels.js';
import {cellPicture, colourTable, isFuture, reach, scaleMaximum} from '../../draw/matrix_pixels.js';
import {hex, SvgPen} from '../../draw/pen.js';
import {BAR, drawHidden, drawTitles} from './annotations.js';
import {cornerWidth, otherNames} from './layout.js';

const LABEL = 12;
const MOST = 160; // longest label in pixels
const NUMBERED = 24; // smallest cell, in pixels, with a number
const CELLS = 20_000; // larger maps are drawn as one picture, because viewers open many rectangles slowly
const TITLE = 34;
const SCALE = {width: 150, height: 10, room: 44};
const NOTE = 16; // pixels of a line under the scale
const GAP = 8;

/** The heat map of a frame. `inks` as from inksOf; `subtitle` names run, step and example. */
export function heatMapSvg(frame, palette, {scale, gamma}, inks, subtitle = '') {
  const {rows, columns} = frame;
  const others = otherNames(frame);
  const pen = new SvgPen();
  const cell = rows.length * columns.length > CELLS ? 6 : Math.max(rows.length, columns.length) > 40 ? 13 : 30;
  const size = Math.min(LABEL, cell - 1);
  const margin = marginsFor(rows, columns, size, MOST);
  const left = Math.ceil(Math.max(margin.left, cornerWidth()) + 8); // whole pixels: no seams
  const top = Math.ceil(Math.max(margin.top, 44) + TITLE + 16);
  const [across, down] = [columns.length * cell, rows.length * cell];
  const hiddenLeft = left + across + GAP;
  const othersLeft = hiddenLeft + (frame.hidden ? BAR + GAP : 0);
  const right = othersLeft + (others ? Math.min(MOST, Math.max(widthOf('predicts', 11), ...others.map((text) => widthOf(text, size)))) : 0);
  const notes = notesOf(frame, gamma);
  const texts = [widthOf(frame.name, 15) * 1.1, widthOf(subtitle, 11), ...notes.map((note) => left + widthOf(note, 10))];
  const width = Math.max(right + 12, left + SCALE.width + 60, 24 + Math.max(...texts));
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
  others?.forEach((text, row) => pen.text(othersLeft, top + (row + 0.5) * cell, cut(text, size, MOST), {size, fill: inks.muted}));
  drawTitles(pen, frame, {left, top, othersLeft, margins: {others, right: MOST}}, inks);
  const layout = {cell: {height: cell}, top, hiddenLeft, viewHeight: down};
  drawHidden(pen, frame, {...layout, visibleRows: () => rows.keys(), rowY: (row) => top + row * cell}, inks);
  drawScale(pen, frame, palette, {x: left, y: top + down + 14, gamma, maximum}, inks);
  notes.forEach((note, i) => pen.text(left, top + down + SCALE.room + NOTE * (i + 0.2), note, {size: 10, fill: inks.muted}));
  return pen.svg(width, top + down + SCALE.room + NOTE * notes.length, {title: `${frame.name} · ${subtitle}`, paper: inks.paper});
}

/** How weights and colours were changed, without which the picture would mislead. */
function notesOf(frame, gamma) {
  return [
    frame.hidden && `hidden: attention on special tokens${frame.difference ? ' in A' : ''}; rows renormalised to sum to 1`,
    frame.weighted && 'weights times value norms; rows renormalised to sum to 1',
    gamma !== 1 && `colours: gamma ${gamma}`,
  ].filter(Boolean);
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
