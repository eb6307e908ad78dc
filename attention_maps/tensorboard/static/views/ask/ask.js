/** The view Ask: a text that the model of a checkpoint reads, continues or translates, also without some of its heads. */

import {recordingTitle} from '../../core/recordings.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {segments, tick} from '../../dom/fields.js';
import {KeptWeights} from '../kept_weights.js';
import {answerOf, hasAntecedent} from '../pair/gold_pairs.js';
import {rowsOf} from '../pair/word_pair.js';
import {positionOf} from '../prediction/contributions.js';
import {selection} from '../tokens.js';
import {Answer} from './answer.js';
import {Decoding} from './decoding.js';
import {
  decodingOf,
  decodingText,
  headName,
  headsIn,
  headsOf,
  howOf,
  isReversed,
  listed,
  questionOf,
  stateOf,
  textsOf,
  withHead,
} from './question.js';
import {withoutButton} from './without.js';
import {Writing} from './writing.js';

export const create = (context) => new Ask(context);

const TEXT = 'text';
const SOURCE = 'source text, which the encoder reads';
const LACKING = 'This run has no checkpoint, so its model cannot be asked.';
const INVITATION = 'Ask the model of a kept checkpoint about this text or your own, also without some of its heads.';
const BUSY = 'Another question is still being answered: ask again after it.';
const DRAWING = 'Answered; its maps are still computed…';
const REPLACED = 'what replaces their output';
const STOPPED = 'Stopped: the question is not answered.';
const FIRST = {
  asking: 'asking about the example shown, because nothing has been asked of this run yet… (the first question loads the model)',
  asked: (example) => `Asked automatically, because nothing had been asked of this run yet: ${example}, unchanged. Change the text and press Ask, or`,
};
const REVERSE = 'From the target language of the training data to the source language';
const HOW =
  'What replaces the output of these heads: zero, its mean over the recorded examples of the run, or their output in another text (patching)';

class Ask {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.typed = false; // the text was changed by hand: other recordings no longer replace it
    this.asking = false;
    this.own = ''; // "run|recording" of the text in the form, which may hold a continuation as well
    this.done = ''; // what is said of that recording, as long as it is shown
    this.seen = {}; // {place, chosen}: the recording of the last drawing, and the heads, their replacement and the checkpoint chosen then
    this.met = new Set(); // runs of which it was decided whether they are asked a first question
    this.toAdopt = ''; // "run|recording" of an earlier answer, whose heads are to be chosen again
    const area = (label, rows, oninput) => element('textarea', {rows, maxlength: 2000, 'aria-label': label, placeholder: label, oninput});
    const typing = () => (this.typed = true);
    this.text = area(TEXT, 3, typing);
    this.target = area('translation, which the decoder predicts (optional: otherwise the model translates)', 2, typing);
    this.other = area('another text of as many tokens: the heads take their output from it', 2);
    this.count = element('input', {type: 'number', min: 0, max: 200, value: 0, 'aria-label': 'tokens to write'});
    this.counting = element('label', {class: 'field'}, 'write', this.count, 'more tokens');
    this.decoding = new Decoding(context);
    this.weights = new KeptWeights(context);
    this.reverse = tick('translate back', typing, REVERSE);
    this.how = segments('replaced by', {zero: 'zero', mean: 'mean', other: 'another text'}, (how) => this.change({how}), HOW);
    this.chips = element('span', {class: 'ask-heads', 'aria-label': 'removed heads'});
    this.head = withoutButton('head', () => this.add(this.context.fitted().head));
    this.layer = withoutButton('layer', () => this.add('*'));
    this.send = element('button', {type: 'submit', class: 'ask-send', title: 'Ctrl+Enter'}, 'Ask');
    this.status = element('p', {class: 'ask-status', role: 'status'});
    this.writing = new Writing();
    this.form = element(
      'form',
      {class: 'ask-form', novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => this.key(event)},
      this.text,
      this.target,
      element('div', {class: 'view-controls'}, this.send, this.weights.element, this.reverse.element, this.counting, this.decoding.element),
      this.weights.note,
      element('div', {class: 'view-controls'}, this.head, this.layer, this.chips, this.how.element),
      element('div', {}, this.other),
    );
    this.answer = new Answer(context);
    this.differs = element('span', {});
    this.again = element('button', {type: 'button', class: 'link', onclick: () => this.ask()}, 'ask again');
    this.stale = element('p', {class: 'ask-stale', hidden: true}, this.differs, ' ', this.again);
    this.closed = element('p', {hidden: true}, 'Questions need a running TensorBoard: this page is a file without a model.');
    this.element = element('div', {class: 'ask-view'}, this.closed, this.form, this.status, this.writing.element, this.stale, this.answer.element);
  }

  draw(frame) {
    this.frame = frame;
    const {source, state} = this.context;
    const closed = !source.canAsk(state.now.run);
    this.context.tell('ask', closed ? '' : INVITATION);
    this.closed.hidden = !closed;
    this.form.hidden = this.status.hidden = closed;
    if (closed) {
      this.answer.element.hidden = true;
      return undefined;
    }
    const {toAsk} = this.context;
    if (toAsk && !this.asking && !this.isOwn()) this.typed = this.filled = null; // ask about the example shown
    if (toAsk && !this.asking && (toAsk.exact || !this.isOwn())) this.answer.picked = null;
    if (this.status.textContent === this.done && !this.isOwn()) this.status.textContent = '';
    this.fill();
    this.decoding.show(Boolean(frame.sample.source));
    this.showHeads();
    this.how.show(state.now.how);
    this.notice();
    if (toAsk || this.asking) this.toAdopt = '';
    if (toAsk) {
      this.context.toAsk = null;
      this.ask(toAsk);
    }
    return Promise.all([this.showWeights(), this.answer.draw()]).then(() => {
      this.adopt();
      this.showStale();
      return this.askFirst();
    });
  }

  /**
   * If nothing has been asked of a run yet, the view asks about the example shown, once and automatically, so that it opens with an answer.
   * The other views keep showing the recorded step.
   */
  async askFirst() {
    const {source, state, recordings} = this.context;
    const {now} = state;
    const {sample} = this.frame;
    const isDecided = this.met.has(now.run);
    this.met.add(now.run);
    if (isDecided || !this.checkpoint || this.asking || this.typed || now.removed || recordings.asked(now.run).length) return;
    const {filled} = this;
    const wanted = this.opening({});
    const isWanted = () => {
      const {run, recording} = state.now;
      return !this.asking && filled === this.filled && run === now.run && !recordings.asked(run).includes(recording);
    };
    this.status.textContent = FIRST.asking;
    try {
      const texts = {text: this.text.value, target: this.target.value, reverse: this.reverse.box.checked, count: 0};
      const {recording} = await source.ask(questionOf(now, this.checkpoint, sample, texts));
      await this.context.refresh();
      if (!isWanted()) return;
      this.status.replaceChildren(...this.firstNote(sample, recording));
      Object.assign(this.answer, {first: {run: now.run, recording}, wanted});
      await this.answer.draw();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      if (isWanted()) this.status.textContent = error.message;
    }
  }

  /** What was asked automatically, with a link to its maps. */
  firstNote({name}, recording) {
    const toMaps = () => this.context.state.set({recording, sample: 0, token: null, partner: '', follow: false});
    const maps = element('button', {type: 'button', class: 'link', onclick: toMaps}, 'show its maps in all views');
    return [`${FIRST.asked(name || 'the example shown')} `, maps, '.'];
  }

  /** Notice whether only the recording differs from the last drawing: the timeline was moved. */
  notice() {
    const {run, recording, removed, how, checkpoint, ...now} = this.context.state.now;
    const before = this.seen;
    const decoding = [decodingOf(now, false), decodingOf(now, true)];
    this.seen = {place: `${run}|${recording}`, chosen: JSON.stringify([removed, how, checkpoint, decoding])};
    if (before.chosen !== this.seen.chosen) this.toAdopt = '';
    else if (before.place !== this.seen.place) this.toAdopt = this.seen.place;
  }

  /** After the timeline was moved to an earlier answer: choose what it was asked with, as the form shows its text. */
  adopt() {
    const {state} = this.context;
    const {element: shown, answer, key} = this.answer;
    if (shown.hidden || this.typed || key !== this.toAdopt) return;
    this.toAdopt = '';
    const heads = headsOf(answer);
    if (answer.asked?.patch) this.other.value = answer.asked.patch.text;
    const other = state.now.checkpoint && this.checkpoint !== answer.checkpoint;
    const weights = other && {checkpoint: answer.checkpoint};
    state.set({removed: listed(heads), ...(heads.length && {how: howOf(answer)}), ...weights, ...stateOf(answer.decoding)});
  }

  /** The text of the example shown, unless another one is being typed. */
  fill() {
    const {sample} = this.frame;
    const translates = Boolean(sample.source);
    this.target.hidden = !translates;
    this.counting.hidden = translates;
    const label = translates ? SOURCE : TEXT;
    this.text.placeholder = label;
    this.text.setAttribute('aria-label', label);
    const {run} = this.context.state.now;
    const key = JSON.stringify([run, sample.reads.ids, sample.source?.ids]);
    if (run !== this.run) {
      this.typed = false;
      this.other.value = '';
      this.writing.end();
    }
    this.run = run;
    if (this.typed || key === this.filled || this.isOwn()) return;
    this.filled = key;
    this.own = '';
    this.answer.first = null;
    const {text, target} = textsOf(sample);
    this.text.value = text;
    this.target.value = target;
    this.reverse.show(isReversed(sample));
    this.text.lang = this.target.lang = '';
  }

  showHeads() {
    const {removed} = this.context.state.now;
    const heads = headsIn(removed);
    this.head.disabled = typeof this.frame.head !== 'number';
    this.layer.disabled = this.frame.head === 'rollout';
    this.how.element.hidden = !heads.length;
    this.other.hidden = !heads.length || this.context.state.now.how !== 'other';
    this.chips.replaceChildren(
      ...heads.map((head) =>
        element(
          'button',
          {
            type: 'button',
            class: 'ask-head',
            title: 'Put it back: the model answers the same text with it',
            onclick: () => this.change({removed: listed(heads.filter((one) => one !== head))}),
          },
          `${headName(head, Boolean(this.frame.sample.source))} ×`,
        ),
      ),
    );
  }

  /** Say so if the answer shown is one to another question about its text. */
  showStale() {
    const {element: shown} = this.answer;
    const differing = shown.hidden || this.asking ? [] : this.differing();
    this.stale.hidden = !differing.length;
    this.differs.textContent = `What is chosen above (${differing.join(', ')}) is not that of this answer.`;
    this.again.hidden = this.send.disabled || (this.context.state.now.how === 'other' && !this.other.value.trim());
    shown.classList.toggle('stale', differing.length > 0);
  }

  /** What is chosen now and was not asked in the answer shown. */
  differing() {
    const {answer} = this.answer;
    const {now} = this.context.state;
    const {removed, how} = now;
    const heads = listed(headsOf(answer));
    const chosen = decodingOf(now, answer.task === 'translate');
    return [
      heads !== listed(headsIn(removed)) && 'heads',
      heads && removed && howOf(answer) !== how && REPLACED,
      this.checkpoint && answer.checkpoint !== this.checkpoint && 'checkpoint',
      answer.decoding && decodingText(answer.decoding) !== decodingText(chosen) && 'decoding',
    ].filter(Boolean);
  }

  /** Choose other heads, or what replaces their output: the question of the answer shown is asked again, unless it differs otherwise. */
  change(changes) {
    const {element: shown, answer} = this.answer;
    const others = () => this.differing().filter((what) => !('how' in changes && what === REPLACED));
    const again = !shown.hidden && !this.typed && headsOf(answer).length > 0 && !others().length;
    this.context.state.set(changes);
    if (again && this.context.state.now.how !== 'other') this.ask();
  }

  /**
   * Ask without a head of the selected layer, or all of them, beside those chosen before. The first one is removed: another text belongs to
   * the heads chosen before.
   */
  add(head) {
    const {kind, layer} = this.context.fitted();
    const {removed, how} = this.context.state.now;
    this.context.state.set({removed: withHead(removed, {kind, layer, head}), ...(!removed && how === 'other' && {how: 'zero'})});
    if (this.context.state.now.how !== 'other') this.ask(); // another text has to be typed first
  }

  /** List the kept weights; without any, the model cannot be asked. */
  async showWeights() {
    let chosen = null;
    try {
      chosen = await this.weights.choose();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.status.textContent = error.message;
      return;
    }
    this.checkpoint = chosen?.name;
    this.send.disabled = this.asking || !chosen;
    this.reverse.element.hidden = this.target.hidden || !chosen?.bothDirections;
    if (!chosen) this.status.textContent = LACKING;
    else if (this.status.textContent === LACKING) this.status.textContent = '';
  }

  submit(event) {
    event.preventDefault();
    this.ask();
  }

  key(event) {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.ask();
  }

  /** `from`: where the question comes from, as in `opening`. */
  async ask(from = {}) {
    if (this.asking) {
      this.status.textContent = BUSY;
      return;
    }
    const {source, state} = this.context;
    this.decoding.read();
    const {now} = state;
    const {sample} = this.frame;
    const wanted = this.answer.word() ?? this.opening(from);
    const selected = this.selectedRow() ? state.selected : {token: now.token === '' ? '' : null, partner: ''};
    if (this.answer.first) {
      this.answer.first = null; // it gives way to what is asked now
      this.answer.draw();
    }
    const typed = {
      text: this.text.value,
      target: this.target.value,
      reverse: this.reverse.box.checked,
      count: Number(this.count.value) || 0,
      other: this.other.value,
    };
    const texts = this.texts();
    this.wait(true);
    try {
      const weights = await this.weights.choose();
      typed.reverse &&= weights?.bothDirections;
      const isShown = () => state.now.run === now.run;
      const task = sample.source ? 'translate' : 'gpt';
      const {onProgress, signal} = this.writing.begin({task, changed: now.removed !== '', isShown, canStop: source.isFile});
      const {recording} = await source.ask(questionOf(now, weights?.name ?? '', sample, typed), onProgress, signal);
      this.writing.end(); // the recordings that follow the answer are not stopped
      if (source.isFile) {
        if (isShown()) {
          this.status.textContent = DRAWING;
          Object.assign(this.answer, {early: {run: now.run, recording}, wanted, toReveal: true});
          await this.answer.draw();
        }
        await source.meta(now.run, recording); // an exported page computes the maps after the answer
      }
      await this.context.refresh();
      if (!isShown()) {
        this.status.textContent = '';
        return;
      }
      this.status.textContent = this.done = `${recordingTitle(recording)} is answered: all views show its maps.`;
      this.keepOrRestore(texts);
      this.own = `${now.run}|${recording}`;
      this.seen.place = this.own; // not an earlier answer: what was chosen meanwhile stays
      if (this.answer.early) this.answer.early = null; // drawn already
      else Object.assign(this.answer, {wanted, toReveal: true});
      state.set({recording, sample: 0, ...selected, against: '', follow: false});
    } catch (error) {
      if (error.name === 'AbortError') this.status.textContent = STOPPED;
      else if (error instanceof Unavailable) {
        this.status.textContent = error.message;
        this.weights.forget();
      } else throw error;
    } finally {
      this.writing.end();
      this.wait(false);
      if (this.answer.early) {
        this.answer.early = null;
        this.answer.draw();
      }
    }
  }

  /** What the form asks about: text, translation and direction. */
  texts() {
    return [this.text.value, this.target.value, this.reverse.box.checked];
  }

  /** After an answer: a text typed meanwhile stays; that of an example shown meanwhile gives way to the text of the answer. */
  keepOrRestore(asked) {
    this.typed &&= JSON.stringify(this.texts()) !== JSON.stringify(asked);
    if (this.typed) return;
    [this.text.value, this.target.value] = asked;
    this.reverse.show(asked[2]);
  }

  /**
   * The word {position, piece, why} to show first in the answer; null if no word is known. `position`: that of the word shown in
   * the view from which the question comes, otherwise that of the finding, or the one predicted in the selected row. But if a pronoun or
   * nothing is selected, it is the answer to the question in the text, if gold labels name one: it shows what the model takes the pronoun
   * for. `exact`: the word was clicked.
   */
  opening({position: shown, exact = false}) {
    if (this.typed) return null;
    const {frame} = this;
    const row = frame.kind === 'encoder' ? null : this.selectedRow(); // a word of the source is predicted nowhere
    const answer = answerOf(frame.sample);
    if (answer && !exact && (!row || hasAntecedent(frame, row.index))) return {...answer, why: 'answer'};
    if (shown === undefined && !row) return null;
    const chosen = this.context.state.now.token === null ? 'finding' : 'selected';
    const own = chosen === 'finding' ? rowsOf(frame, row.index).predicts : null; // where the word itself is predicted
    const position = shown ?? own?.[0] ?? positionOf(frame, row.index);
    const why = position === answer?.position ? 'answer' : shown === undefined ? chosen : 'shown';
    return {position, piece: frame.sample.predicts.pieces[position], why};
  }

  /** Whether the recording shown is that of the text in the form. */
  isOwn() {
    const {run, recording} = this.context.state.now;
    return this.own === `${run}|${recording}`;
  }

  /** The row selected in the other views, {index}; null if there is none, or the text is another one. */
  selectedRow() {
    const selected = selection(this.context.state.selected.token, this.frame);
    return selected?.side === 'row' && !this.typed ? selected : null;
  }

  wait(asking) {
    this.asking = asking;
    this.send.disabled = asking;
    this.element.setAttribute('aria-busy', String(asking));
    this.showStale();
    if (asking) this.status.textContent = 'asking… (the first question loads the model)';
  }
}
