/** What each head alone does to the selected word of an answer: its probability without that head, beside the loss of the other words. */

import {percent, readable, signed} from '../../core/format.js';
import {layerNumber, shapesOf} from '../../core/frame.js';
import {HURTS, meaningOf} from '../../core/glossary.js';
import {namesAt} from '../../core/measures.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {explain} from '../../dom/explain.js';
import {headName} from './question.js';

const LISTED = 6; // heads that are not folded
const QUICK = {heads: 64, tokens: 1000}; // measured without a click: at most so many heads, which together read at most so many tokens
const LEAST = 0.001; // change of the probability from which on a head is listed
const TITLES = {
  head: '',
  label: 'What the head does in the validation examples',
  'without it': 'Probability of the word without this head',
  points: 'Change of the probability, in percentage points',
  'other words, nats': 'Mean change of the loss of the other words, in nats: above 0, they become harder to predict',
};
const HARMFUL = 0.1; // nats: the mean rise of the loss of the other words from which on a head is marked

export class Effects {
  constructor(context) {
    this.context = context;
    this.table = element('table', {class: 'ask-effects'});
    this.more = element('details', {class: 'more'});
    this.note = element('p', {class: 'view-note', role: 'status'});
    this.element = element('div', {}, this.table, this.more, this.note);
    this.asked = ''; // the recording and the ablation of `found`
  }

  /** Whether measuring costs little: one pass of the text for each head. */
  isQuick({tokens}) {
    const meta = this.context.meta();
    const shapes = meta ? Object.values(shapesOf(meta, this.context.fitted().sample)) : [];
    const heads = shapes.reduce((sum, one) => sum + one.layers * one.heads, 0);
    return heads > 0 && heads <= QUICK.heads && tokens.length * heads <= QUICK.tokens;
  }

  /**
   * Show the effects on the word at a position of an answer -> that of the head that matters most, a row of `ranked`; undefined if none
   * does, not all were measured, or another answer is shown by then. They are measured when an answer is shown for the first time.
   */
  async draw(answer, position) {
    const {state, source} = this.context;
    const how = state.now.how === 'mean' ? 'mean' : 'zero';
    const question = {run: state.now.run, recording: answer.recording, how};
    const asked = JSON.stringify(question);
    Object.assign(this, {answer, position, how});
    if (asked === this.asked) return this.found ? this.show() : undefined;
    Object.assign(this, {asked, found: null});
    this.table.replaceChildren();
    this.more.hidden = true;
    this.note.textContent = 'Each head alone is being removed…';
    try {
      const found = await source.effects(question);
      if (asked !== this.asked) return undefined;
      this.found = found;
      return this.show();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      if (asked !== this.asked) return undefined;
      this.asked = ''; // asked again the next time
      this.note.textContent = error.message;
      return undefined;
    }
  }

  /** Nothing is measured before it is wanted: it costs as many passes as there are heads. */
  wait() {
    this.asked = '';
    this.table.replaceChildren();
    this.more.hidden = true;
    this.note.textContent = 'Click a word: what each head alone does to it is then measured.';
  }

  show() {
    const {found, position, how} = this;
    const heads = ranked(found, position, this.answer.predicts.length);
    const listed = heads.filter(({change}) => !(Math.abs(change) < LEAST));
    const word = readable(found.predicts[position]);
    const about = `“${word}” without one head at a time (${how} ablation); whole model ${percent(Math.exp(-found.whole[position]))}`;
    const title = ([text, meaning]) => element('th', {scope: 'col', title: meaning || false}, text);
    const titles = () => element('tr', {}, Object.entries(TITLES).map(title), element('th', {scope: 'col'}, explain(HURTS)));
    const rows = listed.map((one) => this.row(one));
    this.table.replaceChildren(element('caption', {}, about), ...(rows.length ? [titles()] : []), ...rows.slice(0, LISTED));
    const folded = rows.slice(LISTED);
    this.more.hidden = !folded.length;
    const table = element('table', {class: 'ask-effects'}, folded);
    this.more.replaceChildren(element('summary', {}, `${folded.length} more`), table);
    this.note.textContent = noteOn(heads.length, heads.length - listed.length, found.left);
    return found.left ? undefined : listed[0];
  }

  /** The name of a head [kind, layer, head]. */
  nameOf([kind, layer, head]) {
    return headName({kind, layer: layerNumber(this.context.meta(), kind, layer), head}, this.answer.task === 'translate');
  }

  row({place, probability, change, others, broad}) {
    const {state, meta, fitted} = this.context;
    const [kind, layer, head] = place;
    const now = fitted();
    const selected = kind === now.kind && layer === now.layer && head === now.head;
    const name = element(
      'button',
      {type: 'button', class: 'link', 'aria-pressed': String(selected), title: 'select this head', onclick: () => state.set({kind, layer, head})},
      this.nameOf(place),
    );
    return element(
      'tr',
      {'data-head': place.join('.')},
      element('th', {scope: 'row'}, name),
      element('td', {class: 'label'}, namesAt(meta(), kind, layer, head).join(', ')),
      element('td', {}, percent(probability)),
      element('td', {}, signed(100 * change, 1)),
      element('td', {title: TITLES['other words, nats']}, signed(others, 2)),
      element('td', {class: 'broad', title: broad && meaningOf(HURTS)}, broad ? HURTS : ''),
    );
  }
}

/**
 * [{place: [kind, layer, head], probability, change, others, broad}], the largest change first: of the probability of the next token at a
 * position. `others`: mean change of the loss of the other next tokens, of which the first `known` are part of the text. `broad`: as shown,
 * to two decimal places, it is at least HARMFUL.
 */
export function ranked({heads, losses, whole}, position, known) {
  const before = Math.exp(-whole[position]);
  const others = [...Array(known).keys()].filter((one) => one !== position);
  return heads
    .map((place, n) => {
      const rise = (one) => losses[n][one] - whole[one];
      const mean = others.length ? others.reduce((sum, one) => sum + rise(one), 0) / others.length : 0;
      const probability = Math.exp(-losses[n][position]);
      return {place, probability, change: probability - before, others: mean, broad: Number(mean.toFixed(2)) >= HARMFUL};
    })
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

/** What the table leaves out. */
function noteOn(heads, small, left) {
  const limit = `${100 * LEAST} points`;
  const other = small === 1 ? 'The other head changes' : `The other ${small} heads change`;
  const few = small === heads ? `No head alone changes it by ${limit} or more.` : small ? `${other} it by less than ${limit}.` : '';
  const late = left ? `${left} more heads were left out after some seconds.` : '';
  return [few, late].filter(Boolean).join(' ');
}
