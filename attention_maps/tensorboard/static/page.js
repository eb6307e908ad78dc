/** The page: its parts, the context that they share, and the loop that draws what the state asks for. */

import {curveReadings} from './core/curve_cache.js';
import {drawingLoop} from './core/drawing_loop.js';
import {isVisible, onReload, takeKeyboard} from './core/host.js';
import {loadFrame, NoExamples, stepName} from './core/load_frame.js';
import {isTold, load, loadOverview} from './core/load_page.js';
import {createPreloader} from './core/preload.js';
import {Recordings, recordingTitle} from './core/recordings.js';
import {Source} from './core/source.js';
import {State} from './core/state.js';
import {element} from './dom/elements.js';
import {colours, isDark, watchTheme} from './draw/colours.js';
import {createControls} from './panel/controls.js';
import {createHelp} from './panel/empty_page.js';
import {createGrid} from './panel/head_grid.js';
import {createKeyList, listenToKeys} from './panel/keyboard.js';
import {createScores} from './panel/scores.js';
import {createTabs} from './panel/tabs.js';
import {createTimeline} from './panel/timeline.js';
import {titleOf} from './panel/title.js';

const LOOK = 3000; // milliseconds between two looks for new recordings, while following and while there are none
const HONESTY =
  'Attention shows where a head looks, not why a model answers as it does: it is no full explanation. Rollout is a heuristic.';

/** Build the page in `body` and keep it drawn. */
export async function openPage(body) {
  const state = new State();
  const source = Source.ofPage();
  const recordings = new Recordings(source);
  const curves = curveReadings(source);
  const preloader = createPreloader();
  let palette = null;
  let shown = null; // {meta, fitted, frame, compared} as drawn last
  let notice = ''; // told with the next drawing
  let cutOff = false; // the last look for recordings got no answer
  const message = element('div', {class: 'message', role: 'alert', hidden: true});
  const context = {
    state,
    source,
    recordings,
    colours: () => palette,
    meta: () => shown?.meta ?? null,
    fitted: () => shown?.fitted ?? state.now,
    compared: () => shown?.compared ?? null,
    frameOf: (overrides = {}) => loadFrame(source, context.fitted(), overrides),
    report,
    goToStep: (step) => state.set({recording: stepName(step), follow: false}),
    curves,
  };

  const controls = createControls(context);
  const grid = createGrid(context);
  const scores = createScores(context);
  const tabs = createTabs(context);
  const overview = element('aside', {class: 'overview'}, grid.element, scores.element);
  const stale = (is) => overview.classList.toggle('stale', is); // what it shows belongs to another recording
  const keyList = createKeyList();
  const help = createHelp();
  const failed = (error) => {
    reportError(error); // for the console of the browser; the page lives on
    report(`This page has failed to draw: ${error.message}.`);
  };
  const drawing = drawingLoop(draw, failed, (busy) => {
    page.setAttribute('aria-busy', String(busy));
    if (!busy) preloader.start(context);
  });
  const timeline = createTimeline(context, {drawn: drawing.finished, refresh: () => refresh({anew: true}), help: keyList.open});
  const page = element(
    'div',
    {class: 'page'},
    controls.element,
    timeline.element,
    message,
    element('main', {}, overview, tabs.element),
    element('footer', {}, HONESTY),
  );

  function report(text) {
    message.textContent = text;
    message.hidden = !text;
  }

  async function draw(began) {
    if (!recordings.runs.size) return;
    const settled = recordings.settle(state.now);
    if (settled.run !== state.now.run || settled.recording !== state.now.recording) {
      notice = missed(state.now, settled);
      state.set(settled);
      return; // and is called again
    }
    try {
      shown = await load(source, state.now);
    } catch (error) {
      if (!isTold(error)) throw error;
      report(notice && sentence(notice));
      notice = '';
      tabs.fail(sentence(`${recordingTitle(state.now.recording)} cannot be shown: ${error.message}`));
      stale(!(error instanceof NoExamples));
      if (error instanceof NoExamples) showOnlyScores(error.meta);
      return;
    }
    report([notice, shown.problem].filter(Boolean).map(sentence).join(' '));
    notice = '';
    controls.update();
    scores.update(shown.meta);
    tabs.draw(shown.frame, titleOf(shown));
    if (drawing.isOutdated()) return;
    try {
      grid.draw(shown.frame, await loadOverview(source, shown.fitted, shown.meta));
      stale(false);
    } catch (error) {
      if (!isTold(error)) throw error;
      report(sentence(error.message));
      stale(true);
    }
    measured(began);
  }

  function showOnlyScores(meta) {
    shown = null;
    controls.update();
    grid.clear();
    scores.update(meta);
  }

  function updateBars() {
    controls.update();
    timeline.update();
  }

  /** Read the list of recordings; `anew` forgets what was read of them, for files can be written again. */
  async function refresh({anew = false} = {}) {
    let found;
    try {
      found = await recordings.refresh();
    } catch (error) {
      if (!isTold(error)) throw error;
      cutOff = true;
      report(sentence(error.message));
      if (page.hidden) help.update({problem: sentence(error.message)});
      return;
    }
    const back = cutOff; // its message goes with the next drawing
    cutOff = false;
    for (const run of anew ? recordings.runs.keys() : found.resumed) source.forget(run);
    if (!found.changed && !anew && !back) return;
    curves.forget();
    page.hidden = !recordings.runs.size;
    help.element.hidden = recordings.runs.size > 0;
    help.update(recordings);
    if (!recordings.runs.size) return;
    if (state.now.follow) state.set({recording: recordings.latest(state.now.run)});
    updateBars();
    drawing.ask();
  }

  async function keepLooking() {
    try {
      if (isVisible() && (state.now.follow || !recordings.runs.size)) await refresh();
    } finally {
      setTimeout(keepLooking, LOOK);
    }
  }

  function paintTheme() {
    palette = colours(isDark());
    document.documentElement.dataset.theme = palette.dark ? 'dark' : 'light';
    drawing.ask();
  }

  body.replaceChildren(...[...body.children].filter(({tagName}) => tagName === 'SCRIPT'), page, help.element, keyList.element);
  page.hidden = true;
  paintTheme();
  watchTheme(paintTheme);
  state.subscribe(() => {
    preloader.stop();
    updateBars();
    drawing.ask();
  });
  window.addEventListener('resize', () => isVisible() && state.tell()); // also when TensorBoard comes back to this tab
  listenToKeys(context, {timeline, frame: tabs.frame, zoom: (by) => tabs.current()?.zoom?.(by), help: keyList.open});
  new ResizeObserver(() => grid.draw()).observe(grid.element);
  takeKeyboard();
  await refresh({anew: true});
  if (source.archive) return;
  onReload(() => refresh({anew: true}));
  setTimeout(keepLooking, LOOK);
}

/** What a link asked for and is not here; '' where it asked for nothing. */
function missed(asked, settled) {
  if (asked.run && settled.run !== asked.run) return `there is no run ${asked.run} with recordings here; this is ${settled.run}`;
  if (!asked.run || !asked.recording) return '';
  return `${recordingTitle(asked.recording)} is not, or no longer, recorded in this run; this is ${recordingTitle(settled.recording)}`;
}

/** A message as a sentence: capital letter, full stop. */
function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}

/** How long the last drawing took, for benchmarks: a performance entry and an attribute of the document. */
function measured(began) {
  const ended = performance.now();
  performance.clearMeasures('redraw');
  performance.measure('redraw', {start: began, end: ended});
  document.documentElement.dataset.redraw = (ended - began).toFixed(1);
}
