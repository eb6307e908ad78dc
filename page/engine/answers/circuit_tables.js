/** QK and OV circuits of a head for the tab: whole tables of small vocabularies, the strongest pairs of others; tab_answers/circuits.py. */

import {circuits} from './circuits.js';
import {rounded} from './numbers.js';
import {Refusal} from './refusal.js';
import {caseFolded, stripped} from './text.js';

/** The tokens of one side that stand for text of its language. */
class Side {
  /** leftOut: ids of special tokens, bytes and tokens in the script of the other side. */
  constructor(tokenizer, leftOut) {
    const excluded = new Set(leftOut);
    this.ids = Array.from({length: tokenizer.vocabSize}, (_, id) => id).filter((id) => !excluded.has(id));
    this.pieces = tokenizer.pieces(this.ids);
  }

  /** The places of the tokens that are the text, with or without a space before it; if there are none, of those that begin with it. */
  matches(text, most) {
    const plain = this.pieces.map((piece) => piece.replace(/^[▁ ]+|[▁ ]+$/g, ''));
    const places = (isWanted) => plain.flatMap((piece, place) => (isWanted(piece) ? [place] : []));
    const [same, start] = [stripped(text), caseFolded(stripped(text))];
    const equal = places((piece) => piece === same);
    return (equal.length ? equal : places((piece) => caseFolded(piece).startsWith(start))).slice(0, most);
  }
}

/** The sides of a run, [source, target]; of a GPT, the same twice. */
export function sidesOf(tokenizers, leftOut) {
  const sides = leftOut.map((ids, number) => new Side(number ? tokenizers.at(-1) : tokenizers[0], ids));
  return [sides[0], sides.at(-1)];
}

/**
 * The answer to a question {kind, layer, head, distance, token}. `attends` and `writes` (null in an encoder) each hold `table` {rows, columns,
 * values} or null, and lists of pairs [row piece, column piece, value]: `pairs`, or with a token `from_token` and `to_token`. Throws Refusal.
 */
export function circuitTables(question, checkpoint, [source, target]) {
  const {kind, layer, head, token} = question;
  const {model, data} = checkpoint;
  const {limits} = data;
  checkpoint.headsOf([[kind, layer, head]]);
  const read = kind === 'encoder' ? source : target;
  const seen = kind === 'decoder' ? target : source;
  const isKnown = (side) => side.matches(token, limits.most_matches).length > 0;
  if (token !== null && !isKnown(read) && !isKnown(seen)) throw new Refusal(`no token of the vocabulary begins with '${token}'`);
  const {attends, writes} = circuits(model, question, source.ids, target.ids);
  const square = kind === 'decoder';
  const all = token === null;
  const [attending, writing] = [all && attends.survey(limits.pairs), writes && (all || square) && writes.survey(limits.pairs)];
  const described = (table, survey, rows, columns) =>
    all ? strongestOfAll(table, survey.strongest, rows, columns, limits) : strongestOfToken(table, rows, columns, token, limits);
  return {
    checkpoint: checkpoint.name,
    step: checkpoint.step,
    rotary: model.config.position === 'rotary' && kind !== 'cross',
    attends: described(attends, attending, read, seen),
    writes: writes && described(writes, writing, seen, target),
    copying: square ? rounded(writes.sumOfEigenvalues(), 4) : null,
    own: square ? rounded(writing.onDiagonal, 4) : null,
  };
}

/** The strongest pairs of a table, and the table itself if it is small. */
function strongestOfAll(table, strongest, rows, columns, {largest_table: largest}) {
  const isSmall = Math.max(rows.ids.length, columns.ids.length) <= largest;
  return {table: isSmall ? wholeTable(table, rows, columns) : null, pairs: named(strongest, rows.pieces, columns.pieces)};
}

/** The strongest pairs of the rows and of the columns that a token stands for. */
function strongestOfToken(table, rows, columns, token, {most_matches: most, pairs_of_a_token: count}) {
  const strongest = (some, others) => {
    if (!some.length || !others.length) return [];
    const [rowPieces, columnPieces] = [some.map((place) => rows.pieces[place]), others.map((place) => columns.pieces[place])];
    return named(table.part(some, others).survey(count).strongest, rowPieces, columnPieces);
  };
  const [allRows, allColumns] = [rows, columns].map(({ids}) => [...ids.keys()]);
  const [first, second] = [rows, columns].map((side) => side.matches(token, most));
  return {table: null, from_token: strongest(first, allColumns), to_token: strongest(allRows, second)};
}

/** Entries [row, column, value] with pieces for row and column. */
function named(entries, rowPieces, columnPieces) {
  return entries.map(([row, column, value]) => [rowPieces[row], columnPieces[column], rounded(value, 3)]);
}

function wholeTable(table, rows, columns) {
  const [values, width] = [table.values(), columns.ids.length];
  const row = (number) => Array.from(values.subarray(number * width, (number + 1) * width), (value) => rounded(value, 3));
  return {rows: rows.pieces, columns: columns.pieces, values: rows.pieces.map((_, number) => row(number))};
}
