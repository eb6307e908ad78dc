/**
 * Characters that the tokenizer writes differently than SentencePiece reads them, as in data/tokens/sentencepiece_tokenizer.py: Unicode
 * noncharacters stand in for tabs, NULs, carriage returns and ▁; noncharacters of a text are escaped by U+FDD0 and a digit.
 */

const ESCAPE = '\ufdd0';
const ORIGINALS = '\t\0\r\u2581'; // of the stand-ins U+FDD1 to U+FDD4
const FIRST_STAND_IN = 0xfdd1;
const LABELS = {'\n': '↵', '\t': '⇥', '\r': '␍', '\0': '␀'};

/** What the model reads for one character (code point) of a text: one or two characters. Half a surrogate pair is U+FFFD. */
export function escaped(character) {
  const place = ORIGINALS.indexOf(character);
  if (place >= 0) return String.fromCharCode(FIRST_STAND_IN + place);
  if (character >= ESCAPE && character <= '\ufdd4') return ESCAPE + (character.charCodeAt(0) - 0xfdd0);
  return /^[\ud800-\udfff]$/.test(character) ? '\ufffd' : character;
}

/** The text behind the model's characters; an escape that is cut in half is U+FFFD. */
export function unescaped(text) {
  return text.replace(/\ufdd0([0-4]?)|[\ufdd1-\ufdd4]/g, (match, digit) => {
    if (match[0] !== ESCAPE) return ORIGINALS[match.charCodeAt(0) - FIRST_STAND_IN];
    return digit ? String.fromCharCode(0xfdd0 + Number(digit)) : '\ufffd';
  });
}

/** A text on one line, with symbols for control characters. */
export function labelled(text) {
  return text.replace(/[\n\t\r\0]/g, (character) => LABELS[character]);
}
