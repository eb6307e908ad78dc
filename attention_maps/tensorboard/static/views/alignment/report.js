/** The side panel of the alignment: scores against gold links, the links in Pharaoh format, and what row labels mean. */

import {percent} from '../../core/format.js';
import {KIND_NAMES} from '../../core/frame.js';
import {copyText} from '../../dom/clipboard.js';
import {element} from '../../dom/elements.js';
import {SvgPen} from '../../draw/pen.js';
import {pharaoh} from './links.js';
import {mark, MARKS} from './matrix.js';

const NAMING = {
  encoder: {reads: 'Rows are labelled by their own token.'},
  decoder: {
    reads: 'Rows are labelled by the token that the model reads there.',
    predicts: 'Rows are labelled by the token that the model predicts there, the one after the token that it reads.',
  },
  cross: {
    predicts:
      'Rows are labelled by the token that the model predicts: the weights show where it attends while predicting that token. ' +
      'Use this for alignment.',
    reads:
      'Rows are labelled by the token that the model reads: the weights show where it attends one step after predicting that token, ' +
      'the shifted alignment of Chen et al. (2020). With “predicts”, they show where it attends while predicting it.',
  },
};

/** {element, draw(frame, links, score, unit)}: `score` as from `judge`, null without gold links; `unit` is tokens or words. */
export function createReport() {
  const judged = element('div', {});
  const area = element('textarea', {readonly: true, rows: 3, 'aria-label': 'links as Pharaoh text', class: 'pharaoh'});
  const answer = element('span', {class: 'muted', role: 'status'});
  const copied = async () => (answer.textContent = (await copyText(area.value)) ? 'copied' : 'select the text and copy it');
  const counted = element('p', {class: 'muted'});
  const naming = element('p', {class: 'muted naming'});
  const panel = element(
    'aside',
    {class: 'alignment-report'},
    judged,
    element('h4', {}, 'Links in Pharaoh format'),
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
    counted.textContent = `${links.length} links, ${pair}, in ${unit} counted from 0, without special tokens.`;
    naming.textContent = NAMING[frame.kind][frame.rowsNamed];
  }

  return {element: panel, draw};
}

function scored({right, wrong, missed, precision, recall, error}, links, unit) {
  const share = (value) => (Number.isFinite(value) ? percent(value) : '–');
  const gold = right.length + missed.length;
  const formula = `AER = 1 − 2·${right.length} / (${links.length} + ${gold})`;
  const meaning = {right: 'extracted and gold', wrong: 'extracted, not gold', missed: 'gold, not extracted'};
  const rows = Object.entries({right, wrong, missed}).map(([name, found]) => markRow(name, found.length, meaning[name]));
  return [
    element('p', {class: 'score'}, element('b', {class: 'error-rate'}, share(error)), ' alignment error rate (AER) of this text'),
    element('p', {class: 'muted'}, `precision ${share(precision)}, recall ${share(recall)}, in ${unit}`),
    element('table', {class: 'marks'}, rows),
    element('p', {class: 'muted'}, `${formula}: extracted links and gold links, all gold links “sure” (Och & Ney 2003).`),
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

/** A mark as a small SVG. */
function sign(name) {
  const pen = new SvgPen();
  mark(pen, name, 10, 10, 20, 'none');
  const svg = pen.svg(20, 20, {paper: 'none'});
  svg.setAttribute('aria-hidden', 'true');
  return svg;
}

function withoutGold({kind}) {
  if (kind !== 'cross') return `Gold links are between source and target; this is ${KIND_NAMES[kind]}.`;
  return 'This recording contains no gold links for this text: links can be extracted, but not scored.';
}
