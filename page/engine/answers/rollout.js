/**
 * The attention rollout of a kind of self-attention (Abnar & Zuidema 2020), {numbers: Float32Array, shape: [Q, K]}: the product over layers of
 * (A + I) / 2, where A is the mean of the maps of a layer. `layers`: tensors {numbers, shape: [H, Q, Q]}, the first layer first.
 */
export function rollout(layers) {
  const [, size] = layers[0].shape;
  let mixed = identity(size);
  for (const {numbers, shape} of layers) {
    const step = meanOfHeads(numbers, shape[0]);
    for (let i = 0; i < size; i++) step[i * size + i] += 1;
    mixed = product(step, mixed, size).map((value) => value / 2);
  }
  return {numbers: Float32Array.from(mixed), shape: [size, size]};
}

function identity(size) {
  const matrix = new Float64Array(size * size);
  for (let i = 0; i < size; i++) matrix[i * size + i] = 1;
  return matrix;
}

function meanOfHeads(numbers, heads) {
  const count = numbers.length / heads;
  const mean = new Float64Array(count);
  for (let head = 0; head < heads; head++) for (let i = 0; i < count; i++) mean[i] += numbers[head * count + i] / heads;
  return mean;
}

/** a b, of square matrices; zeros of `a`, such as all weights of later tokens, are skipped. */
function product(a, b, size) {
  const c = new Float64Array(size * size);
  for (let row = 0; row < size; row++) {
    for (let middle = 0; middle < size; middle++) {
      const factor = a[row * size + middle];
      if (!factor) continue;
      for (let column = 0; column < size; column++) c[row * size + column] += factor * b[middle * size + column];
    }
  }
  return c;
}
