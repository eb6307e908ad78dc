/** Controls behind one button: in a row of their own below the bar, or, where the style sheet puts them there, above the page. */

import {element} from './elements.js';

let count = 0;

/**
 * {element, show(open)}: a button with a text, and the controls named `label`, which it opens and closes by calling `toggle(open)`. Escape
 * closes them, and so does a click elsewhere if they cover a part of the page.
 */
export function fold(text, label, toggle, children) {
  const id = `fold-${++count}`;
  const body = element('div', {class: 'fold-body', id}, children);
  const attributes = {type: 'button', class: 'fold-button', title: label, 'aria-controls': id, onclick: () => toggle(!isOpen())};
  const button = element('button', attributes, text);
  const box = element('div', {class: 'fold', role: 'group', 'aria-label': label}, button, body);
  const isOpen = () => box.classList.contains('open');
  const show = (open) => {
    box.classList.toggle('open', open);
    button.setAttribute('aria-expanded', String(open));
  };
  box.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !isOpen() || document.querySelector('dialog[open]')) return;
    event.preventDefault(); // also keeps the shortcuts of the page from handling it
    toggle(false);
    button.focus();
  });
  document.addEventListener('pointerdown', ({target}) => {
    if (isOpen() && !box.contains(target) && getComputedStyle(body).position === 'absolute') toggle(false);
  });
  show(false);
  return {element: box, show};
}
