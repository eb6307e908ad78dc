/**
 * Extracts word alignments from a frame and scores them against gold links. A link is {column, row}: indices of the frame's columns and
 * rows. Special tokens are skipped.
 */

/**
 * The links of a frame. `argmax`: the largest weight of each row. `mutual`: those that are also the largest of their column. `grown`:
 * mutual links plus adjacent ones that are largest on one side. `threshold`: every weight of at least that value. Weights of 0 are never
 * linked; of several equal weights, the first one is linked.
 */
export function readOut(frame, {readout = 'argmax', threshold = 0.2} = {}) {
  const rows = words(frame.rows);
  const columns = words(frame.columns);
  const weight = (row, column) => frame.weights[row * frame.columns.length + column] || 0; // NaN is no link
  const strongest = (candidates, of) => candidates.reduce((best, one) => (best === null || of(one) > of(best) ? one : best), null);
  const ofRow = new Map(rows.map((row) => [row, strongest(columns, (column) => weight(row, column))]));
  const ofColumn = new Map(columns.map((column) => [column, strongest(rows, (row) => weight(row, column))]));
  const chosen = {
    argmax: (row, column) => ofRow.get(row) === column,
    mutual: (row, column) => ofRow.get(row) === column && ofColumn.get(column) === row,
    either: (row, column) => ofRow.get(row) === column || ofColumn.get(column) === row,
    threshold: (row, column) => weight(row, column) >= threshold,
  };
  const links = (rule) =>
    rows.flatMap((row) => columns.filter((column) => weight(row, column) > 0 && rule(row, column)).map((column) => ({column, row})));
  return inOrder(readout === 'grown' ? grown(links(chosen.mutual), links(chosen.either), rows, columns) : links(chosen[readout]));
}

/**
 * grow-diag (Koehn et al. 2003), as in attention_maps/record/alignment_readout.py: repeatedly add candidates adjacent to a link, also
 * diagonally, whose row or column has no link yet. Passes go by rows; links added in a pass count as adjacent from the next pass on.
 * `rows` and `columns` are those of words.
 */
function grown(links, candidates, rows, columns) {
  const found = [...links];
  const [down, across] = [rows, columns].map((places) => new Map(places.map((place, i) => [place, i])));
  const touch = (a, b) => Math.abs(down.get(a.row) - down.get(b.row)) <= 1 && Math.abs(across.get(a.column) - across.get(b.column)) <= 1;
  for (;;) {
    const before = found.length;
    const taken = new Set(found.map(key));
    const touching = candidates.filter((one) => !taken.has(key(one)) && found.some((link) => touch(one, link)));
    for (const one of touching) {
      if (!found.some(({row}) => row === one.row) || !found.some(({column}) => column === one.column)) found.push(one);
    }
    if (found.length === before) return found;
  }
}

/** The gold links of this frame, null if the recording has none; links of tokens without a row are skipped. */
export function goldLinks(frame) {
  if (frame.kind !== 'cross' || !frame.sample.links?.length) return null;
  const rows = places(frame.rows);
  const columns = places(frame.columns);
  const found = new Map();
  for (const [source, target] of frame.sample.links) {
    const [column, row] = [columns.get(source), rows.get(target + 1 - ahead(frame))];
    if (column !== undefined && row !== undefined) found.set(key({column, row}), {column, row});
  }
  return inOrder([...found.values()]);
}

/** Links that are right, wrong (not gold) and missed (gold, not extracted), with precision, recall and alignment error rate, 0 to 1. */
export function judge(links, gold) {
  const wanted = new Set(gold.map(key));
  const found = new Set(links.map(key));
  const right = links.filter((link) => wanted.has(key(link)));
  return {
    right,
    wrong: links.filter((link) => !wanted.has(key(link))),
    missed: gold.filter((link) => !found.has(key(link))),
    precision: right.length / links.length,
    recall: right.length / gold.length,
    error: 1 - (2 * right.length) / (links.length + gold.length), // Och & Ney (2003), every gold link sure
  };
}

/** "0-0 1-2": source-target, counted from 0, the format of Pharaoh, GIZA++ and fast_align; the target is counted without its <s>. */
export function pharaoh(frame, links) {
  const [source, target] = [numbering(frame.columns), numbering(frame.rows)];
  const more = frame.kind === 'cross' && counted(frame.rows) ? ahead(frame) - 1 : 0;
  return links.map(({column, row}) => `${source[column]}-${target[row] + more}`).join(' ');
}

/** Offset from the token that a row reads to the token that labels it. */
export function ahead(frame) {
  return frame.rowsNamed === 'predicts' ? 1 : 0;
}

/** Numbers of labels: positions of tokens; for words a count without special tokens. */
function numbering(labels) {
  if (counted(labels)) return labels.map(({positions}) => positions[0]);
  let number = 0;
  return labels.map(({special}) => (special ? -1 : number++));
}

function counted(labels) {
  return labels.every(({positions}) => positions.length === 1);
}

/** Token position -> index of its label. */
export function places(labels) {
  return new Map(labels.flatMap(({positions}, place) => positions.map((position) => [position, place])));
}

function words(labels) {
  return [...labels.keys()].filter((place) => !labels[place].special);
}

function key({column, row}) {
  return `${column} ${row}`;
}

function inOrder(links) {
  return links.sort((a, b) => a.column - b.column || a.row - b.row);
}
