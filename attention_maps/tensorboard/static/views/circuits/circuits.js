/** Prediction without a text: what the weights of a head say about pairs of tokens, without any text. */

import {languageOf, readable, signed} from '../../core/format.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {headWithReason} from '../../finding/sentence.js';
import {headName} from '../ask/question.js';
import {KeptWeights} from '../kept_weights.js';
import {TokenTable} from './token_table.js';

export const create = (context) => new Circuits(context);

const DISTANCE = 'Tokens from the key back to the query: rotary positions make scores depend on it';
const ATTENDS = 'Attention scores q · k / √D, each minus the mean over all keys; a score higher by 1 means 2.7 times the weight.';
const WRITES = 'Change of the logits, without the scale of the final norm; the means over all tokens are subtracted.';
const DIRECT =
  'Both follow the direct path from the embedding of a token to the head, and from the head to the logits: what other layers add is left out, ' +
  'so the first layer attends, and the last one writes, most as shown here.';

class Circuits {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.weights = new KeptWeights(context);
    const number = {type: 'number', min: -4096, max: 4096, step: 1, 'aria-label': 'distance', title: DISTANCE};
    this.distance = element('input', {...number, onchange: () => state.set({distance: Math.trunc(Number(this.distance.value) || 0)})});
    this.piece = element('input', {
      type: 'search',
      maxlength: 100,
      placeholder: 'all tokens',
      'aria-label': 'only pairs with the token',
      onchange: () => state.set({piece: this.piece.value.trim()}),
    });
    this.distances = element('label', {class: 'field', title: DISTANCE}, 'distance', this.distance);
    this.controls = element(
      'div',
      {class: 'view-controls'},
      this.weights.element,
      element('label', {class: 'field'}, 'token', this.piece),
      this.distances,
    );
    this.status = element('p', {class: 'view-note circuits-status', role: 'status'});
    this.attends = new Circuit(context, ATTENDS);
    this.writes = new Circuit(context, WRITES);
    this.copying = element('p', {class: 'circuits-copying'});
    const direct = element('p', {class: 'view-note'}, DIRECT);
    const both = element('div', {class: 'circuits-both'}, this.attends.element, this.writes.element);
    this.body = element('div', {hidden: true}, this.copying, both, direct);
    this.element = element('div', {class: 'circuits-view'}, this.status, this.weights.note, this.body);
  }

  async draw(frame) {
    const {source, state} = this.context;
    const {run, piece} = state.now;
    const {kind, layer, head} = frame;
    const distance = kind === 'encoder' ? state.now.distance : Math.max(state.now.distance, 0); // only an encoder attends to later tokens
    this.distance.value = distance;
    this.piece.value = piece;
    const turn = (this.turn = {}); // also of a sentence: an answer to the head before must not replace it
    if (!source.canAsk(run)) return this.say('The weights are not part of this exported page: circuits need a running TensorBoard.');
    if (typeof head !== 'number') return this.say('Choose one head in the list: circuits belong to a single head.');
    try {
      const weights = await this.weights.choose();
      if (turn !== this.turn) return undefined;
      this.controls.hidden = !weights;
      if (!weights) return this.say('This run has no checkpoint, so the weights of its heads cannot be read.');
      const checkpoint = weights.name;
      const asked = JSON.stringify([run, checkpoint, kind, layer, head, distance, piece]);
      if (asked === this.asked) return this.show();
      this.say(this.found ? 'asking…' : 'asking… (the first question loads the model)', {keep: Boolean(this.found)});
      const question = {run, checkpoint, circuit: [kind, layer, head], distance};
      const found = await source.circuits(piece ? {...question, token: piece} : question);
      if (turn !== this.turn) return undefined;
      Object.assign(this, {asked, found, place: {kind, layer, head, distance}});
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.weights.forget();
      return turn === this.turn ? this.say(error.message) : undefined;
    }
    return this.show();
  }

  /** A sentence instead of the circuits, or above those shown before. */
  say(sentence, {keep = false} = {}) {
    const {shown, tell} = this.context;
    tell('circuits', keep ? `What the weights alone say, without any text, of ${headWithReason(shown())}.` : '');
    this.status.textContent = sentence;
    this.body.hidden = !keep;
    if (!keep) this.asked = this.found = null;
  }

  show() {
    const {found, place} = this;
    const {step, attends, writes, copying, own, rotary} = found;
    this.say(`${headName(place)}, weights of step ${step.toLocaleString('en')}`, {keep: true});
    this.distances.hidden = !rotary;
    const at = rotary ? ` at a distance of ${place.distance}` : '';
    const sides = {cross: ['target token', 'source token'], encoder: ['source token', 'source token']}[place.kind] ?? ['token', 'token'];
    this.attends.show(`Attends (QK): ${sides[0]} → ${sides[1]} that it attends to${at}`, attends);
    this.writes.show(`Writes (OV): attended ${sides[1]} → next token made likely`, writes);
    this.copying.hidden = copying === null;
    if (copying !== null) this.copying.textContent = copyingText(copying, own);
  }
}

/** One circuit: its heading, table and strongest pairs. */
class Circuit {
  constructor(context, note) {
    this.context = context;
    this.title = element('h3');
    this.table = new TokenTable(context);
    this.lists = element('div', {class: 'circuit-lists', onclick: (event) => this.choose(event.target.closest('button'))});
    this.element = element('section', {}, this.title, element('p', {class: 'view-note'}, note), this.table.element, this.lists);
  }

  show(title, circuit) {
    this.element.hidden = !circuit;
    if (!circuit) return;
    this.title.textContent = title;
    this.table.show(circuit.table);
    const piece = this.context.state.now.piece;
    const lists = circuit.pairs
      ? [['the strongest pairs; click a token for its own', circuit.pairs]]
      : [
          [`the first token is “${piece}”`, circuit.from_token],
          [`the second token is “${piece}”`, circuit.to_token],
        ];
    this.lists.replaceChildren(...lists.filter(([, pairs]) => pairs.length).map(([caption, pairs]) => pairList(caption, pairs)));
  }

  choose(button) {
    if (button) this.context.state.set({piece: button.value});
  }
}

function pairList(caption, pairs) {
  const textOf = textsOf(pairs);
  const token = (piece) => {
    const text = textOf(piece);
    const value = piece.replaceAll('▁', ' ').trim();
    const title = `only pairs with this token, “${piece}”`;
    return element('button', {type: 'button', class: 'token', value, disabled: !value, title, lang: languageOf(text)}, text);
  };
  const row = ([first, second, value]) =>
    element('tr', {}, element('td', {}, token(first)), element('td', {}, '→ ', token(second)), element('td', {}, signed(value)));
  return element('table', {class: 'circuit-pairs'}, element('caption', {}, caption), element('tbody', {}, pairs.map(row)));
}

/** Piece -> text, for the pieces of some pairs: of two that differ only by the space before them, the one with the space shows it as ␣. */
export function textsOf(pairs) {
  const pieces = new Set(pairs.flatMap(([first, second]) => [first, second]));
  return (piece) => (piece.startsWith('▁') && pieces.has(piece.slice(1)) ? `␣${readable(piece)}` : readable(piece));
}

function copyingText(copying, own) {
  const what = copying > 0.5 ? 'copies what it attends to' : copying < -0.5 ? 'suppresses what it attends to' : 'does not simply copy';
  const raised = `For ${(100 * own).toFixed(0)} % of the tokens, their own logit is raised most.`;
  return `Copying score ${signed(copying)}: the head ${what} (sum of the eigenvalues of OV over the sum of their sizes). ${raised}`;
}
