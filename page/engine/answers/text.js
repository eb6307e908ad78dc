/** Text as Python sees it: a string of characters (code points), with Python's white space. */

const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const ENDS = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, 'g');

/** `text.strip()`. */
export function stripped(text) {
  return text.replace(ENDS, '');
}

/** `len(text)`. */
export function characterCount(text) {
  return [...text].length;
}

/** `text.casefold()`, except for a few letters outside the common alphabets, such as the dotless i. */
export function caseFolded(text) {
  return [...text].map((character) => character.toUpperCase().toLowerCase()).join('');
}

/** Whether a character has a printed form: `character.isprintable()`. */
export function isPrintable(character) {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character);
}

/** Text with a question mark for each half of a surrogate pair that stands alone, which is not a character. */
export function withoutLoneSurrogates(text) {
  return text.replace(/\p{Surrogate}/gu, '?');
}

/** 12345 -> "12,345". */
export function withCommas(number) {
  return number.toLocaleString('en-US');
}
