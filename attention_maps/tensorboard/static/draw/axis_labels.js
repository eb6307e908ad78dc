/** Labels of rows and columns of a drawn matrix: measured, cut to their room, and Japanese written from top to bottom. */

import {FONT} from './pen.js';

/** Signs that stand upright in vertical writing, by others that lie. */
const UPRIGHT = {ー: '︱', '（': '︵', '）': '︶', '「': '﹁', '」': '﹂', '…': '︙', '～': '≀'};

let ruler;

/** Pixels that a text is wide. */
export function widthOf(text, size) {
  ruler ??= document.createElement('canvas').getContext('2d');
  ruler.font = `400 ${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

/** The text, or as much of it as fits into `room` pixels, with … */
export function cut(text, size, room) {
  const letters = [...text];
  if (widthOf(text, size) <= room) return text;
  while (letters.length > 1 && widthOf(`${letters.join('')}…`, size) > room) letters.pop();
  return `${letters.join('')}…`;
}

/** Pixels that a label takes upwards over its column. */
export function heightOf({text, language}, size) {
  return language === 'ja' ? [...text].length * size * 1.05 : widthOf(text, size);
}

/** Write a label over a column whose middle is x, ending at y: Japanese from top to bottom, other scripts turned to the left. */
export function columnLabel(pen, x, y, {text, language}, size, room, fill) {
  if (language !== 'ja') {
    pen.text(x, y, cut(text, size, room), {size, fill, angle: -90});
    return;
  }
  const letters = [...text];
  const most = Math.max(1, Math.floor(room / (size * 1.05)));
  const shown = letters.length > most ? [...letters.slice(0, most - 1), '…'] : letters;
  shown.forEach((letter, i) => {
    pen.text(x, y - (shown.length - i - 0.5) * size * 1.05, UPRIGHT[letter] ?? letter, {size, fill, anchor: 'middle'});
  });
}

/** The pixels that labels of rows and columns take, at most `most`. */
export function marginsFor(rows, columns, size, most) {
  return {
    left: Math.min(most, Math.max(0, ...rows.map(({text}) => widthOf(text, size)))) + 12,
    top: Math.min(most, Math.max(0, ...columns.map((label) => heightOf(label, size)))) + 10,
  };
}
