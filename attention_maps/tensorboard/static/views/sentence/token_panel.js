/** The panel of the selected token: its largest attention weights, gold label, predictions and loss. */

import {languageOf, percent, readable, short} from '../../core/format.js';
import {sourceName} from '../../core/frame.js';
import {element} from '../../dom/elements.js';
import {hex} from '../../draw/pen.js';
import {ahead} from '../alignment/links.js';
import {goldOf} from './gold.js';

const LISTED = 6;

/** The loss of a token in nats, for a word the sum over its pieces; NaN if there is none (source, first token). */
export function lossOf(frame, {target, places}) {
  if (!target) return NaN;
  const losses = places.map((place) => frame.sample.losses[place - 1]);
  return losses.every(Number.isFinite) ? losses.reduce((sum, loss) => sum + loss, 0) : NaN;
}

/** The nodes of the panel, with `more` below the weights; `unit` is the selected token of the text and `chosen` its {side, index}, both null without one. */
export function panel(frame, unit, chosen, palette, more = []) {
  if (!unit) return [element('p', {class: 'muted'}, 'Click a token, or move through the text with the arrow keys.')];
  const nodes = [titled('h3', unit.label.text), element('p', {class: 'muted'}, place(frame, unit, chosen))];
  nodes.push(...verdict(frame, chosen));
  const strongest = strongestOf(frame, chosen);
  nodes.push(element('h4', {}, chosen.side === 'row' ? 'attends to' : 'is attended to by'), list(strongest.slice(0, LISTED), palette));
  if (strongest.length > LISTED) nodes.push(element('p', {class: 'muted'}, `and ${strongest.length - LISTED} more`));
  const hidden = chosen.side === 'row' ? frame.hidden?.[chosen.index] : 0;
  if (hidden > 0.0005)
    nodes.push(
      element('p', {class: 'muted'}, `${percent(hidden)} of the attention is on hidden special tokens; the rest is renormalised.`),
    );
  nodes.push(...more);
  if (chosen.side === 'row' && frame.kind !== 'encoder') nodes.push(...prediction(frame, chosen.index, palette));
  const loss = lossOf(frame, unit);
  if (Number.isFinite(loss)) {
    const from = ahead(frame) ? 'here' : 'from the row before';
    nodes.push(
      titled('h4', `“${unit.label.text}” itself, predicted ${from}`),
      element('p', {class: 'own-loss'}, `loss ${loss.toFixed(3)} nats (probability ${percent(Math.exp(-loss))})`),
    );
  }
  return nodes;
}

function titled(tag, text) {
  return element(tag, {lang: languageOf(text)}, text);
}

function place(frame, unit, {side, index}) {
  if (side === 'column') return `token ${frame.columns[index].positions.join(', ')}, as key`;
  if (frame.kind === 'encoder') return `token ${unit.places.join(', ')} of the ${sourceName(frame.sample)}`;
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
  const answer = [...gold.right].map((one) => far[one].text).join(' ');
  const known = element('p', {class: 'gold-known'}, `gold ${gold.name}: `, element('b', {lang: languageOf(answer)}, answer));
  if (!gold.compared || frame.difference) return [known];
  const textOf = ({columns}) => columns.map((column) => frame.columns[column].text).join(' ');
  const first = textOf(gold.compared.rivals[0]);
  const most = gold.compared.rivals[0].share;
  const text = gold.tied
    ? `✗ tied: “${gold.tied.map(textOf).join('”, “')}” get the same weight (${percent(gold.share)})`
    : gold.found
      ? `✓ right: it gets the largest weight (${percent(gold.share)})`
      : `✗ wrong: “${first}” gets the largest weight (${percent(most)}), the gold ${gold.name} ${percent(gold.share)}`;
  return [
    known,
    element('p', {class: gold.found && !gold.tied ? 'verdict right' : 'verdict wrong', lang: languageOf(first)}, text),
    element('p', {class: 'muted rule'}, rule(frame, gold.compared, textOf) + otherRow(frame)),
  ];
}

/** Which words the gold label is compared with. */
function rule(frame, {nouns, rivals}, textOf) {
  if (frame.kind === 'cross') return 'Compared: all words of the source.';
  if (nouns) {
    const named = `the people and things named before (${rivals.map(textOf).join(', ')})`;
    return `Compared, as in the score “pronouns resolved”: ${named}, each with all its mentions.`;
  }
  const words = frame.causal ? 'all words before it' : 'all other words';
  return `Compared: ${words}. This text has no list of people and things.`;
}

/** Where the other row of the same word is: a head may find the antecedent in one of them only. */
function otherRow({kind, rowsNamed}) {
  if (kind !== 'decoder') return '';
  const [does, other] = rowsNamed === 'predicts' ? ['predicts', 'reads'] : ['reads', 'predicts'];
  return ` This row ${does} the word; the row that ${other} it is under “rows labelled by ${other}”.`;
}

function strongestOf(frame, {side, index}) {
  const width = frame.columns.length;
  const weights =
    side === 'row'
      ? frame.columns.map((label, column) => [label, frame.weights[index * width + column]])
      : frame.rows.map((label, row) => [label, frame.weights[row * width + index]]);
  const strongest = weights.filter(([, weight]) => weight).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const colour = (weight) => (palette) => hex(frame.difference ? palette.difference(Math.sign(weight) * 0.7) : palette.weight(0.65));
  return strongest.map(([{text}, weight]) => ({
    text,
    share: Math.abs(weight),
    number: frame.difference ? short(weight) : percent(weight),
    colour: colour(weight),
  }));
}

/** The most likely predictions of this row; for a word labelled by what it predicts, those before its first piece. */
function prediction(frame, row, palette) {
  const {positions} = frame.rows[row];
  const at = ahead(frame) ? positions[0] : positions.at(-1);
  const candidates = frame.sample.predictions?.[at];
  if (!candidates?.length) return [];
  const right = frame.sample.predicts.ids[at];
  const items = candidates.map(([id, piece, probability]) => ({
    text: readable(piece),
    share: probability,
    number: percent(probability),
    mark: id === right ? '✓' : '',
    colour: () => palette.head(2),
  }));
  const found = candidates.some(([id]) => id === right);
  const known =
    right === undefined || found ? '' : `The actual token “${readable(frame.sample.predicts.pieces[at])}” is not among these.`;
  return [
    titled('h4', `expected after “${readable(frame.sample.reads.pieces[at])}”, as the next token`),
    list(items, palette),
    known && element('p', {class: 'muted'}, known),
  ].filter(Boolean);
}

function list(items, palette) {
  return element(
    'ol',
    {class: 'bars'},
    items.map(({text, share, number, mark, colour}) =>
      element(
        'li',
        {},
        element(
          'span',
          {class: 'bar-text', lang: languageOf(text)},
          text,
          mark ? element('b', {class: 'mark', title: 'the actual token'}, ` ${mark}`) : null,
        ),
        element(
          'span',
          {class: 'bar-room'},
          element('span', {class: 'bar', style: `width: ${Math.min(100, 100 * share).toFixed(1)}%; background: ${colour(palette)}`}),
        ),
        element('span', {class: 'bar-number'}, number),
      ),
    ),
  );
}
