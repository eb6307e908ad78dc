/** The overview of heads: a small map per layer and head, outlined and sortable by a measure; the selected one is marked. */

import {chooseHead, layerNumber, pooled, shapesOf, strongestColour} from '../core/frame.js';
import {meaningOf} from '../core/glossary.js';
import {measureAt, measureOf, measureText, namesAt, sortedMeasures} from '../core/measures.js';
import {element} from '../dom/elements.js';
import {explain} from '../dom/explain.js';
import {menu, segments} from '../dom/fields.js';
import {hideTooltip, showTooltip} from '../dom/tooltip.js';
import {colourTable, paint, reach} from '../draw/matrix_pixels.js';
import {headsOf} from './keyboard.js';

const NARROWEST = 26; // CSS pixels of a picture
const WIDEST = 92;
const NAMED = 46; // with the name inside the tile
const GAP = 4;
const EDGE = 22; // column of layer numbers
const ABSENT = 'not recorded here or not in the compared recording';
const TAGS = {
  'previous token': 'prev',
  'first token': 'first',
  diagonal: 'diag',
  uniform: 'unif',
  alignment: 'align',
  coreference: 'coref',
  induction: 'induct',
  'duplicate token': 'dupl',
};

/** {element, draw(frame, maps), clear()}: `maps` as from loadOverview; without arguments the last ones are drawn again. */
export function createHeadGrid(context) {
  const {state} = context;
  const score = menu('outline', (name) => state.set({measure: name}), meaningOf('outline'));
  const order = segments('order', {layer: 'by layer', score: 'by score'}, (name) => state.set({order: name}), meaningOf('by score'));
  const key = element('p', {class: 'grid-key'});
  const tiles = element('div', {class: 'tiles', role: 'group', 'aria-label': 'heads of all layers', onkeydown: byArrow});
  const panel = element(
    'section',
    {class: 'grid', hidden: true, 'aria-label': 'overview of heads'},
    element('div', {class: 'panel-head'}, element('h2', {}, 'Heads ', explain('outline')), score.element, order.element),
    tiles,
    key,
  );
  let built = ''; // signature of the current tiles
  let made = []; // {layer, head, button, canvas, tag}
  let last = null;

  function draw(frame, maps) {
    if (frame) last = {frame, maps, fitted: context.fitted(), meta: context.meta()};
    panel.hidden = !last;
    if (!last || !tiles.clientWidth) return;
    const {fitted, meta} = last;
    const measure = chooseMeasure(meta, fitted);
    arrange(meta, fitted, measure);
    paintTiles(last.frame, last.maps, fitted);
    markTiles(meta, fitted, measure);
  }

  /** The selected measure, or the first that heads of this kind have; undefined if they have none. */
  function chooseMeasure(meta, {kind}) {
    const names = sortedMeasures(Object.keys(meta.measures ?? {}).filter((name) => meta.measures[name][kind]));
    const {measure: wanted} = last.fitted;
    const measure = names.includes(wanted) ? wanted : names[0];
    score.element.hidden = order.element.hidden = !names.length;
    score.show(
      names.map((name) => ({value: name, text: measureOf(name).title})),
      measure,
    );
    order.show(state.now.order);
    key.textContent = names.length ? '' : 'This recording contains no measures of heads: it is of another program, or of an older version.';
    return measure;
  }

  function arrange(meta, fitted, measure) {
    const {layers} = shapesOf(meta, fitted.sample)[fitted.kind];
    const heads = headsOf(meta, fitted);
    const numbers = Array.from({length: layers}, (_, layer) => layerNumber(meta, fitted.kind, layer));
    const values = (layer, head) => measureAt(meta, measure, fitted.kind, layer, head);
    const byScore = state.now.order === 'score' && measure !== undefined;
    const places = [];
    for (let layer = 0; layer < layers; layer++) {
      for (const head of heads) if (head !== 'rollout' || layer === layers - 1) places.push({layer, head});
    }
    if (byScore) places.sort(byValue(values, measureOf(measure).first));
    const width = byScore ? Math.max(NAMED, tileWidth(heads.length)) : tileWidth(heads.length);
    const tall = Math.min(Math.max(last.frame.rows.length / last.frame.columns.length, 0.62), 1.25);
    const height = Math.round(width * tall);
    const signature = JSON.stringify([places, numbers, width, height, byScore]);
    if (signature === built) return;
    built = signature;
    const focused = tiles.contains(document.activeElement);
    made = places.map((place) => tile(place, numbers, width, height, byScore));
    tiles.className = byScore ? 'tiles by-score' : 'tiles';
    tiles.style.setProperty('--tile', `${width}px`);
    tiles.style.gridTemplateColumns = byScore ? '' : `${EDGE}px repeat(${heads.length}, auto)`;
    tiles.replaceChildren(...(byScore ? made.map(({button}) => button) : byLayer(made, heads, numbers)));
    if (focused) tiles.querySelector('[tabindex="0"]')?.focus();
  }

  /** Left and right move through the heads, as they are arranged. */
  function byArrow(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    const at = made.findIndex(({button}) => button === document.activeElement);
    if (!by || at < 0 || event.shiftKey) return;
    event.preventDefault(); // elsewhere these keys move through the steps
    const {layer, head} = made[Math.min(Math.max(at + by, 0), made.length - 1)];
    select(layer, head);
  }

  function select(layer, head) {
    state.set(head === 'rollout' ? {head} : {layer, head});
  }

  function tileWidth(columns) {
    const room = (tiles.clientWidth - EDGE - 4) / columns - GAP - 6; // 6: the borders of a tile
    return Math.floor(Math.min(Math.max(room, NARROWEST), WIDEST));
  }

  function tile({layer, head}, numbers, width, height, named) {
    const ratio = window.devicePixelRatio || 1;
    const canvas = element('canvas', {
      width: Math.round(width * ratio),
      height: Math.round(height * ratio),
      style: `width:${width}px;height:${height}px`,
    });
    const tag = element('span', {class: 'tag'});
    const name = typeof head === 'number' ? `head ${head}` : head;
    const number = numbers[layer];
    const button = element(
      'button',
      {
        type: 'button',
        class: 'tile',
        'aria-label': head === 'rollout' ? 'rollout of all layers' : `layer ${number} ${name}`,
        'data-layer': layer,
        'data-head': head,
        onclick: () => select(layer, head),
        onmouseleave: hideTooltip,
        onblur: hideTooltip,
        onmousemove: (event) => showTooltip(event, ...about(context, layer, head), button.classList.contains('absent') ? ABSENT : ''),
      },
      canvas,
      named ? element('span', {class: 'place'}, head === 'rollout' ? 'rollout' : `${number}·${head}`) : null,
      tag,
    );
    const painter = canvas.getContext('2d');
    return {layer, head, button, canvas, tag, painter, image: painter.createImageData(canvas.width, canvas.height)};
  }

  function paintTiles(frame, maps, {gamma, scale, hide}) {
    const groups = {rows: frame.rows.map(({positions}) => positions), columns: frame.columns.map(({positions}) => positions)};
    const width = frame.tokens.columns.pieces.length;
    const pool = (matrix) => pooled(matrix, width, groups.rows, groups.columns, hide).weights;
    const table = colourTable(context.colours(), {difference: frame.difference, gamma});
    const seen = reach(frame);
    for (const {layer, head, canvas, painter, image, button} of made) {
      const weights = difference(
        pool,
        matrixOf(maps, layer, head),
        frame.difference ? matrixOf(maps.others, layer, head) : null,
        frame.difference,
      );
      button.classList.toggle('absent', !weights);
      if (!weights) continue;
      const maximum = scale === 'one' ? 1 : strongestColour(weights, groups.rows, groups.columns, frame.causal);
      paint(new Uint32Array(image.data.buffer), canvas.width, canvas.height, {
        weights,
        columns: groups.columns.length,
        maximum,
        seen,
        table,
      });
      painter.putImageData(image, 0, 0);
    }
  }

  function markTiles(meta, {layer, head, kind}, measure) {
    const matrix = meta.measures?.[measure]?.[kind];
    const all = (matrix ?? []).flat().filter(Number.isFinite);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    tiles.classList.toggle('tagged', Boolean(meta.labels?.[kind])); // keeps room for labels, which may appear at later steps
    for (const one of made) {
      const chosen = one.head === head && (head === 'rollout' || one.layer === layer);
      one.button.setAttribute('aria-pressed', String(chosen));
      one.button.tabIndex = chosen ? 0 : -1;
      if (chosen && tiles.contains(document.activeElement)) one.button.focus();
      const value = measureAt(meta, measure, kind, one.layer, one.head);
      const share = high > low ? (value - low) / (high - low) : 0.5;
      const strength = Number.isFinite(value) ? (measureOf(measure).first === 'low' ? 1 - share : share) : 0;
      one.button.style.setProperty('--score', `${Math.round(100 * strength)}%`);
      one.tag.textContent = tagOf(namesAt(meta, kind, one.layer, one.head));
    }
    if (all.length) {
      const text = (value) => measureText(measure, value);
      const [strong, pale] = measureOf(measure).first === 'low' ? [low, high] : [high, low];
      key.textContent = `outline: ${measureOf(measure).title}, ${text(strong)} (strong) to ${text(pale)} (pale)`;
    }
  }

  function clear() {
    last = null;
    panel.hidden = true;
  }

  return {element: panel, draw, clear};
}

function byLayer(made, heads, numbers) {
  const title = (head) => element('span', {class: typeof head === 'number' ? 'edge' : 'edge pseudo'}, String(head));
  const nodes = [element('span', {class: 'edge corner'}), ...heads.map(title)];
  for (const [layer, number] of numbers.entries()) {
    nodes.push(element('span', {class: 'edge', title: `layer ${number}`}, `L${number}`));
    const row = made.filter((one) => one.layer === layer).map(({button}) => button);
    nodes.push(...row, ...Array.from({length: heads.length - row.length}, () => element('span')));
  }
  return nodes;
}

function byValue(values, first) {
  const sign = first === 'low' ? 1 : -1;
  const rank = ({layer, head}) => values(layer, head) ?? Infinity * sign;
  return (a, b) => {
    const [left, right] = [rank(a), rank(b)];
    return left === right ? 0 : sign * (left - right);
  };
}

/** The matrix of a tile, or null if this recording has none. */
function matrixOf(maps, layer, head) {
  if (head === 'rollout') return maps.rollout;
  const tensor = maps.layers[layer];
  return tensor && !(typeof head === 'number' && head >= tensor.shape[0]) ? chooseHead(tensor, head) : null;
}

function difference(pool, mine, other, compared) {
  if (!mine || (compared && !other)) return null;
  const weights = pool(mine);
  if (!compared) return weights;
  const subtracted = pool(other);
  for (let i = 0; i < weights.length; i++) weights[i] -= subtracted[i];
  return weights;
}

/** The label in a tile, where there is room for one name: a plus stands for a second one. */
function tagOf([name = '', other]) {
  return `${TAGS[name] ?? name}${other ? '+' : ''}`;
}

/** Tooltip lines of a head: name, label, all its measures. */
function about(context, layer, head) {
  const [meta, {kind}] = [context.meta(), context.fitted()];
  const name = typeof head === 'number' ? `head ${head}` : `${head} over heads`;
  const title = head === 'rollout' ? 'rollout of all layers' : `layer ${layerNumber(meta, kind, layer)} · ${name}`;
  const labels = namesAt(meta, kind, layer, head);
  const names = sortedMeasures(Object.keys(meta.measures ?? {}));
  const measured = names.map((name) => [name, measureAt(meta, name, kind, layer, head)]).filter(([, value]) => value !== null);
  return [
    title,
    ...labels.map((label) => `label: ${label} – ${meaningOf(label)}`),
    ...measured.map(([name, value]) => `${measureOf(name).title}: ${measureText(name, value)}`),
  ];
}
