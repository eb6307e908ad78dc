/** Keyboard shortcuts. */

import {shapesOf} from '../core/frame.js';

/** [keys, what they do], for the list of keys. */
export const KEYS = [
  ['space', 'play, pause'],
  ['←  →', 'previous, next step'],
  ['Home  End', 'first, last step'],
  ['↑  ↓', 'previous, next layer'],
  ['[  ]', 'previous, next head (after the last head: mean, maximum, rollout)'],
  ['←  → on a picture', 'the head to the left, to the right'],
  ['shift + arrows', 'select the adjacent row or column'],
  ['Esc', 'clear the selection'],
  ['+  −  0', 'zoom in, zoom out, fit the map to the window'],
  ['?', 'this help'],
];

/** Heads in the order of the overview: numbers, then mean, max and, for self-attention, rollout. */
export function headsOf(meta, {sample, kind}) {
  const {heads} = shapesOf(meta, sample)[kind];
  return [...Array(heads).keys(), 'mean', 'max', ...(kind === 'cross' ? [] : ['rollout'])];
}

/** Handle the keys. `timeline` moves through the steps, `frame()` is what is drawn, `zoom(by)` takes '+', '-' or '0'. */
export function listenToKeys(context, {timeline, frame, zoom, help}) {
  const {state} = context;
  const layer = (by) => {
    if (!frame()) return;
    const {layer: now, kind, sample} = context.fitted();
    const {layers} = shapesOf(context.meta(), sample)[kind];
    state.set({layer: Math.min(Math.max(now + by, 0), layers - 1)});
  };
  const head = (by) => {
    if (!frame()) return;
    const heads = headsOf(context.meta(), context.fitted());
    state.set({head: heads[Math.min(Math.max(heads.indexOf(context.fitted().head) + by, 0), heads.length - 1)]});
  };
  const token = (axis, by) => {
    if (!frame()) return;
    const count = frame()[axis === 'r' ? 'rows' : 'columns'].length;
    const {token: chosen} = state.selected;
    const now = chosen.startsWith(axis) ? Number(chosen.slice(1)) : by > 0 ? -1 : count;
    state.set({token: axis + Math.min(Math.max(now + by, 0), count - 1)});
  };
  const actions = {
    ' ': () => timeline.play(),
    ArrowLeft: () => timeline.move(-1),
    ArrowRight: () => timeline.move(1),
    Home: () => timeline.jump('first'),
    End: () => timeline.jump('last'),
    ArrowUp: () => layer(-1),
    ArrowDown: () => layer(1),
    '[': () => head(-1),
    ']': () => head(1),
    '+': () => zoom('+'),
    '=': () => zoom('+'),
    '-': () => zoom('-'),
    0: () => zoom('0'),
    Escape: () => state.set({token: ''}),
    '?': help,
  };
  const shifted = {
    ArrowUp: () => token('r', -1),
    ArrowDown: () => token('r', 1),
    ArrowLeft: () => token('c', -1),
    ArrowRight: () => token('c', 1),
  };
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTaken(event, timeline)) return;
    const action = (event.shiftKey && shifted[event.key]) || actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** Whether the focused control handles the key itself. */
function isTaken({key, target}, timeline) {
  if (document.querySelector('dialog[open]')) return true;
  if (target === timeline.slider) return false;
  if (target.closest('select, textarea, input:not([type=checkbox])')) return true;
  // A selected tile or tab does nothing on space; other buttons and checkboxes do.
  return key === ' ' && Boolean(target.closest('input, summary, a, button:not([aria-selected=true], .tile)'));
}
