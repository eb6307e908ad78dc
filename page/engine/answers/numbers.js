/** Small computations on rows of numbers that several answers need. */

/** Rounds as Python does; null for a number that is not finite, because JSON has none. */
export function rounded(number, digits) {
  return Number.isFinite(number) ? Number(number.toFixed(digits)) : null;
}

/** The logarithm of the sum of the exponentials of `count` numbers from `start` on. */
export function logSumExp(numbers, start, count) {
  let largest = -Infinity;
  for (let i = start; i < start + count; i++) if (numbers[i] > largest) largest = numbers[i];
  let sum = 0;
  for (let i = start; i < start + count; i++) sum += Math.exp(numbers[i] - largest);
  return largest + Math.log(sum);
}

/** The indices, within a row of `count` numbers from `start` on, of the `most` largest ones, in descending order; of equal ones, the first. */
export function largestIndices(numbers, start, count, most) {
  const indices = [];
  let least = -Infinity; // the smallest of a full list
  for (let index = 0; index < count; index++) {
    const number = numbers[start + index];
    if (indices.length === most && !(number > least)) continue;
    let place = indices.length;
    while (place > 0 && numbers[start + indices[place - 1]] < number) place--;
    indices.splice(place, 0, index);
    if (indices.length > most) indices.pop();
    if (indices.length === most) least = numbers[start + indices[most - 1]];
  }
  return indices;
}

/** Decodes base64 of little-endian float32 numbers. */
export function float32Of(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
