/** What a GPT and an encoder-decoder share: the decoder stack, and the way from its vectors to logits. Shapes: T tokens, C width, V vocabulary. */

export class LanguageModel {
  /**
   * task: gpt or translate. parts: {embedding, blocks, norm (the final one; null in a post-norm model), head: the output projection};
   * of an encoder-decoder they are those of the decoder.
   */
  constructor(task, description, parts) {
    /** The values of ModelConfig, by the names of model/config.py, with numbers instead of null. */
    this.config = description.config;
    this.task = task;
    this.vocabSize = description.vocab_size;
    /** Number of trained parameters. */
    this.parameters = description.parameters;
    Object.assign(this, parts);
  }

  /** Logits, Float32Array [rows, V], of vectors [rows, C] after the final norm. */
  logits(features, rows) {
    return this.head.apply(features, rows);
  }

  /** Sends x [T, C] through the blocks and the final norm: Float32Array [T, C]. pass: see `Block.apply`. */
  decode(x, pass) {
    if (pass.recording) pass.recording.stream.embedding = x;
    for (const block of this.blocks) x = block.apply(x, pass);
    pass.cache?.end();
    if (!this.norm) return x;
    pass.recording?.stream.beforeNorms.set(this.norm, x);
    return this.norm.apply(x, pass.positions.length);
  }

  /** The result of `forward`: {logits [T, V], vocabSize}, of features [T, C]; they are also recorded. */
  scored(features, rows, recording) {
    const logits = this.logits(features, rows);
    if (recording) recording.stream.logits = logits;
    return {logits, vocabSize: this.vocabSize};
  }

  /** All attention modules, in the order of the forward pass, by `${kind}|${layer}`. */
  get attentions() {
    const modules = [...(this.encoderBlocks ?? []), ...this.blocks].flatMap((block) => [block.attention, block.crossAttention]);
    return new Map(modules.filter(Boolean).map((module) => [module.place, module]));
  }

  /** Throws RangeError if a head in `replace` (a Map by `${kind}|${layer}|${head}`, or null) does not exist. */
  checkHeads(replace) {
    const {attentions} = this;
    for (const key of replace?.keys() ?? []) {
      const [kind, layer, head] = key.split('|');
      if (!(Number(head) < attentions.get(`${kind}|${layer}`)?.heads)) throw new RangeError(`no head ${head} in ${kind} layer ${layer}`);
    }
  }
}
