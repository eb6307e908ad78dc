/** The tokens of a frame as running text: two texts for cross-attention, otherwise one whose tokens are both rows and columns. */

import {sourceName} from '../../core/frame.js';
import {element} from '../../dom/elements.js';
import {ahead} from '../alignment/links.js';
import {pieceOf, tokenButton} from '../tokens.js';

/**
 * The texts of a frame, [{name, units}]. A unit is a token, {label, piece, row, column, places, target}: row and column are -1 if the frame
 * has none for it, `places` are its positions in its own text: the source, or the target as the decoder reads it.
 */
export function runningTexts(frame) {
  const target = frame.kind !== 'encoder';
  const rows = frame.rows.map((label, row) => {
    const places = label.positions.map((position) => position + ahead(frame));
    return {label, piece: pieceOf(label, frame.tokens.rows), row, column: -1, places, target};
  });
  const columns = frame.columns.map((label, column) => ({
    label,
    piece: pieceOf(label, frame.tokens.columns),
    row: -1,
    column,
    places: label.positions,
    target: frame.kind === 'decoder',
  }));
  if (frame.kind === 'cross')
    return [
      {name: 'source', units: columns},
      {name: `target, as each row ${frame.rowsNamed} it`, units: rows},
    ];
  const at = new Map(columns.map((unit) => [unit.places[0], unit]));
  const alone = rows.filter((unit) => {
    const column = at.get(unit.places[0]);
    if (column) column.row = unit.row;
    return !column;
  });
  return [{name: target ? 'text' : sourceName(frame.sample), units: [...columns, ...alone].sort((a, b) => a.places[0] - b.places[0])}];
}

/** The tokens as buttons, with the line breaks of the text. `idOf(unit)` is the value of state.token. */
export function runningTextElement({name, units}, idOf) {
  const tokens = units.flatMap((unit) => {
    const button = tokenButton(unit.label, idOf(unit), unit.piece);
    return unit.label.text.includes('↵') ? [button, element('br')] : [button];
  });
  return element('div', {class: 'passage'}, element('div', {class: 'caption'}, name), element('div', {class: 'passage-text'}, tokens));
}
