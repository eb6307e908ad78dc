/** Decodes float16 with a table of all 65,536 bit patterns: exact and fast; older browsers have no Float16Array. */

const TABLE = Float32Array.from({length: 65536}, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
});

/** Uint16Array of float16 bits -> Float32Array of the same length. */
export function decode(bits) {
  const numbers = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) numbers[i] = TABLE[bits[i]];
  return numbers;
}

/** Raw little-endian bytes (ArrayBuffer) -> Uint16Array; every platform with a browser is little-endian. */
export function bitsOf(buffer) {
  return new Uint16Array(buffer, 0, buffer.byteLength >> 1);
}
