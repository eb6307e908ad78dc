/** What is known of the model shown: title, data, licence, date and the command that trains it; of an exported model, or of a recording. */

import {element} from '../dom/elements.js';

const LINES = [
  ['title', 'Title'],
  ['model', 'Model'],
  ['data', 'Data'],
  ['command', 'Trained by'],
  ['date', 'Recorded'],
  ['licence', 'Licence'],
];

/** {element, update}: a fold in the foot of the page; hidden if nothing is known. */
export function createAbout({source, state}) {
  const list = element('dl', {class: 'about-lines'});
  const fold = element('details', {class: 'about', hidden: true}, element('summary', {}, 'about this model'), list);

  /** `meta`: of the recording shown, which says it of a model that is not in the page; undefined if none can be shown. */
  function update(meta) {
    const exported = source.about(state.now.run);
    const about = exported ?? meta?.about ?? {};
    const lines = LINES.filter(([key]) => about[key]).map(([key, title]) => [exported && key === 'date' ? 'Exported' : title, about[key]]);
    fold.hidden = !lines.length;
    list.replaceChildren(...lines.flatMap(([title, text]) => [element('dt', {}, title), element('dd', {}, text)]));
  }

  return {element: fold, update};
}
