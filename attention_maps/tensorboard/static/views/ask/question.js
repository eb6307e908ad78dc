/** From the page to a question: the text of an example, the heads to remove, and the JSON that is sent. Pure functions. */

/** The text of a sample, {text, target}: of a translation, the source and the target. */
export function textsOf({reads, source}) {
  return source ? {text: textOf(source), target: textOf(reads)} : {text: textOf(reads), target: ''};
}

function textOf({pieces, special}) {
  const shown = pieces.filter((_, position) => !special[position]);
  return shown.join('').replaceAll('▁', ' ').replaceAll('↵', '\n').trim();
}

/** "cross.0.1,decoder.2.*" -> [{kind, layer, head}]; a head of * is a whole layer. */
export function headsIn(removed) {
  return removed
    .split(',')
    .filter(Boolean)
    .map((name) => {
      const [kind, layer, head] = name.split('.');
      return {kind, layer: Number(layer), head: head === '*' ? '*' : Number(head)};
    });
}

/** The inverse of headsIn. */
export function listed(heads) {
  return heads.map(({kind, layer, head}) => `${kind}.${layer}.${head}`).join(',');
}

/** The heads without which an answer was given, or which took their output from another text. */
export function headsOf({asked}) {
  return (asked?.patch?.heads ?? asked?.removed ?? []).map(([kind, layer, head]) => ({kind, layer, head: head ?? '*'}));
}

/** What replaced the output of these heads: zero, mean or other, a text. */
export function howOf({asked}) {
  return asked?.patch ? 'other' : (asked?.how ?? 'zero');
}

/** A list of heads with one more; a whole layer replaces its single heads. */
export function withHead(removed, {kind, layer, head}) {
  const same = (one) => one.kind === kind && one.layer === layer;
  const heads = headsIn(removed);
  if (heads.some((one) => same(one) && (one.head === head || one.head === '*'))) return removed;
  return listed([...heads.filter((one) => head !== '*' || !same(one)), {kind, layer, head}]);
}

const KINDS = {cross: 'cross-attention · ', encoder: 'encoder · ', decoder: 'decoder · '};

/** "layer 0 · cross-attention · head 1", as in the Prediction view; "layer 0 · all heads" of a decoder unless the model `translates`. */
export function headName({kind, layer, head}, translates = false) {
  const part = kind === 'decoder' && !translates ? '' : KINDS[kind];
  return `layer ${layer} · ${part}${head === '*' ? 'all heads' : `head ${head}`}`;
}

/** Whether a sample is translated in the other direction: then its source begins with a special token. */
export function isReversed({source}) {
  return source !== null && source.pieces.length > 1 && Boolean(source.special[0]);
}

/** How a text is written, as the state names it: settings of generate.py, without those that are off; wrong ones are sent, to be refused. */
export function decodingOf({temperature, top_p, top_k, seed, beam_size}, translates) {
  if (translates) return {beam_size};
  return temperature ? {temperature, ...(top_p !== 1 && {top_p}), ...(top_k !== 0 && {top_k}), seed} : {temperature};
}

/** What the state names to have a text written as that of an answer was, by its settings; null if nothing was written. */
export function stateOf(decoding) {
  if (!decoding?.temperature) return decoding?.beam_size ? decoding : decoding && {temperature: 0};
  return {...decoding, top_p: decoding.top_p ?? 1, top_k: decoding.top_k ?? 0};
}

/** "greedy", "beam of 4" or "temperature 0.8, top-p 0.9, seed 3". */
export function decodingText({temperature, top_p: topP, top_k: topK, seed, beam_size: beam}) {
  if (!temperature) return beam > 1 ? `beam of ${beam}` : 'greedy';
  const settings = Object.entries({temperature, 'top-p': topP, 'top-k': topK, seed}).filter(([, value]) => (value ?? null) !== null);
  return settings.map(([name, value]) => `${name} ${value}`).join(', ');
}

/**
 * The question to send: `state` names run, heads and decoding, `checkpoint` the weights; of a translation, `target` may be empty. `other` is the
 * text whose outputs replace those of the heads; a text cannot be continued with them.
 */
export function questionOf(state, checkpoint, sample, {text, target, reverse, count, other}) {
  const {run, removed, how} = state;
  const heads = headsIn(removed).map(({kind, layer, head}) => [kind, layer, head === '*' ? null : head]);
  const patch = how === 'other' && heads.length ? {text: other, heads} : null;
  const given = target.trim() !== '';
  const written = !given || patch; // the model translates the text or, for a patch, the other text
  const pair = {source: text, ...(given && {target}), ...(written && decodingOf(state, true)), ...(reverse && {reverse})};
  const texts = sample.source ? pair : {text, continue: patch ? 0 : count, ...(count > 0 && !patch && decodingOf(state, false))};
  if (patch) return {run, checkpoint, ...texts, patch};
  return {run, checkpoint, ...texts, removed: heads, how: how === 'other' ? 'zero' : how};
}
