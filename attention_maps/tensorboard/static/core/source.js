/**
 * Reads recordings from TensorBoard's plugin (plugin.js) or from an exported page (archive.js), and caches them, so that moving back and forth
 * between steps draws from memory.
 */

/** Bytes of decoded tensors, and characters of metadata, kept in memory; the least recently used are dropped first. */
const TENSOR_BYTES = 600e6;
const META_CHARACTERS = 60e6; // several times as much memory once parsed

/** LRU cache of values with sizes; the one put last is always kept. */
class Cache {
  constructor(capacity) {
    this.capacity = capacity;
    this.kept = new Map(); // key -> {value, size}
    this.size = 0;
  }

  get(key) {
    const found = this.kept.get(key);
    if (!found) return undefined;
    this.kept.delete(key); // moved to the most recent end
    this.kept.set(key, found);
    return found.value;
  }

  put(key, value, size) {
    this.drop(key);
    this.kept.set(key, {value, size});
    this.size += size;
    for (const oldest of this.kept.keys()) {
      if (this.size <= this.capacity || oldest === key) break;
      this.drop(oldest);
    }
  }

  drop(key) {
    this.size -= this.kept.get(key)?.size ?? 0;
    this.kept.delete(key);
  }
}

export class Source {
  /** `backing`: a Plugin or an Archive. */
  constructor(backing) {
    this.backing = backing;
    this.tensors = new Cache(TENSOR_BYTES); // {numbers: Float32Array (row-major), shape}
    this.metas = new Cache(META_CHARACTERS); // {meta, size}
    this.waiting = new Map();
    this.listed = null; // the index as last read
    this.lastAsked = new Map(); // by run, the largest number of an answer that was ever listed
  }

  /** Whether everything is in this file: nothing new is recorded. */
  get isFile() {
    return this.backing.isFile;
  }

  /** Whether a run can be asked: by the plugin any, in an exported page those whose model it contains. */
  canAsk(run) {
    return this.backing.canAsk(run);
  }

  /** Resolves when no model computes in the page itself, on processors that the page may need. */
  async quiet() {
    await this.backing.quiet?.();
  }

  /** What an exported page says of the model in it, {title, model, data, command, date, licence}; else null: the recordings may say it. */
  about(run) {
    return this.backing.about(run);
  }

  /** {runs: {name: {steps: [...], generated: [...], asked: [...]}}, newest: the run that recorded last, logdir}; never cached. */
  async index() {
    this.listed = await this.backing.index();
    for (const [run, {asked = []}] of Object.entries(this.listed.runs)) this.lastAsked.set(run, Math.max(this.last(run), ...asked));
    return this.listed;
  }

  /** Per-head measures of every step: {steps, measures: {name: {kind: [per step [[per head] per layer]]}}, counts: examples of a score, baselines}. */
  async curves(run) {
    return this.backing.curves(run);
  }

  /** Weights between two words, of the plugin alone: {chosen: [[per head] per layer], steps, weights: [chosen per step]}; positions as 3-5. */
  async pair(place) {
    return this.backing.pair(place);
  }

  /** Tokens, shapes, measures and labels of a recording. */
  async meta(run, recording) {
    const key = `${run}|${recording}`;
    const read = () => this.once(`${key}|meta`, () => this.backing.meta(run, recording), (found) => this.metas.put(key, found, found.size));
    return (this.metas.get(key) ?? (await read())).meta;
  }

  /** {checkpoints: those that a run has kept, by step: [{name, step, best, last}], both_directions: whether it also translates back}. */
  async checkpoints(run) {
    return this.backing.checkpoints(run);
  }

  /**
   * Ask the model of a run: {run, text or source, …} -> {recording, whole_recording, tokens, next, losses, …}. The number of the recording is
   * larger than all that this page has listed, so that no answer read before a restart of TensorBoard is taken for it. In an exported page,
   * onProgress gets {written: the text so far}, or {rewritten} without the heads, and `signal` ends the call when it is aborted.
   */
  async ask(question, onProgress = null, signal = null) {
    return this.backing.ask({...question, after: this.last(question.run)}, onProgress, signal);
  }

  /** The largest number of an answer of a run that was ever listed; 0 if there was none. */
  last(run) {
    return this.lastAsked.get(run) ?? 0;
  }

  /** Forget all answers of a run, with their recordings. */
  async clear(run) {
    await this.backing.clear(run);
  }

  /** What each head alone does in the text of an answer: {run, recording, how} -> {heads, losses, whole, predicts, left}. */
  async effects(question) {
    return this.backing.effects(question);
  }

  /** What the weights of a head say about tokens: {run, checkpoint, circuit: [kind, layer, head], distance, token} -> see circuits.js. */
  async circuits(question) {
    return this.backing.circuits(question);
  }

  /** The answer that belongs to a recording made for a question. */
  async answered(run, recording) {
    return this.backing.answered(run, recording);
  }

  /** One tensor {numbers, shape}; `what` is weights, norms, values or rollout (whose layer is ''). */
  async tensor(run, recording, sample, kind, layer, what = 'weights') {
    const place = [run, recording, sample, kind, layer, what];
    const key = place.join('|');
    const read = () => this.once(key, () => this.backing.tensor(...place), (found) => this.tensors.put(key, found, found.numbers.byteLength));
    return this.tensors.get(key) ?? read();
  }

  /** The tensor if it is cached, else undefined. */
  ready(run, recording, sample, kind, layer, what = 'weights') {
    return this.tensors.get([run, recording, sample, kind, layer, what].join('|'));
  }

  /** Drop what was read, or is being read, of a run: a resumed run overwrites its recordings. */
  forget(run) {
    const ofRun = (keys) => [...keys].filter((key) => key.startsWith(`${run}|`));
    for (const key of ofRun(this.metas.kept.keys())) this.metas.drop(key);
    for (const key of ofRun(this.waiting.keys())) this.waiting.delete(key);
    for (const key of ofRun(this.tensors.kept.keys())) this.tensors.drop(key);
  }

  /** Concurrent identical requests are sent once; `keep` gets the answer unless it was forgotten meanwhile. */
  once(key, ask, keep) {
    if (this.waiting.has(key)) return this.waiting.get(key);
    const request = ask().then(
      (found) => {
        if (settle()) keep(found);
        return found;
      },
      (error) => {
        settle();
        throw error;
      },
    );
    const settle = () => this.waiting.get(key) === request && this.waiting.delete(key);
    this.waiting.set(key, request);
    return request;
  }
}
