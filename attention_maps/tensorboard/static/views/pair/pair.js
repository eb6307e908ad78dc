/** The pair view: which heads attend from one word to another, and since which step. */

import {languageOf, readable} from '../../core/format.js';
import {layerNumber} from '../../core/frame.js';
import {labelAt} from '../../core/measures.js';
import {loadPair} from '../../core/pairs.js';
import {recordingTitle, stepName, stepOf} from '../../core/recordings.js';
import {Unavailable} from '../../core/source.js';
import {element} from '../../dom/elements.js';
import {css, inksOf} from '../../draw/colours.js';
import {sharpContext} from '../../draw/matrix_pixels.js';
import {CanvasPen, SvgPen} from '../../draw/pen.js';
import {goldLinks} from '../alignment/links.js';
import {antecedentLinks} from '../sentence/gold.js';
import {focusOn, pieceOf, selectable, selection, tokenButton} from '../tokens.js';
import {ranked} from './ranking.js';

export const view = {
  name: 'pair',
  title: 'Pair',
  hint: 'Choose two words: all heads, ranked by the attention from the first to the second, and its course over the training.',
  term: 'since',
  create: (context) => new Pair(context),
};

const LINE = {width: 220, height: 26}; // CSS pixels of a line over the steps
const MOST = 48; // heads listed

class Pair {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.from = element('div', {class: 'passages'});
    this.to = element('div', {class: 'passages'});
    this.heading = element('h3', {role: 'status'});
    this.list = element('ol', {class: 'pair-heads', 'aria-label': 'heads, the largest weight first'});
    this.other = element('p', {class: 'pair-other'});
    this.note = element('p', {class: 'view-note'});
    this.element = element('div', {class: 'pair-view'}, this.from, this.to, this.heading, this.other, this.list, this.note);
    selectable(
      this.from,
      () => '',
      (token) => token && state.set({token}),
    );
    selectable(
      this.to,
      () => '',
      (partner) => partner && state.set({partner}),
    );
    this.list.addEventListener('click', (event) => this.go(event));
  }

  draw(frame) {
    this.frame = frame;
    const fitted = this.context.fitted();
    Object.assign(this, this.chosen());
    this.buildTexts();
    const [query, key] = [frame.rows[this.row].positions, frame.columns[this.column].positions];
    const {run, recording, sample, values} = fitted;
    const asked = JSON.stringify([run, recording, sample, frame.kind, values, query, key, this.context.recordings.numbers(run)]);
    if (asked === this.asked) return this.show();
    const turn = (this.turn = {});
    const load = (rows) => (rows ? loadPair(this.context.source, {...fitted, kind: frame.kind}, rows, key) : null);
    return Promise.all([load(query), load(otherRow(frame, this.row))]).then(
      ([found, beside]) => {
        if (turn !== this.turn) return;
        Object.assign(this, {asked, found, beside});
        this.show();
      },
      (error) => {
        if (!(error instanceof Unavailable)) throw error;
        if (turn !== this.turn) return;
        this.asked = '';
        this.list.replaceChildren();
        this.heading.textContent = this.other.textContent = '';
        this.note.textContent = error.message;
      },
    );
  }

  /** The selected row and column; by default those of the first gold label, else of the largest weight after the first row. */
  chosen() {
    const {frame} = this;
    const {token, partner} = this.context.state.now;
    const [at, of] = [selection(token, frame), selection(partner, frame)];
    const gold = (frame.kind === 'cross' ? goldLinks(frame) : antecedentLinks(frame)) ?? [];
    const width = frame.columns.length;
    const linked = (row) => gold.find((link) => link.row === row)?.column;
    const largest = (row) => indexOfLargest(frame.weights.subarray(row * width, (row + 1) * width));
    const first = gold[0]?.row ?? Math.floor(indexOfLargest(frame.weights, frame.rows.length > 1 ? width : 0) / width);
    const row = at?.side === 'row' ? at.index : first;
    const column = of?.side === 'column' ? of.index : at?.side === 'column' ? at.index : (linked(row) ?? largest(row));
    return {row, column};
  }

  buildTexts() {
    const {frame, row, column} = this;
    const first = frame.rowsNamed === 'predicts' ? 'the word that is predicted, in whose row …' : 'the word whose row …';
    const texts = [
      [this.from, first, frame.rows, frame.tokens.rows, 'r', row],
      [this.to, '… attends to this word', frame.columns, frame.tokens.columns, 'c', column],
    ];
    for (const [container, name, labels, tokens, side, chosen] of texts) {
      const held = container.contains(document.activeElement);
      const buttons = labels.map((label, index) => {
        const button = tokenButton(label, `${side}${index}`, pieceOf(label, tokens));
        button.setAttribute('aria-pressed', String(index === chosen));
        return button;
      });
      const caption = element('div', {class: 'caption'}, name);
      container.replaceChildren(element('div', {class: 'passage'}, caption, element('div', {class: 'passage-text'}, buttons)));
      focusOn(container, buttons[chosen], {focus: held});
    }
  }

  nameOf({layer, head}) {
    return `layer ${layerNumber(this.frame.meta, this.frame.kind, layer)} · head ${head}`;
  }

  show() {
    const {frame, found, row, column} = this;
    const {recording, kind, layer, head} = this.context.fitted();
    const at = found.steps.indexOf(stepOf(recording));
    this.heads = ranked(found);
    const [from, to] = [frame.rows[row].text, frame.columns[column].text];
    const best = this.heads[0];
    const most = `most by ${this.nameOf(best)}, ${percent(best.weight)}`;
    this.heading.textContent = `From “${from}” to “${to}” at ${recordingTitle(recording)}: ${most}`;
    this.heading.lang = languageOf(readable(from)) === 'ja' || languageOf(readable(to)) === 'ja' ? 'ja' : 'en';
    this.showOther();
    const palette = this.context.colours();
    const strongest = Math.max(...this.heads.map(({weight}) => weight), 1e-6);
    const inks = inksOf(this.element);
    const items = this.heads.slice(0, MOST).map((one) => {
      const selected = kind === frame.kind && one.layer === layer && one.head === head;
      const name = this.nameOf(one);
      const attributes = {type: 'button', class: 'part-name', title: 'open the map of this head', 'aria-pressed': String(selected)};
      const button = element('button', attributes, name);
      const width = `${((100 * one.weight) / strongest).toFixed(1)}%`;
      const bar = element('span', {class: 'bar', style: `left: 0; width: ${width}; background: ${css(palette.weight(0.65))}`});
      const canvas = element('canvas', {role: 'img', 'aria-label': `weight over ${found.steps.length} steps`, title: 'go to this step'});
      const since = one.since < 0 ? '' : `since step ${found.steps[one.since].toLocaleString('en')}`;
      const item = element(
        'li',
        {'data-layer': one.layer, 'data-head': one.head},
        button,
        element('span', {class: 'pair-label'}, labelAt(frame.meta, frame.kind, one.layer, one.head)),
        element('span', {class: 'bar-room'}, bar),
        element('span', {class: 'bar-number'}, percent(one.weight)),
        canvas,
        element('span', {class: 'pair-since'}, since),
      );
      this.line(new CanvasPen(sharpContext(canvas, LINE.width, LINE.height)), one.course, at, inks);
      return item;
    });
    this.list.replaceChildren(...items);
    const more = this.heads.length > MOST ? ` ${this.heads.length - MOST} more heads attend less.` : '';
    const weighted = frame.weighted ? ' Weights are multiplied by value norms.' : '';
    this.note.textContent = `“since”: from then on the weight has been at least half of the last one.${more}${weighted}`;
  }

  /** The best head in the other row of the word, since a word has two: one that predicts it, and one that reads it. */
  showOther() {
    const {frame, beside, row} = this;
    this.other.replaceChildren();
    const [best] = beside ? ranked(beside) : [];
    if (!best || best.weight < 0.001) return; // a later word, which the other row does not see
    const reads = frame.rowsNamed === 'reads';
    const rows = reads ? 'predicts' : 'reads';
    const onclick = () => this.context.state.set({rows, token: `r${row + (reads ? -1 : 1)}`, partner: `c${this.column}`});
    const text = `the row that ${rows} it`;
    const most = `, most by ${this.nameOf(best)}, ${percent(best.weight)}.`;
    this.other.append(`This is the row that ${frame.rowsNamed} “${frame.rows[row].text}”. In `, element('button', {type: 'button', class: 'link', onclick}, text), most);
  }

  /** The weight over the recorded steps, evenly spaced, with a mark at the shown one. */
  line(pen, course, at, inks, left = 0, top = 0) {
    const x = (i) => left + 3 + (i / Math.max(course.length - 1, 1)) * (LINE.width - 6);
    const y = (weight) => top + 3 + (1 - weight) * (LINE.height - 6);
    pen.path(
      [
        [left, y(0)],
        [left + LINE.width, y(0)],
      ],
      {stroke: inks.line, width: 1},
    );
    if (course.length > 1) pen.path(course.map((weight, i) => [x(i), y(weight)]), {stroke: inks.accent, width: 1.5});
    if (at >= 0) pen.circle(x(at), y(course[at]), 3, {fill: inks.ink});
  }

  go(event) {
    const item = event.target.closest('li');
    if (!item) return;
    const {layer, head} = item.dataset;
    const place = {kind: this.frame.kind, layer: Number(layer), head: Number(head), token: `r${this.row}`, partner: `c${this.column}`};
    if (event.target.closest('button')) this.context.state.set({...place, view: 'map'});
    else if (event.target.tagName === 'CANVAS' && this.found.steps.length) {
      const share = (event.offsetX - 3) / (LINE.width - 6);
      const at = Math.round(Math.min(Math.max(share, 0), 1) * (this.found.steps.length - 1));
      this.context.state.set({...place, recording: stepName(this.found.steps[at]), follow: false});
    }
  }

  svg() {
    if (!this.heads?.length) return null;
    const pen = new SvgPen();
    const inks = inksOf(this.element);
    pen.text(0, 10, this.heading.textContent, {size: 13, fill: inks.ink, weight: 600});
    const at = this.found.steps.indexOf(stepOf(this.context.fitted().recording));
    const heads = this.heads.slice(0, MOST);
    heads.forEach((one, i) => {
      const top = 26 + i * (LINE.height + 4);
      pen.text(0, top + LINE.height / 2, this.nameOf(one), {size: 12, fill: inks.ink});
      pen.text(190, top + LINE.height / 2, percent(one.weight), {size: 12, fill: inks.ink, anchor: 'end'});
      this.line(pen, one.course, at, inks, 200, top);
      if (one.since >= 0) pen.text(430, top + LINE.height / 2, `since step ${this.found.steps[one.since]}`, {size: 12, fill: inks.muted});
    });
    return pen.svg(560, 30 + heads.length * (LINE.height + 4), {title: this.heading.textContent, paper: inks.paper, margin: 12});
  }
}

/** The other row of a word, as a list of its position, or null: a word is predicted in the row before the one that reads it. */
function otherRow({kind, rows, rowsNamed, sample}, row) {
  const {positions} = rows[row];
  const at = rowsNamed === 'reads' ? positions[0] - 1 : positions.at(-1) + 1;
  return kind !== 'encoder' && at >= 0 && at < sample.reads.pieces.length ? [at] : null;
}

function indexOfLargest(weights, start = 0) {
  let best = start;
  for (let i = start; i < weights.length; i++) if (weights[i] > weights[best]) best = i;
  return best;
}

function percent(weight) {
  return `${(100 * weight).toFixed(1)} %`;
}
