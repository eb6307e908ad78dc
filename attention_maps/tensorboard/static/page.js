/** The page: builds its parts and the context that they share, and draws whenever the state changes. */

import {createCurveCache} from './core/curve_cache.js';
import {drawingLoop} from './core/drawing_loop.js';
import {isDark, isVisible, onReload, takeKeyboard, watchTheme} from './core/host.js';
import {loadFrame, NoExamples} from './core/load_frame.js';
import {load, loadOverview} from './core/load_page.js';
import {createPreloader} from './core/preload.js';
import {Recordings, recordingTitle, stepName} from './core/recordings.js';
import {Unavailable} from './core/unavailable.js';
import {State} from './core/state.js';
import {element} from './dom/elements.js';
import {colours} from './draw/colours.js';
import {createFindings} from './finding/findings.js';
import {createAbout} from './panel/about.js';
import {createControls} from './panel/controls.js';
import {createDisplayOptions} from './panel/display_options.js';
import {createEmptyPage} from './panel/empty_page.js';
import {createHeadGrid} from './panel/head_grid.js';
import {createHelp} from './panel/help.js';
import {listenToKeys} from './panel/keyboard.js';
import {createScores} from './panel/scores.js';
import {createTabs} from './panel/tabs.js';
import {createTimeline} from './panel/timeline.js';

const POLL = 3000; // milliseconds between checks for new recordings, while following the latest step and while there are none
const CAVEAT =
  'Attention weights show where a head attends, not why the model produces its output. Rollout is a heuristic.';

/** Build the page in `body`, with the recordings of `source`, and keep it drawn. */
export async function openPage(body, source) {
  const state = new State();
  const recordings = new Recordings(source);
  const curves = createCurveCache(source);
  const findings = createFindings(source, recordings, curves);
  const preloader = createPreloader();
  let palette = null;
  let shown = null; // the last drawing, as from load_page.js
  let notice = ''; // shown with the next drawing
  let cutOff = false; // the last check for recordings failed
  const message = element('div', {class: 'message', role: 'alert', hidden: true});
  const context = {
    state,
    source,
    recordings,
    colours: () => palette,
    shown: () => shown,
    meta: () => shown?.meta ?? null,
    fitted: () => shown?.fitted ?? state.now,
    compared: () => shown?.compared ?? null,
    compares: () => tabs.compares(),
    tell: (view, sentence) => tabs.tell(view, sentence),
    frameOf: (overrides = {}) => loadFrame(source, context.fitted(), overrides),
    report,
    goToStep: (step) => state.set({recording: stepName(step), follow: false}),
    refresh: () => refresh(),
    curves,
    toAsk: null, // {position, exact}: the view Ask sends its question as soon as it is drawn, and opens the answer at a word; see Ask.opening
  };

  const controls = createControls(context);
  const options = createDisplayOptions(context);
  const grid = createHeadGrid(context);
  const scores = createScores(context);
  const tabs = createTabs(context);
  const overview = element('aside', {class: 'overview'}, grid.element, scores.element);
  const stale = (is) => overview.classList.toggle('stale', is); // the overview belongs to another recording
  const about = createAbout(context);
  const help = createHelp(context);
  const empty = createEmptyPage();
  const failed = (error) => {
    reportError(error); // to the browser's console; the page stays usable
    report(`The page could not be drawn: ${error.message}.`);
  };
  const drawing = drawingLoop(draw, failed, (busy) => {
    page.setAttribute('aria-busy', String(busy));
    if (!busy) preloader.start(context);
  });
  const timeline = createTimeline(context, {drawn: drawing.finished, refresh: () => refresh({anew: true})});
  const page = element(
    'div',
    {class: 'page'},
    element('header', {class: 'bar'}, controls.elements, timeline.element, options.element, help.button),
    message,
    element('main', {}, overview, tabs.element),
    element('footer', {}, element('span', {}, CAVEAT), about.element, tabs.exports),
  );

  function report(text) {
    message.textContent = text;
    message.hidden = !text;
  }

  async function draw() {
    if (!recordings.runs.size) return;
    if (state.now.against && !tabs.compares()) return state.set({against: ''});
    const settled = recordings.settle(state.now);
    if (settled.run !== state.now.run || settled.recording !== state.now.recording) {
      notice = missed(state.now, settled, source.isFile);
      state.set(settled);
      return; // which draws again
    }
    try {
      shown = await load(source, state.now, findings);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      report(notice && sentence(notice));
      notice = '';
      about.update(error.meta);
      tabs.fail(sentence(`${recordingTitle(state.now.recording)} cannot be shown: ${error.message}`));
      stale(!(error instanceof NoExamples));
      if (error instanceof NoExamples) showOnlyScores(error.meta);
      return;
    }
    report([notice, shown.problem].filter(Boolean).map(sentence).join(' '));
    notice = '';
    state.shown = shown.fitted;
    updateControls();
    scores.update(shown.meta);
    about.update(shown.meta);
    try {
      await tabs.draw(shown);
      if (drawing.isOutdated()) return;
      grid.draw(shown.frame, await loadOverview(source, shown.fitted, shown.meta));
      stale(false);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      report(sentence(error.message));
      stale(true);
    }
  }

  function showOnlyScores(meta) {
    shown = state.shown = null;
    updateControls();
    grid.clear();
    scores.update(meta);
  }

  function updateControls() {
    controls.update();
    options.update();
  }

  function updateBar() {
    updateControls();
    timeline.update();
  }

  /** Read the list of recordings; `anew` also drops cached recordings, whose files may have been overwritten. */
  async function refresh({anew = false} = {}) {
    let found;
    try {
      found = await recordings.refresh();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      cutOff = true;
      report(sentence(error.message));
      if (page.hidden) empty.update({problem: sentence(error.message)});
      return;
    }
    const back = cutOff; // the next drawing removes its message
    cutOff = false;
    for (const run of anew ? recordings.runs.keys() : found.resumed) source.forget(run);
    if (anew || found.resumed.length) findings.forget();
    if (!found.changed && !anew && !back) return;
    curves.forget();
    page.hidden = !recordings.runs.size;
    empty.element.hidden = recordings.runs.size > 0;
    empty.update(recordings);
    if (!recordings.runs.size) return;
    if (state.now.follow) state.set({recording: recordings.latest(state.now.run)});
    updateBar();
    drawing.ask();
  }

  async function poll() {
    try {
      if (isVisible() && (state.now.follow || !recordings.runs.size)) await refresh();
    } finally {
      setTimeout(poll, POLL);
    }
  }

  function paintTheme() {
    palette = colours(isDark());
    document.documentElement.dataset.theme = palette.dark ? 'dark' : 'light';
    drawing.ask();
  }

  body.replaceChildren(...[...body.children].filter(({tagName}) => tagName === 'SCRIPT'), page, empty.element, help.element);
  body.addEventListener('explain', ({detail}) => help.open(detail));
  page.hidden = true;
  paintTheme();
  watchTheme(paintTheme);
  state.subscribe(() => {
    preloader.stop();
    updateBar();
    drawing.ask();
  });
  window.addEventListener('resize', () => isVisible() && state.writeUrl()); // also when this tab becomes active again
  listenToKeys(context, {timeline, frame: tabs.frame, zoom: (by) => tabs.current()?.zoom?.(by), help: () => help.open()});
  new ResizeObserver(() => grid.draw()).observe(grid.element);
  takeKeyboard();
  await refresh({anew: true});
  if (source.isFile) return;
  onReload(() => refresh({anew: true}));
  setTimeout(poll, POLL);
}

/** What a link named that does not exist, or that an `exported` page does not contain; '' if it named nothing. */
function missed(requested, settled, exported) {
  if (requested.run && settled.run !== requested.run) return `there is no run ${requested.run} with recordings; showing ${settled.run}`;
  if (!requested.run || !requested.recording) return '';
  const [wanted, shown] = [requested, settled].map(({recording}) => recordingTitle(recording));
  const why = exported ? `this exported page does not contain ${wanted}` : `this run has no recording of ${wanted} (any more)`;
  return `${why}; showing ${shown}`;
}

/** A message as a sentence: capital letter, full stop. */
function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}
