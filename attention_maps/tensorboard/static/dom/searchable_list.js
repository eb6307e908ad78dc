/** A button that opens a list with a filter, for choices too many for a drop-down list, such as a hundred runs. */

import {languageOf} from '../core/format.js';
import {element} from './elements.js';

const KEPT = 20; // last characters of a name that stay visible: names of a sweep differ at the end
const MARGIN = 8; // pixels between the list and the edge of the window

let count = 0;

/**
 * {element, show(options, value), chosen()}. `options`: [{value, text, short, group, detail, disabled}]; within its group, an option is
 * listed as `short`. The filter searches value and text for all words typed, in any order. Entries are built when the list opens, which
 * calls `opened`.
 */
export function searchableList(label, pick, title = '', opened = () => {}) {
  const id = `list-${++count}`;
  let options = [];
  let chosen = '';
  let entries = []; // [{value, node}] that match the filter
  let active = 0;

  const name = element('span', {class: 'list-name'});
  const button = element('button', {type: 'button', id, class: 'list-button', 'aria-haspopup': 'dialog', onclick: open}, name);
  const filter = element('input', {
    type: 'search',
    role: 'combobox',
    placeholder: 'filter: parts of a name, in any order',
    'aria-label': `filter ${label}`,
    'aria-expanded': 'true',
    'aria-controls': `${id}-entries`,
    autocomplete: 'off',
    spellcheck: 'false',
    oninput: () => fill(),
    onkeydown: byKey,
  });
  const number = element('output', {class: 'muted number'});
  const list = element('div', {class: 'list-entries', id: `${id}-entries`, role: 'listbox', 'aria-label': label});
  const dialog = element(
    'dialog',
    {class: 'list', 'aria-label': label, onclick: (event) => event.target === dialog && dialog.close()},
    element('div', {class: 'list-head'}, filter, number),
    list,
  );

  function open() {
    if (dialog.open) return;
    filter.value = '';
    dialog.showModal();
    fill();
    place();
    filter.focus();
    opened();
  }

  /** Below the button, within the window. */
  function place() {
    const {left, bottom} = button.getBoundingClientRect();
    const right = window.innerWidth - dialog.offsetWidth - MARGIN;
    dialog.style.left = `${Math.max(Math.min(left, right), MARGIN)}px`;
    dialog.style.top = `${bottom + 3}px`;
    dialog.style.maxHeight = `${window.innerHeight - bottom - 3 - MARGIN}px`;
  }

  /** List the options that match the filter. `kept`: the value of the active entry, if the list only follows new recordings. */
  function fill(kept) {
    const words = plain(filter.value).split(/\s+/).filter(Boolean);
    const matching = options.filter(({value, text}) => words.every((word) => plain(`${value} ${text}`).includes(word)));
    entries = matching.map((option, place) => ({value: option.value, node: entry(option, place)}));
    const isFirst = ({group}, place) => group && group !== matching[place - 1]?.group;
    const heading = ({group}) => element('div', {class: 'list-group', role: 'presentation'}, group);
    list.replaceChildren(...matching.flatMap((option, i) => [...(isFirst(option, i) ? [heading(option)] : []), entries[i].node]));
    number.textContent = matching.length === options.length ? `${options.length}` : `${matching.length} of ${options.length}`;
    if (!matching.length) list.append(element('p', {class: 'muted'}, 'no match'));
    const wanted = kept ?? chosen;
    activate(Math.max(matching.findIndex(({value}) => value === wanted), 0));
    if (kept === undefined) entries[active]?.node.scrollIntoView({block: 'nearest'});
  }

  function entry({value, text, short = text, detail, disabled}, place) {
    return element(
      'div',
      {
        class: 'list-entry',
        role: 'option',
        id: `${id}-${place}`,
        title: text,
        lang: languageOf(text),
        'aria-selected': String(value === chosen),
        'aria-disabled': disabled ? 'true' : false,
        onclick: ({currentTarget}) => isDisabled(currentTarget) || choose(value),
      },
      element('span', {class: 'list-text'}, short),
      detail && element('span', {class: 'muted number'}, detail),
    );
  }

  function activate(place) {
    entries[active]?.node.classList.remove('active');
    active = place;
    const node = entries[active]?.node;
    filter.setAttribute('aria-activedescendant', node?.id ?? '');
    node?.classList.add('active');
  }

  function byKey(event) {
    const by = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[event.key];
    if (by && entries.length) {
      event.preventDefault();
      activate(Math.min(Math.max(active + by, 0), entries.length - 1));
      entries[active].node.scrollIntoView({block: 'nearest'});
    } else if (event.key === 'Enter' && !event.isComposing) {
      event.preventDefault();
      if (entries[active] && !isDisabled(entries[active].node)) choose(entries[active].value);
    }
  }

  function choose(value) {
    dialog.close();
    if (value === chosen) return;
    paint(value);
    pick(value);
  }

  function paint(value) {
    chosen = value;
    const {text = ''} = options.find((option) => option.value === value) ?? {};
    const characters = [...text];
    name.replaceChildren(
      element('span', {class: 'list-start'}, characters.slice(0, -KEPT).join('')),
      element('span', {}, characters.slice(-KEPT).join('')),
    );
    name.lang = languageOf(text);
    button.setAttribute('aria-label', `${label}: ${text}`);
    button.title = [text, title].filter(Boolean).join('\n');
  }

  function show(given, value) {
    const isNew = JSON.stringify(given) !== JSON.stringify(options);
    const before = options;
    options = given;
    paint(value);
    if (!isNew || !dialog.open) return;
    const byValue = new Map(given.map((option) => [option.value, option]));
    if (sameEntries(given, before)) for (const {value, node} of entries) mark(node, byValue.get(value));
    else fill(entries[active]?.value ?? '');
  }

  /** In place: an entry must not be replaced while it is being clicked. */
  function mark(node, {detail, disabled}) {
    if (!disabled || isDisabled(node)) return;
    node.setAttribute('aria-disabled', 'true');
    node.append(element('span', {class: 'muted number'}, detail));
  }

  const field = element('span', {class: 'field'}, element('label', {for: id, title}, label), button, dialog);
  return {element: field, show, chosen: () => chosen};
}

function isDisabled(node) {
  return node.getAttribute('aria-disabled') === 'true';
}

/** Whether two lists of options differ at most in what is disabled. */
function sameEntries(one, other) {
  const text = (options) => JSON.stringify(options.map(({value, text: shown, group}) => [value, shown, group]));
  return text(one) === text(other);
}

/** Text for comparisons: case and Unicode form are ignored (macOS decomposes が in file names). */
function plain(text) {
  return text.normalize('NFKC').toLowerCase();
}
