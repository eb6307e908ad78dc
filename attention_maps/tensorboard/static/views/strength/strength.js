/** The strength view: norm of the output of a head at each token, compared with all heads together or every single head. */

import {languageOf, percent} from '../../core/format.js';
import {element} from '../../dom/elements.js';
import {segments} from '../../dom/fields.js';
import {hideTooltip, showTooltip, watchHover} from '../../dom/tooltip.js';
import {inksOf} from '../../draw/colours.js';
import {hex, SvgPen} from '../../draw/pen.js';
import {ScrollingCanvas} from '../../draw/scrolling_canvas.js';
import {selection} from '../tokens.js';
import {Bars} from './bars.js';
import {ordered, strengths} from './norms.js';

export const view = {
  name: 'strength',
  title: 'Strength',
  hint: 'L2 norm of the output of the head at each token, before the output projection.',
  term: 'strength',
  create: (context) => new Strength(context),
};

const LINES = 16; // of a tooltip
const MEANING =
  'L2 norm of the output of a head at each token, before the output projection. All together: the root of the sum of squares, because ' +
  'the outputs of the heads are concatenated.';

class Strength {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.sheet = new ScrollingCanvas((pen, visible) => this.paint(pen, visible), {
      label: 'strength at each token; up and down select a token',
    });
    this.note = element('p', {class: 'view-note', role: 'status'});
    this.legend = element('div', {class: 'strength-legend'});
    this.element = element('div', {class: 'strength-view'}, this.legend, this.sheet.element, this.note);
    this.compared = segments('bars', {all: 'head and all together', each: 'every head'}, (bars) => state.set({bars}));
    this.sort = segments('order', {order: 'as in the text', strength: 'largest first'}, (sort) => state.set({sort}));
    this.controls = element('div', {class: 'view-controls'}, this.compared.element, this.sort.element);
    const {scroller} = this.sheet;
    scroller.addEventListener('click', (event) => this.select(this.rowAt(event)));
    watchHover(scroller, (event) => this.describeAt(event));
    scroller.addEventListener('keydown', (event) => this.step(event));
  }

  draw(frame) {
    this.frame = frame;
    const {state, source} = this.context;
    this.compared.show(state.now.bars);
    this.sort.show(state.now.sort);
    const {run, recording, sample, kind, layer} = this.context.fitted();
    const place = [run, recording, sample, kind, layer, 'norms'];
    const ready = source.ready(...place);
    const turn = (this.turn = {});
    if (ready) this.show(ready);
    else
      source.tensor(...place).then(
        (norms) => turn === this.turn && this.show(norms),
        (error) => turn === this.turn && this.fail(error),
      );
  }

  fail(error) {
    this.bars = null;
    this.legend.replaceChildren();
    this.sheet.size(0, 0);
    this.sheet.repaint();
    this.note.textContent = `This recording contains no activation strength for this map (${error.message}).`;
  }

  show(norms) {
    const {frame} = this;
    const {bars, sort} = this.context.state.now;
    const rows = strengths(frame, norms);
    this.head = typeof frame.head === 'number' && frame.head < norms.shape[0] ? frame.head : null;
    this.series = this.makeSeries(bars, norms.shape[0]);
    this.bars = new Bars(frame, rows, this.series, ordered(rows, this.series[0].value, sort));
    this.sheet.canvas.lang = languageOf(frame.rows.map(({text}) => text).join(''));
    this.sheet.content.style.height = `${this.bars.height}px`;
    this.describe(norms.shape[0]);
    this.reveal();
    this.sheet.repaint();
  }

  /** The bars of each token: [{name, value(strength), colour, hollow, head}]; the first one determines the order. */
  makeSeries(bars, heads) {
    const palette = this.context.colours();
    const colour = this.head === null ? hex(palette.weight(0.7)) : inksOf(this.element).muted;
    const one = (head) => ({name: `head ${head}`, value: (row) => row.heads[head], colour: palette.head(head), head});
    if (bars === 'each') {
      const each = Array.from({length: heads}, (_, head) => one(head));
      return this.head === null ? each : [each[this.head], ...each.filter(({head}) => head !== this.head)];
    }
    const all = {name: `all ${heads} heads together`, value: (row) => row.all, colour};
    const mean = {name: 'mean of the heads', value: (row) => row.mean, colour, hollow: true};
    return this.head === null ? [all, mean] : [one(this.head), all, mean];
  }

  describe(heads) {
    const {state} = this.context;
    this.legend.replaceChildren(
      element('span', {class: 'legend-title'}, 'L2 norm of the output of'),
      ...this.series.map((series) => {
        const {name, head, colour, hollow} = series;
        const square = element('span', {class: 'square', style: `border-color: ${colour};${hollow ? '' : ` background: ${colour}`}`});
        if (head === undefined) return element('span', {class: 'legend-entry'}, square, name);
        const choose = {onclick: () => state.set({head}), 'aria-pressed': String(head === this.head)};
        return element('button', {type: 'button', class: 'legend-entry', ...choose}, square, name);
      }),
    );
    const notes = [MEANING];
    if (this.head === null && state.now.bars === 'all' && heads > 1) notes.push('Select a single head to compare it with them.');
    if (this.frame.difference) notes.push('Of this recording alone, without subtraction.');
    this.note.textContent = notes.join(' ');
  }

  paint(pen, visible) {
    const chosen = selection(this.context.state.now.token, this.frame);
    this.bars?.paint(pen, visible, chosen?.side === 'row' ? chosen.index : null, inksOf(this.element));
  }

  rowAt(event) {
    return this.bars?.rowAt(this.sheet.place(event)[1], this.sheet.scroller.scrollTop) ?? null;
  }

  select(row) {
    const {state} = this.context;
    if (row !== null) state.set({token: state.now.token === `r${row}` ? '' : `r${row}`});
  }

  step(event) {
    const by = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!this.bars || (!by && event.key !== 'Escape')) return;
    event.preventDefault(); // also keeps the shortcuts of the page from handling it
    const {order} = this.bars;
    const chosen = selection(this.context.state.now.token, this.frame);
    const here = chosen?.side === 'row' ? order.indexOf(chosen.index) : -1;
    const place = Math.min(Math.max(here + (by ?? 0), 0), order.length - 1);
    this.context.state.set({token: by ? `r${order[place]}` : ''});
  }

  /** Scroll to the selected row if it has changed. */
  reveal() {
    const {token} = this.context.state.now;
    if (token === this.revealed) return;
    this.revealed = token;
    const chosen = selection(token, this.frame);
    const {scroller} = this.sheet;
    if (chosen?.side === 'row')
      scroller.scrollTop = this.bars.inSight(this.bars.order.indexOf(chosen.index), scroller.scrollTop, scroller.clientHeight);
  }

  describeAt(event) {
    const row = this.rowAt(event);
    if (row === null) return hideTooltip();
    const {text, positions} = this.frame.rows[row];
    const strength = this.bars.rows[row];
    const share = (head) => (head === undefined ? '' : ` (${percent((strength.heads[head] / strength.all) ** 2)} of the squares)`);
    const lines = this.series.map(({name, value, head}) => `${name}: ${value(strength).toFixed(3)}${share(head)}`);
    const more = lines.length > LINES ? `and ${lines.length - LINES} more heads` : '';
    return showTooltip(event, `${text} (row ${positions.join(', ')})`, ...lines.slice(0, LINES), more);
  }

  /** All rows, visible or not, above the legend. */
  svg(frame) {
    if (!this.bars) return null;
    const pen = new SvgPen();
    const width = Math.max(this.sheet.scroller.clientWidth, 480);
    const {height} = this.bars;
    const {paper, ink} = inksOf(this.element);
    this.paint(pen, {top: 0, width, height});
    pen.text(12, height + 14, 'L2 norm of the output of', {size: 12, fill: ink});
    this.series.forEach(({name, colour, hollow}, i) => {
      const y = height + 32 + 18 * i;
      pen.rect(12, y - 6, 12, 12, hollow ? {stroke: colour} : {fill: colour});
      pen.text(32, y, name, {size: 12, fill: ink});
    });
    return pen.svg(width, height + 18 * this.series.length + 28, {title: `activation strength · ${frame.name}`, paper, margin: 12});
  }
}
