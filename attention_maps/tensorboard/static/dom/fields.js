/** The few kinds of controls that the views share: real form elements with labels. */

import {element} from './elements.js';

let count = 0;

/** A labelled <select>; `options` maps values to texts. `show(value)` sets it without an event. */
export function choice(label, options, pick, title = '') {
  const id = `view-choice-${++count}`;
  const select = element('select', {id, title, onchange: () => pick(select.value)});
  for (const [value, text] of Object.entries(options)) select.append(element('option', {value}, text));
  const field = element('span', {class: 'field'}, element('label', {for: id, title}, label), select);
  return {element: field, select, show: (value) => (select.value = value)};
}

/** A labelled slider with its value beside it; `text(value)` says the value. */
export function slider(label, {min, max, step}, text, pick, title = '') {
  const id = `view-slider-${++count}`;
  const output = element('output', {for: id});
  const input = element('input', {type: 'range', id, min, max, step, title, oninput: () => pick(Number(input.value))});
  const name = element('label', {for: id, title}, label);
  const show = (value, limits = {}) => {
    Object.assign(input, limits);
    input.value = value;
    output.textContent = text(value);
  };
  return {element: element('span', {class: 'field'}, name, input, output), input, label: name, show};
}

/** Buttons of which one is pressed; `options` maps values to texts. */
export function segments(label, options, pick, title = '') {
  const buttons = Object.entries(options).map(([value, text]) =>
    element('button', {type: 'button', value, 'aria-pressed': 'false', onclick: () => pick(value)}, text),
  );
  const group = element('span', {class: 'segments', role: 'group', 'aria-label': label, title}, buttons);
  const show = (value) => buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.value === value)));
  return {element: element('span', {class: 'field'}, element('span', {class: 'field-name', title}, label), group), buttons, show};
}

/** A labelled checkbox. */
export function tick(label, pick, title = '') {
  const box = element('input', {type: 'checkbox', onchange: () => pick(box.checked)});
  return {element: element('label', {class: 'field tick', title}, box, label), box, show: (value) => (box.checked = value)};
}
