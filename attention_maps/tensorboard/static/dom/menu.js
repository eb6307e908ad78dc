/** A labelled list to choose from whose entries change while the page is open, in groups where they have them. */

import {element, languageOf} from './elements.js';

let count = 0;

/** {element, select, show(options, value)}; options: [{value, text, group}], filled anew only where they differ: an open list stays so. */
export function menu(label, pick, title = '') {
  const id = `menu-${++count}`;
  const select = element('select', {id, title: title || null, onchange: () => pick(select.value)});
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
  return {element: element('span', {class: 'field'}, element('label', {for: id}, label), select), select, show};
}

function grouped(group, members) {
  const nodes = members.map(({value, text}) => element('option', {value, lang: languageOf(text)}, text));
  return group ? [element('optgroup', {label: group}, nodes)] : nodes;
}
