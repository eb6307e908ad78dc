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
  const {model, data: {limits}} = checkpoint;
  const most = limits.most_matches;
  checkpoint.headsOf([[kind, layer, head]]);
  const read = kind === 'encoder' ? source : target;
  const seen = kind === 'decoder' ? target : source;
  if (token !== null && !read.matches(token, most).length && !seen.matches(token, most).length) {
    throw new Refusal(`no token of the vocabulary begins with '${token}'`);
  }
  const {attends, writes} = circuits(model, question, source.ids, target.ids);
  const square = kind === 'decoder';
  const written = writes && described(writes, seen, target, token, limits, square);
  return {
    checkpoint: checkpoint.name,
    step: checkpoint.step,
    rotary: model.config.position === 'rotary' && kind !== 'cross',
    attends: described(attends, read, seen, token, limits).answer,
    writes: written && written.answer,
    copying: square ? rounded(writes.sumOfEigenvalues(), 4) : null,
    own: square ? rounded(written.onDiagonal, 4) : null,
  };
}

/** {answer: a table and its strongest pairs, onDiagonal: see `TokenTable.survey`; it is always there if `surveyed`}. */
function described(table, rows, columns, token, limits, surveyed = false) {
  if (token !== null) {
    const [first, second] = [rows.matches(token, limits.most_matches), columns.matches(token, limits.most_matches)];
    const [allRows, allColumns] = [[...rows.ids.keys()], [...columns.ids.keys()]];
    const strongest = (some, others) => strongestOf(table, rows, columns, some, others, limits.pairs_of_a_token);
    const answer = {table: null, from_token: strongest(first, allColumns), to_token: strongest(allRows, second)};
    return {answer, ...(surveyed && {onDiagonal: table.survey(1).onDiagonal})};
  }
  const {strongest, onDiagonal} = table.survey(limits.pairs);
  const pairs = strongest.map(([row, column, value]) => [rows.pieces[row], columns.pieces[column], rounded(value, 3)]);
  const isSmall = Math.max(rows.ids.length, columns.ids.length) <= limits.largest_table;
  return {answer: {table: isSmall ? wholeTable(table, rows, columns) : null, pairs}, onDiagonal};
}

/** The strongest pairs of some rows and columns, with their pieces. */
function strongestOf(table, rows, columns, some, others, count) {
  if (!some.length || !others.length) return [];
  return table
    .part(some, others)
    .survey(count)
    .strongest.map(([row, column, value]) => [rows.pieces[some[row]], columns.pieces[others[column]], rounded(value, 3)]);
}

function wholeTable(table, rows, columns) {
  const [values, width] = [table.values(), columns.ids.length];
  const row = (number) => Array.from(values.subarray(number * width, (number + 1) * width), (value) => rounded(value, 3));
  return {rows: rows.pieces, columns: columns.pieces, values: rows.pieces.map((_, number) => row(number))};
}
