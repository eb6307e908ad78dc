/**
 * Converts text to token ids and back: ids, pieces, spans and decoded text are those of data/tokens/sentencepiece_tokenizer.py, which calls
 * SentencePiece. Positions and lengths are in characters in the sense of Python, which are code points: not in units of UTF-16.
 */

import {BytePairs} from './byte_pairs.js';
import {Characters} from './characters.js';
import {escaped, labelled, unescaped} from './escapes.js';
import {CharacterMap, Normalizer} from './normalizer.js';
import {Unigram} from './unigram.js';

const LONG_LINE = 4096; // characters; a longer line is split before a space, which no piece spans
const ENCODER = new TextEncoder();

export class Tokenizer {
  /** `data`: the result of `tokenizer_data` in page/tokenizer_data.py. */
  constructor(data) {
    this.padId = data.pad_id;
    this.unkId = data.unk_id;
    this.bosId = data.bos_id; // the first token that the decoder of a translator reads
    this.eosId = data.eos_id; // ends a translation, and what a language model writes
    this.startId = data.start_id; // before the first token of a text, for a language model
    this.specialIds = new Set(data.special_ids); // tokens that stand for no text
    this.stopIds = new Set(data.stop_ids); // end what a language model writes
    this.neverWritten = data.never_written; // ids that a model must not generate
    this.vocabSize = data.pieces.length;

    this.byteIds = data.bytes; // of the bytes 0 to 255; empty without byte fallback
    this.bytes = new Map(data.bytes.map((id, byte) => [id, byte])); // id -> byte
    const texts = new Map(); // spelling -> id of the pieces that are text
    this.bytesOf = [];
    this.names = [];
    for (const [id, piece] of data.pieces.entries()) {
      if (this.specialIds.has(id)) this.bytesOf.push(ENCODER.encode(id === this.unkId ? '\ufffd' : ''));
      else if (this.bytes.has(id)) this.bytesOf.push(Uint8Array.of(this.bytes.get(id)));
      else {
        texts.set(piece, id);
        this.bytesOf.push(ENCODER.encode(piece.replaceAll('\u2581', ' ')));
      }
      this.names.push(labelled(unescaped(piece)));
    }

    this.normalizer = new Normalizer(data.charsmap === null ? null : new CharacterMap(fromBase64(data.charsmap)));
    const models = {
      char: () => new Characters(texts, this.unkId),
      bpe: () => new BytePairs(texts, data.scores, this.unkId),
      unigram: () => new Unigram(texts, data.scores, this.unkId, data.unknown_score),
    };
    this.model = models[data.kind]();
  }

  /** The token ids of a text, without bos and eos. */
  encode(text) {
    return this.spans(text).ids;
  }

  /** {ids, spans}: the token ids of a text and their spans [start, end) in code points of it; all bytes of a character have its span. */
  spans(text) {
    const characters = [];
    const origins = []; // of each escaped character, its position in the text
    Array.from(text).forEach((character, position) => {
      for (const written of escaped(character)) {
        characters.push(written);
        origins.push(position);
      }
    });
    origins.push(characters.length ? origins.at(-1) + 1 : 0);
    const ids = [];
    const spans = [];
    for (const [start, end] of segments(characters)) {
      for (const token of this.segment(characters.slice(start, end))) {
        const [first, last] = [start + token.begin, start + token.end];
        ids.push(token.id);
        spans.push([origins[first], last > first ? origins[last - 1] + 1 : origins[last]]);
      }
    }
    return {ids, spans};
  }

  /** The tokens [{id, begin, end}] of a part of a text that SentencePiece reads at once; begin and end are positions in `characters`. */
  segment(characters) {
    const {normalized, origins} = this.normalizer.normalize(characters);
    const tokens = [];
    let position = 0;
    for (const {id, length} of this.model.split(normalized)) {
      const [begin, end] = [origins[position], origins[position + length]];
      if (id !== this.unkId) tokens.push({id, begin, end});
      else if (this.byteIds.length) {
        for (const byte of ENCODER.encode(normalized[position])) tokens.push({id: this.byteIds[byte], begin, end});
      } else if (tokens.at(-1)?.id === this.unkId) tokens.at(-1).end = end; // unknown characters in a row are one token
      else tokens.push({id, begin, end});
      position += length;
    }
    // Of several characters that replace one, only the last has its span; an empty one of bytes is filled from the right.
    for (let i = tokens.length - 2; i >= 0; i--) {
      if (tokens[i].begin === tokens[i].end && this.bytes.has(tokens[i].id)) ({begin: tokens[i].begin, end: tokens[i].end} = tokens[i + 1]);
    }
    return tokens;
  }

  /** The text of token ids; special tokens give no text, <unk> and invalid byte sequences give U+FFFD. */
  decode(ids) {
    const parts = Array.from(ids, (id) => this.bytesOf[id]);
    const bytes = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let place = 0;
    for (const part of parts) {
      bytes.set(part, place);
      place += part.length;
    }
    return unescaped(new TextDecoder('utf-8', {ignoreBOM: true}).decode(bytes));
  }

  /** Display names of tokens: spaces as ▁, control characters as symbols (↵ ⇥), bytes as <0xE3>. */
  pieces(ids) {
    return Array.from(ids, (id) => this.names[id]);
  }

  /** The UTF-8 bytes (Uint8Array) of a token, with the escapes of ./escapes.js; empty for special tokens but <unk>. */
  pieceBytes(id) {
    return this.bytesOf[id];
  }
}

/** Yields the parts [start, end) of characters where no piece spans the boundary: after each newline and, in long lines, before a space. */
function* segments(characters) {
  let start = 0;
  for (let i = 0; i < characters.length; i++) {
    if (characters[i] === '\n') {
      yield [start, i + 1];
      start = i + 1;
    } else if (characters[i] === ' ' && i - start >= LONG_LINE) {
      yield [start, i];
      start = i;
    }
  }
  if (start < characters.length) yield [start, characters.length];
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
