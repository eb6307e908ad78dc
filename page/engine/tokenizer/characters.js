/** tokenizer.kind=char: a token is one character. */
export class Characters {
  /** `pieces`: Map of spelling -> id. */
  constructor(pieces, unkId) {
    this.pieces = pieces;
    this.unkId = unkId;
  }

  /** The tokens [{id, length in characters}] of normalized characters. */
  split(characters) {
    return characters.map((character) => ({id: this.pieces.get(character) ?? this.unkId, length: 1}));
  }
}
