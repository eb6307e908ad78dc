/** Controls that a small window shows behind one button, and any other window in place; the style sheet decides. */

import {element} from './elements.js';

let count = 0;

/** A group of controls with the button that opens it; a click elsewhere and Escape close it. */
export function fold(label, ...children) {
  const id = `fold-${++count}`;
  const body = element('div', {class: 'fold-body', id}, ...children);
  const button = element('button', {type: 'button', class: 'fold-button', 'aria-expanded': 'false', 'aria-controls': id}, label);
  const box = element('div', {class: 'fold', role: 'group', 'aria-label': label}, button, body);
  const toggle = (open) => {
    box.classList.toggle('open', open);
    button.setAttribute('aria-expanded', String(open));
  };
  const isOpen = () => box.classList.contains('open');
  button.addEventListener('click', () => toggle(!isOpen()));
  box.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !isOpen() || document.querySelector('dialog[open]')) return;
    event.preventDefault(); // also keeps the shortcuts of the page from handling it
    toggle(false);
    button.focus();
  });
  document.addEventListener('pointerdown', ({target}) => box.contains(target) || toggle(false));
  return box;
}
