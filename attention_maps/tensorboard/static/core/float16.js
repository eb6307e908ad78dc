/** Decodes tensors. float16 by a table of all 65,536 bit patterns: exact and fast; older browsers have no Float16Array. */

const TABLE = Float32Array.from({length: 65536}, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
});

/** Raw little-endian bytes (ArrayBuffer) of a format, F16 or F32, -> Float32Array; every platform with a browser is little-endian. */
export function numbersOf(buffer, dtype) {
  if (dtype === 'F32') return new Float32Array(buffer);
  const bits = new Uint16Array(buffer, 0, buffer.byteLength >> 1);
  const numbers = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) numbers[i] = TABLE[bits[i]];
  return numbers;
}
