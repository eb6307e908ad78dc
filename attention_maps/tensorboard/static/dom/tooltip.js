/** The one tooltip of the page, shared by all views. */

import {languageOf} from '../core/format.js';
import {element} from './elements.js';

const DISTANCE = 14; // CSS pixels between the pointer and the tooltip

/** Show lines (text or nodes) at the pointer, or at the element of an event without a position; the first line is the title. */
export function showTooltip(event, ...lines) {
  const box = tooltip();
  const shown = lines.flat().filter((line) => line !== null && line !== undefined && line !== '');
  box.replaceChildren(
    ...shown.map((line) => (typeof line === 'string' ? element('div', {lang: languageOf(line)}, line) : element('div', {}, line))),
  );
  box.hidden = false;
  const {x, y} = place(event);
  const {width, height} = box.getBoundingClientRect();
  const left = x + DISTANCE + width < window.innerWidth ? x + DISTANCE : x - DISTANCE - width;
  const top = y + DISTANCE + height < window.innerHeight ? y + DISTANCE : y - DISTANCE - height;
  box.style.transform = `translate(${Math.max(4, Math.round(left))}px, ${Math.max(4, Math.round(top))}px)`;
}

/** Call `over(event)` where a mouse moves or a finger touches, and `out` where it leaves. */
export function watchHover(node, over, out = hideTooltip) {
  node.addEventListener('pointermove', over);
  node.addEventListener('pointerdown', over);
  node.addEventListener('pointerleave', out);
}

/** Hide the tooltip. */
export function hideTooltip() {
  const box = document.querySelector('.tooltip');
  if (box) box.hidden = true;
}

function tooltip() {
  const found = document.querySelector('.tooltip');
  if (found) return found;
  const made = element('div', {class: 'tooltip', role: 'tooltip', hidden: true});
  document.body.append(made);
  return made;
}

function place(event) {
  if (Number.isFinite(event.clientX) && event.type !== 'focus') return {x: event.clientX, y: event.clientY};
  const {left, bottom} = event.currentTarget.getBoundingClientRect();
  return {x: left, y: bottom};
}
