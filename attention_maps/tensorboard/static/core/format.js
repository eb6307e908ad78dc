/** Tokens and numbers as text. */

/** `ja` for text that contains Japanese, else `en`: fonts draw the same character differently for Japanese and Chinese. */
export function languageOf(text) {
  return /[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3134f}]/u.test(text) ? 'ja' : 'en';
}

/** A token's piece for display: a leading ▁ (space marker) is dropped, a token that is only a space becomes ␣. */
export function readable(piece) {
  return piece.replace(/^▁+(?=.)/u, '').replaceAll('▁', '␣') || '∅';
}

/** A weight for a cell or a tooltip: .42, 1, 0, −.07. Not percent, which would mislead in differences. */
export function short(weight) {
  if (!Number.isFinite(weight)) return 'nan';
  const text = Math.abs(weight).toFixed(2);
  const bare = {'0.00': '0', '1.00': '1'}[text] ?? text.replace(/^0/, '');
  return weight < 0 && bare !== '0' ? `−${bare}` : bare;
}

/** A change, with its sign: +0.42, −1.50, and 0.00 for one that is rounded away. */
export function signed(number, digits = 2) {
  const size = Math.abs(number).toFixed(digits);
  return Number(size) ? `${number < 0 ? '−' : '+'}${size}` : size;
}

/** A fraction as percent with one decimal place: 0.4213 -> "42.1 %". */
export function percent(share) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : 'nan';
}
