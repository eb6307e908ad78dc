/** The prediction view: which parts of the model make it predict a token, and what each layer would predict. */

import {languageOf, percent, readable, signed} from '../../core/format.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {choice, menu, segments} from '../../dom/fields.js';
import {css, inksOf} from '../../draw/colours.js';
import {hex, SvgPen} from '../../draw/pen.js';
import {headName, whyWord} from '../../finding/sentence.js';
import {answerOf} from '../pair/gold_pairs.js';
import {focusOn, reveal, selectable, selection, tokenButton} from '../tokens.js';
import {candidatesAt, contributions, inOrder, isExact, isHead, positionOf} from './contributions.js';

export const create = (context) => new Prediction(context);

const MEANING =
  'Direct effect: what each part writes into the residual stream, multiplied by the output vector of the token, with the scale of the ' +
  'final norm as it was. Effects through later layers are not in the bars.';
const EXACT = 'All parts add up to it: the difference is at most 1 part in 10,000.';
const ROUNDED =
  'a model that trains in bfloat16 computes with about three digits, and older recordings keep about four. Ask computes in float32, where the ' +
  'bars add up to the logit.';

class Prediction {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.text = element('div', {class: 'passages'});
    this.heading = element('h3', {});
    this.bars = element('ol', {class: 'parts', 'aria-label': 'contributions to the logit'});
    this.sum = element('p', {class: 'parts-sum', role: 'status'});
    this.exact = element('p', {class: 'parts-exact'});
    const about = 'Open this text in the view Ask, where the model of the nearest kept checkpoint predicts this word again';
    this.ask = element('button', {type: 'button', class: 'without', title: about, onclick: () => this.askModel()}, 'ask this model…');
    const title = element('div', {class: 'prediction-title'}, this.heading, this.ask);
    this.picked = ''; // the token that was clicked here, rather than in another view
    this.lens = element('table', {class: 'lens'});
    this.note = element('p', {class: 'view-note'});
    this.element = element('div', {class: 'prediction-view'}, this.text, title, this.bars, this.sum, this.exact, this.lens, this.note);
    this.token = menu('token', (candidate) => state.set({candidate: Number(candidate)}), 'The token whose logit is explained');
    this.versus = menu('against', (versus) => state.set({versus: Number(versus)}), 'Why the token rather than another one');
    this.sort = choice('order', {order: 'as in the model', strength: 'largest first'}, (sort) => state.set({sort}));
    this.parts = segments('bars of', {all: 'all parts', heads: 'heads only'}, (parts) => state.set({parts}), 'MLPs may dwarf the heads');
    const fields = [this.token, this.versus, this.sort, this.parts].map((field) => field.element);
    this.controls = element('div', {class: 'view-controls'}, fields);
    selectable(
      this.text,
      () => state.selected.token,
      (token) => {
        this.picked = token;
        state.set({token});
      },
    );
    this.bars.addEventListener('click', (event) => this.goTo(event.target.closest('[data-part]')));
  }

  draw(frame) {
    this.frame = frame;
    const {sample, meta} = frame;
    const {run, recording, sample: number} = this.context.fitted();
    const turn = (this.turn = {});
    const known = frame.kind !== 'encoder' && meta.parts?.length > 0;
    this.explained = null;
    this.element.classList.toggle('unknown', !known);
    this.controls.hidden = !known;
    const silent = sample.reads.pieces.length ? 'The encoder predicts nothing: choose another kind.' : 'An encoder predicts no next tokens.';
    if (!known) return this.lacking(frame.kind === 'encoder' ? silent : '');
    this.row = this.chosenRow();
    this.position = positionOf(frame, this.row);
    this.candidates = candidatesAt(sample, this.position);
    this.buildText();
    this.showFields();
    this.showLens();
    const tensors = ['attribution', 'logits'].map((what) => this.context.source.tensor(run, recording, number, '', '', what));
    return Promise.all(tensors).then(
      ([attribution, logits]) => turn === this.turn && this.show({parts: meta.parts, attribution, logits}),
      (error) => {
        if (!(error instanceof Unavailable)) throw error;
        if (turn === this.turn) this.lacking(`(${error.message}) `);
      },
    );
  }

  lacking(why) {
    this.context.tell('prediction', '');
    for (const part of [this.text, this.bars, this.lens]) part.replaceChildren();
    this.controls.hidden = true;
    this.heading.textContent = this.sum.textContent = this.exact.textContent = '';
    this.ask.hidden = true;
    this.note.textContent = why || 'This recording does not contain the contributions to predictions: it is older, or of another program.';
  }

  /**
   * The selected row, or the one that predicts the word of the finding; if nothing is selected, that which writes the answer to the question
   * in the text, or the first token with a gold antecedent, or the last one with a known next token.
   */
  chosenRow() {
    const {frame} = this;
    const {state, shown} = this.context;
    const selected = selection(state.now.token, frame);
    if (selected?.side === 'row') return selected.index;
    const {antecedents, predicts} = frame.sample;
    const gold = antecedents?.side === 'reads' ? antecedents.pairs[0]?.[0] - 1 : NaN;
    const found = state.now.token === null ? shown().finding?.query.predicts : undefined;
    const wanted = found ?? answerOf(frame.sample)?.position ?? (gold >= 0 ? gold : predicts.ids.length - 1);
    const row = frame.rows.findIndex((_, index) => positionOf(frame, index) >= wanted);
    return row < 0 ? frame.rows.length - 1 : row;
  }

  /** The next token of each row, shaded by the probability that the model gave it. */
  buildText() {
    const {frame, row} = this;
    const palette = this.context.colours();
    const held = this.text.contains(document.activeElement);
    const buttons = frame.rows.map((_, index) => {
      const [next] = candidatesAt(frame.sample, positionOf(frame, index));
      const text = readable(next.piece);
      const button = tokenButton({text, special: false, language: languageOf(text)}, `r${index}`, next.piece);
      const colour = palette.weight(next.probability || 0);
      Object.assign(button.style, {backgroundColor: css(colour), color: palette.ink(colour)});
      button.title = `${next.actual ? '' : 'most likely here: '}${percent(next.probability)}`;
      button.setAttribute('aria-pressed', String(index === row));
      return button;
    });
    const caption = element('div', {class: 'caption'}, 'the text as it is predicted; shade: probability of the actual token');
    this.text.replaceChildren(element('div', {class: 'passage'}, caption, element('div', {class: 'passage-text'}, buttons)));
    focusOn(this.text, buttons[row], {focus: held});
    reveal(this.text, `r${row}`, this);
  }

  showFields() {
    const {candidate, versus, sort, parts} = this.context.state.now;
    this.candidate = candidate in this.candidates ? candidate : 0;
    this.against = versus in this.candidates && this.id(versus) !== this.id(this.candidate) ? versus : -1;
    const options = this.candidates.map(({piece, probability, actual}, value) => ({
      value,
      text: `${readable(piece)} ${percent(probability)}${actual ? ' (actual)' : ''}`,
    }));
    const once = options.filter(({value}) => value === 0 || this.id(value) !== this.id(0));
    this.token.show(once, this.id(this.candidate) === this.id(0) ? 0 : this.candidate);
    const others = once.filter(({value}) => this.id(value) !== this.id(this.candidate));
    this.versus.show([{value: -1, text: 'the mean of all tokens'}, ...others], this.against);
    this.sort.show(sort);
    this.parts.show(parts);
  }

  id(candidate) {
    return this.candidates[candidate]?.id;
  }

  show(recorded) {
    const found = contributions(recorded, this.position, this.candidate, this.against);
    const {sort, parts} = this.context.state.now;
    const shown = parts === 'heads' ? found.bars.filter(({part}) => isHead(part)) : found.bars;
    const most = Math.max(...shown.map(({value}) => Math.abs(value))) || 1;
    const palette = this.context.colours();
    const {kind, layer, head} = this.context.fitted();
    this.explained = {...found, most, ordered: inOrder(shown, sort)};
    this.heading.textContent = this.title();
    this.ask.hidden = !this.context.source.canAsk(this.context.state.now.run);
    const button = {type: 'button', class: 'part-name', title: 'select this head'};
    this.bars.replaceChildren(
      ...this.explained.ordered.map(({part, name, value}) => {
        const selected = isHead(part) && part[0] === kind && part[1] === layer && part[2] === head;
        const label = isHead(part)
          ? element('button', {...button, 'data-part': part.join('|'), 'aria-pressed': String(selected)}, name)
          : element('span', {class: 'part-name'}, name);
        const side = value < 0 ? 'right: 50%' : 'left: 50%';
        const colour = hex(palette.difference(Math.sign(value) * 0.7));
        const width = `${((50 * Math.abs(value)) / most).toFixed(1)}%`;
        const bar = element('span', {class: 'bar', style: `${side}; width: ${width}; background: ${colour}`});
        return element('li', {}, label, element('span', {class: 'bar-room'}, bar), element('span', {class: 'bar-number'}, signed(value)));
      }),
    );
    const against = this.against < 0 ? 'logit, relative to the mean of all tokens' : 'difference of the logits';
    const heads = shown === found.bars ? '' : `Sum of the heads ${signed(shown.reduce((sum, {value}) => sum + value, 0))}. `;
    const all = heads ? 'Sum of all parts' : 'Sum of the bars';
    const exact = isExact(found);
    this.sum.textContent = `${heads}${all} ${signed(exact ? found.logit : found.sum)}; ${against}: ${signed(found.logit)}.`;
    const gap = Math.abs(found.sum.toFixed(2) - found.logit.toFixed(2)); // of the numbers as shown
    const size = gap < 0.005 ? 'The difference, less than 0.01,' : `The difference of ${gap.toFixed(2)}`;
    this.exact.textContent = exact ? EXACT : Number.isFinite(gap) ? `${size} is rounding: ${ROUNDED}` : '';
    this.note.textContent = MEANING;
    this.context.tell('prediction', this.sentence());
  }

  /** "“She”, the last pronoun, has a probability of 74.0 % after “.”. Of all heads, layer 0 · head 2 adds most to its logit (…)." */
  sentence() {
    const {finding, meta} = this.context.shown();
    const {piece, probability} = this.candidates[this.candidate];
    const isItsWord = this.candidate === 0 && finding?.query.predicts === this.position;
    const why = isItsWord && whyWord(finding, meta);
    const word = `“${readable(piece)}”${why ? `, ${why},` : ''}`;
    const chance = `${word} has a probability of ${percent(probability)} after “${readable(this.frame.sample.reads.pieces[this.position])}”.`;
    const heads = this.explained.bars.filter(({part}) => isHead(part));
    if (!heads.length) return chance;
    const {part, value} = heads.reduce((best, one) => (one.value > best.value ? one : best));
    const name = headName(meta, {kind: part[0], layer: part[1], head: part[2]});
    const what = this.against < 0 ? 'its logit' : 'the difference of the logits';
    return `${chance} Of all heads, ${name} adds most to ${what} (${signed(value)} of ${signed(this.explained.logit)}).`;
  }

  title() {
    const name = (candidate) => `“${readable(this.candidates[candidate].piece)}”`;
    const after = `after “${readable(this.frame.sample.reads.pieces[this.position])}”`;
    const rather = this.against < 0 ? '' : ` rather than ${name(this.against)}`;
    return `What predicts ${name(this.candidate)} ${after}${rather}`;
  }

  /** The logit lens: the most likely tokens after each layer. */
  showLens() {
    const {sample} = this.frame;
    const layers = [...(sample.lens ?? []), sample.predictions];
    const width = Math.min(...layers.map((layer) => layer[this.position].length));
    const actual = this.frame.sample.predicts.ids[this.position];
    this.lens.replaceChildren(
      element('caption', {}, 'what each layer would predict (logit lens)'),
      ...layers.map((layer, number) => {
        const name = number < layers.length - 1 ? `after layer ${number}` : 'the model';
        const cells = layer[this.position].slice(0, width).map(([id, piece, probability]) => {
          const text = readable(piece);
          const attributes = {class: id === actual ? 'actual' : '', lang: languageOf(text)};
          return element('td', attributes, `${text} `, element('span', {}, percent(probability)));
        });
        return element('tr', {}, element('th', {scope: 'row'}, name), cells);
      }),
    );
  }

  /** Ask about the word shown: the model of the recorded step as a whole; in the text of an answer, with the heads chosen there. */
  askModel() {
    const {state} = this.context;
    const {recording, token} = state.now;
    this.context.toAsk = {position: this.position, exact: Boolean(token) && token === this.picked};
    state.set({view: 'ask', token: `r${this.row}`, checkpoint: '', ...(!recording.startsWith('asked_') && {removed: ''})});
  }

  goTo(button) {
    if (!button) return;
    const [kind, layer, head] = button.dataset.part.split('|');
    this.context.state.set({kind, layer: Number(layer), head: Number(head), token: `r${this.row}`});
  }

  svg(frame) {
    if (!this.explained) return null;
    const pen = new SvgPen();
    const {ink, muted, paper} = inksOf(this.element);
    const palette = this.context.colours();
    const [left, half, line] = [190, 200, 20];
    const {ordered, most} = this.explained;
    pen.text(0, 10, this.heading.textContent, {size: 13, fill: ink, weight: 600});
    ordered.forEach(({name, value}, i) => {
      const y = 32 + i * line;
      const length = (half * Math.abs(value)) / most;
      pen.text(left - 10, y, name, {size: 12, fill: ink, anchor: 'end'});
      const fill = hex(palette.difference(Math.sign(value) * 0.7));
      pen.rect(left + half - (value < 0 ? length : 0), y - 6, Math.max(length, 0.5), 12, {fill});
      pen.text(left + 2 * half + 60, y, signed(value), {size: 11, fill: muted, anchor: 'end'});
    });
    const bottom = 32 + ordered.length * line;
    pen.text(0, bottom + 8, this.sum.textContent, {size: 12, fill: muted});
    return pen.svg(left + 2 * half + 70, bottom + 20, {title: `prediction · ${frame.name}`, paper, margin: 12});
  }
}
