/**
 * Answers questions about the models in the page, as the process of tab_answers/ answers those of the tab, with the same results. Questions are
 * the objects that the tab sends; whatever is wrong with one throws a Refusal, whose message is one sentence for the user.
 */

import {answerTo} from './answer.js';
import {Checkpoint} from './checkpoint.js';
import {circuitTables, sidesOf} from './circuit_tables.js';
import {headEffects} from './head_effects.js';
import {readAfter, readCircuit, readEffects, readQuestion} from './question.js';
import {Refusal} from './refusal.js';

const REPLACED = ['removed', 'how', 'patch']; // the parts of a question that say which heads are replaced

export class Answers {
  /** checkpoints: {name: {step, model}}; tokenizers: one, or those of source and target; data: the JSON of answer_data.py. */
  constructor({checkpoints, tokenizers, data}) {
    const kept = Object.entries(checkpoints).map(([name, loaded]) => new Checkpoint(name, loaded, tokenizers, data));
    this.kept = kept.sort((a, b) => a.step - b.step);
    Object.assign(this, {tokenizers, data, limits: data.limits});
    this.sides = null; // of circuits; made by the first question that needs them
  }

  /** {checkpoints: those in the page by step, [{name, step, best, last}], both_directions: whether the run also translates back}. */
  checkpoints() {
    const checkpoints = this.kept.map(({name, step, best, last}) => ({name, step, best, last}));
    return {checkpoints, both_directions: this.data.both_directions};
  }

  /**
   * Answer a question about a text: {answers, recordings: {id: {meta, tensors}}} (see answer.js and recorder.js). The last one of `answers` is
   * the answer; with heads removed or patched, the one before it is that of the whole model. onProgress: see `answerTo`; it also gets {answers},
   * as soon as they are known.
   */
  ask(question, onProgress = () => {}) {
    const asked = readQuestion(question, this.limits);
    const after = Math.min(readAfter(question), this.limits.last_number);
    const checkpoint = this.checkpointOf(asked.checkpoint);
    this.checkTask(asked);
    const {answer, recordings} = answerTo(asked, checkpoint, onProgress);
    const before = after + (after % 2); // the numbers of one question are a pair, of which the whole model has the first
    const [wholeId, id] = [recordingId(before + 1), recordingId(before + 2)];
    const {run} = question;
    const replaced = Object.fromEntries(REPLACED.filter((key) => key in question).map((key) => [key, question[key]]));
    const isChanged = answer.whole !== null;
    const last = {run, recording: id, whole_recording: isChanged ? wholeId : null, asked: replaced, ...answer};
    const answers = isChanged ? [{run, ...ofTheWholeModel(answer), recording: wholeId}, last] : [last];
    onProgress({answers}); // the recordings take about as long
    const {recording, whole} = recordings();
    return {answers, recordings: {...(whole && {[wholeId]: named(whole, run, wholeId)}), [id]: named(recording, run, id)}};
  }

  /** What each head alone does in the text of an answer: {answer, how} -> see `headEffects`. onProgress gets {done, of}. */
  effects(question, onProgress = () => {}) {
    const {answer, how} = readEffects(question);
    if (!answer?.ids) throw new Refusal('the recording of this text is not there any more, or of another model: ask again');
    return headEffects(this.checkpointOf(answer.checkpoint), answer.ids, how, this.limits.seconds, onProgress);
  }

  /** What the weights of a head say about tokens: {circuit: [kind, layer, head], distance, token} -> see `circuitTables`. */
  circuits(question) {
    const asked = readCircuit(question, this.limits);
    this.sides ??= sidesOf(this.tokenizers, this.data.left_out);
    return circuitTables(asked, this.checkpointOf(asked.checkpoint), this.sides);
  }

  /** The checkpoint of a name, or `best` or `last`; if none is marked so, the newest. Throws Refusal. */
  checkpointOf(name) {
    const isMark = name === 'best' || name === 'last';
    const chosen = this.kept.find((checkpoint) => checkpoint.name === name || (isMark && checkpoint[name])) ?? (isMark && this.kept.at(-1));
    if (!chosen) throw new Refusal(`${name}: no such checkpoint; available: ${this.kept.map((checkpoint) => checkpoint.name).join(', ')}`);
    return chosen;
  }

  /** Throws Refusal for a question to a model of the other task, or of one direction only. */
  checkTask({source, reverse}) {
    const {task, run, both_directions: both, one_direction: oneDirection} = this.data;
    const translates = task === 'translate';
    if ((source !== null) !== translates) {
      throw new Refusal(`run ${run} is ${translates ? 'a translator: it needs a source' : 'a GPT: it needs a text'}`);
    }
    if (reverse && !both) throw new Refusal(`run ${run} ${oneDirection}`);
  }
}

/** The part of an answer that belongs to the recording of the whole model. */
function ofTheWholeModel(answer) {
  const next = answer.next.map((row) => row.map(([id, piece, , before]) => [id, piece, before, null]).sort((a, b) => (b[2] ?? 0) - (a[2] ?? 0)));
  return {...answer, ...answer.whole, next, whole: null, whole_recording: null, asked: {}};
}

function named({meta, tensors}, run, recording) {
  return {meta: {run, recording, ...meta}, tensors};
}

/** 3 -> asked_00003. */
function recordingId(number) {
  return `asked_${String(number).padStart(5, '0')}`;
}
