/** Scores against gold labels, of heads and means of heads, compared with baselines. */

import {better, measureOf, measureText} from '../core/measures.js';
import {element} from '../dom/elements.js';

/** {element, update(meta)}: a collapsible panel. */
export function createScores(context) {
  const body = element('div', {class: 'scores-body'});
  const panel = element('details', {class: 'scores', open: true, hidden: true}, element('summary', {}, 'Scores'), body);
  let shown = null;

  function update(meta) {
    if (meta === shown) return;
    shown = meta;
    panel.hidden = false;
    const scores = meta.scores ?? [];
    if (!scores.length) {
      body.replaceChildren(
        element('p', {class: 'muted'}, 'None in this recording: scores need examples with gold word alignments or pronoun antecedents.'),
      );
      return;
    }
    const measures = [...new Set(scores.map(({measure}) => measure))];
    body.replaceChildren(
      ...measures.map((measure) =>
        table(
          measure,
          scores.filter((score) => score.measure === measure),
        ),
      ),
    );
  }

  function table(measure, scores) {
    const {title, first, meaning} = measureOf(measure);
    const worst = first === 'low' ? Infinity : -Infinity;
    const rank = ({value}) => (first === 'low' ? 1 : -1) * (Number.isFinite(value) ? value : worst);
    const rows = [...scores].sort((a, b) => rank(a) - rank(b)).map((score) => row(measure, score));
    const caption = [title, better(measure)].filter(Boolean).join(', ');
    return element('table', {}, element('caption', {title: meaning}, caption), element('tbody', {}, rows));
  }

  function row(measure, score) {
    const {value, kind, layer, head} = score;
    const choose = () => context.state.set({kind, layer, head: head ?? 'mean', token: ''});
    const name = titleOf(score);
    return element(
      'tr',
      {class: kind === null ? 'baseline' : false},
      element('th', {scope: 'row'}, layer === null ? name : element('button', {type: 'button', class: 'link', onclick: choose}, name)),
      element('td', {class: 'number'}, measureText(measure, value)),
    );
  }

  return {element: panel, update};
}

/** "cross: best head, argmax (layer 1, head 3)", with the place only if the name does not contain it; "baseline: chance". */
function titleOf({name, kind, layer, head}) {
  if (kind === null) return `baseline: ${name}`;
  const place = Object.entries({layer, head}).flatMap(([what, number]) => (number === null ? [] : [`${what} ${number}`]));
  const named = place.every((part) => new RegExp(`\\b${part}\\b`).test(name));
  return `${kind}: ${name}${named ? '' : ` (${place.join(', ')})`}`;
}
