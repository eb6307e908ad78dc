/** What an exported page contains: recordings, curves and possibly models, which answer questions as the plugin does. */

import {bytesOf} from './base64.js';
import {numbersOf} from './float16.js';
import {keptPromise} from './kept_promise.js';
import {recordingTitle} from './recordings.js';
import {Unavailable} from './unavailable.js';

/** Recordings of answers kept, of all runs together, and bytes of their tensors; those of the newest question are always kept. As in questions.py. */
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
    this.last = new Map(); // run -> the largest number that a question was given, answered or not
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
    return this.content.read ? keptPromise(this.read, run, () => this.content.read(run)) : this.content;
  }

  async curves(run) {
    return (await this.recorded(run)).curves[run] ?? {steps: [], measures: {}};
  }

  async meta(run, recording) {
    const key = `${run}|${recording}`;
    const asked = this.asked.get(key);
    if (asked) return {meta: (await asked.recorded).meta, size: 1e6}; // a guess, so that Source does not keep those that are dropped here
    return {meta: (await this.recorded(run)).meta[key] ?? missing(recording, recording), size: 0}; // in memory anyway
  }

  async checkpoints(run) {
    return this.call('checkpoints', {run});
  }

  /**
   * Ask a model -> its answer, which comes before the recordings that belong to it. All are kept beside the others. Questions may overlap:
   * the numbers of each are reserved until it is refused.
   */
  ask(question, onProgress, signal) {
    const {run} = question;
    const seen = Math.max(question.after ?? 0, this.last.get(run) ?? 0);
    const after = seen + (seen % 2); // those of one question are a pair
    this.last.set(run, after + 2);
    return new Promise((answered, failed) => {
      let isAnswered = false;
      const receive = ({answers, ...written}) => {
        if (!answers) {
          onProgress?.(written);
          return;
        }
        isAnswered = true;
        for (const answer of answers) this.keep(answer, asking.then(({recordings}) => recordings[answer.recording]));
        this.dropOldest(); // before the list is read again
        answered(answers.at(-1));
      };
      const asking = this.call('ask', {...question, after}, receive, signal);
      asking.catch((error) => {
        if (!isAnswered && this.last.get(run) === after + 2) this.last.set(run, after);
        failed(error);
      });
    });
  }

  /** Keep an answer; if its recording, which comes later, fails, it is dropped. */
  keep(answer, recording) {
    const {run, recording: name} = answer;
    const key = `${run}|${name}`;
    const kept = {run, number: Number(name.replace('asked_', '')), answer, recorded: null, size: 0};
    const measure = (found) => {
      kept.size = Object.values(found.tensors).reduce((sum, {numbers}) => sum + numbers.byteLength, 0);
      this.dropOldest();
      return found;
    };
    kept.recorded = recording.then(measure, (error) => {
      if (this.asked.get(key) === kept) this.asked.delete(key);
      throw new Unavailable(`the maps of ${recordingTitle(name)} could not be computed: ask again`, {cause: error});
    });
    kept.recorded.catch(() => {}); // reported where the recording is drawn
    this.asked.set(key, kept);
  }

  /** Drop the oldest questions, each with both of its recordings: one is compared with the other. */
  dropOldest() {
    if (!this.asked.size) return; // cleared while the maps were computed
    const newest = questionOf([...this.asked.values()].at(-1));
    let size = [...this.asked.values()].reduce((sum, kept) => sum + kept.size, 0);
    let dropped = null;
    for (const [key, kept] of this.asked) {
      const question = questionOf(kept);
      if (question !== dropped && (question === newest || (this.asked.size <= KEPT && size <= LARGEST))) return;
      dropped = question;
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
    return asked?.answer ?? missing(recording, recording);
  }

  async tensor(run, recording, ...place) {
    const key = place.join('|');
    const asked = this.asked.get(`${run}|${recording}`);
    if (asked) return (await asked.recorded).tensors[key] ?? missing(recording, key);
    const whole = `${run}|${recording}|${key}`;
    const {shape, dtype, data} = (await this.recorded(run)).tensors[whole] ?? missing(recording, whole);
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

/** What tells apart the questions of all runs, of each of which one or two recordings are kept. */
function questionOf({run, number}) {
  return `${run}|${Math.ceil(number / 2)}`;
}

/** Throws Unavailable: `what` of a recording is not in the page. */
function missing(recording, what) {
  if (recording.startsWith('asked_')) throw new Unavailable(`the answer '${recording}' is not kept (any more): ask again`);
  throw new Unavailable(`${what} is not part of this exported page`);
}
