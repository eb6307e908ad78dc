/** The pair view: which heads attend from one word to another, and since which step. */

import {languageOf, percent, readable} from '../../core/format.js';
import {layerNumber, sameWord} from '../../core/frame.js';
import {namesAt} from '../../core/measures.js';
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
import {rankedByWord} from './ranking.js';

export const view = {
  name: 'pair',
  title: 'Pair',
  hint: 'Choose two words: all heads, ranked by the attention from the first to the second, and its course over the training.',
  term: 'since',
  create: (context) => new Pair(context),
};

const LINE = {width: 220, height: 26}; // CSS pixels of a line over the steps
const MOST = 48; // heads listed
const TITLES = ['head', 'label', 'row', 'weight', '', 'over the training', 'since step'];

class Pair {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.from = element('div', {class: 'passages'});
    this.to = element('div', {class: 'passages'});
    this.heading = element('h3', {role: 'status'});
    this.titles = element('div', {class: 'pair-titles', 'aria-hidden': 'true'});
    this.list = element('ol', {class: 'pair-heads', 'aria-label': 'heads, the largest weight first'});
    this.choice = element('p', {class: 'pair-choice'});
    this.note = element('p', {class: 'view-note'});
    const texts = element('div', {class: 'pair-texts'}, this.from, this.to);
    this.element = element('div', {class: 'pair-view'}, texts, this.heading, this.choice, this.titles, this.list, this.note);
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
    this.element.setAttribute('aria-busy', 'true');
    const load = (rows) => (rows ? loadPair(this.context.source, {...fitted, kind: frame.kind}, rows, key) : null);
    return Promise.all([load(query), load(otherRow(frame, this.row))]).then(
      ([found, beside]) => {
        if (turn !== this.turn) return;
        const [reads, predicts] = frame.rowsNamed === 'reads' ? [found, beside] : [beside, found];
        Object.assign(this, {asked, found, answers: {predicts, reads}});
        this.show();
      },
      (error) => {
        if (!(error instanceof Unavailable)) throw error;
        if (turn !== this.turn) return;
        this.asked = '';
        this.element.setAttribute('aria-busy', 'false');
        this.list.replaceChildren();
        this.heading.textContent = this.choice.textContent = '';
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
    const why = gold.some((link) => link.row === row && link.column === column) ? 'the first pair with a gold label' : 'the pair with the largest weight';
    return {row, column, unchosen: at ? '' : why};
  }

  buildTexts() {
    const {frame, row, column} = this;
    const texts = [
      [this.from, 'from this word …', frame.rows, frame.tokens.rows, 'r', row],
      [this.to, '… to this word', frame.columns, frame.tokens.columns, 'c', column],
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
    const {frame, found, row, column, unchosen} = this;
    this.element.setAttribute('aria-busy', 'false');
    this.heads = rankedByWord(this.answers);
    const [from, to] = [frame.rows[row].text, frame.columns[column].text];
    const best = this.heads[0];
    const most = `most by ${this.nameOf(best)}, ${percent(best.weight)}`;
    const both = 'Both rows of the first word count: the one that predicts it and the one that reads it. ';
    const choice = unchosen ? `No word is selected: this is ${unchosen}. Click other words. ` : '';
    this.choice.textContent = `${choice}${this.answers.predicts && this.answers.reads ? both : ''}`;
    this.heading.textContent = `From “${from}” to “${to}” at ${recordingTitle(this.context.fitted().recording)}: ${most}`;
    this.heading.lang = languageOf(readable(from)) === 'ja' || languageOf(readable(to)) === 'ja' ? 'ja' : 'en';
    const looks = {
      strongest: Math.max(...this.heads.map(({weight}) => weight), 1e-6),
      colour: css(this.context.colours().weight(0.65)),
      inks: inksOf(this.element),
      at: found.steps.indexOf(stepOf(this.context.fitted().recording)),
    };
    this.titles.replaceChildren(...TITLES.map((text) => element('span', {}, text)));
    this.list.replaceChildren(...this.heads.slice(0, MOST).map((one) => this.item(one, looks)));
    const more = this.heads.length > MOST ? ` ${this.heads.length - MOST} more heads attend less.` : '';
    const weighted = frame.weighted ? ' Weights are multiplied by value norms.' : '';
    this.note.textContent = `“Since”: from this step to the last one, the weight is at least half of the last one.${more}${weighted}`;
  }

  /** The entry of a head: its name and label, its weight as a bar and a number, and the course of the weight. */
  item({layer, head, rows, weight, course, since}, {strongest, colour, inks, at}) {
    const {frame, found} = this;
    const fitted = this.context.fitted();
    const selected = fitted.kind === frame.kind && layer === fitted.layer && head === fitted.head;
    const name = {type: 'button', class: 'part-name', title: 'open the map of this head', 'aria-pressed': String(selected)};
    const bar = {class: 'bar', style: `left: 0; width: ${((100 * weight) / strongest).toFixed(1)}%; background: ${colour}`};
    const canvas = element('canvas', {role: 'img', 'aria-label': `weight over ${found.steps.length} steps`, title: 'go to this step'});
    this.line(new CanvasPen(sharpContext(canvas, LINE.width, LINE.height)), course, at, inks);
    return element(
      'li',
      {'data-layer': layer, 'data-head': head, 'data-rows': rows},
      element('button', name, this.nameOf({layer, head})),
      element('span', {class: 'pair-label'}, namesAt(frame.meta, frame.kind, layer, head).join(', ')),
      element('span', {class: 'pair-label'}, frame.kind === 'encoder' ? '' : `${rows} it`),
      element('span', {class: 'bar-room'}, element('span', bar)),
      element('span', {class: 'bar-number'}, percent(weight)),
      canvas,
      element('span', {class: 'pair-since'}, since < 0 ? '' : found.steps[since].toLocaleString('en')),
    );
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
    const {layer, head, rows} = item.dataset;
    const place = {kind: this.frame.kind, layer: Number(layer), head: Number(head), token: `r${this.row}`, partner: `c${this.column}`};
    const token = rows === this.frame.rowsNamed ? place.token : sameWord(place.token, rows);
    if (event.target.closest('button')) this.context.state.set({...place, view: 'map', ...(this.frame.kind !== 'encoder' && {rows, token})});
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
