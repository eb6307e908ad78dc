/**
 * tokenizer.kind=bpe: byte-pair encoding (Sennrich et al. 2016) of SentencePiece. Of all two neighbours that form a piece, those with the best
 * score are merged, the leftmost of equals, until no two form a piece.
 */

import {PriorityQueue} from './priority_queue.js';

export class BytePairs {
  /** `pieces`: Map of spelling -> id; `scores`: by id. */
  constructor(pieces, scores, unkId) {
    this.pieces = pieces;
    this.scores = scores;
    this.unkId = unkId;
  }

  /** The tokens [{id, length in characters}] of normalized characters. */
  split(characters) {
    const count = characters.length;
    const symbols = characters.slice(); // merged with those after them; '' once merged with the one before
    const lengths = new Int32Array(count).fill(1);
    const previous = Int32Array.from(symbols, (_, i) => i - 1); // -1: none
    const next = Int32Array.from(symbols, (_, i) => i + 1); // count: none
    const merges = new PriorityQueue((a, b) => a.score > b.score || (a.score === b.score && a.left < b.left));

    const propose = (left, right) => {
      if (left < 0 || right >= count) return;
      const piece = symbols[left] + symbols[right];
      const id = this.pieces.get(piece);
      if (id !== undefined) merges.push({left, right, score: this.scores[id], size: piece.length});
    };

    for (let right = 1; right < count; right++) propose(right - 1, right);
    for (let merge = merges.pop(); merge; merge = merges.pop()) {
      const {left, right, size} = merge;
      if (!symbols[left] || !symbols[right] || symbols[left].length + symbols[right].length !== size) continue; // one has changed since
      symbols[left] += symbols[right];
      symbols[right] = '';
      lengths[left] += lengths[right];
      next[left] = next[right];
      if (next[left] < count) previous[next[left]] = left;
      propose(previous[left], left);
      propose(left, next[left]);
    }

    const tokens = [];
    for (let i = 0; i < count; i = next[i]) tokens.push({id: this.pieces.get(symbols[i]) ?? this.unkId, length: lengths[i]});
    return tokens;
  }
}
