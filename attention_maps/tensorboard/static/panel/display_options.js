/** The display options, folded behind one button: they stay as they are from step to step and from view to view. */

import {rowsNamed, sameWord} from '../core/frame.js';
import {meaningOf} from '../core/glossary.js';
import {segments, slider, tick} from '../dom/fields.js';
import {fold} from '../dom/fold.js';
import {createComparisons} from './comparisons.js';

const ROWS = 'Each row belongs to two tokens: the one that the model reads and the one that it predicts next. For alignment use “predicts”';
const HIDE =
  'Hide <s>, </s> and other special tokens; rows are renormalised to sum to 1, and the hidden attention is shown next to each row';
const MERGE = 'Weights are summed over the pieces of a key word and averaged over the pieces of a query word';
const VALUES = 'Weight times the norm of the value vector (Kobayashi et al. 2020); rows are renormalised to sum to 1';

/** {element, update()}. */
export function createDisplayOptions(context) {
  const {state} = context;
  const relabel = (name) => {
    const fitted = context.fitted();
    const {token} = state.now;
    if (name !== rowsNamed(fitted, fitted.kind)) state.set({rows: name, token: token === null ? null : sameWord(token, name)});
  };
  const rows = segments('rows labelled by', {reads: 'reads', predicts: 'predicts'}, relabel, ROWS);
  /** Rows and columns are others then: a word that was selected by its row is no longer. */
  const regroup = (changes) => state.set({...changes, ...(state.now.token !== null && {token: '', partner: ''})});
  const hide = tick('hide special tokens', (checked) => regroup({hide: checked}), HIDE);
  const merge = tick('merge pieces to words', (checked) => regroup({merge: checked}), MERGE);
  const values = tick('weight by value norms', (checked) => state.set({values: checked}), VALUES);
  const pickScale = (name) => state.set({scale: name});
  const scale = segments('strongest colour', {map: 'maximum of the map', one: '1'}, pickScale, meaningOf('strongest colour'));
  const gamma = slider(
    'gamma',
    {min: 0.2, max: 2, step: 0.05},
    (value) => value.toFixed(2),
    (value) => state.set({gamma: value}),
    meaningOf('gamma'),
  );
  const against = createComparisons(context);
  const fields = [rows, hide, merge, values, scale, gamma, against].map((field) => field.element);
  const folded = fold('options', 'display options', (open) => state.set({options: open}), fields);

  function update() {
    const {now} = state;
    folded.show(now.options);
    against.show();
    hide.show(now.hide);
    merge.show(now.merge);
    values.show(now.values);
    scale.show(now.scale);
    gamma.show(now.gamma);
    const known = Boolean(context.meta());
    rows.element.hidden = !known;
    if (!known) return;
    const fitted = context.fitted();
    values.box.disabled = fitted.head === 'rollout';
    rows.element.classList.toggle('absent', fitted.kind === 'encoder' || now.view === 'pair'); // a pair has both rows
    rows.show(rowsNamed(fitted, fitted.kind));
  }

  return {element: folded.element, update};
}
