/** The attention of all heads from one word to another at all recorded steps, in both rows of the first word. */

import {sameWord, shapesOf} from '../../core/frame.js';
import {loadLayer} from '../../core/load_frame.js';
import {loadPair} from '../../core/pairs.js';
import {strongestRival} from './rivals.js';

/**
 * {predicts, reads}: answers of pairs.js for the row that predicts the word in `row` and for the one that reads it, null without it; weights
 * are summed over `columns`.
 */
export async function loadWordPair({source, fitted}, frame, row, columns) {
  const place = {...fitted(), kind: frame.kind};
  const key = columns.flatMap((column) => frame.columns[column].positions);
  const rows = rowsOf(frame, row);
  const load = (query) => (query ? loadPair(source, place, query, key) : null);
  const [predicts, reads] = await Promise.all([load(rows.predicts), load(rows.reads)]);
  return {predicts, reads};
}

/** All maps of a kind of the example shown, at the recording shown or at another one: [{numbers, shape: [H,Q,K]} per layer]. */
export async function loadLayers({source, fitted}, kind, recording = fitted().recording) {
  const place = {...fitted(), kind, recording};
  const {layers} = shapesOf(await source.meta(place.run, recording), place.sample)[kind];
  return Promise.all(Array.from({length: layers}, (_, layer) => loadLayer(source, {...place, layer})));
}

/** The strongest of `rivals` of a ranked head, in the row in which its weight was found; see rivals.js. */
export function rivalOf({layer, head, rows}, frame, row, rivals, tensors) {
  return strongestRival(tensors[layer], head, rowsOf(frame, row)[rows], rivals, frame.columns);
}

/** The state of the map in which a ranked head links the words in `row` and `column`: that of the row in which its weight was found. */
export function mapOf({layer, head, rows}, frame, row, column) {
  const map = {view: 'map', kind: frame.kind, layer, head, token: `r${row}`, partner: `c${column}`};
  return frame.kind === 'encoder' ? map : {...map, rows, token: rows === frame.rowsNamed ? map.token : sameWord(map.token, rows)};
}

/** {predicts, reads}: query positions of the two rows of the word in `row`, which is predicted in the row before the one that reads it. */
export function rowsOf({kind, rows, rowsNamed, sample}, row) {
  const {positions} = rows[row];
  const at = rowsNamed === 'reads' ? positions[0] - 1 : positions.at(-1) + 1;
  const other = kind !== 'encoder' && at >= 0 && at < sample.reads.pieces.length ? [at] : null;
  return rowsNamed === 'reads' ? {predicts: other, reads: positions} : {predicts: positions, reads: other};
}
