/** The list of the weights that a run has kept, for views that ask the model: by default those nearest to the step shown. */

import {element} from '../dom/elements.js';
import {menu} from '../dom/fields.js';

export class KeptWeights {
  constructor(context) {
    this.context = context;
    const about = 'The checkpoints that the run has kept, and the weights of early steps';
    this.list = menu('checkpoint', (checkpoint) => context.state.set({checkpoint}), about);
    this.element = this.list.element;
    this.note = element('p', {class: 'view-note kept-weights'});
    this.read = ''; // of which run, with how many recordings, `kept` is
  }

  /**
   * Shows the list, and in `note` which weights are asked -> the chosen ones {name, step, best, last, bothDirections}; null if the run
   * has kept none, or another run is selected meanwhile. Throws Unavailable.
   */
  async choose() {
    const {source, state, recordings} = this.context;
    const {run} = state.now;
    const wanted = JSON.stringify([run, recordings.numbers(run)]);
    if (wanted !== this.read) {
      const kept = await source.checkpoints(run);
      if (run !== state.now.run) return null;
      [this.kept, this.read] = [kept, wanted];
    }
    const {checkpoints, both_directions: bothDirections} = this.kept;
    const shown = this.context.meta()?.step ?? Infinity;
    const named = state.now.checkpoint;
    const found = weightsFor(checkpoints, named, shown);
    this.note.textContent = found ? aboutWeights(found, shown) : '';
    this.note.hidden = !this.note.textContent;
    if (!found) return null;
    const nearest = weightsFor(checkpoints, '', shown);
    const isNamed = found.name === named || found !== nearest; // also by `best` or `last`
    this.list.show(optionsOf(checkpoints, nearest), isNamed ? found.name : '');
    return {...found, bothDirections};
  }

  /** Read the list again the next time: weights may be gone. */
  forget() {
    this.read = '';
  }
}

/** The weights of a name, or of `best` or `last`; without one of these, those nearest to a step. */
function weightsFor(kept, name, step) {
  const marked = kept.find((one) => one.name === name || (['best', 'last'].includes(name) && one[name]));
  const distance = (one) => Math.abs(one.step - Math.min(step, Number.MAX_SAFE_INTEGER));
  return marked ?? kept.reduce((best, one) => (best && distance(best) <= distance(one) ? best : one), null);
}

function optionsOf(kept, nearest) {
  const marks = ({best, last}) => [best && 'best', last && 'last'].filter(Boolean).join(', ');
  const number = ({step}) => step.toLocaleString('en');
  const entries = kept.map((one) => ({value: one.name, text: `step ${number(one)}${marks(one) && ` (${marks(one)})`}`}));
  return [{value: '', text: `nearest to the step shown: ${number(nearest)}`}, ...entries];
}

function aboutWeights({step}, shown) {
  if (step === shown || !Number.isFinite(shown)) return '';
  const maps = `the maps at the left are of step ${shown.toLocaleString('en')}`;
  return `The model of step ${step.toLocaleString('en')} is asked; ${maps}. Few steps keep their weights.`;
}
