/** What is known about the selected token: what it looks at in numbers, what is predicted after it, and whether it is right. */

import {element, languageOf, percent, readable, short} from '../../dom/elements.js';
import {hex} from '../../draw/pen.js';
import {ahead} from '../alignment/links.js';
import {goldOf} from './gold.js';

const LISTED = 6;

/** The loss of a token in nats, of a word the sum of its pieces; NaN where none is known (a source, the first token). */
export function lossOf(frame, {target, places}) {
  if (!target) return NaN;
  const losses = places.map((place) => frame.sample.losses[place - 1]);
  return losses.every(Number.isFinite) ? losses.reduce((sum, loss) => sum + loss, 0) : NaN;
}

/** The nodes of the panel; `unit` is the selected token of the text and `chosen` its {side, index}, both null without one. */
export function panel(frame, unit, chosen, palette) {
  if (!unit) return [element('p', {class: 'muted'}, 'Click a token, or go through the text with the arrow keys.')];
  const nodes = [titled('h3', unit.label.text), element('p', {class: 'muted'}, place(frame, unit, chosen))];
  nodes.push(...verdict(frame, chosen));
  nodes.push(element('h4', {}, chosen.side === 'row' ? 'looks at' : 'is looked at by'), list(heardBy(frame, chosen), palette));
  const hidden = chosen.side === 'row' ? frame.hidden?.[chosen.index] : 0;
  if (hidden > 0.0005)
    nodes.push(
      element('p', {class: 'muted'}, `${percent(hidden)} of the attention goes to hidden special tokens; the rest is made to sum to 1.`),
    );
  if (chosen.side === 'row' && frame.kind !== 'encoder') nodes.push(...prediction(frame, chosen.index, palette));
  const loss = lossOf(frame, unit);
  if (Number.isFinite(loss))
    nodes.push(
      element('p', {class: 'muted'}, `Loss of this token: ${loss.toFixed(3)} nats, a probability of ${percent(Math.exp(-loss))}.`),
    );
  return nodes;
}

function titled(tag, text) {
  return element(tag, {lang: languageOf(text)}, text);
}

function place(frame, unit, {side, index}) {
  if (side === 'column') return `token ${frame.columns[index].positions.join(', ')}, as it is looked at`;
  if (frame.kind === 'encoder') return `token ${unit.places.join(', ')} of the source`;
  const {reads, predicts} = frame.sample;
  const {positions} = frame.rows[index];
  const [first, last] = [positions[0], positions.at(-1)];
  const rows = first === last ? first : `${first} to ${last}`;
  const next = predicts.pieces[last] === undefined ? 'nothing follows' : `predicts “${readable(predicts.pieces[last])}”`;
  return `row ${rows}: reads “${readable(reads.pieces[first])}”, ${next}`;
}

function verdict(frame, chosen) {
  const gold = goldOf(frame, chosen);
  if (!gold) return [];
  const far = chosen.side === 'row' ? frame.columns : frame.rows;
  const told = [...gold.right].map((one) => far[one].text).join(' ');
  const known = element('p', {class: 'gold-told'}, `gold ${gold.name}: `, element('b', {lang: languageOf(told)}, told));
  if (!gold.heard || frame.difference) return [known];
  const share = [...gold.right].reduce((sum, column) => sum + frame.weights[chosen.index * frame.columns.length + column], 0);
  const heard = frame.columns[gold.heard.place].text;
  const among = frame.kind === 'cross' ? '' : frame.causal ? ' of the words before it' : ' of the other words';
  const text = gold.found
    ? `✓ right: it gets the most attention${among} (${percent(share)})`
    : `✗ wrong: “${heard}” gets the most${among} (${percent(gold.heard.weight)}), the gold ${percent(share)}`;
  return [known, element('p', {class: gold.found ? 'verdict right' : 'verdict wrong', lang: languageOf(heard)}, text)];
}

function heardBy(frame, {side, index}) {
  const width = frame.columns.length;
  const weights =
    side === 'row'
      ? frame.columns.map((label, column) => [label, frame.weights[index * width + column]])
      : frame.rows.map((label, row) => [label, frame.weights[row * width + index]]);
  const strongest = weights
    .filter(([, weight]) => weight)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
    .slice(0, LISTED);
  const colour = (weight) => (palette) => hex(frame.difference ? palette.difference(Math.sign(weight) * 0.7) : palette.weight(0.65));
  return strongest.map(([{text}, weight]) => ({
    text,
    share: Math.abs(weight),
    told: frame.difference ? short(weight) : percent(weight),
    colour: colour(weight),
  }));
}

/** What the model held likely after this row; where the row is a word named by what it predicts, before its first piece. */
function prediction(frame, row, palette) {
  const {positions} = frame.rows[row];
  const at = ahead(frame) ? positions[0] : positions.at(-1);
  const candidates = frame.sample.predictions?.[at];
  if (!candidates?.length) return [];
  const right = frame.sample.predicts.ids[at];
  const items = candidates.map(([id, piece, probability]) => ({
    text: readable(piece),
    share: probability,
    told: percent(probability),
    mark: id === right ? '✓' : '',
    colour: () => palette.head(2),
  }));
  const found = candidates.some(([id]) => id === right);
  const known =
    right === undefined || found ? '' : `The text goes on with “${readable(frame.sample.predicts.pieces[at])}”, which is not among these.`;
  return [
    element('h4', {}, ahead(frame) ? 'expected here' : 'expected next'),
    list(items, palette),
    known && element('p', {class: 'muted'}, known),
  ].filter(Boolean);
}

function list(items, palette) {
  return element(
    'ol',
    {class: 'bars'},
    items.map(({text, share, told, mark, colour}) =>
      element(
        'li',
        {},
        element(
          'span',
          {class: 'bar-text', lang: languageOf(text)},
          text,
          mark ? element('b', {class: 'mark', title: 'this is what follows'}, ` ${mark}`) : null,
        ),
        element(
          'span',
          {class: 'bar-room'},
          element('span', {class: 'bar', style: `width: ${Math.min(100, 100 * share).toFixed(1)}%; background: ${colour(palette)}`}),
        ),
        element('span', {class: 'bar-number'}, told),
      ),
    ),
  );
}
