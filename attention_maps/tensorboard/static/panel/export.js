/** Export of the current view: SVG, PNG, CSV, JSON and Pharaoh downloads through blob links, and a link to the view. */

import {layerNumber} from '../core/frame.js';
import {copyText} from '../dom/clipboard.js';
import {element} from '../dom/elements.js';
import {inksOf} from '../draw/colours.js';
import {pharaoh, readOut} from '../views/alignment/links.js';
import {heatMapSvg} from '../views/map/svg.js';
import {csvOf, jsonOf} from './csv_json.js';

const PIXELS = 100e6; // limit of browsers
const SHARPNESS = 2;

/**
 * The export buttons. `currentView()` returns the view (the result of its `create`), `currentFrame()` the frame that it draws.
 */
export function createExport(context, currentView, currentFrame) {
  const answer = element('span', {class: 'export-answer', role: 'status'});
  const buttons = EXPORTS.map(([name, title, act]) => {
    const onclick = async () => {
      const frame = currentFrame();
      if (!frame) return (answer.textContent = 'there is no map to save');
      answer.textContent = '';
      enable(false); // a browser lets a page save one file per click
      try {
        answer.textContent = (await act({context, view: currentView(), frame, names: new Names(context, frame)})) ?? '';
      } catch (error) {
        answer.textContent = `${name}: ${error.message}`;
      } finally {
        enable(true);
      }
    };
    return element('button', {type: 'button', title, onclick}, name);
  });
  const enable = (enabled) => buttons.forEach((button) => (button.disabled = !enabled));
  return element('div', {class: 'export', role: 'group', 'aria-label': 'export'}, answer, buttons);
}

const EXPORTS = [
  ['SVG', 'This view as a vector graphic', saveSvg],
  ['PNG', 'This view as a picture at twice the size', savePng],
  ['CSV', 'The weights of this map as a table', saveCsv],
  ['JSON', 'The weights of this map with their tokens', saveJson],
  ['Pharaoh', 'Word alignment extracted from this map, with the settings of the alignment view', savePharaoh],
  ['copy link', 'Copy a link to exactly this view', copyLink],
];

function saveSvg(request) {
  const {svg, name} = drawingOf(request);
  save(textOf(svg), 'image/svg+xml', request.names.file('svg', name));
}

async function savePng(request) {
  const {svg, name} = drawingOf(request);
  save(await pngOf(svg), 'image/png', request.names.file('png', name));
}

/** With a byte order mark: without it, spreadsheets do not read UTF-8. */
function saveCsv({frame, names}) {
  save(`\ufeff${csvOf(frame)}`, 'text/csv;charset=utf-8', names.file('csv'));
}

function saveJson({context, frame, names}) {
  save(jsonOf(frame, names.place, context.state.now), 'application/json', names.file('json'));
}

async function savePharaoh({context, view, frame, names}) {
  const {readout, threshold} = context.state.now;
  let text = view?.pharaoh?.();
  if (text === undefined) {
    const alone = frame.difference ? await context.frameOf({against: ''}) : frame;
    text = pharaoh(alone, readOut(alone, {readout, threshold}));
  }
  save(`${text}\n`, 'text/plain;charset=utf-8', names.file('txt', readout));
}

async function copyLink({context}) {
  return (await copyText(context.state.address)) ? 'link copied' : 'copy the link from the address bar';
}

/** Titles and file names that identify a frame; without '=' and ',', because other tools split at them. */
class Names {
  constructor({state, fitted}, frame) {
    this.frame = frame;
    this.state = state.now;
    const {run, recording, sample} = fitted();
    this.place = {run, recording, sample};
  }

  /** The title of a picture: "run · step 1000 · probe 1". */
  get title() {
    const {run} = this.place;
    const minus = this.frame.difference ? ` · minus ${this.state.against.replace(':', ' ')}` : '';
    return [run, `step ${this.frame.meta.step}`, this.frame.sample.name].filter(Boolean).join(' · ') + minus;
  }

  file(suffix, view = '') {
    const {kind, layer, head, difference} = this.frame;
    const {run, recording, sample} = this.place;
    const number = layerNumber(this.frame.meta, kind, layer);
    const where = head === 'rollout' ? 'rollout' : `layer${number}_${typeof head === 'number' ? `head${head}` : head}`;
    const parts = [
      run === '.' ? 'logdir' : run,
      recording,
      `sample${sample}`,
      kind,
      where,
      difference && `minus_${this.state.against}`,
      view,
    ];
    return `${parts
      .filter(Boolean)
      .join('_')
      .replace(/[^\p{L}\p{N}_.-]+/gu, '-')}.${suffix}`;
  }
}

/** The view as SVG, {svg, name}; the heat map for a view that cannot draw itself. */
function drawingOf({context, view, frame, names}) {
  const {now} = context.state;
  const own = view?.svg?.(frame);
  if (own) return {svg: own, name: now.view};
  return {svg: heatMapSvg(frame, context.colours(), now, inksOf(document.body), names.title), name: 'map'};
}

function textOf(svg) {
  return typeof svg === 'string' ? svg : new XMLSerializer().serializeToString(svg);
}

/** An SVG as a PNG of twice its size, or smaller if that exceeds the limit of browsers. */
async function pngOf(svg) {
  const url = URL.createObjectURL(new Blob([textOf(svg)], {type: 'image/svg+xml'}));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const {naturalWidth: width, naturalHeight: height} = image;
    const sharpness = Math.min(SHARPNESS, Math.sqrt(PIXELS / (width * height)));
    const canvas = new OffscreenCanvas(Math.round(width * sharpness), Math.round(height * sharpness));
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return await canvas.convertToBlob({type: 'image/png'});
  } finally {
    URL.revokeObjectURL(url);
  }
}

function save(content, type, name) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  const link = element('a', {href: url, download: name, hidden: true});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000); // the browser may still be reading it
}
