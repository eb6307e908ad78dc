/** What was scored against gold: read-outs of heads and, beside them, the baselines that say what a score is worth. */

import {element} from './dom.js';
import {measureOf} from './measures.js';

const DIRECTIONS = {alignment_error: 'lower is better', antecedent: 'higher is better'};

/** {element, update()}: a panel that folds away. */
export function createScores(context) {
  const body = element('div', {class: 'scores-body'});
  const panel = element('details', {class: 'scores', open: true, hidden: true}, element('summary', {}, 'Scores'), body);
  let shown = null;

  function update() {
    const meta = context.meta();
    if (!meta || meta === shown) return;
    shown = meta;
    panel.hidden = false;
    const scores = meta.scores ?? [];
    if (!scores.length) {
      body.replaceChildren(
        element('p', {class: 'muted'}, 'None in this recording: scoring needs examples with gold word links or pronouns.'),
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
    const {title, unit} = measureOf(measure);
    const sign = measure === 'alignment_error' ? 1 : -1;
    const rows = [...scores].sort((a, b) => sign * (a.value - b.value)).map((score) => row(score, unit));
    const caption = [title, DIRECTIONS[measure]].filter(Boolean).join(', ');
    return element('table', {}, element('caption', {}, caption), element('tbody', {}, rows));
  }

  function row({name, value, kind, layer, head}, unit) {
    const choose = () => context.state.set({kind, layer, head: head ?? 'mean', token: ''});
    const there = kind !== null && layer !== null;
    const label = there ? element('button', {type: 'button', class: 'link', onclick: choose}, kind, ': ', name) : `baseline: ${name}`;
    return element(
      'tr',
      {class: kind === null ? 'baseline' : false},
      element('th', {scope: 'row'}, label),
      element('td', {class: 'number'}, `${value.toFixed(1)} ${unit}`),
    );
  }

  return {element: panel, update};
}
