/** Scores against gold labels, of heads and means of heads, compared with baselines: the best of each measure, the others folded. */

import {KIND_NAMES, rowsNamed, sameWord} from '../core/frame.js';
import {better, measureOf, measureText} from '../core/measures.js';
import {stepOf} from '../core/recordings.js';
import {element} from '../dom/elements.js';
import {explain} from '../dom/explain.js';

const NONE = 'None in this recording: scores need examples with gold word alignments or pronoun antecedents. Evaluations record them.';
const UNSCORED = 'heads are not scored for questions';
const COUNTED = {alignment_error: 'pairs', antecedent: 'pronouns', antecedent_agreeing: 'pronouns'};
const LISTED = 3; // scores of a measure that are not folded

/** {element, update(meta)}: a collapsible panel. */
export function createScores(context) {
  const body = element('div', {class: 'scores-body'});
  const panel = element('details', {class: 'scores', open: true, hidden: true}, element('summary', {}, 'Scores ', explain('score')), body);
  let shown = {};
  let scored = null; // {run, meta} of the last recording with scores, which a question keeps in view

  function update(meta) {
    const {kind} = context.fitted();
    if (meta === shown.meta && kind === shown.kind) return;
    shown = {meta, kind};
    panel.hidden = false;
    const {run, recording} = context.state.now;
    if (meta.scores?.length) scored = {run, meta};
    const from = stepOf(recording) === null && scored?.run === run ? scored.meta : meta;
    const scores = from.scores ?? [];
    if (!scores.length) {
      body.replaceChildren(element('p', {class: 'muted'}, NONE));
      return;
    }
    const measures = [...new Set(scores.map(({measure}) => measure))];
    const tables = measures.map((measure) => {
      const own = scores.filter((score) => score.measure === measure);
      const kinds = [...new Set(own.map((score) => score.kind).filter(Boolean))];
      const listed = table(measure, own);
      // Scores of another kind of attention say nothing about the heads shown.
      if (!meta.samples.length || !kinds.length || kinds.includes(kind)) return listed;
      const title = `of the ${KIND_NAMES[kinds[0]]}: ${measureOf(measure).title}`;
      return element('details', {class: 'more'}, element('summary', {}, title), listed);
    });
    const other = from === meta ? [] : [element('p', {class: 'muted'}, `of step ${from.step.toLocaleString('en')}; ${UNSCORED}`)];
    body.replaceChildren(...other, ...tables);
  }

  function table(measure, scores) {
    const {title, first, meaning} = measureOf(measure);
    const worst = first === 'low' ? Infinity : -Infinity;
    const rank = ({value}) => (first === 'low' ? 1 : -1) * (Number.isFinite(value) ? value : worst);
    const rows = [...scores].sort((a, b) => rank(a) - rank(b)).map((score) => row(measure, score));
    const count = scores.find((score) => score.count)?.count;
    const examples = count ? `${count.toLocaleString('en')} ${COUNTED[measure] ?? 'examples'}` : '';
    const caption = [title, better(measure), examples].filter(Boolean).join(', ');
    const listed = (some) => element('tbody', {}, some);
    const more = rows.slice(LISTED);
    const folded = (...parts) => element('details', {class: 'more'}, parts);
    return element(
      'div',
      {class: 'score-table'},
      element('table', {}, element('caption', {}, caption), listed(rows.slice(0, LISTED))),
      meaning && element('p', {class: 'muted meaning'}, `${meaning}; baselines use no model.`),
      more.length > 0 && folded(element('summary', {}, `${more.length} more`), element('table', {}, listed(more))),
    );
  }

  function row(measure, score) {
    const {value, kind, layer, head, rows} = score;
    const choose = () => {
      const fitted = context.fitted();
      const named = rowsNamed({rows: rows ?? ''}, kind);
      const same = fitted.kind === kind; // the selected words are of this kind of map
      const token = !same ? '' : named === rowsNamed(fitted, kind) ? fitted.token : sameWord(fitted.token, named);
      context.state.set({kind, layer, head: head ?? 'mean', rows: rows ?? '', token, partner: same ? fitted.partner : '', measure});
    };
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
