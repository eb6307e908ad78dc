/** What an exported page says of the run shown: its model, data, licence, date and the command that trains it. */

import {element} from '../dom/elements.js';

const LINES = [
  ['model', 'Model'],
  ['data', 'Data'],
  ['command', 'Trained by'],
  ['date', 'Exported'],
  ['licence', 'Licence'],
];

/** {element, update}: a fold in the foot of the page; hidden if nothing is known of the run. */
export function createAbout({source, state}) {
  const list = element('dl', {class: 'about-lines'});
  const fold = element('details', {class: 'about', hidden: true}, element('summary', {}, 'about this model'), list);

  function update() {
    const about = source.about(state.now.run);
    fold.hidden = !about;
    if (!about) return;
    const lines = LINES.filter(([key]) => about[key]).flatMap(([key, title]) => [element('dt', {}, title), element('dd', {}, about[key])]);
    list.replaceChildren(...lines);
  }

  return {element: fold, update};
}
