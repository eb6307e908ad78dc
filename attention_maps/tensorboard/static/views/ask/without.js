/** The button “without this head”, which is the same in all views: the model answers the same text again, at once, without the selected head. */

import {element} from '../../dom/elements.js';

const WORDING = {
  head: ['without this head', 'The model answers the same text without the selected head'],
  layer: ['without this layer', 'The model answers the same text without all heads of the selected layer'],
};

/** `what`: head or layer. */
export function withoutButton(what, onclick) {
  const [text, title] = WORDING[what];
  return element('button', {type: 'button', class: 'without', title, onclick}, text);
}
