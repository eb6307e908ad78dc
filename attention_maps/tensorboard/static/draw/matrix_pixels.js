/** Converts matrices to pixels; all bulk colouring of weights happens here. Shapes: Q rows, K columns, row-major. */

const STEPS = 1024; // entries of a colour table for values from 0 to 1

/** The colours of a frame as packed pixels, after gamma: {at: Uint32Array, middle, future, nan}. */
export function colourTable(palette, {difference = false, gamma = 1} = {}) {
  const middle = difference ? STEPS : 0;
  const at = new Uint32Array(middle + STEPS + 1);
  for (let i = 0; i < at.length; i++) {
    const share = (i - middle) / STEPS;
    const lifted = Math.sign(share) * Math.abs(share) ** gamma;
    at[i] = packed(difference ? palette.difference(lifted) : palette.weight(lifted));
  }
  return {at, middle, future: packed(palette.future), nan: packed([219, 38, 38])};
}

/** Last position of each row, first of each column, for the causal mask: a cell is masked where column > row. Null without a mask. */
export function reach(frame) {
  if (!frame.causal) return null;
  return {
    rows: Int32Array.from(frame.rows, ({positions}) => positions.at(-1)),
    columns: Int32Array.from(frame.columns, ({positions}) => positions[0]),
  };
}

/**
 * Fill `pixels` (Uint32Array of width x height) with a matrix of `columns` columns. A pixel that covers several cells gets the
 * colour of the largest weight, so that a thin diagonal does not fade in a small picture.
 */
export function paint(pixels, width, height, {weights, columns, maximum, seen, table}) {
  const rows = weights.length / columns;
  const across = spans(columns, width);
  const down = spans(rows, height);
  const {at, middle, future, nan} = table;
  const last = at.length - 1;
  const scale = STEPS / maximum;
  for (let y = 0; y < height; y++) {
    const [top, bottom] = [down[2 * y], down[2 * y + 1]];
    if (y > 0 && bottom - top === 1 && down[2 * y - 2] === top && down[2 * y - 1] === bottom) {
      pixels.copyWithin(y * width, (y - 1) * width, y * width); // an enlarged row
      continue;
    }
    for (let x = 0; x < width; x++) {
      const right = across[2 * x + 1];
      let strongest = 0;
      let visible = false;
      for (let row = top; row < bottom; row++) {
        for (let column = across[2 * x]; column < right; column++) {
          const weight = weights[row * columns + column];
          if (seen && seen.columns[column] > seen.rows[row] && weight === 0) continue;
          visible = true;
          if (!(Math.abs(weight) <= Math.abs(strongest))) strongest = weight; // NaN too
        }
      }
      if (!visible) pixels[y * width + x] = future;
      else if (!Number.isFinite(strongest)) pixels[y * width + x] = nan;
      else pixels[y * width + x] = at[Math.min(Math.max(middle + Math.round(strongest * scale), 0), last)];
    }
  }
}

/** A matrix as a canvas of one pixel per cell, to be scaled to any size. */
export function cellPicture(matrix) {
  const rows = matrix.weights.length / matrix.columns;
  const canvas = document.createElement('canvas');
  canvas.width = matrix.columns;
  canvas.height = rows;
  const context = canvas.getContext('2d');
  const image = context.createImageData(matrix.columns, rows);
  paint(new Uint32Array(image.data.buffer), matrix.columns, rows, matrix);
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The value that gets the strongest colour: the map's maximum, or 1 in all maps. */
export function scaleMaximum(frame, scale) {
  return scale === 'one' ? 1 : frame.maximum;
}

/** Whether the causal mask hides a cell. */
export function isFuture(frame, row, column) {
  return frame.causal && frame.columns[column].positions[0] > frame.rows[row].positions.at(-1);
}

/** Give a canvas the resolution of the screen -> its cleared context, in CSS pixels. */
export function sharpContext(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function packed([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** For each of `size` pixels the range of cells that it covers: first, and one after the last. */
function spans(cells, size) {
  const found = new Int32Array(2 * size);
  for (let i = 0; i < size; i++) {
    const first = Math.min(Math.floor((i * cells) / size), cells - 1);
    found[2 * i] = first;
    found[2 * i + 1] = Math.max(first + 1, Math.min(Math.floor(((i + 1) * cells) / size), cells));
  }
  return found;
}
