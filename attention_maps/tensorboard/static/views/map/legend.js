/** What the colours of maps mean, in one line under them. */

import {recordingTitle} from '../../core/recordings.js';
import {element, short} from '../../dom/elements.js';
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
    notes.replaceChildren(...told(frame, palette));
  }

  function told(frame, palette) {
    const swatch = (colour, text) => element('span', {class: 'swatch'}, element('i', {style: `background:${css(colour)}`}), text);
    const compared = context.compared();
    return [
      frame.difference && compared
        ? element('span', {class: 'compared'}, `A minus B: A = ${place(compared.a)}, B = ${place(compared.b)}`)
        : null,
      frame.causal ? swatch(palette.future, 'comes later, cannot be seen') : null,
      frame.weights.some((weight) => !Number.isFinite(weight)) ? swatch([219, 38, 38], 'not a number: the model diverged') : null,
      frame.hidden
        ? element('span', {}, `hidden: the share of special tokens${frame.difference ? ' in A' : ''}; the rest of a row sums to 1`)
        : null,
    ].filter(Boolean);
  }

  function place({run, recording}) {
    return `${run} ${recordingTitle(recording)}`;
  }

  return {element: line, draw};
}
