/** The list of recordings to compare with: other steps of the run, and other runs, disabled if they have no example of the same tokens. */

import {otherPlace, sameTokens} from '../core/load_frame.js';
import {recordingTitle} from '../core/recordings.js';
import {Unavailable} from '../core/unavailable.js';
import {searchableList} from '../dom/searchable_list.js';

const NO_EXAMPLE = 'no example with these tokens';

/** {element, show()}. Other runs are read when the list opens: there may be a hundred. */
export function createComparisons(context) {
  const {state, recordings, source} = context;
  const list = searchableList('compare with', (value) => state.set({against: value}), '', check);
  let checked = {sample: null, reasons: new Map()}; // run -> why it cannot be compared with the sample

  function others() {
    return [...recordings.runs.keys()].filter((name) => name !== state.now.run && recordings.steps(name).length);
  }

  function show() {
    const {run, against} = state.now;
    list.element.classList.toggle('absent', !context.compares());
    const steps = recordings.steps(run).map((id) => ({value: `step:${id}`, text: recordingTitle(id), group: 'another step of this run'}));
    const asked = recordings.asked(run).map((id) => ({value: `step:${id}`, text: recordingTitle(id), group: 'a question'}));
    const runs = others().map((name) => {
      const option = {value: `run:${name}`, text: name, group: 'another run, nearest step'};
      const why = checked.sample === shownSample() ? checked.reasons.get(name) : '';
      return why ? {...option, detail: why, disabled: true} : option;
    });
    list.show([{value: '', text: 'nothing'}, ...steps, ...asked, ...runs], against);
  }

  function shownSample() {
    return context.meta()?.samples[context.fitted().sample] ?? null;
  }

  async function check() {
    const sample = shownSample();
    if (!sample) return;
    const reasons = new Map();
    checked = {sample, reasons};
    const {now} = state;
    await Promise.all(
      others().map(async (name) => {
        try {
          const place = await otherPlace(source, {...now, against: `run:${name}`});
          if (sameTokens(sample, await source.meta(place.run, place.recording), now.sample) < 0) reasons.set(name, NO_EXAMPLE);
        } catch (error) {
          if (!(error instanceof Unavailable)) throw error;
          reasons.set(name, error.message);
        }
      }),
    );
    show();
  }

  return {element: list.element, show};
}
