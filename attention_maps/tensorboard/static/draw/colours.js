/** Colour scales for light and dark pages: sequential for weights, diverging for differences, one hue per head. */

const SEQUENTIAL = {
  light: ['#f6f9fe', '#d3e2fa', '#86aeee', '#3a69d2', '#1d3c98', '#0c1648'],
  dark: ['#20242c', '#243a63', '#2f5fb0', '#4f93e6', '#9cc8ff', '#eef6ff'],
};
const DIVERGING = {
  light: ['#8f2d10', '#d9703b', '#f4c7a5', '#f7f7f7', '#aecbee', '#3f78c9', '#12387c'],
  dark: ['#ffc9a3', '#e8834a', '#7d3f22', '#23262d', '#26487f', '#4f93e6', '#c5e0ff'],
};
/** The colour-blind-safe palette of Okabe & Ito (2008), repeated if there are more heads. */
const HEADS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8b6f00', '#7f7f7f'];

/** Of the labels of heads, distinct with any colour vision (test_colours.py); uniform attention is grey. */
const LABELS = {
  coreference: '#d55e00',
  alignment: '#0072b2',
  induction: '#cc79a7',
  'duplicate token': '#e69f00',
  'previous token': '#009e73',
  'first token': '#6b5200',
  diagonal: '#56b4e9',
  broad: '#c3c7cd',
};

const STEPS = 256;

/** The colours of a page: `colours(dark).weight(share)` and so on, as [r, g, b]. */
export function colours(dark) {
  const theme = dark ? 'dark' : 'light';
  const sequential = ramp(SEQUENTIAL[theme]);
  const diverging = ramp(DIVERGING[theme]);
  const at = (table, place) => {
    const step = 3 * Math.round(Math.min(Math.max(place, 0), 1) * (STEPS - 1));
    return [table[step], table[step + 1], table[step + 2]];
  };
  return {
    dark,
    /** share: weight / maximum, 0 to 1. */
    weight: (share) => at(sequential, share),
    /** share: difference / maximum, -1 to 1; 0 is the colour of the page. */
    difference: (share) => at(diverging, (share + 1) / 2),
    /** The colour of a value of a frame, gamma applied. */
    of: (frame, value, {maximum = frame.maximum, gamma = 1} = {}) => {
      if (!Number.isFinite(value)) return [219, 38, 38]; // the model diverged
      const share = Math.sign(value) * (Math.abs(value) / maximum) ** gamma;
      return frame.difference ? at(diverging, (share + 1) / 2) : at(sequential, share);
    },
    /** Cells hidden by the causal mask, distinct from small weights. */
    future: dark ? [44, 46, 52] : [231, 229, 225],
    label: (name) => LABELS[name] ?? '#7f7f7f',
    head: (number) => HEADS[number % HEADS.length],
    /** A text colour that is readable on a colour: black or white, whichever has more contrast, at least 4.5 : 1 (WCAG 2). */
    ink: (colour) => (luminance(colour) < 0.179 ? '#ffffff' : '#000000'),
  };
}

/** Relative luminance of [r, g, b], 0 to 1 (WCAG 2). */
function luminance(colour) {
  const [r, g, b] = colour.map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** "#rrggbb" -> [r, g, b]. */
export function rgb(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** [r, g, b] -> "rgb(…)". */
export function css([r, g, b], alpha = 1) {
  return alpha === 1 ? `rgb(${r} ${g} ${b})` : `rgb(${r} ${g} ${b} / ${alpha})`;
}

/** The style sheet's colours of text, lines and background at an element, for drawing on a canvas or into an SVG. */
export function inksOf(node) {
  const style = getComputedStyle(node);
  const ink = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  return {
    ink: ink('--view-ink', '#15181e'),
    muted: ink('--view-muted', '#5c6470'),
    line: ink('--view-line', '#d5d9e0'),
    paper: ink('--view-paper', '#ffffff'),
    accent: ink('--view-accent', '#2f5fb0'),
  };
}

function ramp(stops) {
  const points = stops.map(rgb);
  const table = new Uint8Array(3 * STEPS);
  for (let step = 0; step < STEPS; step++) {
    const place = (step / (STEPS - 1)) * (points.length - 1);
    const low = Math.min(Math.floor(place), points.length - 2);
    for (let c = 0; c < 3; c++) {
      table[3 * step + c] = Math.round(points[low][c] + (place - low) * (points[low + 1][c] - points[low][c]));
    }
  }
  return table;
}
