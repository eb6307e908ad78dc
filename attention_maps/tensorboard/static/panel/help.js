/** The dialog behind `?`: three steps for a first look, the keys, and the glossary. */

import {GLOSSARY} from '../core/glossary.js';
import {measureOf, MEASURE_NAMES} from '../core/measures.js';
import {element} from '../dom/elements.js';
import {KEYS} from './keyboard.js';

const STORY =
  ' and read its sentences: steps at which heads got a label, for example coreference, on many examples, and what holds for the example shown.';
const PAIR =
  ' and click a gold label, such as He → Ken, or two words: heads are ranked, beside the strongest other word, each with the step since which it ' +
  'links them.';
const ABLATION =
  'What happens without it? Click a head in that list, then “without this head” next to its name: the model answers the same text again. ' +
  'Click a word there, such as the answer to a question, to compare its probability.';

/** {element, button, open(term)}: `open` shows the dialog, at a term if one is given; `button` opens it too. */
export function createHelp({state}) {
  const to = (view, title) => {
    const go = () => {
      dialog.close();
      state.set({view});
    };
    return element('button', {type: 'button', class: 'link', onclick: go}, title);
  };
  const steps = [
    ['Which head does what, and since when? Open ', to('story', 'Story'), STORY],
    ['Which head links two words? Open ', to('pair', 'Pair'), PAIR],
    [ABLATION],
  ];
  const measures = Object.fromEntries(MEASURE_NAMES.map((name) => [measureOf(name).title, measureOf(name).meaning]));
  const groups = Object.entries({...GLOSSARY, 'Measures of heads': measures});
  const dialog = element(
    'dialog',
    {class: 'keys', 'aria-label': 'help'},
    element('form', {method: 'dialog'}, element('button', {autofocus: true}, 'close')),
    element('h2', {}, 'Three steps'),
    element('ol', {}, steps.map((parts) => element('li', {}, parts))),
    element('h2', {}, 'Keys'),
    element('table', {}, element('tbody', {}, KEYS.map(([key, meaning]) => row(element('kbd', {}, key), meaning)))),
    element('h2', {}, 'Glossary'),
    ...groups.flatMap(([title, terms]) => [
      element('h3', {}, title),
      element('table', {}, element('tbody', {}, Object.entries(terms).map(([term, meaning]) => row(term, meaning, term)))),
    ]),
  );

  function open(term) {
    if (!dialog.open) dialog.showModal();
    dialog.querySelector('tr.sought')?.classList.remove('sought');
    const found = term ? dialog.querySelector(`tr[data-term="${term}"]`) : null;
    found?.classList.add('sought');
    if (found) found.scrollIntoView({block: 'center'});
    else dialog.scrollTop = 0;
  }

  const about = {'aria-label': 'help (?)', title: 'first steps, keys and glossary (?)'};
  const button = element('button', {type: 'button', class: 'icon', ...about, onclick: () => open()}, '?');

  return {element: dialog, button, open};
}

function row(name, meaning, term = null) {
  return element('tr', {'data-term': term}, element('th', {scope: 'row'}, name), element('td', {}, meaning));
}
