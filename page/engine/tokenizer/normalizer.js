/** SentencePiece's normalizer: writes a space as ▁ and, with a character map (tokenizer.normalization=nfkc), replaces characters. */

const SPACE = '\u2581';
const ENCODER = new TextEncoder();
const DECODER = new TextDecoder();

export class Normalizer {
  /** `map`: a CharacterMap, or null. */
  constructor(map) {
    this.map = map;
  }

  /**
   * {normalized: characters, origins}: `origins[i]` is the position in `characters` (code points) that the normalized character i comes from;
   * one more entry, `characters.length`, ends it.
   */
  normalize(characters) {
    const normalized = [];
    const origins = [];
    for (let position = 0; position < characters.length; ) {
      const {replacement, length} = this.map?.longest(characters, position) ?? {replacement: [characters[position]], length: 1};
      for (const character of replacement) {
        normalized.push(character === ' ' ? SPACE : character);
        origins.push(position);
      }
      position += length;
    }
    origins.push(characters.length);
    return {normalized, origins};
  }
}

/**
 * The "precompiled charsmap" of a SentencePiece model: replacements of the longest matching characters. Its bytes are the size of a trie
 * (uint32), the trie, and the replacements (UTF-8, each ended by NUL), to whose positions the trie leads.
 *
 * The trie is a double array (Aoe 1989) of darts-clone over UTF-8 bytes: a unit is a uint32 with a label (bits 0-7 and 31), a flag that a key
 * ends here (bit 8), and an offset (bits 10-30, times 256 if bit 9 is set). From a unit with its offset added, byte b leads to the unit at this
 * index XOR b, if its label is b; the value of a key is in the unit at the index itself (bits 0-30).
 */
export class CharacterMap {
  /** `bytes`: Uint8Array. */
  constructor(bytes) {
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.units = new Uint32Array(bytes.slice(4, 4 + size).buffer); // every platform with a browser is little-endian
    this.replacements = bytes.subarray(4 + size);
    this.encodings = new Map(); // character -> UTF-8
  }

  /** {replacement: characters, length: of what it replaces} of the longest match at a position of `characters`; null if there is none. */
  longest(characters, start) {
    let match = null;
    let index = offset(this.units[0]);
    for (let position = start; position < characters.length; position++) {
      let unit;
      for (const byte of this.encoding(characters[position])) {
        index ^= byte;
        unit = this.units[index];
        if ((unit & 0x800000ff) !== byte) return match && {...match, replacement: this.replacement(match.value)};
        index ^= offset(unit);
      }
      if (unit & 0x100) match = {value: this.units[index] & 0x7fffffff, length: position + 1 - start};
    }
    return match && {...match, replacement: this.replacement(match.value)};
  }

  encoding(character) {
    if (!this.encodings.has(character)) this.encodings.set(character, ENCODER.encode(character));
    return this.encodings.get(character);
  }

  replacement(start) {
    return Array.from(DECODER.decode(this.replacements.subarray(start, this.replacements.indexOf(0, start))));
  }
}

function offset(unit) {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}
