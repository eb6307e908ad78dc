/** The layers of a block: linear layers, norms and the MLP. Shapes: T rows (tokens), C width. */

import {multiply} from './linear_algebra.js';

/** y = x Wᵀ + b: `weight` Float32Array [outputs, inputs], `bias` [outputs] or null. */
export class Linear {
  constructor(weight, bias, outputs, inputs) {
    Object.assign(this, {weight, bias, outputs, inputs});
  }

  /** x [rows, inputs] -> Float32Array [rows, outputs]. */
  apply(x, rows) {
    return multiply(x, rows, this.weight, this.bias, this.outputs, this.inputs);
  }
}

/**
 * x / RMS(x) * weight over vectors of the length of `weight`; `centred`: of x minus its mean, which makes it a layer norm. `bias` may be
 * null; `eps` is added to the mean square.
 */
export class Norm {
  constructor(weight, bias, eps, centred) {
    Object.assign(this, {weight, bias, eps, centred, width: weight.length});
  }

  /** Returns a normalised copy of x, [rows, width]. */
  apply(x, rows) {
    const {weight, bias, width} = this;
    const y = new Float32Array(rows * width);
    for (let row = 0, start = 0; row < rows; row++, start += width) {
      const {mean, scale} = this.statistics(x, start);
      for (let i = 0; i < width; i++) y[start + i] = (x[start + i] - mean) * scale * weight[i];
      if (bias) for (let i = 0; i < width; i++) y[start + i] += bias[i];
    }
    return y;
  }

  /** What is subtracted from the vector at x[start …], and then multiplied with it: {mean, scale}; without centring, mean is 0. */
  statistics(x, start) {
    const {width, eps, centred} = this;
    let mean = 0;
    if (centred) {
      for (let i = 0; i < width; i++) mean += x[start + i];
      mean /= width;
    }
    let squares = 0;
    for (let i = 0; i < width; i++) squares += (x[start + i] - mean) ** 2;
    return {mean, scale: 1 / Math.sqrt(squares / width + eps)};
  }
}

/** The MLP: expand, apply the activation, project back. */
export class FeedForward {
  constructor(activation, expand, project) {
    Object.assign(this, {activation, expand, project});
  }

  /** x [T, C] -> Float32Array [T, C]. */
  apply(x, rows) {
    const hidden = this.expand.apply(x, rows);
    return this.project.apply(this.activation === 'swiglu' ? gated(hidden, rows) : activated(hidden, this.activation), rows);
  }
}

/** SiLU(gate) * value, [rows, N / 2], of hidden [rows, N], whose first half is the gate. */
function gated(hidden, rows) {
  const width = hidden.length / rows / 2;
  const y = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    const gate = 2 * row * width;
    for (let i = 0; i < width; i++) y[row * width + i] = silu(hidden[gate + i]) * hidden[gate + width + i];
  }
  return y;
}

function activated(hidden, name) {
  const activation = ACTIVATIONS[name];
  for (let i = 0; i < hidden.length; i++) hidden[i] = activation(hidden[i]);
  return hidden;
}

const ACTIVATIONS = {
  relu2: (x) => (x > 0 ? x * x : 0),
  relu: (x) => (x > 0 ? x : 0),
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu,
};

function silu(x) {
  return x / (1 + Math.exp(-x));
}

/** The error function, within 1.5e-7 (Abramowitz & Stegun 1964, 7.1.26). */
export function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}
