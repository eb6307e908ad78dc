/** Tokens as buttons, in a column or as running text: selection by mouse and keyboard, and drawing into an SVG. */

import {element} from '../dom/elements.js';

/**
 * A button for a label of a frame. `id` is the value of state.token: r3, c5. `piece` is the raw piece, whose ▁ marks a preceding
 * space.
 */
export function tokenButton(label, id, piece = '') {
  const classes = ['token', label.special && 'special', piece.startsWith('▁') && piece !== '▁' && 'spaced'];
  const text = element('span', {class: 'token-text'}, label.text);
  const attributes = {type: 'button', class: classes.filter(Boolean).join(' '), 'data-token': id, lang: label.language, tabindex: -1};
  return element('button', attributes, text, element('span', {class: 'token-numbers'}));
}

/** The first raw piece of a label. */
export function pieceOf(label, tokens) {
  return tokens.pieces[label.positions[0]] ?? '';
}

/** {side: 'row' or 'column', index} of the selected token, null if the frame has no such token. */
export function selection(token, frame) {
  const match = /^([rc])(\d+)$/.exec(token);
  if (!match) return null;
  const side = match[1] === 'r' ? 'row' : 'column';
  const index = Number(match[2]);
  return index < (side === 'row' ? frame.rows : frame.columns).length ? {side, index} : null;
}

/**
 * Clicks and keys on the tokens in `container`: left and right move along the text, Home and End to its ends, up and down to the nearest
 * token of another line; Escape or a second click clears the selection: select('').
 */
export function selectable(container, current, select) {
  container.addEventListener('click', (event) => {
    const button = event.target.closest('.token');
    if (!button) return;
    focusOn(container, button);
    select(button.dataset.token === current() ? '' : button.dataset.token);
  });
  container.addEventListener('keydown', (event) => {
    const button = event.target.closest('.token');
    if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') select('');
    const next = neighbour(container, button, event.key);
    if (!next && event.key !== 'Escape') return;
    event.preventDefault(); // also keeps the shortcuts of the page from handling it
    if (!next) return;
    focusOn(container, next);
    select(next.dataset.token);
  });
}

/** Make one token of a container reachable by the Tab key; arrow keys move on from there. */
export function focusOn(container, button, {focus = true} = {}) {
  for (const other of container.querySelectorAll('.token[tabindex="0"]')) other.tabIndex = -1;
  if (!button) return;
  button.tabIndex = 0;
  if (focus) button.focus({preventScroll: false});
}

function neighbour(container, button, key) {
  const block = [...button.parentElement.querySelectorAll('.token')];
  const at = block.indexOf(button);
  if (key === 'Home') return block[0];
  if (key === 'End') return block.at(-1);
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    const step = key === 'ArrowLeft' ? -1 : 1;
    const column = getComputedStyle(button.parentElement).flexDirection === 'column';
    return column ? nearest(container, button, step, 0) : (block[at + step] ?? button);
  }
  if (key === 'ArrowUp' || key === 'ArrowDown') return nearest(container, button, 0, key === 'ArrowUp' ? -1 : 1) ?? button;
  return null;
}

/** The token nearest to `button` in a direction: `across` -1 for left, 1 for right; `down` -1 for up, 1 for down. */
function nearest(container, button, across, down) {
  const from = button.getBoundingClientRect();
  let best = null;
  let least = Infinity;
  for (const other of container.querySelectorAll('.token')) {
    const box = other.getBoundingClientRect();
    const [x, y] = [
      middle(box.left, box.right) - middle(from.left, from.right),
      middle(box.top, box.bottom) - middle(from.top, from.bottom),
    ];
    const ahead = across ? x * across : y * down;
    if (ahead < (across ? from.width : from.height) / 2) continue;
    const distance = ahead + 3 * Math.abs(across ? y : x) * (across ? 1 : 0.3);
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}

function middle(a, b) {
  return (a + b) / 2;
}

/** Scroll to the selected token if it has changed since the last call with the same `memory`, an object of the caller. */
export function reveal(container, token, memory) {
  if (token === memory.revealed) return;
  memory.revealed = token;
  if (token) container.querySelector(`[data-token="${token}"]`)?.scrollIntoView({block: 'nearest', inline: 'nearest'});
}

/** Of overlapping numbers keep the first: Japanese tokens are as narrow as their numbers. */
export function declutter(numbers) {
  const boxes = numbers.map((number) => number.getBoundingClientRect());
  const kept = [];
  boxes.forEach((box, i) => {
    const free = kept.every(
      (other) => box.left >= other.right - 1 || box.right <= other.left + 1 || box.top >= other.bottom || box.bottom <= other.top,
    );
    if (free) kept.push(box);
    else numbers[i].remove();
  });
}

/** Draw the tokens of `container` as laid out on the screen: backgrounds, texts and numbers. */
export function drawTokens(pen, container, origin = container) {
  const zero = origin.getBoundingClientRect();
  for (const node of container.querySelectorAll('.token, .token-text, .token-numbers > *, .caption')) {
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const style = getComputedStyle(node);
    const [x, y] = [box.left - zero.left, box.top - zero.top];
    if (node.classList.contains('token')) drawGround(pen, x, y, box, style);
    else if (node.textContent) {
      pen.text(x + box.width / 2, y + box.height / 2, node.textContent, {
        size: parseFloat(style.fontSize),
        fill: style.color,
        anchor: 'middle',
        weight: Number(style.fontWeight),
      });
    }
  }
}

function drawGround(pen, x, y, {width, height}, style) {
  if (style.backgroundColor !== 'rgba(0, 0, 0, 0)') pen.rect(x, y, width, height, {fill: style.backgroundColor, radius: 3});
  const under = parseFloat(style.borderBottomWidth);
  if (under > 1 && !style.borderBottomColor.endsWith(', 0)')) {
    pen.rect(x, y + height - under, width, under, {fill: style.borderBottomColor});
  }
  const edge = style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth);
  if (!edge) return;
  const away = parseFloat(style.outlineOffset) + edge / 2;
  const dash = style.outlineStyle === 'dashed' ? [4, 3] : undefined;
  pen.rect(x - away, y - away, width + 2 * away, height + 2 * away, {stroke: style.outlineColor, width: edge, dash, radius: 4});
}
