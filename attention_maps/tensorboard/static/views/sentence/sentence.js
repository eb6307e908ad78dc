/** The sentence view: running text shaded by the attention of the selected token. */

import {percent, short} from '../../core/format.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {explain} from '../../dom/explain.js';
import {segments} from '../../dom/fields.js';
import {hideTooltip, showTooltip} from '../../dom/tooltip.js';
import {css, inksOf} from '../../draw/colours.js';
import {SvgPen} from '../../draw/pen.js';
import {goldLinks} from '../alignment/links.js';
import {declutter, drawTokens, focusOn, reveal, selectable, selection} from '../tokens.js';
import {antecedentLinks, goldOf} from './gold.js';
import {runningTextElement, runningTexts} from './running_text.js';
import {selectedStrength, strengthNodes, strengths} from './strength.js';
import {lossOf, panel} from './token_panel.js';

export const create = (context) => new Sentence(context);

const PALE = 0.3; // of the colour scale at most, without a selection
const NO_LINKS = 'No gold links are known for this text: only the built-in corpus has them.';
const PROBE = `attention.probes='["Emi came because she{Emi} was kind."]'`;
const STRONG = 0.1; // minimum weight shown as a number; the three largest always are

class Sentence {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.reversed = false;
    this.text = element('div', {class: 'passages'});
    this.side = element('aside', {class: 'sentence-panel', 'aria-live': 'polite', 'aria-label': 'the selected token'});
    this.note = element('p', {class: 'view-note'});
    this.element = element('div', {class: 'sentence-view'}, element('div', {class: 'sentence-main'}, this.text, this.note), this.side);
    const ways = {forward: 'what it attends to', back: 'what attends to it'};
    this.way = segments('a token shows', ways, (way) => this.turn(way === 'back'), 'Select a token as query or as key');
    const lines = {'': 'nothing', loss: 'loss', strength: 'strength'};
    this.underline = segments('underline', lines, (underline) => state.set({underline}), 'The thicker the line under a token, the larger its loss or strength');
    this.controls = element('div', {class: 'view-controls'}, this.way.element, this.underline.element, explain('strength'));
    selectable(
      this.text,
      () => state.selected.token,
      (token) => state.set({token}),
    );
    this.text.addEventListener('pointerover', (event) => this.describeAt(event));
    this.text.addEventListener('pointerleave', hideTooltip);
  }

  draw(frame) {
    this.frame = frame;
    this.strengths = null;
    this.lacking = '';
    const drawing = (this.drawing = {});
    if (this.context.state.now.underline === 'strength') this.readStrengths(drawing);
    this.show();
  }

  /** Read the norms of the heads' outputs; those that have to be requested are shown when they arrive. */
  readStrengths(drawing) {
    const {frame} = this;
    const {source} = this.context;
    const {run, recording, sample, kind, layer} = this.context.fitted();
    const place = [run, recording, sample, kind, layer, 'norms'];
    const ready = source.ready(...place);
    if (ready) {
      this.strengths = strengths(frame, ready);
      return;
    }
    source
      .tensor(...place)
      .then((norms) => (drawing === this.drawing ? (this.strengths = strengths(frame, norms)) : null))
      .catch((error) => {
        if (!(error instanceof Unavailable)) throw error;
        this.lacking = `This recording contains no activation strength for this map (${error.message}).`;
      })
      .then(() => drawing === this.drawing && this.show());
  }

  show() {
    const {frame} = this;
    const {state} = this.context;
    this.chosen = selection(state.selected.token, frame);
    if (this.chosen && frame.kind !== 'cross') this.reversed = this.chosen.side === 'column';
    this.way.element.hidden = frame.kind === 'cross';
    this.way.show(this.reversed ? 'back' : 'forward');
    this.underline.show(state.now.underline);
    this.underline.buttons[1].disabled = frame.kind === 'encoder'; // which predicts nothing
    this.build();
    this.shade();
    const unit = this.chosen && this.units.find(({row, column}) => this.chosen.index === (this.chosen.side === 'row' ? row : column));
    const palette = this.context.colours();
    const strength = unit?.row >= 0 && this.strengths?.[unit.row];
    const ofHeads = strength ? strengthNodes(strength, frame.head, palette, (head) => state.set({head})) : [];
    this.side.replaceChildren(...panel(frame, unit, this.chosen, palette, ofHeads));
    this.describe();
    reveal(this.text, state.selected.token, this);
  }

  build() {
    this.parts = runningTexts(this.frame);
    const idOf = ({row, column}) => (column >= 0 && (this.reversed || row < 0) ? `c${column}` : `r${row}`);
    const key = JSON.stringify([
      this.reversed,
      this.parts.map(({name, units}) => [name, units.map((unit) => [idOf(unit), unit.label.text, unit.piece])]),
    ]);
    this.units = this.parts.flatMap(({units}) => units);
    if (key !== this.built) {
      this.built = key;
      const held = this.text.contains(document.activeElement);
      this.text.replaceChildren(...this.parts.map((part) => runningTextElement(part, idOf)));
      this.buttons = [...this.text.querySelectorAll('.token')];
      focusOn(this.text, this.buttons[0], {focus: false});
      const again = this.text.querySelector(`[data-token="${this.context.state.selected.token}"]`);
      if (held && again) focusOn(this.text, again);
    }
  }

  /** The weight of each token with respect to the selected one, NaN if it has none; without a selection, the mean it receives. */
  weights() {
    const {frame, chosen} = this;
    const width = frame.columns.length;
    const at = (row, column) => (row >= 0 && column >= 0 ? frame.weights[row * width + column] : NaN);
    if (chosen?.side === 'row') return this.units.map(({column}) => at(chosen.index, column));
    if (chosen) return this.units.map(({row}) => at(row, chosen.index));
    return this.units.map(({column}) => (column < 0 ? NaN : received(frame, column)));
  }

  shade() {
    const {frame, chosen} = this;
    const {state} = this.context;
    const palette = this.context.colours();
    const weights = this.weights();
    const ground = !chosen ? this.paleGround(weights) : state.now.scale === 'one' ? 1 : frame.maximum;
    const numbered = chosen ? strong(weights) : [];
    const gold = chosen && goldOf(frame, chosen);
    const known = new Set((frame.kind === 'cross' ? goldLinks(frame) : antecedentLinks(frame))?.map(({row}) => row));
    const sizes = this.units.map((unit) => this.underlined(unit));
    const largest = Math.max(state.now.underline === 'loss' ? 1 : 1e-6, ...sizes.filter(Number.isFinite));
    this.units.forEach((unit, i) => {
      const button = this.buttons[i];
      const weight = weights[i];
      const most = chosen ? Infinity : PALE * ground; // also of a special token that receives most of the attention
      const shade = Math.min(Math.max(weight, -most), most);
      const colour = Number.isFinite(weight) && weight !== 0 ? palette.of(frame, shade, {maximum: ground, gamma: state.now.gamma}) : null;
      const place = chosen?.side === 'row' ? unit.column : unit.row;
      Object.assign(button.style, {
        backgroundColor: colour ? css(colour) : '',
        color: colour ? palette.ink(colour) : '',
        ...underline(sizes[i] / largest),
      });
      const selected = Boolean(chosen) && chosen.index === (chosen.side === 'row' ? unit.row : unit.column);
      button.setAttribute('aria-pressed', String(selected));
      button.classList.toggle('future', !selected && this.unseen(unit));
      button.classList.toggle('gold', Boolean(gold?.right.has(place)) && place >= 0 && this.onFarSide(unit));
      button.classList.toggle('pronoun', known.has(unit.row) && frame.kind !== 'cross');
      button.lastChild.replaceChildren();
    });
    const numbers = numbered.map((i) => element('span', {}, short(weights[i])));
    numbered.forEach((i, rank) => this.buttons[i].lastChild.append(numbers[rank]));
    declutter(numbers);
  }

  /** The loss or the strength of a token, by which it is underlined; NaN if it has none. */
  underlined(unit) {
    const {underline} = this.context.state.now;
    if (underline === 'loss') return lossOf(this.frame, unit);
    return this.strengths && unit.row >= 0 ? selectedStrength(this.strengths[unit.row], this.frame.head) : NaN;
  }

  /** The end of the colour scale without a selection: words keep pale colours. */
  paleGround(weights) {
    const ofWords = weights.filter((weight, i) => Number.isFinite(weight) && !this.units[i].label.special);
    return Math.max(0, ...ofWords.map(Math.abs)) / PALE || 1;
  }

  /** Whether a token can be on the other side of the selected one: with two texts, only tokens of the other text. */
  onFarSide({row, column}) {
    return this.chosen.side === 'row' ? column >= 0 : row >= 0;
  }

  /** Whether the causal mask separates a token from the selected one. */
  unseen({row, column}) {
    const {frame, chosen} = this;
    if (!chosen || !frame.causal) return false;
    if (chosen.side === 'row') return column < 0 || frame.columns[column].positions[0] > frame.rows[chosen.index].positions.at(-1);
    return row < 0 || frame.rows[row].positions.at(-1) < frame.columns[chosen.index].positions[0];
  }

  /** Switch between what a token attends to and what attends to it. */
  turn(back) {
    const unit = this.chosen && this.units.find(({row, column}) => this.chosen.index === (this.chosen.side === 'row' ? row : column));
    const index = unit ? (back ? unit.column : unit.row) : -1;
    this.reversed = back;
    if (index >= 0) this.context.state.set({token: `${back ? 'c' : 'r'}${index}`});
    else this.draw(this.frame);
  }

  describe() {
    const {frame, chosen} = this;
    const {underline} = this.context.state.now;
    const notes = [];
    if (!chosen)
      notes.push(
        frame.difference
          ? 'Shade: mean difference of the attention that each token receives.'
          : 'Nothing selected: click a token. Shade: mean attention that each token receives from all rows.',
      );
    if (underline === 'loss' && frame.kind !== 'encoder') notes.push('Underline: the loss of each token; thicker is larger.');
    if (this.strengths) notes.push(strengthNote(frame));
    if (this.lacking) notes.push(this.lacking);
    if (frame.kind === 'cross')
      notes.push(goldLinks(frame) ? 'Dashed outline: the gold translation.' : NO_LINKS);
    else
      notes.push(
        antecedentLinks(frame)
          ? 'Dotted tokens are pronouns with a gold antecedent, or answers; select one.'
          : `No gold antecedents are known for this text.${frame.meta.parts?.length ? ` In a probe, mark one: ${PROBE}` : ''}`,
      );
    this.note.textContent = notes.join(' ');
  }

  describeAt(event) {
    const button = event.target.closest('.token');
    if (!button) return hideTooltip();
    const i = this.buttons.indexOf(button);
    const unit = this.units[i];
    const weight = this.weights()[i];
    const loss = lossOf(this.frame, unit);
    const quantity = this.chosen ? 'weight' : 'receives on average';
    return showTooltip(
      event,
      `${unit.label.text} (position ${unit.label.positions.join(', ')})`,
      Number.isFinite(weight) ? `${quantity} ${this.frame.difference ? weight.toFixed(4) : percent(weight)}` : 'no weight here',
      Number.isFinite(loss) ? `loss ${loss.toFixed(3)} nats` : '',
      this.strengths && unit.row >= 0 ? `strength ${selectedStrength(this.strengths[unit.row], this.frame.head).toFixed(3)}` : '',
    );
  }

  svg(frame) {
    const pen = new SvgPen();
    drawTokens(pen, this.text);
    return pen.svg(this.text.offsetWidth, this.text.offsetHeight, {title: frame.name, paper: inksOf(this.text).paper, margin: 12});
  }
}

function strengthNote({head, difference}) {
  const whose = typeof head === 'number' ? 'the head' : 'all heads together (the root of the sum of squares, because their outputs are concatenated)';
  const alone = difference ? ' Of this recording alone, without subtraction.' : '';
  return `Underline: strength, the L2 norm of the output of ${whose} at each token, before the output projection; thicker is larger.${alone}`;
}

/** The line under a token by its loss or strength relative to the largest one; none for NaN. */
function underline(share) {
  if (!Number.isFinite(share)) return {borderBottomColor: '', borderBottomWidth: ''};
  return {
    borderBottomColor: `rgb(213 94 0 / ${(0.08 + 0.92 * share).toFixed(2)})`,
    borderBottomWidth: `${(1.5 + 3.5 * share).toFixed(1)}px`,
  };
}

/** Indices of the weights shown as numbers, the largest first. */
function strong(weights) {
  const order = [...weights.keys()].filter((i) => weights[i]).sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]));
  return order.filter((i, rank) => (rank < 3 && Math.abs(weights[i]) >= 0.005) || Math.abs(weights[i]) >= STRONG);
}

/** Mean weight of a column over the rows that can see it. */
function received(frame, column) {
  const width = frame.columns.length;
  let [sum, count] = [0, 0];
  frame.rows.forEach(({positions}, row) => {
    if (frame.causal && positions.at(-1) < frame.columns[column].positions[0]) return;
    sum += frame.weights[row * width + column];
    count += 1;
  });
  return count ? sum / count : NaN;
}
