/** What is shown, the first part of the bar at the top: run, example, kind of attention, head. */

import {readable} from '../core/format.js';
import {KIND_NAMES, KINDS, layerNumber, shapesOf} from '../core/frame.js';
import {sameTokens} from '../core/load_frame.js';
import {namesAt} from '../core/measures.js';
import {recordingTitle} from '../core/recordings.js';
import {Unavailable} from '../core/unavailable.js';
import {menu, segments} from '../dom/fields.js';
import {searchableList} from '../dom/searchable_list.js';
import {selectionIn} from './kept_selection.js';
import {headsOf} from './keyboard.js';

const [LENGTH, BEGINNING] = [40, 12]; // characters of an example in the list, and those before the gap
const DIRECTIONS = {encoder: 'each token attends to all tokens', decoder: 'each token attends to earlier ones', cross: 'target attends to source'};
const OWN = 'To follow your own sentences, train with attention.probes=\'["Emi likes apples."]\'';

/** {elements, update()}. */
export function createControls(context) {
  const {state, recordings} = context;
  const run = searchableList('run', (name) => toRun(context, name, () => run.chosen() === name));
  const toSample = (number) => state.set({sample: number, ...selectionIn(context.fitted(), context.meta(), number, state.now.token)});
  const sample = menu('example', (number) => toSample(Number(number)));
  const toKind = (name) => state.set({kind: name, token: null, partner: ''});
  const kind = segments('attention', Object.fromEntries(KINDS.map((name) => [name, name])), toKind);
  const head = menu('head', (place) => state.set(placeIn(place)));

  function update() {
    const {now} = state;
    run.show([...recordings.runs.keys()].map((name) => runOption(recordings, name)), now.run);
    const meta = context.meta();
    for (const field of [sample, kind, head]) field.element.hidden = !meta;
    if (!meta) return;
    const fitted = context.fitted();
    sample.show(
      meta.samples.map((one, number) => ({value: number, text: sampleTitle(one, number)})),
      fitted.sample,
    );
    sample.select.title = meta.samples.some(({name}) => name.startsWith('probe')) ? '' : OWN;
    const shapes = shapesOf(meta, fitted.sample);
    for (const button of kind.buttons) {
      button.hidden = !shapes[button.value];
      button.title = shapes[button.value] ? aboutKind(button.value, shapes[button.value]) : '';
    }
    kind.element.hidden = Object.keys(shapes).length < 2;
    kind.show(fitted.kind);
    head.show(headOptions(meta, fitted), fitted.head === 'rollout' ? 'rollout' : `${fitted.layer} ${fitted.head}`);
  }

  return {elements: [run, sample, kind, head].map((field) => field.element), update};
}

/** The heads of a kind with their labels, by layer. */
function headOptions(meta, fitted) {
  const {kind} = fitted;
  const {layers} = shapesOf(meta, fitted.sample)[kind];
  const ofLayer = headsOf(meta, fitted).filter((head) => head !== 'rollout');
  const option = (layer, head) => {
    const label = namesAt(meta, kind, layer, head).join(', ');
    const name = typeof head === 'number' ? `head ${head}` : head;
    return {value: `${layer} ${head}`, text: `layer ${layerNumber(meta, kind, layer)} · ${name}${label && ` (${label})`}`};
  };
  const all = Array.from({length: layers}, (_, layer) => ofLayer.map((head) => option(layer, head))).flat();
  return kind === 'cross' ? all : [...all, {value: 'rollout', text: 'rollout'}];
}

/** "0 2", "0 mean" or "rollout" as a state. */
function placeIn(value) {
  const [layer, head] = value.split(' ');
  return value === 'rollout' ? {head: value} : {layer: Number(layer), head: /^\d+$/.test(head) ? Number(head) : head};
}

/** "probe 1 · Emi prefers … less acidic. (sample 0)": the name, the text, and the number that `show` and `export` take. */
function sampleTitle(sample, number) {
  const {pieces, special} = sample.source ?? sample.reads;
  const text = pieces
    .filter((_, position) => !special[position])
    .map((piece) => piece.replaceAll('▁', ' '))
    .join('')
    .trim();
  const named = sample.name ? ` (sample ${number})` : '';
  return [sample.name || `sample ${number}`, readable(shortened(text)) + named, cut(sample)].filter(Boolean).join(' · ');
}

/** The two ends of a text that is too long: probes often begin alike. */
function shortened(text) {
  const characters = [...text];
  if (characters.length <= LENGTH) return text;
  const beginning = characters.slice(0, BEGINNING).join('').replace(/\s+\S*$/, '');
  const end = characters.slice(BEGINNING - LENGTH).join('').replace(/^\S*\s+/, '');
  return `${beginning} … ${end}`;
}

/** "first 128 of 300 tokens" for an example of which only the beginning was recorded, else ''. */
export function cut({reads, source, length, source_length: sourceLength, truncated}) {
  if (!truncated) return '';
  const parts = [];
  if (length > reads.pieces.length) parts.push(`first ${reads.pieces.length} of ${length} tokens`);
  if (source && sourceLength > source.pieces.length) parts.push(`source: first ${source.pieces.length} of ${sourceLength} tokens`);
  return parts.join(', ') || 'truncated';
}

/**
 * Switch to another run at the step nearest to the current one (from the latest step to the latest step), and to the example with the same
 * tokens. Does nothing if another run was selected meanwhile.
 */
async function toRun({state, source, recordings, meta}, name, isWanted) {
  const ended = state.now.recording === recordings.latest(state.now.run);
  const {run, recording} = recordings.settle({run: name, recording: ended ? recordings.latest(name) : state.now.recording});
  let {sample} = state.now;
  let word = {token: null, partner: ''}; // the selected words, kept in the same text
  try {
    const here = meta()?.samples; // missing if nothing is drawn
    const found = here ? sameTokens(here[sample] ?? here[0], await source.meta(run, recording), sample) : -1;
    if (found >= 0) {
      sample = found;
      word = {token: state.now.token, partner: state.now.partner};
    }
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error; // reported when the page draws
  }
  if (!isWanted()) return;
  state.set({run, recording, sample, ...word, removed: '', against: ''});
}

/** An entry of the list of runs: its name below that of its folder, and its newest recording. */
function runOption(recordings, name) {
  if (name === '.') return {value: name, text: '. (the log directory itself)', detail: recordingTitle(recordings.latest(name))};
  const end = name.lastIndexOf('/');
  const detail = recordingTitle(recordings.latest(name));
  return {value: name, text: name, group: name.slice(0, Math.max(end, 0)), short: name.slice(end + 1), detail};
}

function aboutKind(kind, {layers, heads}) {
  const size = `${layers} ${layers === 1 ? 'layer' : 'layers'} of ${heads} ${heads === 1 ? 'head' : 'heads'}`;
  return `${KIND_NAMES[kind]}: ${DIRECTIONS[kind]}; ${size}`;
}
