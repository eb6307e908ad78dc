/** The answer to a question: what the model writes, its loss, and the next-token probabilities with and without the removed heads. */

import {languageOf, percent, readable, signed} from '../../core/format.js';
import {recordingTitle} from '../../core/recordings.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {css} from '../../draw/colours.js';
import {tokenButton} from '../tokens.js';
import {Effects} from './effects.js';
import {decodingText, headName, headsOf, howOf} from './question.js';

const CLICK = 'click a word for what else might stand there';
const PREDICTED = {
  gpt: `the text as it is predicted; ${CLICK}`,
  translate: `the translation as the decoder predicts it; by cross-attention it reads the source from the encoder; ${CLICK}`,
};
const LARGEST = 2; // nats: the change of a loss that gets the strongest colour
const NOTICED = 0.01; // change of a probability from which on it rises or falls

export class Answer {
  constructor(context) {
    this.context = context;
    this.about = element('h3', {});
    this.written = element('div', {class: 'ask-written'});
    this.loss = element('p', {class: 'ask-loss'});
    this.compare = element('button', {type: 'button', class: 'ask-compare', onclick: () => this.toggle()});
    this.tokens = element('div', {class: 'passage-text', onclick: (event) => this.choose(event.target.closest('.token'))});
    this.table = element('table', {class: 'ask-next'});
    this.change = element('p', {class: 'ask-change'});
    this.caption = element('div', {class: 'caption'});
    this.opened = element('p', {class: 'ask-opened', role: 'status'});
    this.effects = new Effects(context);
    this.wanted = null; // the word {position, piece, why} to show first in the next answer
    this.picked = null; // the word that was clicked, with the token that was selected in the other views then
    this.toReveal = false; // the next answer was just asked for
    this.first = null; // {run, recording} of an answer that nobody has asked for, shown as long as the user asks for no other one
    this.early = null; // {run, recording} of an answer just given, shown instead of that of the recording shown until its maps are there
    this.earlyKey = ''; // "run|recording" of the answer drawn last, if its maps were not there
    this.clicked = false; // a word of the answer was clicked
    const head = [this.about, this.written, this.loss, this.compare];
    const attributes = {class: 'ask-answer', 'aria-label': 'answer', hidden: true};
    const tables = element('div', {class: 'ask-tables'}, this.table, this.effects.element);
    this.element = element('section', attributes, ...head, this.caption, this.tokens, this.opened, this.change, tables);
  }

  /** The word that was clicked last; null if none was, or if another one was selected in another view since. */
  word() {
    return this.picked?.token === this.context.state.selected.token ? this.picked : null;
  }

  /** Show the answer that belongs to the recording shown; if it was not made for a question, the first answer of the run, or nothing. */
  async draw() {
    const {state, source} = this.context;
    const {run} = state.now;
    const turn = (this.turn = {});
    const early = this.early?.run === run;
    const isAsked = early || state.now.recording.startsWith('asked_');
    const recording = early ? this.early.recording : isAsked ? state.now.recording : this.first?.run === run ? this.first.recording : '';
    if (!recording) {
      this.element.hidden = true;
      this.about.textContent = '';
      return;
    }
    const key = `${run}|${recording}`;
    try {
      const answer = this.key === key ? this.answer : await source.answered(run, recording);
      if (turn !== this.turn) return;
      if (this.answer !== answer) {
        const position = placeIn(answer, this.wanted ?? this.picked);
        this.position = position ?? firstPosition(answer);
        this.picked = position === undefined ? null : this.here(answer);
        const why = this.wanted ? this.wanted.why : sameText(answer, this.answer) ? this.why : '';
        this.why = position === undefined ? '' : why;
        this.wanted = null;
        this.clicked = isAsked;
      }
      if (!early && this.earlyKey === key && this.picked) this.picked = this.here(answer); // it is the text of the other views now
      this.earlyKey = early ? key : '';
      [this.key, this.answer] = [key, answer];
      this.show();
      if (this.toReveal) this.reveal();
      this.toReveal = false;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      if (turn !== this.turn) return;
      this.element.hidden = true;
      this.first = null;
    }
  }

  /** The selected word of an answer. */
  here({predicts}) {
    return {position: this.position, piece: predicts[this.position], token: this.context.state.selected.token};
  }

  show() {
    const {answer} = this;
    const {whole, losses} = answer;
    const without = whole ? changeOf(answer) : 'the whole model';
    this.element.hidden = false;
    this.about.textContent = `${recordingTitle(answer.recording)}: model of step ${answer.step.toLocaleString('en')}, ${without}`;
    this.caption.replaceChildren(PREDICTED[answer.task] ?? PREDICTED.translate, ...(whole ? this.legend() : []));
    this.written.replaceChildren(...writtenLines(answer, without));
    const total = sum(losses);
    const mean = losses.length ? ` (${(total / losses.length).toFixed(2)} per token)` : '';
    const before = whole ? `; of the whole model ${sum(whole.losses).toFixed(2)}, difference ${signed(total - sum(whole.losses), 2)}` : '';
    this.loss.textContent = losses.length ? `Total loss in nats: ${total.toFixed(2)}${mean}${before}.` : '';
    this.showCompare();
    this.showTokens();
    this.showTable();
  }

  /** The colours of the words. */
  legend() {
    const palette = this.context.colours();
    const colours = [-1, -0.5, 0, 0.5, 1].map((share) => css(palette.difference(share)));
    const scale = element('span', {class: 'ask-scale', style: `background: linear-gradient(to right, ${colours.join(', ')})`});
    return [element('span', {class: 'ask-legend'}, `easier, −${LARGEST} nats `, scale, ` +${LARGEST} nats, harder to predict`)];
  }

  /** Scroll to the answer that was asked for, which may be below the form. */
  reveal() {
    this.element.scrollIntoView({block: 'nearest'});
    if (this.element.getBoundingClientRect().bottom > window.innerHeight) this.element.scrollIntoView({block: 'start'});
  }

  showCompare() {
    const {whole_recording: other} = this.answer;
    this.compare.hidden = !other || this.early !== null;
    const compared = this.context.state.now.against === `step:${other}`;
    this.compare.textContent = compared ? 'show the maps without comparison' : 'compare with the whole model';
    this.compare.title = 'In all views, the maps minus those of the whole model for the same tokens';
  }

  toggle() {
    const {state} = this.context;
    const against = `step:${this.answer.whole_recording}`;
    state.set({against: state.now.against === against ? '' : against});
  }

  showTokens() {
    const {tokens, predicts, losses, whole} = this.answer;
    const palette = this.context.colours();
    const answered = changeOf(this.answer);
    this.tokens.replaceChildren(
      ...tokens.map((_, position) => {
        const piece = predicts[position] ?? '…'; // at the end of a text, what follows is unknown
        const text = readable(piece);
        const button = tokenButton({text, special: false, language: languageOf(text)}, `p${position}`, piece);
        button.tabIndex = 0;
        button.setAttribute('aria-pressed', String(position === this.position));
        const loss = losses[position];
        if (loss !== undefined && whole) {
          const change = loss - whole.losses[position];
          const colour = palette.difference(Math.max(-1, Math.min(1, change / LARGEST)));
          Object.assign(button.style, {backgroundColor: css(colour), color: palette.ink(colour)});
          button.title = `loss ${loss.toFixed(2)}, ${signed(change, 2)} ${answered}`;
        } else if (loss !== undefined) button.title = `loss ${loss.toFixed(2)}`;
        return button;
      }),
    );
  }

  /** "The model of step 6,417 gives “Ken”, the answer to the question in the text, a probability of 99.8 % after “?”." */
  sentence() {
    const {next, tokens, predicts, whole, step} = this.answer;
    const {position} = this;
    const [, piece, probability, before] = next[position].find((row) => row[1] === predicts[position]) ?? next[position][0];
    const how = whole ? ` ${changeOf(this.answer, 'the other text')}` : '';
    const other = whole ? `, the whole model ${percent(before)}` : '';
    const why = this.why === 'answer' ? ', the answer to the question in the text' : '';
    const word = `“${readable(piece)}”${why}${why && ','}`;
    const chance = `a probability of ${percent(probability)} after “${readable(tokens[position])}”`;
    const likeliest = next[position].reduce((most, row) => (row[2] > most[2] ? row : most));
    const isOther = whole && likeliest[1] !== piece;
    const instead = isOther ? ` The changed model expects “${readable(likeliest[1])}” (${percent(likeliest[2])}).` : '';
    return `The model of step ${step.toLocaleString('en')}${how} gives ${word} ${chance}${other}.${instead}`;
  }

  /** What each head does to the word, if that was asked for or is quickly measured; the sentence above says which one does most. */
  async showEffects() {
    const {effects, answer, position} = this;
    if (!this.clicked && !effects.isQuick(answer)) {
      effects.wait();
      return;
    }
    const most = await effects.draw(answer, position);
    if (!most || answer !== this.answer || answer.whole || this.element.hidden) return;
    const probability = `${percent(most.probability)} (${effects.how} ablation)`;
    const change = `No head changes it more than ${effects.nameOf(most.place)}: without this head, it is ${probability}.`;
    this.context.tell('ask', `${this.sentence()} ${change}`);
  }

  choose(button) {
    if (!button) return;
    this.position = Number(button.dataset.token.slice(1));
    this.picked = this.here(this.answer);
    this.why = '';
    this.clicked = true;
    for (const one of this.tokens.children) one.setAttribute('aria-pressed', String(one === button));
    this.showTable();
  }

  showTable() {
    const {next, tokens, predicts, whole} = this.answer;
    const {position} = this;
    this.opened.textContent = whyShown(this.why, readable(predicts[position] ?? '…'), readable(tokens[position]));
    this.context.tell('ask', this.sentence());
    this.showEffects();
    this.change.textContent = whole ? `${largestChange(next[position])} ${changeOf(this.answer, 'the other text')}.` : '';
    const cell = (text, name) => element('td', {class: name}, text);
    const zero = percent(0);
    const isSeen = ([, piece, ...chances]) => piece === predicts[position] || chances.some((one) => one !== null && percent(one) !== zero);
    const rows = next[position].filter(isSeen).map(([, piece, probability, before]) => {
      const text = readable(piece);
      const change = probability - before;
      const actual = piece === predicts[position];
      return element(
        'tr',
        {class: actual ? 'actual' : false},
        element('th', {scope: 'row', lang: languageOf(text), title: actual && 'the actual next token'}, `${text}${actual ? ' ✓' : ''}`),
        cell(percent(probability), 'number'),
        whole && cell(percent(before), 'number'),
        whole && cell(signed(100 * change, 1), `number ${change < 0 ? 'less' : 'more'}`),
      );
    });
    const heads = ['next token', ...(whole ? [methodOf(this.answer.asked), 'whole model', 'points'] : ['probability'])];
    this.table.replaceChildren(
      element('caption', {}, `after “${readable(tokens[position])}”`),
      element('tr', {}, heads.map((text) => element('th', {scope: 'col'}, text))),
      ...rows,
    );
  }
}

/** "without layer 0 · head 1 (zero ablation)", or "with layer 0 · head 1 from “Rosa is kind”". */
function changeOf({asked, task}, other = `“${asked?.patch?.text}”`) {
  const names = headsOf({asked}).map((head) => headName(head, task === 'translate')).join(', ') || 'some heads';
  return asked?.patch ? `with ${names} from ${other}` : `without ${names} (${methodOf(asked)})`;
}

/** What was done to the heads. */
function methodOf(asked) {
  return asked?.patch ? 'patched' : `${howOf({asked})} ablation`;
}

/** Why an answer opened at a word, which nobody has clicked in it; '' if that needs no word. */
function whyShown(why, word, before) {
  if (why === 'answer') return `Opened at “${word}”, the answer to the question in the text, by its gold label.`;
  if (why === 'shown') return `Opened at “${word}”, the word shown in Prediction.`;
  if (why === 'finding') return `Opened at “${word}”, the word with which the tab opens.`;
  return why === 'selected' ? `Opened at “${word}”, which the model predicts after the selected word, “${before}”.` : '';
}

/** Whether two answers, of which the second may be missing, are about the same text. */
function sameText(answer, other) {
  return JSON.stringify(answer.tokens) === JSON.stringify(other?.tokens);
}

/** The place of a word {position, piece} in an answer: of the same next tokens, the nearest; undefined if there is none. */
function placeIn({tokens, predicts}, word) {
  if (!word) return undefined;
  const distance = (position) => Math.abs(position - word.position);
  const places = [...tokens.keys()].filter((position) => predicts[position] === word.piece);
  return places.sort((a, b) => distance(a) - distance(b))[0];
}

/** "“Emi” falls from 90 % to 12 %": the next token whose probability changes most. */
function largestChange(rows) {
  const change = ([, , probability, before]) => Math.abs(probability - before);
  const [, piece, probability, before] = rows.reduce((most, row) => (change(row) > change(most) ? row : most));
  const name = `“${readable(piece)}”`;
  const course = `from ${percent(before)} to ${percent(probability)}`;
  if (percent(probability) === percent(before)) return `${name} stays at ${percent(before)}`;
  if (Math.abs(probability - before) < NOTICED) return `${name} hardly changes, ${course},`;
  return `${name} ${probability > before ? 'rises' : 'falls'} ${course}`;
}

/**
 * The word whose loss changes most without the heads. Of the whole model, and of a text with outputs of another one, what follows the typed
 * text; of a translation, its start.
 */
function firstPosition({task, typed, losses, whole, asked}) {
  if (task === 'gpt' && (!whole || asked?.patch)) return typed - 1;
  if (!whole) return 0;
  const changes = losses.map((loss, position) => Math.abs(loss - whole.losses[position]));
  return Math.max(changes.indexOf(Math.max(...changes)), 0);
}

/** "The model continues: “…”"; how: by which settings. */
export function writtenLine(who, task, text, how = '') {
  const verb = task === 'gpt' ? 'continues' : 'translates';
  return element('p', {}, `${who} ${verb}${how}: `, element('q', {lang: languageOf(text)}, text));
}

function writtenLines({task, written, whole, notes, decoding}, without) {
  const how = decoding ? ` (${decodingText(decoding)})` : '';
  const line = (who, text) => writtenLine(who, task, text, how);
  const lines = [];
  if (whole && whole.written !== null) lines.push(line('The whole model', whole.written));
  if (written !== null) lines.push(line(whole ? `The model ${without}` : 'The model', written));
  return [...lines, ...notes.map((note) => element('p', {class: 'muted'}, `Note: ${note}.`))];
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
