/** Form fields with labels: lists, sliders, segmented buttons, checkboxes. */

import {languageOf} from '../core/format.js';
import {element} from './elements.js';

let count = 0;

/** A list whose entries may change: show([{value, text, group}], value). Rebuilt only if they differ, so that an open list stays open. */
export function menu(label, pick, title = '') {
  const id = `field-${++count}`;
  const select = element('select', {id, title, 'aria-label': label, onchange: () => pick(select.value)});
  let listed = '';
  const show = (options, value) => {
    const signature = JSON.stringify(options);
    if (signature !== listed) {
      listed = signature;
      const groups = [...new Set(options.map(({group}) => group ?? ''))];
      select.replaceChildren(
        ...groups.flatMap((group) =>
          grouped(
            group,
            options.filter((option) => (option.group ?? '') === group),
          ),
        ),
      );
    }
    select.value = String(value);
  };
  return {element: element('span', {class: 'field'}, element('label', {for: id, title}, label), select), select, show};
}

/** A list of fixed entries; `options` maps values to texts. `show(value)` selects one without an event. */
export function choice(label, options, pick, title = '') {
  const entries = Object.entries(options).map(([value, text]) => ({value, text}));
  const {element: field, select, show} = menu(label, pick, title);
  return {element: field, select, show: (value) => show(entries, value)};
}

/** A labelled slider with its value beside it; `text(value)` formats it. */
export function slider(label, {min, max, step}, text, pick, title = '') {
  const id = `field-${++count}`;
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

/** A labelled field for a number: `changed()` is called after a change; value() is null if it is empty, as is show(null). */
export function numberField(label, {min, max, step, placeholder = ''}, changed, title = '') {
  const id = `field-${++count}`;
  const input = element('input', {type: 'number', id, min, max, step, placeholder, title, onchange: changed});
  const value = () => (Number.isNaN(input.valueAsNumber) ? null : input.valueAsNumber);
  const show = (number) => {
    if (document.activeElement !== input) input.value = number ?? ''; // what is being typed stays
  };
  return {element: element('span', {class: 'field'}, element('label', {for: id, title}, label), input), input, value, show};
}

/** A row of buttons, one of them pressed; `options` maps values to texts. */
export function segments(label, options, pick, title = '') {
  const buttons = Object.entries(options).map(([value, text]) =>
    element('button', {type: 'button', value, 'aria-pressed': 'false', onclick: () => pick(value)}, text),
  );
  const group = element('span', {class: 'segments', role: 'group', 'aria-label': label, title}, buttons);
  const show = (value) => buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.value === value)));
  return {element: element('span', {class: 'field'}, element('span', {class: 'field-name', title}, label), group), buttons, show};
}

/** A labelled checkbox; `label` is a text, or several nodes. */
export function tick(label, pick, title = '') {
  const box = element('input', {type: 'checkbox', onchange: () => pick(box.checked)});
  return {element: element('label', {class: 'field tick', title}, box, label), box, show: (value) => (box.checked = value)};
}

function grouped(group, members) {
  const nodes = members.map(({value, text}) => element('option', {value, lang: languageOf(text)}, text));
  return group ? [element('optgroup', {label: group}, nodes)] : nodes;
}
