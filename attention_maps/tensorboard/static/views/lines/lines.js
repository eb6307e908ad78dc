/** The map as lines: lines from every query to its most attended keys. */

import {short} from '../../core/format.js';
import {shapesOf} from '../../core/frame.js';
import {element} from '../../dom/elements.js';
import {choice, segments, slider} from '../../dom/fields.js';
import {hideTooltip, showTooltip} from '../../dom/tooltip.js';
import {inksOf, rgb} from '../../draw/colours.js';
import {asText, hex, sideways, SvgPen} from '../../draw/pen.js';
import {ScrollingCanvas} from '../../draw/scrolling_canvas.js';
import {declutter, drawTokens, reveal, selectable, selection} from '../tokens.js';
import {layoutFor, TwoTexts} from '../two_texts.js';
import {LIMIT, linesOfToken, strongestLines} from './strongest_lines.js';

export const create = (context) => new Lines(context);

const WIDEST = 6; // width in pixels of the line with the largest weight
const REACH = 6; // pixels from a line within which the pointer hits it
const SIDEWAYS = Float32Array.from({length: 101}, (_, step) => sideways(step / 100));

class Lines {
  constructor(context) {
    this.context = context;
    this.frames = [];
    this.hovered = null;
    this.sheet = new ScrollingCanvas((pen, visible) => this.paint(pen, visible), {
      label: 'tokens and lines',
      resized: () => this.texts.measure(),
    });
    this.texts = new TwoTexts(this.sheet);
    this.note = element('p', {class: 'view-note', role: 'status'});
    this.element = element('div', {class: 'lines-view'}, this.sheet.element, this.note);
    this.controls = element('div', {class: 'view-controls'}, this.makeControls());
    const {content} = this.sheet;
    selectable(
      content,
      () => context.state.selected.token,
      (token) => context.state.set({token}),
    );
    content.addEventListener('pointerover', (event) => this.hover(event.target.closest('.token')?.dataset.token ?? ''));
    content.addEventListener('pointermove', (event) => this.describeAt(event));
    content.addEventListener('pointerleave', () => {
      this.hover('');
      hideTooltip();
    });
  }

  makeControls() {
    const {state} = this.context;
    const rules = {top: 'strongest', mass: 'fraction'};
    this.rule = segments(
      'lines per row',
      rules,
      (rule) => state.set({mass: rule === 'top' ? 0 : 0.8}),
      'Draw a fixed number of lines per row, or as many as cover a fraction of the attention',
    );
    const pick = (value) => state.set(state.now.mass > 0 ? {mass: value / 100} : {top: value});
    const format = (value) => (state.now.mass > 0 ? `until ${value} % of the attention` : `${value}`);
    this.amount = slider('', {min: 1, max: 12, step: 1}, format, pick);
    this.amount.input.setAttribute('aria-label', 'number of lines per row, or the fraction of attention that they cover');
    const layouts = {'': 'by length', columns: 'two columns', text: 'running text'};
    this.layout = choice('layout', layouts, (layout) => state.set({layout}), 'Running text suits long texts and Japanese');
    this.chips = element('span', {class: 'heads', role: 'group', 'aria-label': 'heads that are drawn'});
    return [this.rule.element, this.amount.element, this.layout.element, element('span', {class: 'field'}, 'heads', this.chips)];
  }

  /** Draw a frame and the other selected heads. */
  draw(frame) {
    this.frame = frame;
    if (!this.sheet.content.matches(':hover')) this.hovered = ''; // the pointer left while another view was shown
    this.palette = this.context.colours();
    this.heads = shapesOf(frame.meta, frame.meta.samples.indexOf(frame.sample))[frame.kind].heads;
    this.chosen = headsOf(this.context.state.now.heads, frame.head, this.heads);
    this.showControls();
    this.sheet.content.style.setProperty('--drawn', this.chosen.length); // each head may write a number beside a token
    this.texts.build(frame, this.context.state.now.layout || layoutFor(frame.rows, frame.columns));
    const turn = (this.turn = {});
    if (this.chosen.length === 1 && this.chosen[0] === frame.head) {
      this.show([frame]);
      return;
    }
    Promise.all(this.chosen.map((head) => this.context.frameOf({head}))).then(
      (frames) => turn === this.turn && this.show(frames),
      (error) => turn === this.turn && (this.note.textContent = error.message),
    );
  }

  show(frames) {
    this.frames = frames;
    const {state} = this.context;
    this.maximum = state.now.scale === 'map' ? Math.max(...frames.map(({maximum}) => maximum)) : 1;
    this.overview = strongestLines(frames, state.now);
    this.refresh();
  }

  /** Update everything that depends on the hovered or selected token. */
  refresh() {
    if (!this.frames.length) return;
    const {state} = this.context;
    const focus = selection(this.hovered || state.selected.token, this.frame);
    this.drawn = focus ? linesOfToken(focus, this.overview, this.frames, state.now) : this.overview;
    for (const button of this.sheet.content.querySelectorAll('.token')) {
      button.setAttribute('aria-pressed', String(button.dataset.token === state.selected.token));
      button.lastChild.replaceChildren();
    }
    if (focus) this.number(focus);
    this.describe();
    if (!this.hovered) reveal(this.sheet.content, state.selected.token, this);
    this.texts.measure();
    this.sheet.repaint();
  }

  /** Write the weights at the far ends of one token's lines, the largest first. */
  number(focus) {
    const [far, side] = focus.side === 'row' ? ['column', 'c'] : ['row', 'r'];
    const written = [];
    for (const line of this.drawn.lines.toReversed()) {
      const colour = this.frames.length > 1 ? asText(this.colour(line), this.palette.dark) : null;
      const number = element('span', {style: colour && `color: ${colour}`}, short(line.weight));
      this.sheet.content.querySelector(`[data-token="${side}${line[far]}"]`)?.lastChild.append(number);
      written.push(number);
    }
    declutter(written);
  }

  describe() {
    const {lines, all} = this.drawn;
    const limited =
      all > lines.length ? `the ${LIMIT.toLocaleString('en')} strongest of ${all.toLocaleString('en')} lines` : `${all} lines`;
    const strongest = lines.length ? `, the largest weight ${short(lines.at(-1).weight)}` : '';
    const signs = this.frame.difference ? '; solid lines for positive differences (A > B), dashed for negative ones' : '';
    const heads = this.chosen.length > 1 ? `Heads ${this.chosen.join(', ')}: ` : '';
    this.note.textContent = `${heads}${limited}${strongest}${signs}. Hover over a token or click it for its own lines and weights.`;
  }

  showControls() {
    const {top, mass, layout} = this.context.state.now;
    this.rule.show(mass > 0 ? 'mass' : 'top');
    this.amount.show(mass > 0 ? Math.round(100 * mass) : top, mass > 0 ? {min: 5, max: 95, step: 5} : {min: 1, max: 12, step: 1});
    this.layout.show(layout);
    const offered = [...new Set([...this.chosen.filter((head) => typeof head !== 'number'), ...Array(this.heads).keys()])];
    const focused = this.chips.contains(document.activeElement) ? document.activeElement.value : null;
    this.chips.replaceChildren(...offered.map((head) => this.headButton(head)));
    this.chips.querySelector(`[value="${focused}"]`)?.focus();
  }

  headButton(head) {
    const pressed = String(this.chosen.includes(head));
    const colour = this.headColour(head, this.palette);
    const style = `--head: ${colour}; --on-head: ${this.palette.ink(rgb(colour))}`;
    const title = typeof head === 'number' ? `show or hide head ${head}` : `show or hide the ${head} over heads`;
    const onclick = () => this.toggle(head);
    return element('button', {type: 'button', value: head, class: 'head', 'aria-pressed': pressed, style, title, onclick}, String(head));
  }

  toggle(head) {
    const heads = this.chosen.includes(head) ? this.chosen.filter((other) => other !== head) : [...this.chosen, head];
    const {state} = this.context;
    state.set({heads: !heads.length || (heads.length === 1 && heads[0] === this.frame.head) ? '' : heads.join(',')});
  }

  paint(pen, {top, height} = {top: 0, height: Infinity}) {
    if (!this.drawn) return;
    const {gamma} = this.context.state.now;
    for (const line of this.drawn.lines) {
      const course = this.texts.course(line);
      if (!course || Math.max(course.from[1], course.to[1]) < top || Math.min(course.from[1], course.to[1]) > top + height) continue;
      const share = Math.min(Math.abs(line.weight) / this.maximum, 1) ** gamma;
      pen.curve(...course.from, ...course.to, this.texts.across, {
        stroke: this.colour(line),
        width: 0.5 + (WIDEST - 0.5) * share,
        alpha: 0.12 + 0.78 * share,
        dash: this.frame.difference && line.weight < 0 ? [5, 4] : undefined,
      });
    }
  }

  /** By sign for a single head of a difference; otherwise each head has its own colour. */
  colour({weight, of}) {
    if (this.frame.difference && this.frames.length === 1) return hex(this.palette.difference(Math.sign(weight) * 0.7));
    return this.headColour(this.chosen[of] ?? this.frame.head, this.palette);
  }

  headColour(head, palette) {
    return typeof head === 'number' ? palette.head(head) : hex(palette.weight(0.7));
  }

  hover(token) {
    if (token === this.hovered) return;
    this.hovered = token;
    this.refresh();
  }

  /** The tooltip of the line under the pointer. */
  describeAt(event) {
    const line = event.target.closest('.token') ? null : this.near(...this.sheet.place(event));
    if (!line) return hideTooltip();
    const {rows, columns, rowsNamed} = this.frame;
    const head = this.chosen[line.of] ?? this.frame.head;
    const named = typeof head === 'number' ? `head ${head}` : head;
    return showTooltip(
      event,
      `${rows[line.row].text} → ${columns[line.column].text}`,
      `${named}: ${line.weight.toFixed(4)}`,
      `rows labelled by the token that each ${rowsNamed}`,
    );
  }

  near(x, y) {
    let [found, least] = [null, REACH];
    for (const line of this.drawn?.lines ?? []) {
      const {from, to} = this.texts.course(line) ?? {from: [0, 0], to: [0, 0]};
      const [a, b, c, d, along, beside] = this.texts.across
        ? [from[0], to[0], from[1], to[1], x, y]
        : [from[1], to[1], from[0], to[0], y, x];
      const share = (along - a) / (b - a);
      if (!(share >= 0 && share <= 1)) continue;
      const distance = Math.abs(c + (d - c) * SIDEWAYS[Math.round(100 * share)] - beside);
      if (distance <= least) [found, least] = [line, distance];
    }
    return found;
  }

  /** The whole drawing with its tokens. */
  svg(frame) {
    const {content, element: stage} = this.sheet;
    const inks = inksOf(stage);
    const pen = new SvgPen();
    this.texts.measure();
    this.paint(pen);
    drawTokens(pen, content);
    const heads = this.chosen.length > 1 ? ` · heads ${this.chosen.join(', ')}` : '';
    return pen.svg(content.offsetWidth, content.offsetHeight, {title: frame.name + heads, paper: inks.paper, margin: 12});
  }
}

/** The heads listed in "0,2" or "mean,3" that exist; if there are none, the selected head. */
function headsOf(listed, head, count) {
  const names = listed.split(',').filter((name) => /^(mean|max)$/.test(name) || (/^\d+$/.test(name) && Number(name) < count));
  return names.length ? [...new Set(names.map((name) => (/^\d+$/.test(name) ? Number(name) : name)))] : [head];
}
