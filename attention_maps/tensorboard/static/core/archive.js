/** What an exported page contains: recordings, curves and possibly models, which answer questions as the plugin does. */

import {bytesOf} from './base64.js';
import {numbersOf} from './float16.js';
import {Unavailable} from './unavailable.js';

/** Recordings of answers kept, of all runs together, and bytes of their tensors; the newest pair is always kept. As in questions.py. */
const KEPT = 64;
const LARGEST = 2 ** 30;

export class Archive {
  isFile = true;

  /**
   * `content`: the JSON of page_data.py, or {index, about, read(run): a promise of that JSON for one run}. `models`: null, or {runs: names of
   * the runs whose model is in the page, call(method, argument, onProgress, signal) -> Promise}, with the methods ask, effects,
   * circuits and checkpoints of Source.
   */
  constructor(content, models = null) {
    this.content = content;
    this.models = models;
    this.read = new Map(); // run -> promise of {meta, tensors, curves}
    this.running = new Set(); // promises of calls
    this.asked = new Map(); // "run|recording" -> {run, number, answer, recorded: promise of {meta, tensors}, size}, the oldest first
  }

  canAsk(run) {
    return Boolean(this.models?.runs.includes(run));
  }

  about(run) {
    return this.content.about?.[run] ?? null;
  }

  async index() {
    const {runs, ...rest} = this.content.index;
    const listed = Object.entries(runs).map(([run, recorded]) => [run, {...recorded, asked: this.numbersOf(run)}]);
    return {...rest, runs: Object.fromEntries(listed)};
  }

  /** The numbers of the recordings of answers of a run, ascending. */
  numbersOf(run) {
    const ofRun = [...this.asked.values()].filter((kept) => kept.run === run);
    return ofRun.map(({number}) => number).sort((a, b) => a - b);
  }

  /** {meta, tensors, curves} of a run, read when they are first needed. */
  recorded(run) {
    if (!this.content.read) return this.content;
    if (!this.read.has(run)) this.read.set(run, this.content.read(run));
    return this.read.get(run);
  }

  async curves(run) {
    return (await this.recorded(run)).curves[run] ?? {steps: [], measures: {}};
  }

  async meta(run, recording) {
    const key = `${run}|${recording}`;
    const asked = this.asked.get(key);
    if (asked) return {meta: (await asked.recorded).meta, size: 1e6}; // a guess, so that Source does not keep those that are dropped here
    return {meta: (await this.recorded(run)).meta[key] ?? missing(recording), size: 0}; // in memory anyway
  }

  async checkpoints(run) {
    return this.call('checkpoints', {run});
  }

  /** Ask a model -> its answer, which comes before the recordings that belong to it. All are kept beside the others. */
  ask(question, onProgress, signal) {
    return new Promise((answered, failed) => {
      const receive = ({answers, ...written}) => {
        if (!answers) {
          onProgress?.(written);
          return;
        }
        for (const answer of answers) this.keep(answer, asking.then(({recordings}) => recordings[answer.recording]));
        answered(answers.at(-1));
      };
      const asking = this.call('ask', question, receive, signal);
      asking.catch(failed);
    });
  }

  keep(answer, recorded) {
    const {run, recording} = answer;
    const kept = {run, number: Number(recording.replace('asked_', '')), answer, recorded, size: 0};
    this.asked.set(`${run}|${recording}`, kept);
    const measure = ({tensors}) => {
      kept.size = Object.values(tensors).reduce((sum, {numbers}) => sum + numbers.byteLength, 0);
      this.dropOldest();
    };
    recorded.then(measure, () => {}); // a failure is reported where the recording is drawn
  }

  dropOldest() {
    let size = [...this.asked.values()].reduce((sum, kept) => sum + kept.size, 0);
    for (const [key, kept] of this.asked) {
      if (this.asked.size <= 2 || (this.asked.size <= KEPT && size <= LARGEST)) return;
      size -= kept.size;
      this.asked.delete(key);
    }
  }

  async clear(run) {
    for (const [key, kept] of this.asked) if (kept.run === run) this.asked.delete(key);
  }

  async effects(question) {
    return this.call('effects', {...question, answer: await this.answered(question.run, question.recording)});
  }

  async circuits(question) {
    return this.call('circuits', question);
  }

  async answered(run, recording) {
    const asked = this.asked.get(`${run}|${recording}`);
    if (!asked) throw new Unavailable(`the answer '${recording}' is not kept (any more): ask again`);
    return asked.answer;
  }

  async tensor(run, recording, ...place) {
    const key = place.join('|');
    const asked = this.asked.get(`${run}|${recording}`);
    if (asked) return (await asked.recorded).tensors[key] ?? missing(key);
    const whole = `${run}|${recording}|${key}`;
    const {shape, dtype, data} = (await this.recorded(run)).tensors[whole] ?? missing(whole);
    return {numbers: numbersOf(bytesOf(data).buffer, dtype), shape};
  }

  async call(method, argument, ...rest) {
    if (!this.canAsk(argument.run)) throw new Unavailable('the model of this run is not part of this exported page');
    const call = this.models.call(method, argument, ...rest);
    this.running.add(call);
    try {
      return await call;
    } finally {
      this.running.delete(call);
    }
  }

  /** Resolves when no model in the page computes. */
  async quiet() {
    while (this.running.size) await Promise.allSettled(this.running);
  }
}

function missing(what) {
  throw new Unavailable(`${what} is not part of this exported page`);
}
