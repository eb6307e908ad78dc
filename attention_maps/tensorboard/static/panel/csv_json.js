/** A frame as CSV and JSON for other programs. */

/** RFC 4180: a header of keys, one line per query, labels in the first column; the attention to hidden special tokens in the last. */
export function csvOf(frame) {
  const width = frame.columns.length;
  const hidden = (value) => (frame.hidden ? [value] : []);
  const header = [frame.rowsNamed, ...frame.columns.map(({text}) => text), ...hidden('(hidden)')];
  const weights = (row) => Array.from(frame.weights.subarray(row * width, (row + 1) * width), plain);
  const lines = frame.rows.map(({text}, row) => [text, ...weights(row), ...hidden(plain(frame.hidden?.[row]))]);
  return [header, ...lines].map((cells) => cells.map(quoted).join(',')).join('\r\n') + '\r\n';
}

/** The weights, a row on each line, with all that identifies them. `place` names run, recording and sample. */
export function jsonOf(frame, place, state) {
  const width = frame.columns.length;
  const token = ({text, special, positions}) => ({text, special, positions});
  const content = {
    format: 'chumoku-attention-map',
    run: place.run,
    recording: place.recording,
    step: frame.meta.step,
    sample: {number: place.sample, name: frame.sample.name},
    map: frame.name,
    kind: frame.kind,
    layer: frame.head === 'rollout' ? null : frame.layer,
    head: frame.head,
    minus: frame.difference ? state.against : null,
    rows_named_by: frame.rowsNamed,
    weighed_by_values: frame.weighted,
    special_tokens_hidden: state.hide,
    hidden_share: frame.hidden && Array.from(frame.hidden, number),
    queries: frame.rows.map(token),
    keys: frame.columns.map(token),
    weights: frame.rows.map((_, row) => Array.from(frame.weights.subarray(row * width, (row + 1) * width), number)),
  };
  return `{\n${Object.entries(content).map(entry).join(',\n')}\n}\n`;
}

/** A key with its value; lists of lists or objects are written an item per line. */
function entry([key, value]) {
  const long = Array.isArray(value) && typeof value[0] === 'object';
  const text = long ? `[\n  ${value.map((item) => JSON.stringify(item)).join(',\n  ')}\n ]` : JSON.stringify(value);
  return ` ${JSON.stringify(key)}: ${text}`;
}

/** Seven digits distinguish all float16 values and their means. */
function plain(weight) {
  return Number.isFinite(weight) ? String(number(weight)) : 'nan';
}

/** Null for NaN and infinity, which JSON does not have. */
function number(weight) {
  return Number.isFinite(weight) ? Number(weight.toPrecision(7)) : null;
}

function quoted(cell) {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
