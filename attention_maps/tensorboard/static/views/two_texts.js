/** Queries and keys as two texts with space for lines between them: columns side by side, or running text one above the other. */

import {languageOf} from '../core/format.js';
import {element} from '../dom/elements.js';
import {focusOn, pieceOf, tokenButton} from './tokens.js';

export class TwoTexts {
  /** `sheet`: a ScrollingCanvas, whose content is filled. */
  constructor(sheet) {
    this.sheet = sheet;
    sheet.content.classList.add('two-texts');
    this.queries = [];
    this.keys = [];
  }

  /** Build the tokens of a frame, unless only weights have changed. `layout` is columns or text. */
  build(frame, layout) {
    const {rows, columns, tokens, rowsNamed} = frame;
    const texts = (labels) => labels.map(({text, positions, special}) => [text, positions[0], special]);
    const key = JSON.stringify([layout, rowsNamed, texts(rows), texts(columns)]);
    if (key === this.built) return;
    this.built = key;
    this.across = layout === 'columns';
    const buttons = (labels, side, of) => labels.map((label, i) => tokenButton(label, side + i, pieceOf(label, of)));
    const queries = block(rowsNamed, 'query-side', buttons(rows, 'r', tokens.rows));
    const keys = block('attends to', 'key-side', buttons(columns, 'c', tokens.columns));
    const {content, canvas} = this.sheet;
    content.dataset.layout = layout;
    content.replaceChildren(...(this.across ? [queries, keys] : [keys, queries]));
    canvas.lang = languageOf([...rows, ...columns].map(({text}) => text).join(''));
    focusOn(content, content.querySelector('.token'), {focus: false});
  }

  /** Remove the tokens. */
  clear() {
    this.built = null;
    this.sheet.content.replaceChildren();
    delete this.sheet.content.dataset.layout;
  }

  /** Measure where lines leave the queries and reach the keys. */
  measure() {
    const ends = (side, x, y) =>
      Array.from(this.sheet.content.querySelectorAll(`.${side} .token`), (button) => [
        button.offsetLeft + x * button.offsetWidth,
        button.offsetTop + y * button.offsetHeight,
      ]);
    this.queries = this.across ? ends('query-side', 1, 0.5) : ends('query-side', 0.5, 0);
    this.keys = this.across ? ends('key-side', 0, 0.5) : ends('key-side', 0.5, 1);
  }

  /** The two ends of the line from a row to a column; null before anything is measured. */
  course({row, column}) {
    const [from, to] = [this.queries[row], this.keys[column]];
    return from && to ? {from, to} : null;
  }
}

function block(name, side, tokens) {
  return element(
    'div',
    {class: `two-texts-side ${side}`},
    element('div', {class: 'caption'}, name),
    element('div', {class: 'two-texts-tokens'}, tokens),
  );
}

/** Running text for long or Japanese texts: columns spend a whole line on every short token. */
export function layoutFor(rows, columns) {
  const longest = Math.max(rows.length, columns.length);
  const letters = columns.reduce((sum, {text}) => sum + text.length, 0) / columns.length;
  return longest > 40 || (longest > 18 && letters < 2) ? 'text' : 'columns';
}
