/** A table token x token, rows @ columnsᵀ [N, M], of two thin matrices: of a large vocabulary it is never in memory as a whole. */

import {multiply} from '../model/linear_algebra.js';
import {eigenvalues} from './eigenvalues.js';

const BLOCK = 2 ** 18; // entries that are computed at once

export class TokenTable {
  /** rows [N, D], columns [M, D]: Float32Arrays. */
  constructor(rows, columns, width) {
    Object.assign(this, {rows, columns, width, rowCount: rows.length / width, columnCount: columns.length / width});
  }

  /** The whole table, Float32Array [N, M]. */
  values() {
    return multiply(this.rows, this.rowCount, this.columns, null, this.columnCount, this.width);
  }

  /** The table of some rows and columns, by their places. */
  part(rows, columns) {
    return new TokenTable(rowsAt(this.rows, rows, this.width), rowsAt(this.columns, columns, this.width), this.width);
  }

  /**
   * {strongest: the `count` largest entries as [row, column, value], the largest first, onDiagonal: the share of rows whose largest entry is on
   * the diagonal}. Both in one pass, because computing the entries is what takes time.
   */
  survey(count) {
    const {rows, columns, width, rowCount, columnCount} = this;
    const step = Math.max(1, Math.floor(BLOCK / columnCount));
    const strongest = [];
    let least = -Infinity; // the smallest of a full list
    let diagonal = 0;
    for (let first = 0; first < rowCount; first += step) {
      const size = Math.min(step, rowCount - first);
      const block = multiply(rows.subarray(first * width, (first + size) * width), size, columns, null, columnCount, width);
      for (let row = 0; row < size; row++) {
        let best = 0;
        const start = row * columnCount;
        for (let column = 0; column < columnCount; column++) {
          const value = block[start + column];
          if (value > block[start + best]) best = column;
          if (value <= least) continue;
          insert(strongest, [first + row, column, value], count);
          if (strongest.length === count) least = strongest[count - 1][2];
        }
        if (best === first + row) diagonal++;
      }
    }
    return {strongest, onDiagonal: diagonal / rowCount};
  }

  /**
   * The sum of the eigenvalues of a square table divided by the sum of their absolute values, -1 to 1. Those of A Bᵀ [N, N] that are not 0 are
   * those of Bᵀ A [D, D].
   */
  sumOfEigenvalues() {
    const {rows, columns, width, rowCount} = this;
    const small = new Float64Array(width * width);
    for (let token = 0; token < rowCount; token++) {
      for (let i = 0; i < width; i++) {
        const factor = columns[token * width + i];
        for (let j = 0; j < width; j++) small[i * width + j] += factor * rows[token * width + j];
      }
    }
    const values = eigenvalues(small, width);
    const sizes = values.reduce((sum, {real, imaginary}) => sum + Math.hypot(real, imaginary), 0);
    return values.reduce((sum, {real}) => sum + real, 0) / Math.max(sizes, 1e-12);
  }
}

/** Adds an entry to a list of at most `count`, in descending order; of equal values, the one added first stays first. */
function insert(list, entry, count) {
  let place = list.length;
  while (place > 0 && list[place - 1][2] < entry[2]) place--;
  list.splice(place, 0, entry);
  if (list.length > count) list.pop();
}

function rowsAt(matrix, places, width) {
  const rows = new Float32Array(places.length * width);
  for (const [row, place] of places.entries()) rows.set(matrix.subarray(place * width, (place + 1) * width), row * width);
  return rows;
}
