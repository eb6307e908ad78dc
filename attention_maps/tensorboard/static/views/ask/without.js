/** “Without this head”, which is the same in all views: the model answers the same text again, at once, without a head. */

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

/** Open the view Ask, which asks about the example shown without a head of layer index `layer`. */
export function askWithout(context, {kind, layer, head}) {
  const {state} = context;
  context.toAsk = {};
  const how = state.now.how === 'mean' ? 'mean' : 'zero'; // another text belongs to the heads that were chosen before
  state.set({view: 'ask', kind, layer, head, removed: `${kind}.${layer}.${head}`, how});
}
