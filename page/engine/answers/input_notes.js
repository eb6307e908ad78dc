/** Sentences about what a model cannot read of a text, as generation/input_warnings.py and tab_answers/answer.py write them. */

import {isPrintable} from './text.js';

const SHOWN = 5; // characters named in a note
const IDEOGRAPHS = [
  [0x4e00, 0x9fff],
  [0x3400, 0x4dbf],
  [0x20000, 0x323af],
]; // whose names are their numbers

/**
 * A sentence that names the characters of a text that are missing from the vocabulary; '' if there are none. `ids`: the tokens of the
 * text; `names`: those of common characters, [[code point of the first, names one per line]].
 */
export function unknownCharacters(tokenizer, text, ids, names) {
  if (!ids.includes(tokenizer.unkId)) return '';
  const unknown = [...new Set(text)].filter((character) => tokenizer.encode(character).includes(tokenizer.unkId));
  unknown.sort((a, b) => a.codePointAt(0) - b.codePointAt(0));
  const more = unknown.length > SHOWN ? ` and ${unknown.length - SHOWN} more` : '';
  const listed = unknown.slice(0, SHOWN).map((character) => {
    const name = nameOf(character.codePointAt(0), names);
    return isPrintable(character) ? `${character} (${name})` : name;
  });
  return `the model has never seen ${listed.join(', ')}${more}; it reads <unk> there`;
}

/** The Unicode name of a character; U+XXXX if it has none here. */
function nameOf(code, names) {
  const number = code.toString(16).toUpperCase().padStart(4, '0');
  if (IDEOGRAPHS.some(([first, last]) => code >= first && code <= last)) return `CJK UNIFIED IDEOGRAPH-${number}`;
  for (const [first, lines] of names) {
    const name = lines.split('\n')[code - first];
    if (name) return name;
  }
  return `U+${number}`;
}
