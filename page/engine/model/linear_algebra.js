/**
 * Products of row-major matrices in Float32Arrays. Sums are accumulated in float64, the numbers of JavaScript: more exact than float32, and
 * engines compute them without conversions in between.
 */

/**
 * Returns x Wᵀ + b, Float32Array [rows, outputs]; x [rows, inputs], weight [outputs, inputs], bias [outputs] or null.
 *
 * Both operands are read along their rows. Two rows of x and four of the weight are multiplied at once: eight sums for six numbers read,
 * three times as fast as one sum at a time. More sums would not fit into the registers.
 */
export function multiply(x, rows, weight, bias, outputs, inputs) {
  const y = new Float32Array(rows * outputs);
  const pairs = rows & ~1;
  const fours = outputs & ~3;
  for (let output = 0; output < fours; output += 4) {
    for (let row = 0; row < pairs; row += 2) twoByFour(x, row, weight, output, y, outputs, inputs);
    if (pairs < rows) oneByFour(x, pairs, weight, output, y, outputs, inputs);
  }
  for (let output = fours; output < outputs; output++) {
    for (let row = 0; row < rows; row++) y[row * outputs + output] = dot(x, row * inputs, weight, output * inputs, inputs);
  }
  if (bias) {
    for (let row = 0, place = 0; row < rows; row++) {
      for (let output = 0; output < outputs; output++, place++) y[place] += bias[output];
    }
  }
  return y;
}

function twoByFour(x, row, weight, output, y, outputs, inputs) {
  const x0 = row * inputs;
  const x1 = x0 + inputs;
  const w0 = output * inputs;
  const w1 = w0 + inputs;
  const w2 = w1 + inputs;
  const w3 = w2 + inputs;
  let [a0, a1, a2, a3, b0, b1, b2, b3] = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let i = 0; i < inputs; i++) {
    const a = x[x0 + i];
    const b = x[x1 + i];
    const p = weight[w0 + i];
    const q = weight[w1 + i];
    const r = weight[w2 + i];
    const s = weight[w3 + i];
    a0 += a * p;
    a1 += a * q;
    a2 += a * r;
    a3 += a * s;
    b0 += b * p;
    b1 += b * q;
    b2 += b * r;
    b3 += b * s;
  }
  const place = row * outputs + output;
  y[place] = a0;
  y[place + 1] = a1;
  y[place + 2] = a2;
  y[place + 3] = a3;
  y[place + outputs] = b0;
  y[place + outputs + 1] = b1;
  y[place + outputs + 2] = b2;
  y[place + outputs + 3] = b3;
}

/** The same for a single row: the last of an odd number, or a token that follows a cache. */
function oneByFour(x, row, weight, output, y, outputs, inputs) {
  const x0 = row * inputs;
  const w0 = output * inputs;
  const w1 = w0 + inputs;
  const w2 = w1 + inputs;
  const w3 = w2 + inputs;
  let [a0, a1, a2, a3] = [0, 0, 0, 0];
  for (let i = 0; i < inputs; i++) {
    const a = x[x0 + i];
    a0 += a * weight[w0 + i];
    a1 += a * weight[w1 + i];
    a2 += a * weight[w2 + i];
    a3 += a * weight[w3 + i];
  }
  const place = row * outputs + output;
  y[place] = a0;
  y[place + 1] = a1;
  y[place + 2] = a2;
  y[place + 3] = a3;
}

/** Returns the dot product of `length` numbers of a, from place i on, and of b, from place j on. */
export function dot(a, i, b, j, length) {
  let sum = 0;
  for (let n = 0; n < length; n++) sum += a[i + n] * b[j + n];
  return sum;
}

/** Returns a + b, of equal length. */
export function add(a, b) {
  const sum = new Float32Array(a.length);
  for (let i = 0; i < sum.length; i++) sum[i] = a[i] + b[i];
  return sum;
}
