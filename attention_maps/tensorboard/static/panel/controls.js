/** The bar at the top: run, example, kind of attention, comparison and display options. */

import {readable} from '../core/format.js';
import {meaningOf} from '../core/glossary.js';
import {KIND_NAMES, KINDS, rowsNamed, sameWord, shapesOf} from '../core/frame.js';
import {sameTokens} from '../core/load_frame.js';
import {recordingTitle} from '../core/recordings.js';
import {Unavailable} from '../core/source.js';
import {element} from '../dom/elements.js';
import {menu, segments, slider, tick} from '../dom/fields.js';
import {fold} from '../dom/fold.js';
import {searchableList} from '../dom/searchable_list.js';
import {createComparisons} from './comparisons.js';
import {selectionIn} from './kept_selection.js';

const [LENGTH, BEGINNING] = [40, 12]; // characters of an example in the list, and those before the gap
const DIRECTIONS = {encoder: 'each token attends to all tokens', decoder: 'each token attends to earlier ones', cross: 'target attends to source'};
const ROWS = 'Each row belongs to two tokens: the one that the model reads and the one that it predicts next. For alignment use “predicts”';
const HIDE =
  'Hide <s>, </s> and other special tokens; rows are renormalised to sum to 1, and the hidden attention is shown next to each row';
const MERGE = 'Weights are summed over the pieces of a key word and averaged over the pieces of a query word';
const OWN = 'To follow your own sentences, train with attention.probes=\'["Emi likes apples."]\'';
const VALUES = 'Weight times the norm of the value vector (Kobayashi et al. 2020); rows are renormalised to sum to 1';

/** {element, update()}. */
export function createControls(context) {
  const {state, recordings} = context;
  const run = searchableList('run', (name) => toRun(context, name, () => run.chosen() === name));
  const toSample = (number) => state.set({sample: number, ...selectionIn(context.fitted(), context.meta(), number)});
  const sample = menu('example', (number) => toSample(Number(number)));
  const kind = segments('attention', Object.fromEntries(KINDS.map((name) => [name, name])), (name) => state.set({kind: name, token: '', partner: ''}));
  const relabel = (name) => {
    const fitted = context.fitted();
    if (name !== rowsNamed(fitted, fitted.kind)) state.set({rows: name, token: sameWord(state.now.token, name)});
  };
  const rows = segments('rows labelled by', {reads: 'reads', predicts: 'predicts'}, relabel, ROWS);
  const against = createComparisons(context);
  const hide = tick('hide special tokens', (checked) => state.set({hide: checked, token: '', partner: ''}), HIDE);
  const merge = tick('merge pieces to words', (checked) => state.set({merge: checked, token: '', partner: ''}), MERGE);
  const values = tick('weight by value norms', (checked) => state.set({values: checked}), VALUES);
  const pickScale = (name) => state.set({scale: name});
  const scale = segments('strongest colour', {map: 'maximum of the map', one: '1'}, pickScale, meaningOf('strongest colour'));
  const gamma = slider(
    'gamma',
    {min: 0.2, max: 2, step: 0.05},
    (value) => value.toFixed(2),
    (value) => state.set({gamma: value}),
    meaningOf('gamma'),
  );
  const line = (...children) => element('div', {class: 'controls-line'}, children);
  const bar = element(
    'header',
    {class: 'controls'},
    line(run.element, sample.element, kind.element, rows.element),
    fold('display options', line(hide.element, merge.element, values.element, scale.element, gamma.element, against.element)),
  );

  function update() {
    const now = state.now;
    run.show([...recordings.runs.keys()].map((name) => runOption(recordings, name)), now.run);
    against.show();
    hide.show(now.hide);
    merge.show(now.merge);
    values.show(now.values);
    values.box.disabled = now.head === 'rollout';
    scale.show(now.scale);
    gamma.show(now.gamma);
    const meta = context.meta();
    for (const field of [sample, kind, rows]) field.element.hidden = !meta;
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
    kind.show(fitted.kind);
    rows.element.classList.toggle('absent', fitted.kind === 'encoder' || now.view === 'pair'); // a pair has both rows
    rows.show(rowsNamed(fitted, fitted.kind));
  }

  return {element: bar, update};
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
  let word = {token: '', partner: ''}; // the selected words, kept in the same text
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
