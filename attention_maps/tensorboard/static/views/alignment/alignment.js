/** The alignment view: word links extracted from attention weights, compared with gold links if the recording has any. */

import {languageOf, percent} from '../../core/format.js';
import {KIND_NAMES, shapesOf} from '../../core/frame.js';
import {element} from '../../dom/elements.js';
import {choice, segments, slider} from '../../dom/fields.js';
import {hideTooltip, showTooltip, watchHover} from '../../dom/tooltip.js';
import {inksOf} from '../../draw/colours.js';
import {SvgPen} from '../../draw/pen.js';
import {ScrollingCanvas} from '../../draw/scrolling_canvas.js';
import {headName, headWithReason} from '../../finding/sentence.js';
import {drawTokens, reveal, selectable, selection} from '../tokens.js';
import {layoutFor, TwoTexts} from '../two_texts.js';
import {goldLinks, judge, pharaoh, readOut} from './links.js';
import {cellAt, inSight, mark, MARKS, matrixLayout, paintMatrix} from './matrix.js';
import {createReport} from './report.js';

export const create = (context) => new Alignment(context);

const ONE_TEXT =
  'An alignment links the words of two texts; a GPT has only one. Pair and Sentence show which words its tokens attend to.';

const READOUTS = {argmax: 'strongest', mutual: 'mutual', grown: 'grown', threshold: 'threshold'};

class Alignment {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.sheet = new ScrollingCanvas((pen, visible) => this.paint(pen, visible), {
      label: 'alignment; arrow keys select a token',
      resized: () => this.arrange(),
    });
    this.texts = new TwoTexts(this.sheet);
    this.report = createReport();
    this.note = element('p', {class: 'view-note', role: 'status'});
    this.nothing = element('p', {class: 'nothing', hidden: true}, ONE_TEXT);
    this.element = element(
      'div',
      {class: 'alignment-view'},
      this.nothing,
      element('div', {class: 'alignment-main'}, this.sheet.element, this.note),
      this.report.element,
    );
    const sources = {'': 'the map shown', layer: 'mean of its layer', all: 'mean of all layers'};
    this.averaged = choice('extract from', sources, (averaged) => state.set({averaged}));
    this.readout = segments(
      'links',
      READOUTS,
      (readout) => state.set({readout}),
      'strongest: the largest weight of each row. mutual: the largest of both row and column. grown: mutual links plus adjacent ones ' +
        'that are largest on one side (grow-diag, Koehn et al. 2003). threshold: every weight of at least that value',
    );
    this.threshold = slider(
      'from',
      {min: 0.05, max: 0.95, step: 0.05},
      (value) => value.toFixed(2),
      (threshold) => state.set({threshold}),
      'smallest weight of a link',
    );
    this.paper = segments('drawn as', {matrix: 'matrix', text: 'text'}, (paper) => state.set({paper}));
    this.controls = element(
      'div',
      {class: 'view-controls'},
      this.averaged.element,
      this.readout.element,
      this.threshold.element,
      this.paper.element,
    );
    const {content, scroller} = this.sheet;
    selectable(
      content,
      () => state.selected.token,
      (token) => state.set({token}),
    );
    scroller.addEventListener('click', (event) => this.pick(event));
    scroller.addEventListener('keydown', (event) => this.step(event));
    watchHover(scroller, (event) => this.describeAt(event));
  }

  draw(frame) {
    const {state} = this.context;
    const {averaged, readout, threshold, paper} = state.now;
    this.shown = frame;
    this.averaged.show(averaged);
    this.readout.show(readout);
    this.threshold.show(threshold);
    this.threshold.element.hidden = readout !== 'threshold';
    this.paper.show(paper);
    const turn = (this.turn = {});
    const alone = !frame.sample.source;
    this.element.classList.toggle('alone', alone);
    this.nothing.hidden = !alone;
    this.controls.hidden = alone;
    if (alone) {
      this.context.tell('alignment', '');
      this.frame = null;
      return undefined;
    }
    if (!averaged && !frame.difference) return this.show(frame);
    return this.wanted(frame, averaged).then(
      (found) => turn === this.turn && this.show(found),
      (error) => turn === this.turn && (this.note.textContent = error.message),
    );
  }

  /** The frame that links are extracted from: never a difference, whose largest value means no link. */
  async wanted(frame, averaged) {
    const {context} = this;
    if (averaged !== 'all') return context.frameOf({against: '', ...(averaged ? {head: 'mean'} : {})});
    const {layers} = shapesOf(frame.meta, frame.meta.samples.indexOf(frame.sample))[frame.kind];
    const frames = await Promise.all(Array.from({length: layers}, (_, layer) => context.frameOf({against: '', head: 'mean', layer})));
    const weights = new Float32Array(frames[0].weights.length);
    for (const one of frames) one.weights.forEach((weight, i) => (weights[i] += weight / layers));
    return {
      ...frames[0],
      weights,
      maximum: weights.reduce((most, weight) => Math.max(most, weight), 0) || 1,
      name: `${KIND_NAMES[frame.kind]} · mean of all layers and heads`,
    };
  }

  show(frame) {
    this.frame = frame;
    const {readout, threshold, paper} = this.context.state.now;
    this.links = readOut(frame, {readout, threshold});
    const gold = goldLinks(frame);
    this.score = gold && judge(this.links, gold);
    this.marked = this.score ? {missed: this.score.missed, wrong: this.score.wrong, right: this.score.right} : {plain: this.links};
    this.sheet.canvas.lang = languageOf([...frame.rows, ...frame.columns].map(({text}) => text).join(''));
    if (paper === 'text') {
      this.texts.build(frame, layoutFor(frame.rows, frame.columns));
      Object.assign(this.sheet.content.style, {width: '', height: ''});
    } else this.texts.clear();
    for (const button of this.sheet.content.querySelectorAll('.token')) {
      button.setAttribute('aria-pressed', String(button.dataset.token === this.context.state.selected.token));
    }
    this.arrange();
    this.reveal();
    this.describe();
    this.sheet.repaint();
  }

  arrange() {
    if (!this.frame) return;
    if (this.context.state.now.paper === 'text') this.texts.measure();
    else {
      this.layout = matrixLayout(this.frame, this.sheet.scroller.clientWidth || 640);
      this.sheet.size(this.layout.width, this.layout.height);
    }
  }

  /** Scroll to the selected token if it has changed. */
  reveal() {
    const {paper} = this.context.state.now;
    const {token} = this.context.state.selected;
    const {content, scroller} = this.sheet;
    if (paper === 'text') return reveal(content, token, this);
    const chosen = token === this.revealed ? null : selection(token, this.frame);
    this.revealed = token;
    const {scrollLeft: left, scrollTop: top, clientWidth: width, clientHeight: height} = scroller;
    return chosen && scroller.scrollTo(inSight(this.layout, chosen, {left, top, width, height}));
  }

  paint(pen, visible) {
    if (!this.frame) return;
    const {now} = this.context.state;
    const inks = inksOf(this.element);
    const chosen = selection(this.context.state.selected.token, this.frame);
    const maximum = now.scale === 'one' ? 1 : this.frame.maximum;
    const drawing = {frame: this.frame, marked: this.marked, chosen, palette: this.context.colours(), inks, gamma: now.gamma, maximum};
    if (now.paper === 'text') this.paintLinks(pen, inks, chosen);
    else if (this.layout) paintMatrix(pen, visible, {...drawing, layout: this.layout});
  }

  paintLinks(pen, inks, chosen) {
    const styles = {right: {width: 2.5}, plain: {width: 2}, wrong: {width: 1.5}, missed: {width: 2, dash: [5, 4]}};
    for (const [name, links] of Object.entries(this.marked)) {
      for (const link of links) {
        const course = this.texts.course(link);
        if (!course) continue;
        const away = chosen && link[chosen.side] !== chosen.index;
        const {from, to} = course;
        pen.curve(...from, ...to, this.texts.across, {stroke: MARKS[name].colour, alpha: away ? 0.12 : 0.9, ...styles[name]});
        if (name === 'wrong' && !away) mark(pen, name, (from[0] + to[0]) / 2, (from[1] + to[1]) / 2, 14, inks.paper);
      }
    }
  }

  describe() {
    const {frame} = this;
    const alone = this.shown.difference ? ' Links are extracted from this recording alone, without subtraction.' : '';
    this.note.textContent = `Extracted from: ${frame.name}.${alone}`;
    this.report.draw(frame, this.links, this.score, this.context.state.now.merge ? 'words' : 'tokens');
    this.context.tell('alignment', this.sentence());
  }

  /** "12 links of this text, which have an alignment error of 20.0 %, from layer 2 · head 0, the head that aligns words best (…)." */
  sentence() {
    const {context, links, score} = this;
    const shown = context.shown();
    const {averaged} = context.state.now;
    const mean = {'': '', layer: headName(shown.meta, {...shown.fitted, head: 'mean'}), all: 'the mean over all layers and heads'}[averaged];
    const gold = score ? `which have an alignment error of ${percent(score.error)}` : 'for which no gold links are known';
    return `${links.length} links of this text, ${gold}, from ${mean || headWithReason(shown)}.`;
  }

  /** A click on the matrix selects the row. */
  pick(event) {
    const {state} = this.context;
    if (!this.layout || state.now.paper === 'text') return;
    const cell = cellAt(this.layout, this.frame, ...this.sheet.place(event));
    if (cell) state.set({token: state.selected.token === `r${cell.row}` ? '' : `r${cell.row}`});
  }

  step(event) {
    const {state} = this.context;
    const [side, by] = {ArrowDown: ['r', 1], ArrowUp: ['r', -1], ArrowRight: ['c', 1], ArrowLeft: ['c', -1]}[event.key] ?? [];
    if (state.now.paper === 'text' || !this.frame || (!side && event.key !== 'Escape')) return;
    event.preventDefault(); // also keeps the shortcuts of the page from handling it
    const count = side === 'r' ? this.frame.rows.length : this.frame.columns.length;
    const {token} = state.selected;
    const here = token.startsWith(side) ? Number(token.slice(1)) : -1;
    state.set({token: side ? `${side}${Math.min(Math.max(here + by, 0), count - 1)}` : ''});
  }

  describeAt(event) {
    const cell =
      this.layout && this.context.state.now.paper !== 'text' ? cellAt(this.layout, this.frame, ...this.sheet.place(event)) : null;
    if (!cell) return hideTooltip();
    const {rows, columns, weights} = this.frame;
    const weight = weights[cell.row * columns.length + cell.column];
    const names = Object.entries(this.marked).filter(([, links]) =>
      links.some(({row, column}) => row === cell.row && column === cell.column),
    );
    return showTooltip(
      event,
      `${rows[cell.row].text} ← ${columns[cell.column].text}`,
      `weight ${weight.toFixed(4)}`,
      names.length ? MARKS[names[0][0]].name : '',
    );
  }

  /** The links as text. */
  pharaoh() {
    return this.frame ? pharaoh(this.frame, this.links) : undefined;
  }

  svg() {
    if (!this.frame) return null;
    const pen = new SvgPen();
    const {content} = this.sheet;
    const inText = this.context.state.now.paper === 'text';
    const [width, height] = inText ? [content.offsetWidth, content.offsetHeight] : [this.layout.width, this.layout.height];
    this.paint(pen, {left: 0, top: 0, width, height});
    if (inText) drawTokens(pen, content);
    return pen.svg(width, height, {title: `alignment · ${this.frame.name}`, paper: inksOf(this.element).paper, margin: 12});
  }
}
