/** What an exported page contains: recordings, curves and possibly models, which answer questions as the plugin does. */

import {numbersOf} from './float16.js';
import {askedName} from './recordings.js';
import {Unavailable} from './unavailable.js';

export class Archive {
  isFile = true;

  /**
   * `content`: the JSON of page_data.py. `models`: null, or {runs: names of the runs whose model is in the page, call(method, argument,
   * onProgress, signal) -> Promise}, with the methods ask, effects, circuits and checkpoints of Source.
   */
  constructor(content, models = null) {
    this.content = content;
    this.models = models;
    this.answers = new Map(); // "run|recording" -> answer
  }

  canAsk(run) {
    return Boolean(this.models?.runs.includes(run));
  }

  about(run) {
    return this.content.about?.[run] ?? null;
  }

  async index() {
    return this.content.index;
  }

  async curves(run) {
    return this.content.curves[run] ?? {steps: [], measures: {}};
  }

  async meta(run, recording) {
    return {meta: this.content.meta[`${run}|${recording}`] ?? missing(recording), size: 0}; // in memory anyway
  }

  async checkpoints(run) {
    return this.call('checkpoints', {run});
  }

  /** Ask a model, and keep the recordings of its answer beside the others. */
  async ask(question, onProgress, signal) {
    const {run} = question;
    const {answers, recordings} = await this.call('ask', question, onProgress, signal);
    for (const [recording, {meta, tensors}] of Object.entries(recordings)) {
      this.content.meta[`${run}|${recording}`] = meta;
      for (const [key, tensor] of Object.entries(tensors)) this.content.tensors[`${run}|${recording}|${key}`] = tensor;
    }
    const listed = this.content.index.runs[run];
    for (const given of answers) {
      this.answers.set(`${run}|${given.recording}`, given);
      listed.asked = [...(listed.asked ?? []), Number(given.recording.replace('asked_', ''))];
    }
    return answers.at(-1);
  }

  async clear(run) {
    const listed = this.content.index.runs[run];
    for (const prefix of (listed.asked ?? []).map((number) => `${run}|${askedName(number)}`)) {
      this.answers.delete(prefix);
      delete this.content.meta[prefix];
      for (const key of Object.keys(this.content.tensors)) if (key.startsWith(`${prefix}|`)) delete this.content.tensors[key];
    }
    listed.asked = [];
  }

  async effects(question) {
    return this.call('effects', {...question, answer: await this.answered(question.run, question.recording)});
  }

  async circuits(question) {
    return this.call('circuits', question);
  }

  async answered(run, recording) {
    return this.answers.get(`${run}|${recording}`) ?? missing(recording);
  }

  async tensor(...place) {
    const {shape, dtype, data, numbers} = this.content.tensors[place.join('|')] ?? missing(place.join('|'));
    if (numbers) return {numbers, shape}; // of an answer
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    return {numbers: numbersOf(bytes.buffer, dtype), shape};
  }

  async call(method, argument, ...rest) {
    if (!this.canAsk(argument.run)) throw new Unavailable('the model of this run is not part of this exported page');
    return this.models.call(method, argument, ...rest);
  }
}

function missing(what) {
  throw new Unavailable(`${what} is not part of this exported page`);
}
