/** The maps of the selected head at up to twelve recorded steps, side by side, below the story. */

import {sourceName} from '../../core/frame.js';
import {sameTokens} from '../../core/load_frame.js';
import {recordingTitle, stepOf} from '../../core/recordings.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {colourTable, paint, reach, scaleMaximum} from '../../draw/matrix_pixels.js';

const MOST = 12;
const WIDTH = 200; // pixels of a picture; the page shows it smaller

export class Strip {
  constructor(context) {
    this.context = context;
    this.heading = element('h3');
    this.axes = element('p', {class: 'view-note'});
    this.tiles = element('div', {class: 'step-tiles'});
    this.element = element('section', {class: 'story-strip', 'aria-label': 'one head over the training'}, this.heading, this.axes, this.tiles);
  }

  /** Show the head of a frame; `named` are recordings that must be among the pictures: those that the story names. */
  draw(frame, named) {
    const {recordings, state} = this.context;
    const all = recordings.steps(state.now.run);
    const shown = chosen(all, named);
    this.element.hidden = !shown.length;
    this.frame = frame;
    this.heading.textContent = `${frame.name}, ${shown.length < all.length ? `${shown.length} of ${all.length}` : 'all'} recorded steps`;
    this.axes.textContent = axesOf(frame);
    const shape = Math.min(Math.max(frame.rows.length / frame.columns.length, 0.4), 1.6);
    const listed = JSON.stringify([shown, shape]);
    if (listed !== this.listed) {
      this.listed = listed;
      this.made = new Map(shown.map((recording) => [recording, this.tile(recording, shape)]));
      this.tiles.replaceChildren(...[...this.made.values()].map(({button}) => button));
    }
    for (const [recording, {button}] of this.made) button.setAttribute('aria-pressed', String(recording === state.now.recording));
    const turn = (this.turn = {});
    for (const recording of shown) this.fill(recording, turn);
  }

  tile(recording, shape) {
    const canvas = element('canvas', {width: WIDTH, height: Math.round(WIDTH * shape)});
    const label = element('span', {class: 'step-label'}, recordingTitle(recording));
    const onclick = () => this.context.goToStep(stepOf(recording));
    return {button: element('button', {type: 'button', class: 'step-tile', onclick}, canvas, label), canvas, label};
  }

  async fill(recording, turn) {
    const {button, canvas, label} = this.made.get(recording);
    try {
      const frame = await this.context.frameOf({recording});
      if (turn !== this.turn) return;
      this.paint(canvas, frame);
      // The model may translate a probe anew at every step: such pictures are not maps of the same tokens.
      const otherText = sameTokens(this.frame.sample, {samples: [frame.sample]}, 0) < 0;
      label.textContent = recordingTitle(recording) + (otherText ? ' · different text' : '');
      button.title = frame.name;
      button.classList.remove('absent');
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      if (turn !== this.turn) return;
      canvas.getContext('2d').clearRect(0, 0, canvas.width, canvas.height);
      label.textContent = `${recordingTitle(recording)}: cannot be shown`;
      button.title = error.message;
      button.classList.add('absent');
    }
  }

  paint(canvas, frame) {
    const {gamma, scale} = this.context.state.now;
    const painter = canvas.getContext('2d');
    const image = painter.createImageData(canvas.width, canvas.height);
    const table = colourTable(this.context.colours(), {gamma});
    const matrix = {weights: frame.weights, columns: frame.columns.length, maximum: scaleMaximum(frame, scale), seen: reach(frame), table};
    paint(new Uint32Array(image.data.buffer), canvas.width, canvas.height, matrix);
    painter.putImageData(image, 0, 0);
  }

  /** Draw the pictures with their labels as an SVG, six in a row from `top` on -> their height. */
  drawSvg(pen, top, {ink}) {
    const [across, size] = [6, 170];
    const drawn = [...(this.made?.values() ?? [])];
    if (!drawn.length || this.element.hidden) return 0;
    const height = (size * drawn[0].canvas.height) / drawn[0].canvas.width;
    pen.text(0, top + 10, this.heading.textContent, {size: 12, fill: ink, weight: 600});
    drawn.forEach(({canvas, label}, place) => {
      const [x, y] = [(place % across) * (size + 14), top + 26 + Math.floor(place / across) * (height + 30)];
      pen.image(x, y, size, height, canvas.toDataURL());
      pen.text(x, y + height + 11, label.textContent, {size: 11, fill: ink});
    });
    return 26 + Math.ceil(drawn.length / across) * (height + 30);
  }
}

/** What rows and columns of all pictures are. */
function axesOf({kind, rowsNamed, rows, columns, sample}) {
  const ends = (labels) => `“${labels[0].text}” to “${labels.at(-1).text}”`;
  const down = kind === 'encoder' ? sourceName(sample) : `each row ${rowsNamed}`;
  const across = kind === 'decoder' ? 'text' : sourceName(sample);
  return `Rows ↓ queries (${down}): ${ends(rows)}. Columns → keys (${across}): ${ends(columns)}. Click a picture to go to that step.`;
}

/** At most `MOST` of the recordings: the first, the last, those `named`, and others so that they are evenly spread. */
function chosen(all, named) {
  if (all.length <= MOST) return all;
  const even = Array.from({length: MOST}, (_, i) => Math.round((i * (all.length - 1)) / (MOST - 1)));
  const wanted = named.map((recording) => all.indexOf(recording)).filter((place) => place >= 0).slice(0, MOST - 2);
  for (const place of wanted) {
    if (even.includes(place)) continue;
    const free = even.slice(1, -1).filter((other) => !wanted.includes(other));
    const nearest = free.reduce((best, other) => (Math.abs(other - place) < Math.abs(best - place) ? other : best));
    even[even.indexOf(nearest)] = place;
    even.sort((a, b) => a - b);
  }
  return even.map((place) => all[place]);
}
