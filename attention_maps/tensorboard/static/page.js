/** The page: its parts, the context that they share, and the loop that draws what the state asks for. */

import {colours, isDark, watchTheme} from './colours.js';
import {createControls, cut} from './controls.js';
import {element} from './dom.js';
import {loadFrame, stepName, stepOf} from './frames.js';
import {createGrid} from './grid.js';
import {createHelp} from './help.js';
import {isVisible, onReload} from './host.js';
import {createKeyList, listenToKeys} from './keys.js';
import {isTold, load, loadOverview} from './loading.js';
import {measureAt, measureOf, measureText} from './measures.js';
import {createPreloader} from './preload.js';
import {Recordings, recordingTitle} from './recordings.js';
import {createScores} from './scores.js';
import {Source} from './source.js';
import {State} from './state.js';
import {createTabs} from './tabs.js';
import {createTimeline} from './timeline.js';

const LOOK = 3000; // milliseconds between two looks for new recordings, while following and while there are none
const HONESTY =
  'Attention shows where a head looks, not why a model answers as it does: it is no full explanation. Rollout is a heuristic.';

/** Build the page in `body` and keep it drawn. */
export async function openPage(body) {
  const state = new State();
  const source = Source.ofPage();
  const recordings = new Recordings(source);
  const curves = new Map(); // run -> what the curves route told, until new recordings are found
  const preloader = createPreloader();
  let palette = null;
  let shown = null; // {meta, fitted, frame, compared} as drawn last
  let notice = ''; // told with the next drawing
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
    curvesReady: (run) => curves.get(run),
    curves: async (run) => {
      if (!curves.has(run)) curves.set(run, await source.once(`curves|${run}`, () => source.curves(run)));
      return curves.get(run);
    },
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
      if (state.now.run && settled.run !== state.now.run)
        notice = `there is no run ${state.now.run} with recordings here; this is ${settled.run}`;
      state.set(settled);
      return; // and is called again
    }
    try {
      shown = await load(source, state.now);
    } catch (error) {
      if (!isTold(error)) throw error;
      report(notice);
      tabs.fail(sentence(`${recordingTitle(state.now.recording)} cannot be shown: ${error.message}`));
      stale(true);
      return;
    }
    report([notice, shown.problem].filter(Boolean).map(sentence).join(' '));
    notice = '';
    controls.update();
    scores.update();
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
      report(sentence(error.message));
      return;
    }
    for (const run of anew ? recordings.runs.keys() : found.resumed) source.forget(run);
    if (!found.changed && !anew) return;
    curves.clear();
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
  await refresh({anew: true});
  if (source.archive) return;
  onReload(() => refresh({anew: true}));
  setTimeout(keepLooking, LOOK);
}

/**
 * ask(): draw soon, and once more if asked meanwhile; never two at once. finished(): resolves when nothing is left to be drawn.
 * isOutdated(): whether the drawing under way was overtaken. failed(error) is called with what `draw` throws, changed(busy) when drawing
 * begins and when all is drawn.
 */
function drawingLoop(draw, failed, changed) {
  let wanted = 0; // when it was asked for, 0 for not
  let running = null;

  async function run() {
    changed(true);
    while (wanted) {
      const began = wanted;
      wanted = 0;
      try {
        await draw(began);
      } catch (error) {
        failed(error);
      }
    }
    running = null;
    changed(false);
  }

  return {
    ask: () => {
      wanted ||= performance.now();
      running ??= run();
    },
    finished: () => running ?? Promise.resolve(),
    isOutdated: () => wanted > 0,
  };
}

/** A message as a sentence: capital letter, full stop. */
function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}

/** What is drawn, in words: the head, then where it comes from and what is measured of it. */
function titleOf({meta, fitted, frame, compared}) {
  const {kind, layer, head, run, recording} = fitted;
  const measures = ['alignment_error', 'antecedent', 'entropy']
    .map((name) => [name, measureAt(meta, name, kind, layer, head)])
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${measureOf(name).title} ${measureText(name, value)}`);
  const label = meta.labels?.[kind]?.[layer]?.[head];
  const other = compared ? `minus ${compared.b.run === run ? '' : `${compared.b.run} `}${recordingTitle(compared.b.recording)}` : '';
  const by = stepOf(recording) === null ? `by the model of step ${meta.step.toLocaleString('en')}` : '';
  const place = [recordingTitle(recording), by, other].filter(Boolean).join(' ');
  return {title: frame.name, about: [place, label, ...measures, cut(frame.sample)].filter(Boolean).join(' · ')};
}

/** How long the last drawing took, for benchmarks: a performance entry and an attribute of the document. */
function measured(began) {
  const ended = performance.now();
  performance.clearMeasures('redraw');
  performance.measure('redraw', {start: began, end: ended});
  document.documentElement.dataset.redraw = (ended - began).toFixed(1);
}
