/** Icons as SVG paths in a 16 x 16 square. */

import {svgElement} from './elements.js';

const PATHS = {
  play: 'M5 3.2v9.6l7.6-4.8z',
  pause: 'M5 3.5v9M11 3.5v9',
  previous: 'M10.2 3.5 5.6 8l4.6 4.5',
  next: 'M5.8 3.5 10.4 8l-4.6 4.5',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.6M13 2v2.9h-2.9',
  plus: 'M8 3.5v9M3.5 8h9',
  minus: 'M3.5 8h9',
  fit: 'M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
};

/** icon('play') -> SVG element in the colour of the text around it. */
export function icon(name) {
  const filled = name === 'play';
  const path = svgElement('path', {
    d: PATHS[name],
    fill: filled ? 'currentColor' : 'none',
    stroke: 'currentColor',
    'stroke-width': name === 'pause' ? 2.6 : 1.6,
    'stroke-linecap': 'round',
    'stroke-linejoin': 'round',
  });
  return svgElement('svg', {viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true'}, path);
}
