/** Beside the drawn alignment: how right it is, the links as text, and what the rows' names mean. */

import {KIND_NAMES} from '../../core/frame.js';
import {copyText} from '../../dom/clipboard.js';
import {element, percent} from '../../dom/elements.js';
import {SvgPen} from '../../draw/pen.js';
import {pharaoh} from './links.js';
import {mark, MARKS} from './matrix.js';

const NAMING = {
  encoder: {reads: 'Rows are named by the token that stands there.'},
  decoder: {
    reads: 'Rows are named by the token that each reads.',
    predicts: 'Rows are named by the token that each predicts, the one after the token that it reads.',
  },
  cross: {
    predicts:
      'Rows are named by the token that each predicts: where the model looks while it chooses that token. ' +
      'This is the naming for alignment.',
    reads:
      'Rows are named by the token that each reads: where the model looks one step after it chose that token, ' +
      'the shifted reading of Chen et al. (2020). Named by “predicts” it is where it looks while it chooses.',
  },
};

/** {element, draw(frame, links, score, unit)}: `score` as from `judge`, null where no gold is known; `unit` is tokens or words. */
export function createTold() {
  const judged = element('div', {});
  const area = element('textarea', {readonly: true, rows: 3, 'aria-label': 'links as Pharaoh text', class: 'pharaoh'});
  const answer = element('span', {class: 'muted', role: 'status'});
  const copied = async () => (answer.textContent = (await copyText(area.value)) ? 'copied' : 'select the text and copy it');
  const counted = element('p', {class: 'muted'});
  const naming = element('p', {class: 'muted naming'});
  const told = element(
    'aside',
    {class: 'alignment-told'},
    judged,
    element('h4', {}, 'Links in Pharaoh’s notation'),
    area,
    element('p', {}, element('button', {type: 'button', class: 'copy', onclick: copied}, 'Copy'), ' ', answer),
    counted,
    naming,
  );

  function draw(frame, links, score, unit) {
    judged.replaceChildren(...(score ? scored(score, links, unit) : [element('p', {class: 'muted none'}, withoutGold(frame))]));
    const text = pharaoh(frame, links);
    if (area.value !== text) {
      area.value = text;
      answer.textContent = '';
    }
    const pair = frame.kind === 'cross' ? 'source-target' : 'key-query';
    counted.textContent = `${pair} in ${unit}, counted from 0. ${links.length} links; special tokens take no part.`;
    naming.textContent = NAMING[frame.kind][frame.rowsNamed];
  }

  return {element: told, draw};
}

function scored({right, wrong, missed, precision, recall, error}, links, unit) {
  const share = (value) => (Number.isFinite(value) ? percent(value) : '–');
  const gold = right.length + missed.length;
  const formula = `AER = 1 − 2·${right.length} / (${links.length} + ${gold})`;
  const meaning = {right: 'found and gold', wrong: 'found, not gold', missed: 'gold, not found'};
  const rows = Object.entries({right, wrong, missed}).map(([name, found]) => markRow(name, found.length, meaning[name]));
  return [
    element('p', {class: 'score'}, element('b', {class: 'error-rate'}, share(error)), ' alignment error rate (AER) of this text'),
    element('p', {class: 'muted'}, `precision ${share(precision)}, recall ${share(recall)}, in ${unit}`),
    element('table', {class: 'marks'}, rows),
    element('p', {class: 'muted'}, `${formula}: links found and gold links, all of them sure (Och & Ney 2003).`),
  ];
}

function markRow(name, count, meaning) {
  const number = element('td', {class: 'count'}, String(count));
  return element(
    'tr',
    {'data-mark': name},
    element('td', {}, sign(name)),
    element('th', {scope: 'row'}, MARKS[name].name),
    number,
    element('td', {class: 'muted'}, meaning),
  );
}

/** A mark as a small picture. */
function sign(name) {
  const pen = new SvgPen();
  mark(pen, name, 10, 10, 20, 'none');
  const svg = pen.svg(20, 20, {paper: 'none'});
  svg.setAttribute('aria-hidden', 'true');
  return svg;
}

function withoutGold({kind}) {
  if (kind !== 'cross') return `Gold links are between source and target; this is ${KIND_NAMES[kind]}.`;
  return 'This recording holds no gold links for this text: links can be read out, but not judged.';
}
