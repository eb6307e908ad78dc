/** The pair view: which heads attend from one word to another, and since which step. */

import {languageOf, percent, readable, signed} from '../../core/format.js';
import {KIND_NAMES, layerNumber} from '../../core/frame.js';
import {namesAt} from '../../core/measures.js';
import {recordingTitle, stepName, stepOf} from '../../core/recordings.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {hideTooltip, showTooltip, watchHover} from '../../dom/tooltip.js';
import {css, inksOf} from '../../draw/colours.js';
import {sharpContext} from '../../draw/matrix_pixels.js';
import {CanvasPen, SvgPen} from '../../draw/pen.js';
import {headName, whyWord} from '../../finding/sentence.js';
import {focusOn, pieceOf, selectable, selection, tokenButton} from '../tokens.js';
import {COURSE, drawCourse, stepAt} from './course.js';
import {goldPairs, mainPair} from './gold_pairs.js';
import {rankedByWord} from './ranking.js';
import {loadReplaced, replacedLast, withoutText} from './replaced.js';
import {isSeen, rivalsOf} from './rivals.js';
import {loadLayers, loadWordPair, mapOf, rivalOf} from './word_pair.js';

export const create = (context) => new Pair(context);

const MOST = 48; // heads listed

class Pair {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.from = element('div', {class: 'passages'});
    this.to = element('div', {class: 'passages'});
    this.chips = element('div', {class: 'pair-chips', role: 'group', 'aria-label': 'pairs with a gold label'});
    this.heading = element('h3', {role: 'status'});
    this.titles = element('div', {class: 'pair-titles', 'aria-hidden': 'true'});
    this.list = element('ol', {class: 'pair-heads', 'aria-label': 'heads, the largest weight first'});
    this.note = element('p', {class: 'view-note'});
    const texts = element('div', {class: 'pair-texts'}, this.from, this.to);
    const parts = [texts, this.chips, this.heading, this.titles, this.list, this.note];
    this.element = element('div', {class: 'pair-view'}, parts);
    selectable(
      this.from,
      () => '',
      (token) => token && state.set({token}),
    );
    selectable(
      this.to,
      () => '',
      (partner) => partner && state.set({token: `r${this.row}`, partner}),
    );
    this.list.addEventListener('click', (event) => this.go(event));
    watchHover(this.list, (event) => this.point(event));
  }

  draw(frame) {
    this.frame = frame;
    const fitted = this.context.fitted();
    this.gold = goldPairs(frame);
    Object.assign(this, this.chosen());
    this.rivals = rivalsOf(frame, this.row, this.column, this.gold);
    this.buildTexts();
    this.buildChips();
    const [query, key] = [frame.rows[this.row].positions, frame.columns[this.column].positions];
    const {run, recording, sample, values, hide, merge} = fitted;
    const place = [run, recording, sample, frame.kind, values, hide, merge];
    const asked = JSON.stringify([...place, query, key, this.context.recordings.numbers(run)]);
    if (asked === this.asked) return this.show();
    const turn = (this.turn = {});
    this.element.setAttribute('aria-busy', 'true');
    const pair = loadWordPair(this.context, frame, this.row, this.rivals.own);
    return Promise.all([pair, loadLayers(this.context, frame.kind), loadReplaced(this.context, frame.kind)]).then(
      ([answers, tensors, replaced]) => {
        if (turn !== this.turn) return;
        const heads = replacedLast(this.compared(rankedByWord(answers), tensors), replaced);
        Object.assign(this, {asked, answers, found: answers[frame.rowsNamed], heads, without: withoutText(replaced)});
        this.show();
      },
      (error) => {
        if (!(error instanceof Unavailable)) throw error;
        if (turn !== this.turn) return;
        this.asked = '';
        this.element.setAttribute('aria-busy', 'false');
        this.list.replaceChildren();
        this.heading.textContent = '';
        this.context.tell('pair', '');
        this.note.textContent = error.message;
      },
    );
  }

  /** The ranked heads, each with its strongest `rival`, in the row in which its weight was found. */
  compared(heads, tensors) {
    const {frame, row, rivals} = this;
    return heads.map((one) => ({...one, rival: rivalOf(one, frame, row, rivals.rivals, tensors)}));
  }

  /**
   * {row, column, why} of the selected words or those of the finding; if nothing is selected, of the main pair with a gold label, or of the
   * largest weight. The answer to a question keeps the words shown before it. `why`: how they were chosen, '' if by the user.
   */
  chosen() {
    const {frame, gold} = this;
    const {state, shown} = this.context;
    const width = frame.columns.length;
    const linked = (row) => gold.find((link) => link.row === row)?.column;
    const largest = (row) => indexOfLargest(frame.weights.subarray(row * width, (row + 1) * width));
    const skipped = frame.causal && frame.rows.length > 1 ? 1 : 0; // the first token can only attend to itself
    const isFound = state.now.token === null;
    const isAnswer = this.context.fitted().recording.startsWith('asked_');
    const text = JSON.stringify([frame.kind, frame.rowsNamed, frame.rows.length, width, frame.sample.reads.ids, frame.sample.source?.ids]);
    const kept = isAnswer && !gold.length && this.before?.text === text ? this.before : null; // a question has no gold labels
    const {token, partner} = isFound && kept ? {token: '', partner: ''} : state.selected;
    const at = selection(token, frame);
    const of = at && selection(partner, frame); // alone, it is left from another text or kind of attention
    const first = mainPair(gold, frame.kind)?.row ?? kept?.row ?? Math.floor(indexOfLargest(frame.weights, skipped * width) / width);
    const row = at?.side === 'row' ? at.index : first;
    const natural = linked(row) ?? (!at && kept ? kept.column : largest(row));
    const column = of?.side === 'column' ? of.index : at?.side === 'column' ? at.index : natural;
    const labelled = gold.find((link) => link.row === row && link.column === column);
    const last = labelled?.repeats ? 'the last word' : 'the last pronoun';
    const named = `${frame.kind === 'cross' ? 'the first pair' : last} with a gold label`;
    const largestOf = `the pair with the largest weight in ${mapName(frame)}${skipped ? ' after the first row' : ''}`;
    const why = `This is ${labelled ? named : kept ? 'the pair shown before the question' : largestOf}`;
    if (!isAnswer) this.before = {text, row, column};
    return {row, column, why: !at ? why : isFound ? whyPair(shown().finding, frame.meta) : ''};
  }

  /** A button for each pair with a gold label; a number tells those with the same words apart. */
  buildChips() {
    const {frame, gold, row, column} = this;
    const seen = new Map();
    const chips = gold.map((pair) => {
      const text = `${frame.rows[pair.row].text} → ${frame.columns[pair.column].text}`;
      const count = (seen.get(text) ?? 0) + 1;
      seen.set(text, count);
      const onclick = () => this.context.state.set({token: `r${pair.row}`, partner: `c${pair.column}`});
      const pressed = String(pair.row === row && pair.column === column);
      const attributes = {type: 'button', class: 'chip', 'aria-pressed': pressed, onclick, lang: languageOf(readable(text))};
      return element('button', attributes, count > 1 ? `${text} (${count})` : text);
    });
    this.chips.hidden = !chips.length;
    const held = [...this.chips.querySelectorAll('.chip')].indexOf(document.activeElement);
    this.chips.replaceChildren('gold labels:', ...chips);
    if (held >= 0) chips[held]?.focus();
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
    const {frame, found, row, column, why, heads} = this;
    this.element.setAttribute('aria-busy', 'false');
    const [from, to] = [frame.rows[row].text, frame.columns[column].text];
    const gone = heads.filter(({replaced}) => replaced);
    const left = heads.filter(({replaced}) => !replaced);
    const [best] = heads;
    const what = this.rivals.nouns ? 'strongest other noun' : 'strongest other word';
    const rival = isSeen(best.rival) ? `; ${what} “${frame.columns[best.rival.column].text}”, ${percent(best.rival.weight)}` : '';
    const chosen = why ? ` ${why}. Click other words.` : '';
    this.context.tell('pair', `All heads, ranked by their attention from “${from}” to “${to}”.${chosen}`);
    const title = `From “${from}” to “${to}”${this.rivals.nouns ? ' (all mentions)' : ''} at ${recordingTitle(this.context.fitted().recording)}`;
    this.heading.textContent = `${title}${this.without}: most by ${this.nameOf(best)}, ${percent(best.weight)}${rival}`;
    this.heading.lang = languageOf(readable(from)) === 'ja' || languageOf(readable(to)) === 'ja' ? 'ja' : 'en';
    const listed = [...left.slice(0, MOST), ...gone];
    this.looks = {
      strongest: Math.max(...heads.map(({weight}) => weight), 1e-6),
      top: Math.max(...listed.flatMap(({course}) => course), 1e-6),
      colour: css(this.context.colours().weight(0.65)),
      inks: inksOf(this.element),
      at: found.steps.indexOf(stepOf(this.context.fitted().recording)),
    };
    const titles = ['head', 'weight', '', what, 'more'].map((text) => element('span', {}, text));
    this.titles.replaceChildren(...titles, this.axis(), element('span', {}, 'since step'));
    this.list.replaceChildren(...listed.map((one) => this.item(one)));
    const more = left.length > MOST ? ` ${left.length - MOST} more heads attend less.` : '';
    const last = gone.length ? ' Heads whose output was replaced come last: they attend, but their own output is not used.' : '';
    const weighted = frame.weighted ? ' Weights are multiplied by value norms.' : '';
    const since = '“Since”: from this step to the last one, single dips aside, the weight is at least half of the last one.';
    const both = ' Both rows of the first word count: the one that predicts it and the one that reads it.';
    const rows = this.answers.predicts && this.answers.reads ? both : '';
    const words = this.rivals.nouns
      ? 'A noun counts with all its mentions before, pronouns included, as in the score “pronouns resolved”.'
      : 'Others are words that stand for something else than the second word.';
    this.note.textContent = `${words} “More”: percentage points between the two. ${since}${rows}${more}${weighted}${last}`;
  }

  /** The axes of all lines: the range of the weights, and the first and last step. */
  axis() {
    const {found, looks} = this;
    const ends = [found.steps[0], found.steps.at(-1)].map((step) => element('span', {}, step?.toLocaleString('en') ?? ''));
    return element('span', {class: 'pair-axis'}, `0 to ${percent(looks.top)}, steps`, element('span', {class: 'pair-ends'}, ends));
  }

  /** The entry of a head: its name and label, its weight as a bar and a number, its strongest rival, and the course of the weight. */
  item({layer, head, rows, weight, course, since, rival, replaced}) {
    const {frame, found} = this;
    const {strongest, colour} = this.looks;
    const fitted = this.context.fitted();
    const selected = fitted.kind === frame.kind && layer === fitted.layer && head === fitted.head;
    const name = {type: 'button', class: 'part-name', title: 'open the map of this head', 'aria-pressed': String(selected)};
    const bar = {class: 'bar', style: `left: 0; width: ${((100 * weight) / strongest).toFixed(1)}%; background: ${colour}`};
    const canvas = element('canvas', {role: 'img', 'aria-label': `weight over ${found.steps.length} steps`});
    drawCourse(new CanvasPen(sharpContext(canvas, COURSE.width, COURSE.height)), course, this.looks);
    const row = frame.kind === 'encoder' ? '' : `${rows} it`;
    const label = [replaced, ...namesAt(frame.meta, frame.kind, layer, head), row].filter(Boolean).join(' · ');
    const beside = isSeen(rival) ? [element('span', {class: 'pair-word'}, frame.columns[rival.column].text), ` ${percent(rival.weight)}`] : [];
    const margin = rival ? weight - rival.weight : NaN;
    return element(
      'li',
      {'data-layer': layer, 'data-head': head, class: replaced ? 'replaced' : false},
      element('span', {class: 'pair-head'}, element('button', name, this.nameOf({layer, head})), element('span', {class: 'pair-label'}, label)),
      element('span', {class: 'bar-room'}, element('span', bar)),
      element('span', {class: 'bar-number'}, percent(weight)),
      element('span', {class: 'pair-rival'}, beside),
      element('span', {class: margin > 0 ? 'pair-margin ahead' : 'pair-margin'}, rival ? signed(100 * margin, 1) : ''),
      canvas,
      element('span', {class: 'pair-since'}, this.since(since)),
    );
  }

  /** The step since which a head attends, as a link to its map there. */
  since(index) {
    const {steps} = this.found;
    if (index < 0) return '';
    const text = index && index === steps.length - 1 ? 'only the last' : steps[index].toLocaleString('en');
    const title = `open the map of this head at step ${steps[index].toLocaleString('en')}`;
    return element('button', {type: 'button', class: 'link', 'data-index': index, title}, text);
  }

  /** The head and the index of the step at the pointer, null beside the lines. */
  at(event) {
    if (event.target.tagName !== 'CANVAS' || !this.found.steps.length) return null;
    return {one: this.headOf(event.target), index: stepAt(event.offsetX, this.found.steps.length)};
  }

  /** The ranked head in whose entry an element is. */
  headOf(target) {
    const {layer, head} = target.closest('li').dataset;
    return this.heads.find((one) => one.layer === Number(layer) && one.head === Number(head));
  }

  point(event) {
    const at = this.at(event);
    if (!at) return hideTooltip();
    const step = `step ${this.found.steps[at.index].toLocaleString('en')}`;
    return showTooltip(event, `${step}: ${percent(at.one.course[at.index])}`, this.nameOf(at.one), 'click: open the map of this step');
  }

  /** Open the map of a head: at the step shown for its name, at another one for a point of its line or the step beside it. */
  go(event) {
    const button = event.target.closest('button');
    const at = this.at(event);
    if (!button && !at) return;
    const index = at?.index ?? button.dataset.index;
    const step = index === undefined ? {} : {recording: stepName(this.found.steps[index]), follow: false};
    this.context.state.set({...mapOf(this.headOf(event.target), this.frame, this.row, this.column), ...step});
  }

  svg() {
    if (!this.heads?.length) return null;
    const {frame, looks} = this;
    const pen = new SvgPen();
    const {ink, muted, paper} = looks.inks;
    const [lines, ends] = [360, 360 + COURSE.width];
    pen.text(0, 10, this.heading.textContent, {size: 13, fill: ink, weight: 600});
    const axis = [...this.titles.querySelectorAll('.pair-ends > *')].map(({textContent}) => textContent);
    pen.text(lines, 28, axis[0], {size: 11, fill: muted});
    pen.text(ends, 28, axis[1], {size: 11, fill: muted, anchor: 'end'});
    const heads = this.heads.slice(0, MOST);
    heads.forEach((one, i) => {
      const top = 38 + i * (COURSE.height + 4);
      const middle = top + COURSE.height / 2;
      pen.text(0, middle, one.replaced ? `${this.nameOf(one)} (${one.replaced})` : this.nameOf(one), {size: 12, fill: ink});
      pen.text(190, middle, percent(one.weight), {size: 12, fill: ink, anchor: 'end'});
      if (isSeen(one.rival)) pen.text(204, middle, `${frame.columns[one.rival.column].text} ${percent(one.rival.weight)}`, {size: 12, fill: muted});
      drawCourse(pen, one.course, looks, lines, top);
      if (one.since >= 0) pen.text(ends + 10, middle, `since step ${this.found.steps[one.since].toLocaleString('en')}`, {size: 12, fill: muted});
    });
    const height = 42 + heads.length * (COURSE.height + 4);
    return pen.svg(ends + 130, height, {title: this.heading.textContent, paper, margin: 12});
  }
}

/** Why a finding links two words. */
function whyPair(finding, meta) {
  const first = whyWord(finding, meta);
  if (!first) return 'These are the two words with the largest weight in all heads';
  const name = {antecedent: 'its antecedent', repeats: 'the noun that it repeats'}[finding.why.word.gold] ?? 'its translation';
  return `These are ${first} and ${finding.why.key ? name : `the one that ${headName(meta, finding)} attends to most`}`;
}

/** "layer 0 · mean of 4 heads": the map from which the pair is chosen, without its kind. */
function mapName({name, kind}) {
  return name.slice(`${KIND_NAMES[kind]} · `.length);
}

function indexOfLargest(weights, start = 0) {
  let best = start;
  for (let i = start; i < weights.length; i++) if (weights[i] > weights[best]) best = i;
  return best;
}
