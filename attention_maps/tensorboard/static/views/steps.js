/** The selected head at many training steps, side by side. */

import {sourceName} from '../core/frame.js';
import {sameTokens} from '../core/load_frame.js';
import {recordingTitle, stepName, stepOf} from '../core/recordings.js';
import {Unavailable} from '../core/source.js';
import {element, svgElement} from '../dom/elements.js';
import {colourTable, paint, reach, scaleMaximum} from '../draw/matrix_pixels.js';
import {histories} from './story/history.js';

export const view = {
  name: 'steps',
  title: 'Steps',
  hint: 'The selected head over the training. Click a picture to go to that step.',
  create: (context) => new Steps(context),
};

const MOST = 24;
const WIDEST = 220; // CSS pixels of a picture
const GAP = 14;

class Steps {
  constructor(context) {
    this.context = context;
    this.tiles = element('div', {class: 'step-tiles'});
    this.note = element('p', {class: 'view-note', role: 'status'});
    this.axes = element('p', {class: 'view-note steps-axes'});
    this.element = element('div', {class: 'steps-view'}, this.axes, this.tiles, this.note);
    this.made = new Map(); // recording -> {button, canvas, label}
    this.observer = new ResizeObserver(() => {
      const {clientWidth} = this.tiles; // 0 while another view is shown
      if (this.frame && clientWidth && clientWidth !== this.width) this.draw(this.frame);
    });
    this.observer.observe(this.tiles);
  }

  draw(frame) {
    this.frame = frame;
    const {state, recordings} = this.context;
    const all = recordings.steps(state.now.run);
    const needed = [...this.births(), stepOf(state.now.recording) === null ? '' : state.now.recording];
    const shown = needed.filter((one) => all.includes(one)).reduce((kept, one) => including(kept, all, one, needed), thinned(all, MOST));
    this.note.textContent = all.length
      ? `${shown.length < all.length ? `${shown.length} of ${all.length} recorded steps. ` : ''}${view.hint}`
      : 'This run recorded no training steps, only generated texts.';
    this.axes.textContent = axesOf(frame);
    this.arrange(shown, frame);
    for (const [recording, {button}] of this.made) button.setAttribute('aria-pressed', String(recording === state.now.recording));
    const turn = (this.turn = {});
    this.fill(shown, turn);
  }

  /** The steps that the story names: since when the selected head does what it does at the end. Empty until its measures are read. */
  births() {
    const {kind, layer, head, run} = this.context.fitted();
    const curves = this.context.curves.ready(run);
    if (!curves || typeof head !== 'number') return [];
    const own = histories(curves).find((one) => one.kind === kind && one.layer === layer && one.head === head);
    return (own?.roles ?? []).filter(({birth}) => birth > 0).map(({birth}) => stepName(curves.steps[birth]));
  }

  arrange(shown, frame) {
    this.width = this.tiles.clientWidth;
    const height = this.element.clientHeight - 70;
    const shape = Math.min(Math.max(frame.rows.length / frame.columns.length, 0.4), 1.6);
    const size = fittingSize(shown.length, this.width, height, shape);
    const signature = JSON.stringify([shown, size, shape]);
    if (signature === this.signature) return;
    this.signature = signature;
    this.made = new Map(shown.map((recording) => [recording, this.tile(recording, size, Math.round(size * shape))]));
    this.tiles.replaceChildren(...[...this.made.values()].map(({button}) => button));
  }

  tile(recording, width, height) {
    const ratio = window.devicePixelRatio || 1;
    const canvas = element('canvas', {
      width: Math.round(width * ratio),
      height: Math.round(height * ratio),
      style: `width:${width}px;height:${height}px`,
    });
    const label = element('span', {class: 'step-label'}, recordingTitle(recording));
    const onclick = () => this.context.goToStep(stepOf(recording));
    return {button: element('button', {type: 'button', class: 'step-tile', onclick}, canvas, label), canvas, label};
  }

  async fill(shown, turn) {
    await Promise.all(
      shown.map(async (recording) => {
        const made = this.made.get(recording);
        try {
          const frame = await this.context.frameOf({recording});
          if (turn === this.turn) this.paint(made, frame, recording);
        } catch (error) {
          if (!(error instanceof Unavailable)) throw error;
          if (turn === this.turn) this.fail(made, recording, error.message);
        }
      }),
    );
  }

  paint({canvas, label, button}, frame, recording) {
    const {gamma, scale} = this.context.state.now;
    const table = colourTable(this.context.colours(), {difference: frame.difference, gamma});
    const painter = canvas.getContext('2d');
    const image = painter.createImageData(canvas.width, canvas.height);
    const matrix = {weights: frame.weights, columns: frame.columns.length, maximum: scaleMaximum(frame, scale), seen: reach(frame), table};
    paint(new Uint32Array(image.data.buffer), canvas.width, canvas.height, matrix);
    painter.putImageData(image, 0, 0);
    // The model may translate a probe anew at every step: such pictures are not maps of the same tokens.
    const otherText = sameTokens(this.frame.sample, {samples: [frame.sample]}, 0) < 0;
    label.textContent = recordingTitle(recording) + (otherText ? ' · different text' : '');
    button.title = frame.name;
    button.classList.remove('absent');
  }

  /** The tiles as laid out on the page: pictures with their labels. */
  svg() {
    const origin = this.tiles.getBoundingClientRect();
    const at = (node) => {
      const box = node.getBoundingClientRect();
      return {x: box.x - origin.x, y: box.y - origin.y, width: box.width, height: box.height};
    };
    const ink = getComputedStyle(this.tiles).color;
    const parts = [...this.made.values()].flatMap(({canvas, label}) => {
      const below = at(label);
      const text = {x: below.x + below.width / 2, y: below.y + 12, 'text-anchor': 'middle', 'font-size': 12, 'font-family': 'sans-serif'};
      return [svgElement('image', {...at(canvas), href: canvas.toDataURL()}), svgElement('text', {...text, fill: ink}, label.textContent)];
    });
    const [width, height] = [this.tiles.scrollWidth, this.tiles.scrollHeight];
    const xmlns = 'http://www.w3.org/2000/svg';
    return svgElement('svg', {xmlns, width, height, viewBox: `0 0 ${width} ${height}`}, svgElement('title', {}, this.frame.name), parts);
  }

  fail({canvas, label, button}, recording, message) {
    canvas.getContext('2d').clearRect(0, 0, canvas.width, canvas.height);
    label.textContent = `${recordingTitle(recording)}: cannot be shown`;
    button.title = message;
    button.classList.add('absent');
  }
}

/** What rows and columns of all pictures are. */
function axesOf({kind, rowsNamed, rows, columns, sample}) {
  const ends = (labels) => `“${labels[0].text}” to “${labels.at(-1).text}”`;
  const down = kind === 'encoder' ? sourceName(sample) : `each row ${rowsNamed}`;
  const across = kind === 'decoder' ? 'text' : sourceName(sample);
  return `Rows ↓ queries (${down}): ${ends(rows)}. Columns → keys (${across}): ${ends(columns)}.`;
}

/** At most `most` of the recordings, evenly spread, including the first and the last one. */
function thinned(all, most) {
  if (all.length <= most) return all;
  return Array.from({length: most}, (_, i) => all[Math.round((i * (all.length - 1)) / (most - 1))]);
}

/** The recordings `kept` with `one` of `all` instead of the nearest that is neither an end nor `needed`. */
function including(kept, all, one, needed) {
  if (kept.includes(one)) return kept;
  const distance = (other) => Math.abs(all.indexOf(other) - all.indexOf(one));
  const free = kept.slice(1, -1).filter((other) => !needed.includes(other));
  const nearest = free.reduce((best, other) => (distance(other) < distance(best) ? other : best));
  return kept.with(kept.indexOf(nearest), one).sort((a, b) => all.indexOf(a) - all.indexOf(b));
}

/** The largest width at which `count` pictures of a shape (height / width) fit without scrolling, else 96. */
function fittingSize(count, width, height, shape) {
  for (let columns = 1; columns <= count; columns++) {
    const size = Math.min(WIDEST, Math.floor((width - 4) / columns) - GAP);
    const rows = Math.ceil(count / columns);
    if (rows * (size * shape + 34) <= height) return Math.max(size, 60);
  }
  return 96;
}
