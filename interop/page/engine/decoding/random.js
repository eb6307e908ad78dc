/**
 * A function that returns independent numbers, uniform in [0, 1), the same for the same seed (a whole number): Chris Doty-Humphrey's sfc32,
 * two outputs for the 53 bits of a number.
 */
export function randomNumbers(seed) {
  const state = Uint32Array.of(seed, seed / 2 ** 32, 0, 1);
  const next = () => {
    const [a, b, c, counter] = state;
    const output = (a + b + counter) >>> 0;
    state.set([b ^ (b >>> 9), c + (c << 3), ((c << 21) | (c >>> 11)) + output, counter + 1]);
    return output;
  };
  for (let i = 0; i < 12; i++) next(); // until the seed has reached every bit
  return () => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) * 2 ** -53;
}
