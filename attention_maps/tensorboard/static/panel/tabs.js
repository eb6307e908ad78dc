/** The tabs of the views, with the title and controls of the active one. */

import {languageOf} from '../core/format.js';
import {layerNumber} from '../core/frame.js';
import {measureAt, measureOf, measureText, namesAt} from '../core/measures.js';
import {idle} from '../core/preload.js';
import {recordingTitle, stepName, stepOf} from '../core/recordings.js';
import {Unavailable} from '../core/unavailable.js';
import {element} from '../dom/elements.js';
import {explain} from '../dom/explain.js';
import {segments} from '../dom/fields.js';
import {hideTooltip} from '../dom/tooltip.js';
import {sentenceOfMap} from '../finding/sentence.js';
import {askWithout, withoutButton} from '../views/ask/without.js';
import {TABS, VIEWS} from '../views/views.js';
import {cut} from './controls.js';
import {createExport} from './export.js';

/**
 * {element, exports: buttons that save the active view, draw(shown): a promise, tell(view, sentence), fail(message), compares(), current(),
 * frame()}; `shown` is what load_page.js returns. Views are loaded and created on first use, or while the page is idle, so that the page opens
 * sooner. Above each, a sentence says what it shows and why: a view that `tells` does so itself, for the others it is about the selected word
 * in the map.
 */
export function createTabs(context) {
  const {state} = context;
  const made = new Map(); // name -> result of the view's `create`
  let frame = null;
  let others = null; // a promise, once the first view is drawn
  const buttons = TABS.map(([name]) =>
    element(
      'button',
      {type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': 'view', title: VIEWS[name].hint, onclick: () => state.set({view: name})},
      VIEWS[name].title,
    ),
  );
  const switches = new Map(TABS.filter((views) => views.length > 1).map((views) => [views, switchOf(views, state)]));
  const list = element('div', {class: 'tabs', role: 'tablist', 'aria-label': 'views', onkeydown: byArrow}, buttons);
  const name = element('h2', {class: 'frame-name'});
  const term = element('span');
  const detail = element('span', {class: 'frame-detail'});
  const told = new Map(); // name of a view -> its sentence
  const sentence = element('span');
  const about = 'the word and the head with which the tab opens';
  const back = element('button', {type: 'button', class: 'link', title: about, onclick: toFinding}, 'back to the finding');
  const finding = element('p', {class: 'finding'}, sentence, ' ', back);
  const without = withoutButton('head', () => askWithout(context, context.fitted()));
  const minus = element('button', {type: 'button', class: 'minus', title: 'stop comparing', onclick: () => state.set({against: ''})});
  const form = element('span', {class: 'form'});
  const controls = element('div', {class: 'controls-of-view'});
  const panel = element('div', {class: 'view', id: 'view', role: 'tabpanel'});
  const nothing = element('p', {class: 'nothing', hidden: true});
  const exports = createExport(
    context,
    () => made.get(chosen()),
    () => frame,
  );
  const stage = element(
    'section',
    {class: 'stage', 'aria-label': 'view'},
    list,
    element('div', {class: 'stage-title'}, name, term, minus, without, detail, form),
    finding,
    controls,
    nothing,
    panel,
  );

  function chosen() {
    return Object.hasOwn(VIEWS, state.now.view) ? state.now.view : 'map';
  }

  function byArrow(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by) return;
    event.preventDefault(); // elsewhere these keys move through the steps
    const offered = TABS.filter((_, i) => !buttons[i].hidden);
    const next = offered[(offered.indexOf(tabOf(chosen())) + by + offered.length) % offered.length];
    state.set({view: next[0]});
    buttons[TABS.indexOf(next)].focus();
  }

  /** The sentence of a view, shown while it is the active one. */
  function tell(view, text) {
    told.set(view, text);
    if (view !== chosen()) return;
    sentence.textContent = text;
    sentence.lang = languageOf(text);
  }

  function toFinding() {
    state.set({layer: -1, head: '', rows: '', token: null, partner: '', measure: ''});
  }

  /** The instance of a view. */
  async function loaded(view) {
    if (made.has(view)) return made.get(view);
    const {create} = await VIEWS[view].load().catch((error) => {
      throw new Unavailable(`the view ${view} cannot be loaded: ${error.message}`);
    });
    if (!made.has(view)) made.set(view, create(context));
    return made.get(view);
  }

  async function loadOthers() {
    for (const view of Object.keys(VIEWS)) {
      await idle(context.source);
      await loaded(view).catch(() => {}); // reported when it is shown
    }
  }

  /** Mark the tab of the active view. */
  function mark() {
    const tab = tabOf(chosen());
    TABS.forEach((views, i) => {
      buttons[i].setAttribute('aria-selected', String(views === tab));
      buttons[i].tabIndex = views === tab ? 0 : -1;
    });
    panel.setAttribute('aria-labelledby', `tab-${tab[0]}`);
    switches.get(tab)?.show(chosen());
  }

  function show(instance) {
    if (panel.firstChild === instance.element) return;
    panel.replaceChildren(instance.element);
    term.replaceChildren(explain(VIEWS[chosen()].term ?? 'attention'));
    form.replaceChildren(...[switches.get(tabOf(chosen()))?.element].filter(Boolean));
    controls.replaceChildren(...[instance.controls].filter(Boolean));
    panel.scrollTop = 0;
  }

  async function draw(shown) {
    const view = chosen();
    const instance = await loaded(view);
    if (view !== chosen()) return; // it is drawn next
    const {ofRun, tells} = VIEWS[view];
    const about = ofRun ? titleOfRun(context) : titleOf(shown, VIEWS[view]);
    minus.hidden = !shown.compared;
    minus.textContent = shown.compared ? `${comparedWith(shown)} ×` : '';
    frame = shown.frame;
    hideTooltip(); // it describes the frame before
    name.textContent = about.title;
    detail.textContent = detail.title = about.detail;
    nothing.hidden = true;
    const translates = shown.meta.samples.some(({source}) => source);
    buttons[TABS.indexOf(tabOf('alignment'))].hidden = !translates && view !== 'alignment'; // two texts are aligned
    const unasked = view === 'ask' || ofRun || !context.source.canAsk(state.now.run);
    const foreign = !frame.meta.parts?.length; // of another model, which cannot be asked
    without.hidden = typeof frame.head !== 'number' || unasked || foreign;
    panel.hidden = controls.hidden = form.hidden = finding.hidden = false;
    back.hidden = isFinding(shown);
    tell(view, tells ? (told.get(view) ?? '') : sentenceOfMap(shown));
    mark();
    show(instance);
    instance.draw(frame);
    others ??= loadOthers();
  }

  /** Nothing can be drawn: show why. */
  function fail(message) {
    frame = context.toAsk = null;
    hideTooltip();
    mark();
    name.textContent = '';
    without.hidden = minus.hidden = true;
    detail.textContent = '';
    nothing.textContent = message;
    nothing.hidden = false;
    panel.hidden = controls.hidden = form.hidden = finding.hidden = true;
  }

  /** Whether the active view shows a difference of two steps or runs. */
  const compares = () => VIEWS[chosen()].compares !== false;

  loaded(chosen()).catch(() => {}); // while the recordings are read

  return {element: stage, exports, draw, tell, fail, compares, current: () => made.get(chosen()), frame: () => frame};
}

const tabOf = (view) => TABS.find((views) => views.includes(view));

/** Whether the head and the word of the finding are selected; true if there is none. */
function isFinding({finding, fitted, frame}) {
  if (!finding || finding.kind !== fitted.kind) return true; // of another kind of attention, the finding is another one
  const row = frame.rows.findIndex(({positions}) => positions.includes(finding.query[frame.rowsNamed]));
  return finding.layer === fitted.layer && finding.head === fitted.head && fitted.token === (row < 0 ? '' : `r${row}`);
}

/** The switch between the views of one tab. */
function switchOf(views, state) {
  const options = Object.fromEntries(views.map((name) => [name, VIEWS[name].form]));
  return segments(VIEWS[views[0]].forms, options, (view) => state.set({view}), VIEWS[views[1]].hint);
}

/** {title, detail} of a view of the whole run. */
function titleOfRun({fitted, recordings}) {
  const {run} = fitted();
  const steps = recordings.numbers(run);
  const detail = steps.length ? `recorded steps: ${steps.length}, up to ${recordingTitle(stepName(steps.at(-1)))}` : '';
  return {title: `training of ${run}`, detail};
}

/** "minus run-2 step 300": what is subtracted. */
function comparedWith({fitted, compared: {b}}) {
  return `minus ${b.run === fitted.run ? '' : `${b.run} `}${recordingTitle(b.recording)}`;
}

/** {title, detail} of what is drawn: what the view shows, by default the head; its recording, label, measures and problems. */
function titleOf(shown, view) {
  const {meta, fitted, frame, compared} = shown;
  const {kind, layer, head, recording} = fitted;
  const measures = ['alignment_error', 'antecedent', 'entropy']
    .map((name) => [name, measureAt(meta, name, kind, layer, head)])
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${measureOf(name).title} ${measureText(name, value)}`);
  const label = namesAt(meta, kind, layer, head).join(', ');
  const other = compared ? comparedWith(shown) : '';
  const by = stepOf(recording) === null ? `by the model of step ${meta.step.toLocaleString('en')}` : '';
  const place = [recordingTitle(recording), by, other].filter(Boolean).join(' ');
  const broken = frame.weights.every(Number.isFinite) ? '' : 'not all weights are numbers: the model diverged';
  const selected = typeof head === 'number' ? [`selected: layer ${layerNumber(meta, kind, layer)} · head ${head}`] : [];
  const title = view.shows ? [view.shows(frame), ...selected].join(' · ') : frame.name;
  return {title, detail: [place, label, broken, ...measures, cut(frame.sample)].filter(Boolean).join(' · ')};
}
