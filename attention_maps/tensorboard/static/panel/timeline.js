/** The timeline of a run: the slider over recorded steps, playing, following the newest step, switching to generated texts. */

import {recordingTitle, stepName} from '../core/recordings.js';
import {Unavailable} from '../core/unavailable.js';
import {element} from '../dom/elements.js';
import {menu, tick} from '../dom/fields.js';
import {icon} from '../dom/icons.js';

const PACE = 320; // milliseconds per step while playing

/**
 * {element, update(), move(by), jump('first' or 'last'), play()}. `drawn()` resolves when everything is drawn, so that playing waits for
 * slow files; `refresh()` reads the list of recordings again.
 */
export function createTimeline(context, {drawn, refresh}) {
  const {state, recordings} = context;
  const button = (name, label, onclick) =>
    element('button', {type: 'button', class: 'icon', 'aria-label': label, title: label, onclick}, icon(name));
  const among = menu('recordings', (value) => {
    pause();
    const recording = recordings[value](state.now.run).at(-1);
    state.set(value === 'steps' ? {recording, token: null} : {recording, follow: false, token: null});
  });
  const clear = element('button', {type: 'button', class: 'clear', title: 'Forget all questions of this run, with their maps', onclick: forget}, 'clear');
  const slider = element('input', {
    type: 'range',
    class: 'steps',
    min: 0,
    step: 1,
    'aria-label': 'recorded step',
    oninput: () => go(Number(slider.value)),
  });
  const title = element('output', {class: 'step-title'});
  const count = element('output', {class: 'step-count'});
  const playButton = button('play', 'play (space)', () => play());
  const previous = button('previous', 'previous step (←)', () => move(-1));
  const next = button('next', 'next step (→)', () => move(1));
  const jumpTo = (checked) => state.set({follow: checked, ...(checked ? {recording: newest()} : {})});
  const follow = tick(['follow', element('span', {class: 'wide'}, ' latest')], jumpTo, 'Jump to the newest step as soon as it is recorded');
  const reload = button('refresh', 'check for new recordings', () => refresh());
  const live = context.source.isFile ? [] : [follow.element, reload];
  const bar = element(
    'section',
    {class: 'timeline', 'aria-label': 'training steps'},
    among.element,
    clear,
    element('div', {class: 'transport'}, previous, playButton, next),
    slider,
    element('div', {class: 'step'}, title, count),
    ...live,
  );
  let timer = null;

  function siblings() {
    return recordings.siblings(state.now.run, state.now.recording);
  }

  function newest() {
    return recordings.steps(state.now.run).at(-1) ?? state.now.recording;
  }

  /** Forget the questions; an answer that is shown gives way to the recorded step nearest to that of its model. */
  async function forget() {
    const {run} = state.now;
    try {
      await context.source.clear(run);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      context.report(error.message);
      return;
    }
    slider.focus(); // the button disappears
    const {now} = state;
    if (now.run === run) {
      const isShown = recordings.asked(run).includes(now.recording);
      const step = stepName(context.meta()?.step ?? Infinity);
      state.set({
        recording: isShown ? recordings.settle({run, recording: step}).recording : now.recording,
        against: now.against.startsWith('step:asked_') ? '' : now.against,
      });
    }
    await refresh();
  }

  function go(place) {
    const recording = siblings()[place];
    if (recording) state.set({recording, follow: state.now.follow && recording === newest()});
  }

  function move(by) {
    const place = siblings().indexOf(state.now.recording) + by;
    if (place >= 0 && place < siblings().length) go(place);
  }

  function jump(end) {
    go(end === 'first' ? 0 : siblings().length - 1);
  }

  function pause() {
    clearTimeout(timer);
    timer = null;
    paintButton();
  }

  /** Start or pause; at the last step it restarts from the first. */
  function play() {
    if (timer !== null) return pause();
    if (siblings().length < 2) return undefined;
    if (siblings().at(-1) === state.now.recording) jump('first');
    timer = setTimeout(advance, PACE);
    return paintButton();
  }

  async function advance() {
    const mine = timer;
    await drawn();
    if (timer !== mine) return;
    move(1);
    if (siblings().at(-1) === state.now.recording) pause();
    else timer = setTimeout(advance, PACE);
  }

  function paintButton() {
    const playing = timer !== null;
    playButton.replaceChildren(icon(playing ? 'pause' : 'play'));
    playButton.setAttribute('aria-label', playing ? 'pause (space)' : 'play (space)');
    playButton.setAttribute('aria-pressed', String(playing));
  }

  function update() {
    const {run, recording} = state.now;
    const [steps, generated, asked] = [recordings.steps(run), recordings.generated(run), recordings.asked(run)];
    const shown = siblings();
    const place = shown.indexOf(recording);
    among.element.hidden = !generated.length && !asked.length;
    clear.hidden = !asked.length;
    const options = [
      {value: 'steps', text: 'steps', count: steps.length},
      {value: 'generated', text: `generated (${generated.length})`, count: generated.length},
      {value: 'asked', text: `asked (${asked.length})`, count: asked.length},
    ];
    among.show(
      options.filter((option) => option.count),
      generated.includes(recording) ? 'generated' : asked.includes(recording) ? 'asked' : 'steps',
    );
    slider.max = Math.max(shown.length - 1, 0);
    slider.disabled = shown.length < 2;
    slider.value = Math.max(place, 0);
    slider.style.setProperty('--done', shown.length > 1 ? place / (shown.length - 1) : 1);
    slider.setAttribute('aria-valuetext', recordingTitle(recording));
    title.textContent = recordingTitle(recording);
    title.style.minWidth = `${Math.max(...[shown[0], shown.at(-1)].map((id) => recordingTitle(id ?? '').length))}ch`;
    count.textContent = `${place + 1} of ${shown.length}`;
    previous.disabled = place <= 0;
    next.disabled = place >= shown.length - 1;
    playButton.disabled = shown.length < 2;
    follow.show(state.now.follow);
    follow.box.disabled = !steps.length;
  }

  return {element: bar, slider, update, move, jump, play};
}
