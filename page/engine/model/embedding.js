/** From tokens to vectors: embeddings, positions (added or as rotations) and token shift. Shapes: T tokens, C width, H heads, D head width. */

/** Token vectors times `scale`, plus positions if the model adds them. `table` Float32Array [V, C]. */
export class Embedding {
  /** positions: `LearnedPositions`, `SinusoidalPositions` or null. */
  constructor(table, width, scale, positions) {
    Object.assign(this, {table, width, scale, positions});
  }

  /** ids [T] at positions [T] -> Float32Array [T, C]. RangeError for an id or a position that the model does not have. */
  apply(ids, positions) {
    const {table, width, scale} = this;
    const x = new Float32Array(ids.length * width);
    for (let row = 0; row < ids.length; row++) {
      const token = ids[row] * width;
      if (!(Number.isInteger(ids[row]) && token >= 0 && token < table.length)) throw new RangeError(`the vocabulary has no token ${ids[row]}`);
      for (let i = 0; i < width; i++) x[row * width + i] = table[token + i] * scale;
    }
    this.positions?.addTo(x, positions);
    return x;
  }
}

/** One trained vector for each position of the context: `table` [context, C]. */
export class LearnedPositions {
  constructor(table, width) {
    Object.assign(this, {table, width});
  }

  addTo(x, positions) {
    const {table, width} = this;
    positions.forEach((position, row) => {
      if ((position + 1) * width > table.length) throw new RangeError(`the model has vectors for ${table.length / width} positions only`);
      for (let i = 0; i < width; i++) x[row * width + i] += table[position * width + i];
    });
  }
}

/** PE(p, 2i) = sin(p / 10000^(2i/C)), PE(p, 2i+1) = cos of the same (Vaswani et al. 2017). */
export class SinusoidalPositions {
  constructor(width) {
    this.width = width;
    this.angles = new Angles(width, 10000);
  }

  addTo(x, positions) {
    const {width} = this;
    positions.forEach((position, row) => {
      const {sines, cosines} = this.angles.at(position);
      for (let i = 0; i < width; i += 2) {
        x[row * width + i] += sines[i / 2];
        x[row * width + i + 1] += cosines[i / 2];
      }
    });
  }
}

/** Rotates each pair (i, i + D/2) of the queries and keys of a head by p / base^(2i/D) (Su et al. 2021). */
export class Rotary {
  constructor(headWidth, base) {
    this.headWidth = headWidth;
    this.angles = new Angles(headWidth, base);
  }

  /** Rotates, in place, x [T, N · D] of tokens at positions [T]; N may be any number of heads. */
  rotate(x, positions) {
    const half = this.headWidth / 2;
    const rowWidth = x.length / positions.length;
    positions.forEach((position, row) => {
      const {sines, cosines} = this.angles.at(position);
      for (let head = row * rowWidth; head < (row + 1) * rowWidth; head += this.headWidth) {
        for (let i = 0; i < half; i++) {
          const first = x[head + i];
          const second = x[head + half + i];
          x[head + i] = first * cosines[i] - second * sines[i];
          x[head + half + i] = second * cosines[i] + first * sines[i];
        }
      }
    });
  }
}

/** Sines and cosines of p / base^(2i/width) for i < width / 2, computed once for each position. */
class Angles {
  constructor(width, base) {
    this.frequencies = Array.from({length: width / 2}, (_, i) => base ** ((-2 * i) / width));
    this.known = new Map();
  }

  /** {sines, cosines}, Float32Array [width / 2] each. Angles are rounded to float32, as in training. */
  at(position) {
    if (!this.known.has(position)) {
      const angles = this.frequencies.map((frequency) => Math.fround(position * frequency));
      this.known.set(position, {sines: Float32Array.from(angles, Math.sin), cosines: Float32Array.from(angles, Math.cos)});
    }
    return this.known.get(position);
  }
}

/** y[t] = x[t] + gain * x[t-1], with a gain [C] for each channel (Peng et al. 2023). */
export class TokenShift {
  constructor(gain) {
    this.gain = gain;
  }

  /** x [T, C] -> Float32Array [T, C]. before: the vector [C] that precedes x, or null; starts: whether a row has no predecessor. */
  apply(x, before, starts) {
    const {gain} = this;
    const width = gain.length;
    const y = x.slice();
    for (let row = 0; row < x.length / width; row++) {
      const source = row === 0 ? before : x;
      if (!source || starts(row)) continue;
      const from = row === 0 ? 0 : (row - 1) * width;
      for (let i = 0; i < width; i++) y[row * width + i] += gain[i] * source[from + i];
    }
    return y;
  }
}
