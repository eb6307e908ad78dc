/** A transformer block: x + f(norm(x)), or in a post-norm model norm(x + f(x)), for its attentions f and then its MLP. */

import {add} from './linear_algebra.js';

export class Block {
  /** parts: {kind, layer, postNorm, attentionNorm, attention, crossNorm, crossAttention, feedForwardNorm, feedForward}; cross… may be null. */
  constructor(parts) {
    Object.assign(this, parts);
  }

  /**
   * x [T, C] -> Float32Array [T, C]. pass, the same for all blocks of a stack: {positions: Int32Array [T], visible: the places of the keys
   * that each query sees, cache, recording, replace (null if there is none), source: keys and values of the source for each layer}.
   */
  apply(x, pass) {
    x = this.branch(x, this.attentionNorm, (read) => this.attention.apply(read, pass), pass);
    if (this.crossAttention) {
      x = this.branch(x, this.crossNorm, (read) => this.crossAttention.apply(read, pass.source[this.layer], pass), pass);
    }
    x = this.branch(x, this.feedForwardNorm, (read) => this.mlp(read, pass), pass);
    pass.recording?.keepLayer(this, x);
    return x;
  }

  branch(x, norm, compute, {positions, recording}) {
    if (!this.postNorm) return add(x, compute(norm.apply(x, positions.length)));
    const sum = add(x, compute(x));
    recording?.keepBeforeNorm(this, norm, sum);
    return norm.apply(sum, positions.length);
  }

  mlp(x, {positions, recording}) {
    const output = this.feedForward.apply(x, positions.length);
    recording?.keepMlp(this, output);
    return output;
  }
}
