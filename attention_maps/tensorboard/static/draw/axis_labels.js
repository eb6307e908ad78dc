/** Row and column labels of a drawn matrix: measuring, shortening, and vertical writing for Japanese. */

import {FONT} from './pen.js';

/** Vertical forms of signs that differ in vertical writing. */
const UPRIGHT = {ー: '︱', '（': '︵', '）': '︶', '「': '﹁', '」': '﹂', '…': '︙', '～': '≀'};

let ruler;

/** The width of a text in pixels. */
export function widthOf(text, size) {
  ruler ??= document.createElement('canvas').getContext('2d');
  ruler.font = `400 ${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

/** The text, shortened with … to fit into `room` pixels. */
export function cut(text, size, room) {
  const letters = [...text];
  if (widthOf(text, size) <= room) return text;
  while (letters.length > 1 && widthOf(`${letters.join('')}…`, size) > room) letters.pop();
  return `${letters.join('')}…`;
}

/** The height of a column label in pixels. */
function heightOf({text, language}, size) {
  return language === 'ja' ? [...text].length * size * 1.05 : widthOf(text, size);
}

/** Draw a label above a column centred at x, ending at y: Japanese vertically, other scripts rotated by 90 degrees. */
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

/** The margins in pixels that row and column labels need, limited to `most` plus padding. */
export function marginsFor(rows, columns, size, most) {
  return {
    left: Math.min(most, Math.max(0, ...rows.map(({text}) => widthOf(text, size)))) + 12,
    top: Math.min(most, Math.max(0, ...columns.map((label) => heightOf(label, size)))) + 10,
  };
}
