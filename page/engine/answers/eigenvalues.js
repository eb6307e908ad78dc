/** Eigenvalues of a square matrix, which need not be symmetric. */

/**
 * [{real, imaginary}] of `matrix` (Float64Array [n, n], row-major), which is overwritten: reduced to Hessenberg form, then by the QR algorithm
 * with double shifts (Francis 1961; EISPACK's elmhes and hqr). Throws an Error if it does not converge.
 */
export function eigenvalues(matrix, n) {
  const at = (row, column) => matrix[row * n + column];
  const set = (row, column, value) => {
    matrix[row * n + column] = value;
  };
  toHessenberg(matrix, n);
  const values = [];
  let shifted = 0; // sum of the exceptional shifts
  let last = n - 1;
  let steps = 0;
  while (last >= 0) {
    let low = last; // the first row of the block that is split off
    while (low > 0) {
      const size = Math.abs(at(low - 1, low - 1)) + Math.abs(at(low, low));
      if (Math.abs(at(low, low - 1)) <= Number.EPSILON * (size || 1)) break;
      low--;
    }
    if (low > 0) set(low, low - 1, 0);
    if (low === last) {
      values.push({real: at(last, last) + shifted, imaginary: 0});
      last -= 1;
      steps = 0;
      continue;
    }
    if (low === last - 1) {
      values.push(...ofTwo(at(last - 1, last - 1), at(last - 1, last), at(last, last - 1), at(last, last), shifted));
      last -= 2;
      steps = 0;
      continue;
    }
    if (++steps > 60) throw new Error('the eigenvalues do not converge');
    let [x, y, w] = [at(last, last), at(last - 1, last - 1), at(last, last - 1) * at(last - 1, last)];
    if (steps % 10 === 0) {
      shifted += x;
      for (let i = 0; i <= last; i++) set(i, i, at(i, i) - x);
      const size = Math.abs(at(last, last - 1)) + Math.abs(at(last - 1, last - 2));
      x = y = 0.75 * size;
      w = -0.4375 * size * size;
    }
    doubleStep(matrix, n, low, last, x, y, w);
  }
  return values;
}

/** The eigenvalues of [[a, b], [c, d]], plus a shift. */
function ofTwo(a, b, c, d, shift) {
  const half = (a - d) / 2;
  const discriminant = half * half + b * c;
  const root = Math.sqrt(Math.abs(discriminant));
  const middle = (a + d) / 2 + shift;
  if (discriminant < 0) return [1, -1].map((sign) => ({real: middle, imaginary: sign * root}));
  return [1, -1].map((sign) => ({real: middle + sign * root, imaginary: 0}));
}

/** Makes all entries below the first subdiagonal 0 by eliminations, which keep the eigenvalues. */
function toHessenberg(matrix, n) {
  for (let column = 1; column < n - 1; column++) {
    let pivot = column;
    for (let row = column; row < n; row++) {
      if (Math.abs(matrix[row * n + column - 1]) > Math.abs(matrix[pivot * n + column - 1])) pivot = row;
    }
    const divisor = matrix[pivot * n + column - 1];
    if (divisor === 0) continue;
    if (pivot !== column) {
      for (let i = column - 1; i < n; i++) swap(matrix, pivot * n + i, column * n + i);
      for (let i = 0; i < n; i++) swap(matrix, i * n + pivot, i * n + column);
    }
    for (let row = column + 1; row < n; row++) {
      const factor = matrix[row * n + column - 1] / divisor;
      if (factor === 0) continue;
      for (let i = column - 1; i < n; i++) matrix[row * n + i] -= factor * matrix[column * n + i];
      for (let i = 0; i < n; i++) matrix[i * n + column] += factor * matrix[i * n + row];
    }
  }
}

function swap(numbers, a, b) {
  [numbers[a], numbers[b]] = [numbers[b], numbers[a]];
}

/** One QR step with two shifts, whose sum is x + y and whose product is x y - w, on rows and columns low to last. */
function doubleStep(matrix, n, low, last, x, y, w) {
  const at = (row, column) => matrix[row * n + column];
  let start = last - 2;
  let p;
  let q;
  let r;
  for (; start >= low; start--) {
    const z = at(start, start);
    p = ((x - z) * (y - z) - w) / at(start + 1, start) + at(start, start + 1);
    q = at(start + 1, start + 1) - z - (x - z) - (y - z);
    r = at(start + 2, start + 1);
    const size = Math.abs(p) + Math.abs(q) + Math.abs(r);
    [p, q, r] = [p / size, q / size, r / size];
    if (start === low) break;
    const before = Math.abs(at(start, start - 1)) * (Math.abs(q) + Math.abs(r));
    const beside = Math.abs(p) * (Math.abs(at(start - 1, start - 1)) + Math.abs(z) + Math.abs(at(start + 1, start + 1)));
    if (before <= Number.EPSILON * beside) break;
  }
  for (let i = start + 2; i <= last; i++) {
    matrix[i * n + i - 2] = 0;
    if (i > start + 2) matrix[i * n + i - 3] = 0;
  }
  for (let k = start; k < last; k++) {
    const three = k < last - 1; // rows of the reflection, otherwise two
    let size = 1;
    if (k > start) {
      [p, q, r] = [at(k, k - 1), at(k + 1, k - 1), three ? at(k + 2, k - 1) : 0];
      size = Math.abs(p) + Math.abs(q) + Math.abs(r);
      if (size === 0) continue;
      [p, q, r] = [p / size, q / size, r / size];
    }
    const s = Math.hypot(p, q, r) * (p < 0 ? -1 : 1);
    if (s === 0) continue;
    if (k > start) matrix[k * n + k - 1] = -s * size;
    else if (low !== start) matrix[k * n + k - 1] *= -1;
    p += s;
    const [a, b, c] = [p / s, q / s, r / s];
    const [d, e] = [q / p, r / p];
    for (let j = k; j < n; j++) {
      const t = at(k, j) + d * at(k + 1, j) + (three ? e * at(k + 2, j) : 0);
      matrix[k * n + j] -= t * a;
      matrix[(k + 1) * n + j] -= t * b;
      if (three) matrix[(k + 2) * n + j] -= t * c;
    }
    for (let i = 0; i <= Math.min(last, k + 3); i++) {
      const t = a * at(i, k) + b * at(i, k + 1) + (three ? c * at(i, k + 2) : 0);
      matrix[i * n + k] -= t;
      matrix[i * n + k + 1] -= t * d;
      if (three) matrix[i * n + k + 2] -= t * e;
    }
  }
}
