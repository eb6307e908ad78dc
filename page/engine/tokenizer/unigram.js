/**
 * tokenizer.kind=unigram: the unigram language model (Kudo 2018) of SentencePiece. Of all segmentations, the one with the largest sum of
 * scores, found by the Viterbi algorithm. Sums are float32 and ties go to the candidate seen first, as there.
 */

const RESET = 100000; // sums beyond are counted from 0 again, which keeps their precision

export class Unigram {
  /** `pieces`: Map of spelling -> id; `scores`: by id; `unkScore`: of a character that is no piece. */
  constructor(pieces, scores, unkId, unkScore) {
    this.scores = Float32Array.from(scores);
    this.unkId = unkId;
    this.unkScore = Math.fround(unkScore);
    this.root = new Node();
    for (const [piece, id] of pieces) this.root.add(Array.from(piece), id);
  }

  /** The tokens [{id, length in characters}] of normalized characters. */
  split(characters) {
    const count = characters.length;
    const sums = new Float32Array(count + 1); // of the best segmentation up to each position
    const ids = new Int32Array(count + 1); // its last token
    const starts = new Int32Array(count + 1).fill(-1); // where that begins; -1: not reached
    let frontier = 0; // the farthest position reached

    const offer = (end, id, sum, start) => {
      frontier = Math.max(frontier, end);
      if (starts[end] >= 0 && sum <= sums[end]) return;
      sums[end] = sum;
      ids[end] = id;
      starts[end] = start;
    };

    for (let start = 0; start < count; start++) {
      if (Math.abs(sums[start]) > RESET) {
        const before = sums[start];
        sums[start] = 0;
        for (let end = start + 1; end <= frontier; end++) if (starts[end] >= 0) sums[end] -= before;
      }
      const sum = sums[start];
      let node = this.root.next.get(characters[start]);
      for (let end = start + 1; node; node = node.next.get(characters[end++])) {
        if (node.id >= 0) offer(end, node.id, Math.fround(this.scores[node.id] + sum), start);
      }
      offer(start + 1, this.unkId, Math.fround(this.unkScore + sum), start); // worse than any piece
    }

    const tokens = [];
    for (let end = count; end > 0; end = starts[end]) tokens.push({id: ids[end], length: end - starts[end]});
    return tokens.reverse();
  }
}

/** A node of the trie of all pieces. */
class Node {
  constructor() {
    this.next = new Map(); // character -> Node
    this.id = -1; // of the piece that ends here
  }

  add(characters, id) {
    let node = this;
    for (const character of characters) {
      if (!node.next.has(character)) node.next.set(character, new Node());
      node = node.next.get(character);
    }
    node.id = id;
  }
}
