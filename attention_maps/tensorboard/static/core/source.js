/**
 * Reads recordings from the plugin's routes, or from the archive embedded in an exported page, and caches them, so that moving back and
 * forth between steps draws from memory. An exported page may contain models as well, which answer questions like the plugin's.
 */

import {numbersOf} from './float16.js';

/** Bytes of decoded tensors, and characters of metadata, kept in memory; the least recently used are dropped first. */
const TENSOR_BYTES = 600e6;
const META_CHARACTERS = 60e6; // several times as much memory once parsed

/** Something that cannot be read or drawn; the message is shown to the user. */
export class Unavailable extends Error {}

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
  /**
   * `archive`: the data of an exported page, or null for the plugin's routes. `models`: those in the page, or null:
   * `models.call(method, argument) -> Promise`, with the methods ask, effects, circuits and checkpoints below.
   */
  constructor(archive = null, models = null) {
    this.archive = archive;
    this.models = models;
    this.tensors = new Cache(TENSOR_BYTES); // {numbers: Float32Array (row-major), shape}
    this.metas = new Cache(META_CHARACTERS);
    this.waiting = new Map();
    this.listed = null; // the index as last read
    this.lastAsked = new Map(); // by run, the largest number of an answer that was ever listed
    this.answers = new Map(); // "run|recording" -> answer, of the models in the page
  }

  /** Whether a run can be asked: by the plugin any, in an exported page those whose model it contains. */
  canAsk(run) {
    return !this.archive || Boolean(this.models?.runs.includes(run));
  }

  /** {runs: {name: {steps: [...], generated: [...]}}, newest: the run that recorded last, logdir}; never cached: new steps appear while training. */
  async index() {
    this.listed = this.archive ? this.archive.index : await (await answer('index')).json();
    for (const [run, {asked = []}] of Object.entries(this.listed.runs)) this.lastAsked.set(run, Math.max(this.last(run), ...asked));
    return this.listed;
  }

  /** Per-head measures of every step: {steps, measures: {name: {kind: [per step [[per head] per layer]]}}, counts: examples of a score, baselines}. */
  async curves(run) {
    return this.archive ? (this.archive.curves[run] ?? {steps: [], measures: {}}) : (await answer('curves', {run})).json();
  }

  /** Weights between two words: {chosen: [[per head] per layer], steps, weights: [chosen per step]}; positions as 3-5. */
  async pair(place) {
    return (await answer('pair', place)).json();
  }

  /** Tokens, shapes, measures and labels of a recording. */
  async meta(run, recording) {
    const key = `${run}|${recording}`;
    if (this.archive) return this.archive.meta[key] ?? missing(recording);
    const found = async () => {
      const text = await (await answer('meta', {run, recording})).text();
      return {meta: JSON.parse(text), size: text.length};
    };
    return (this.metas.get(key) ?? (await this.once(`${key}|meta`, found, (one) => this.metas.put(key, one, one.size)))).meta;
  }

  /** {checkpoints: those that a run has kept, by step: [{name, step, best, last}], both_directions: whether it also translates back}. */
  async checkpoints(run) {
    if (this.archive) return this.model(run).call('checkpoints', {run});
    return (await answer('checkpoints', {run})).json();
  }

  /**
   * Ask the model of a run: {run, text or source, …} -> {recording, whole_recording, tokens, next, losses, …}. The number of the recording is
   * larger than all that this page has listed, so that no answer read before a restart of TensorBoard is taken for it.
   */
  async ask(question) {
    if (this.archive) return this.askModel(question);
    return (await posted('ask', {...question, after: this.last(question.run)})).json();
  }

  /** The models of an exported page. Throws Unavailable for a run without one. */
  model(run) {
    if (!this.canAsk(run)) throw new Unavailable('the model of this run is not part of this exported page');
    return this.models;
  }

  /** Ask a model in the page, and keep the recordings of its answer beside the embedded ones. */
  async askModel(question) {
    const {run} = question;
    const {answers, recordings} = await this.model(run).call('ask', {...question, after: this.last(run)});
    for (const [recording, {meta, tensors}] of Object.entries(recordings)) {
      this.archive.meta[`${run}|${recording}`] = meta;
      for (const [key, tensor] of Object.entries(tensors)) this.archive.tensors[`${run}|${recording}|${key}`] = tensor;
    }
    const listed = this.archive.index.runs[run];
    for (const given of answers) {
      this.answers.set(`${run}|${given.recording}`, given);
      listed.asked = [...(listed.asked ?? []), Number(given.recording.replace('asked_', ''))];
    }
    return answers.at(-1);
  }

  /** The largest number of an answer of a run that was ever listed; 0 if there was none. */
  last(run) {
    return this.lastAsked.get(run) ?? 0;
  }

  /** Forget all answers of a run, with their recordings. */
  async clear(run) {
    if (this.archive) return this.forgetAnswers(run);
    await posted('clear', {run});
  }

  /** What each head alone does in the text of an answer: {run, recording, how} -> {heads, losses, whole, predicts, left}. */
  async effects(question) {
    if (this.archive) return this.model(question.run).call('effects', {...question, answer: await this.answered(question.run, question.recording)});
    return (await posted('effects', question)).json();
  }

  /** What the weights of a head say about tokens: {run, checkpoint, circuit: [kind, layer, head], distance, token} -> see circuits.js. */
  async circuits(question) {
    if (this.archive) return this.model(question.run).call('circuits', question);
    return (await posted('circuits', question)).json();
  }

  /** The answer that belongs to a recording made for a question. */
  async answered(run, recording) {
    if (this.archive) return this.answers.get(`${run}|${recording}`) ?? missing(recording);
    return (await answer('answer', {run, recording})).json();
  }

  /** One tensor {numbers, shape}; `what` is weights, norms, values or rollout (whose layer is ''). */
  async tensor(run, recording, sample, kind, layer, what = 'weights') {
    const key = [run, recording, sample, kind, layer, what].join('|');
    return (
      this.tensors.get(key) ??
      this.once(
        key,
        async () => (this.archive ? this.embedded(key) : fetched({run, recording, sample, kind, layer, what})),
        (found) => this.tensors.put(key, found, found.numbers.byteLength),
      )
    );
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

  forgetAnswers(run) {
    const {asked = []} = this.archive.index.runs[run];
    this.archive.index.runs[run].asked = [];
    for (const recording of asked.map((number) => `asked_${String(number).padStart(5, '0')}`)) {
      this.answers.delete(`${run}|${recording}`);
      delete this.archive.meta[`${run}|${recording}`];
      for (const key of Object.keys(this.archive.tensors)) if (key.startsWith(`${run}|${recording}|`)) delete this.archive.tensors[key];
    }
  }

  embedded(key) {
    const {shape, dtype, data, numbers} = this.archive.tensors[key] ?? missing(key);
    if (numbers) return {numbers, shape}; // of an answer
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    return {numbers: numbersOf(bytes.buffer, dtype), shape};
  }
}

function missing(what) {
  throw new Unavailable(`${what} is not part of this exported page`);
}

async function fetched(names) {
  const response = await answer('tensor', names);
  const shape = response.headers.get('X-Shape').split(',').map(Number);
  return {numbers: numbersOf(await response.arrayBuffer(), response.headers.get('X-Dtype')), shape};
}

/** GET a route of the plugin (relative: works under --path_prefix too). */
async function answer(route, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return sent(given.length ? `${route}?${query}` : route, {cache: 'no-store'});
}

/** POST an object as JSON. */
async function posted(route, content) {
  return sent(route, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(content), cache: 'no-store'});
}

async function sent(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Unavailable('TensorBoard does not answer: is it still running?');
  }
  if (!response.ok) throw new Unavailable((await response.text()).trim() || `${address}: HTTP ${response.status}`);
  return response;
}
