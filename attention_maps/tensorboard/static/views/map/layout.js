/** Layout of the heat map in CSS pixels: margins for labels, cell size, zoom and pan, visible rows and columns. */

import {readable} from '../../core/format.js';
import {wordText} from '../../core/word_groups.js';
import {marginsFor, widthOf} from '../../draw/axis_labels.js';

export const LABEL = 12; // size of a label if there is room
const LONGEST = 132; // limit for labels
const HIDDEN = 44; // width of the column of hidden attention

export const CORNER = {size: 11, gap: 7, widest: 'predicts ↓'}; // captions of rows and columns
const BOTTOM = 6;
const LARGEST = 64; // cell of a map fitted to the window
const NEAREST = 96; // cell at the highest zoom
const STRETCH = 4; // largest aspect ratio of a cell

/** Zoom and pan: at `zoom` 1 the map fits the window; x and y are the pixels of the zoomed map left of and above the window. */
export class Camera {
  constructor() {
    this.fit();
  }

  fit() {
    Object.assign(this, {zoom: 1, x: 0, y: 0});
  }

  /** Zoom by a factor around the point (px, py) of the canvas. */
  zoomAt(factor, px, py, layout) {
    const zoom = Math.min(Math.max(this.zoom * factor, 1), layout.zoomMost);
    const [before, after] = [layout.cellsAt(this.zoom), layout.cellsAt(zoom)];
    this.x = ((px - layout.left + this.x) / before.width) * after.width - (px - layout.left);
    this.y = ((py - layout.top + this.y) / before.height) * after.height - (py - layout.top);
    this.zoom = zoom;
  }

  pan(dx, dy) {
    this.x -= dx;
    this.y -= dy;
  }
}

/** The second label of each row: what it reads if labelled by what it predicts, and vice versa; null for an encoder. */
export function otherNames(frame) {
  if (frame.kind === 'encoder') return null;
  const {pieces} = frame.rowsNamed === 'predicts' ? frame.sample.reads : frame.sample.predicts;
  return frame.rows.map(({positions}) => {
    const text = readable(
      wordText(
        pieces,
        positions.filter((position) => position < pieces.length),
      ) || '…',
    );
    return positions.length > 1 ? text.replaceAll('␣', ' ') : text; // words of one side are seldom words of the other
  });
}

/** The width in pixels of the captions in the corner. */
export function cornerWidth() {
  return Math.ceil(widthOf(CORNER.widest, CORNER.size)) + CORNER.gap + 4;
}

/** The margins for the labels of a frame: {left, top, right, hidden, others}. */
export function marginsOf(frame) {
  const {left, top} = marginsFor(frame.rows, frame.columns, LABEL, LONGEST);
  const others = otherNames(frame);
  const caption = frame.rowsNamed === 'predicts' ? 40 : Math.ceil(widthOf('predicts', CORNER.size));
  const right = others ? Math.min(LONGEST, Math.max(caption, ...others.map((text) => widthOf(text, LABEL)))) + 12 : 16;
  return {left: Math.max(left, cornerWidth()), top: Math.max(top, 44), right, hidden: frame.hidden ? HIDDEN : 0, others};
}

export class Layout {
  /** `margins` as from marginsOf, in a canvas of width x height; clamps the camera to the map. */
  constructor(frame, margins, width, height, camera) {
    const [rows, columns] = [frame.rows.length, frame.columns.length];
    Object.assign(this, {rows, columns, width, height, left: margins.left, top: margins.top, margins});
    const roomAcross = Math.max(40, width - margins.left - margins.right - margins.hidden);
    const roomDown = Math.max(40, height - margins.top - BOTTOM);
    const [across, down] = [roomAcross / columns, roomDown / rows];
    this.fitted = {width: Math.min(across, down * STRETCH, LARGEST), height: Math.min(down, across * STRETCH, LARGEST)};
    this.zoomMost = Math.max(1, NEAREST / Math.min(this.fitted.width, this.fitted.height));
    this.cell = this.cellsAt(camera.zoom);
    this.mapWidth = this.cell.width * columns;
    this.mapHeight = this.cell.height * rows;
    this.viewWidth = Math.min(this.mapWidth, roomAcross);
    this.viewHeight = Math.min(this.mapHeight, roomDown);
    camera.x = Math.min(Math.max(camera.x, 0), this.mapWidth - this.viewWidth);
    camera.y = Math.min(Math.max(camera.y, 0), this.mapHeight - this.viewHeight);
    Object.assign(this, {x: camera.x, y: camera.y});
    this.firstColumn = Math.floor(this.x / this.cell.width);
    this.firstRow = Math.floor(this.y / this.cell.height);
    this.lastColumn = Math.min(columns, Math.ceil((this.x + this.viewWidth) / this.cell.width));
    this.lastRow = Math.min(rows, Math.ceil((this.y + this.viewHeight) / this.cell.height));
    this.hiddenLeft = this.left + this.viewWidth + 8;
    this.othersLeft = this.left + this.viewWidth + 8 + margins.hidden;
  }

  /** The size of a cell at a zoom: whole pixels if large enough, so that all cells look alike. */
  cellsAt(zoom) {
    const snapped = (size) => (size >= 4 ? Math.floor(size) : size);
    return {width: snapped(this.fitted.width * zoom), height: snapped(this.fitted.height * zoom)};
  }

  columnX(column) {
    return this.left + column * this.cell.width - this.x;
  }

  rowY(row) {
    return this.top + row * this.cell.height - this.y;
  }

  /** Rows (below: columns) whose middle is visible. */
  visibleRows() {
    return this.#seen(this.firstRow, this.lastRow, (row) => this.rowY(row) + this.cell.height / 2 - this.top, this.viewHeight);
  }

  visibleColumns() {
    return this.#seen(
      this.firstColumn,
      this.lastColumn,
      (column) => this.columnX(column) + this.cell.width / 2 - this.left,
      this.viewWidth,
    );
  }

  /** What is at a point of the canvas: {row, column, hidden}, -1 outside the cells, `hidden` for the bar; null for nothing. */
  at(px, py) {
    const inside = {x: px >= this.left && px < this.left + this.viewWidth, y: py >= this.top && py < this.top + this.viewHeight};
    if (!inside.x && !inside.y) return null;
    const column = inside.x ? Math.min(this.columns - 1, Math.floor((px - this.left + this.x) / this.cell.width)) : -1;
    const row = inside.y ? Math.min(this.rows - 1, Math.floor((py - this.top + this.y) / this.cell.height)) : -1;
    if (row < 0 && py >= this.top) return null; // below the map
    return {row, column, hidden: column < 0 && this.margins.hidden > 0 && px >= this.hiddenLeft - 4 && px < this.othersLeft};
  }

  #seen(first, last, middle, room) {
    return Array.from({length: last - first}, (_, i) => first + i).filter((i) => middle(i) >= 0 && middle(i) <= room);
  }
}
