/** The legend under the map: colour scale and notes. */

import {short} from '../../core/format.js';
import {recordingTitle} from '../../core/recordings.js';
import {element} from '../../dom/elements.js';
import {css} from '../../draw/colours.js';
import {scaleMaximum, sharpContext} from '../../draw/matrix_pixels.js';

const LENGTH = 132; // CSS pixels of the scale
const HEIGHT = 10;

/** {element, draw(frame)}. */
export function createLegend(context) {
  const canvas = element('canvas', {class: 'scale', 'aria-hidden': 'true'});
  const [low, high] = [element('span', {class: 'number'}), element('span', {class: 'number'})];
  const notes = element('span', {class: 'legend-notes'});
  const line = element('div', {class: 'legend-line'}, low, canvas, high, notes);

  function draw(frame) {
    const palette = context.colours();
    const {scale, gamma} = context.state.now;
    const maximum = scaleMaximum(frame, scale);
    low.textContent = frame.difference ? short(-maximum) : '0';
    high.textContent = short(maximum);
    const pen = sharpContext(canvas, LENGTH, HEIGHT);
    for (let x = 0; x < LENGTH; x++) {
      const share = x / (LENGTH - 1);
      pen.fillStyle = css(palette.of(frame, maximum * (frame.difference ? 2 * share - 1 : share), {maximum, gamma}));
      pen.fillRect(x, 0, 1.5, HEIGHT);
    }
    notes.replaceChildren(...notesOf(frame, palette));
  }

  function notesOf(frame, palette) {
    const swatch = (colour, text) => element('span', {class: 'swatch'}, element('i', {style: `background:${css(colour)}`}), text);
    const compared = context.compared();
    return [
      frame.difference && compared
        ? element('span', {class: 'compared'}, `A minus B: A = ${place(compared.a)}, B = ${place(compared.b)}`)
        : null,
      frame.causal ? swatch(palette.future, 'masked: later tokens') : null,
      frame.causal && !frame.difference && context.state.now.scale === 'map'
        ? element('span', {}, 'the first row, always 1, is not in the scale')
        : null,
      frame.weights.some((weight) => !Number.isFinite(weight)) ? swatch([219, 38, 38], 'not a number: the model diverged') : null,
      frame.hidden
        ? element('span', {}, `hidden: attention on special tokens${frame.difference ? ' in A' : ''}; rows renormalised to sum to 1`)
        : null,
    ].filter(Boolean);
  }

  function place({run, recording}) {
    return `${run} ${recordingTitle(recording)}`;
  }

  return {element: line, draw};
}
