/** Buttons that lead to the help: the page listens to the event `explain`, whose detail is a term of the glossary or ''. */

import {element} from './elements.js';

/** A small `?` that opens the glossary at a term. */
export function explain(term) {
  return button(term, {class: 'explain', 'aria-label': `what is ${term}?`, title: `glossary: ${term}`}, '?');
}

/** A link to the three steps at the top of the help. */
export function firstSteps() {
  return button('', {class: 'link'}, 'three steps');
}

function button(detail, attributes, text) {
  const onclick = (event) => {
    event.preventDefault(); // in a summary, a click would also fold it
    event.currentTarget.dispatchEvent(new CustomEvent('explain', {bubbles: true, detail}));
  };
  return element('button', {type: 'button', ...attributes, onclick}, text);
}
