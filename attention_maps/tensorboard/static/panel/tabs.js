/** The tabs of the views, with the title and controls of the active one. */

import {languageOf} from '../core/format.js';
import {layerNumber} from '../core/frame.js';
import {measureAt, measureOf, measureText, namesAt} from '../core/measures.js';
import {recordingTitle, stepName, stepOf} from '../core/recordings.js';
import {element} from '../dom/elements.js';
import {explain} from '../dom/explain.js';
import {segments} from '../dom/fields.js';
import {hideTooltip} from '../dom/tooltip.js';
import {sentenceOfMap} from '../finding/sentence.js';
import {view as alignment} from '../views/alignment/alignment.js';
import {view as ask} from '../views/ask/ask.js';
import {askWithout, withoutButton} from '../views/ask/without.js';
import {view as circuits} from '../views/circuits/circuits.js';
import {view as curves} from '../views/curves/curves.js';
import {view as lines} from '../views/lines/lines.js';
import {view as map} from '../views/map/heat_map.js';
import {view as pair} from '../views/pair/pair.js';
import {view as prediction} from '../views/prediction/prediction.js';
import {view as sentence} from '../views/sentence/sentence.js';
import {view as story} from '../views/story/story.js';
import {cut} from './controls.js';
import {createExport} from './export.js';

/** The views of each tab, from left to right; between those of one tab, a switch beside the title chooses. */
const TABS = [[story], [map, lines], [sentence], [pair], [prediction, circuits], [ask], [alignment], [curves]];
const VIEWS = TABS.flat();

/**
 * {element, exports: buttons that save the active view, draw(shown), tell(view, sentence), fail(message), current(), frame()}; `shown` is what
 * load_page.js returns. Views are created on first use. Above each, a sentence says what it shows and why: a view that `tells` does so itself,
 * for the others it is about the selected word in the map.
 */
export function createTabs(context) {
  const {state} = context;
  const made = new Map(); // name -> result of the view's `create`
  let frame = null;
  const buttons = TABS.map(([{name, title, hint}]) =>
    element(
      'button',
      {type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': 'view', title: hint, onclick: () => state.set({view: name})},
      title,
    ),
  );
  const switches = new Map(TABS.filter((views) => views.length > 1).map((views) => [views, switchOf(views, state)]));
  const list = element('div', {class: 'tabs', role: 'tablist', 'aria-label': 'views', onkeydown: byArrow}, buttons);
  const name = element('h2', {class: 'frame-name'});
  const term = element('span');
  const detail = element('span', {class: 'frame-detail'});
  const told = new Map(); // name of a view -> its sentence
  const sentence = element('span');
  const back = element('button', {type: 'button', class: 'link', title: 'the word and the head with which the tab opens', onclick: toFinding}, 'back to the finding');
  const finding = element('p', {class: 'finding'}, sentence, ' ', back);
  const without = withoutButton('head', () => askWithout(context, context.fitted()));
  const minus = element('button', {type: 'button', class: 'minus', title: 'stop comparing', onclick: () => state.set({against: ''})});
  const form = element('span', {class: 'form'});
  const controls = element('div', {class: 'controls-of-view'});
  const panel = element('div', {class: 'view', id: 'view', role: 'tabpanel'});
  const nothing = element('p', {class: 'nothing', hidden: true});
  const exports = createExport(
    context,
    () => made.get(chosen().name),
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
    return VIEWS.find(({name: one}) => one === state.now.view) ?? map;
  }

  function byArrow(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by) return;
    event.preventDefault(); // elsewhere these keys move through the steps
    const offered = TABS.filter((_, i) => !buttons[i].hidden);
    const next = offered[(offered.indexOf(tabOf(chosen())) + by + offered.length) % offered.length];
    state.set({view: next[0].name});
    list.querySelector('[aria-selected=true]').focus();
  }

  /** The sentence of a view, shown while it is the active one. */
  function tell(view, text) {
    told.set(view, text);
    if (view !== chosen().name) return;
    sentence.textContent = text;
    sentence.lang = languageOf(text);
  }

  function toFinding() {
    state.set({layer: -1, head: '', rows: '', token: null, partner: '', measure: ''});
  }

  function show() {
    const view = chosen();
    const tab = tabOf(view);
    TABS.forEach((views, i) => {
      buttons[i].setAttribute('aria-selected', String(views === tab));
      buttons[i].tabIndex = views === tab ? 0 : -1;
    });
    panel.setAttribute('aria-labelledby', `tab-${tab[0].name}`);
    switches.get(tab)?.show(view.name);
    if (!made.has(view.name)) made.set(view.name, view.create(context));
    const instance = made.get(view.name);
    if (panel.firstChild !== instance.element) {
      panel.replaceChildren(instance.element);
      term.replaceChildren(explain(view.term ?? 'attention'));
      form.replaceChildren(...[switches.get(tab)?.element].filter(Boolean));
      controls.replaceChildren(...[instance.controls].filter(Boolean));
      panel.scrollTop = 0;
    }
    return instance;
  }

  function draw(shown) {
    const about = chosen().ofRun ? titleOfRun(context) : titleOf(shown, chosen());
    minus.hidden = !shown.compared;
    minus.textContent = shown.compared ? `${comparedWith(shown)} ×` : '';
    frame = shown.frame;
    hideTooltip(); // it describes the frame before
    name.textContent = about.title;
    detail.textContent = detail.title = about.detail;
    nothing.hidden = true;
    const translates = shown.meta.samples.some(({source}) => source);
    buttons[TABS.indexOf(tabOf(alignment))].hidden = !translates && chosen() !== alignment; // two texts are aligned
    const unasked = chosen() === ask || chosen().ofRun || Boolean(context.source.archive);
    const foreign = !frame.meta.parts?.length; // of another model, which cannot be asked
    without.hidden = typeof frame.head !== 'number' || unasked || foreign;
    panel.hidden = controls.hidden = form.hidden = finding.hidden = false;
    back.hidden = isFinding(shown);
    tell(chosen().name, chosen().tells ? (told.get(chosen().name) ?? '') : sentenceOfMap(shown));
    show().draw(frame);
  }

  /** Nothing can be drawn: show why. */
  function fail(message) {
    frame = context.toAsk = null;
    hideTooltip();
    show();
    name.textContent = '';
    without.hidden = minus.hidden = true;
    detail.textContent = '';
    nothing.textContent = message;
    nothing.hidden = false;
    panel.hidden = controls.hidden = form.hidden = finding.hidden = true;
  }

  /** Whether the active view shows a difference of two steps or runs. */
  const compares = () => chosen().compares !== false;

  return {element: stage, exports, draw, tell, fail, compares, current: () => made.get(chosen().name), frame: () => frame};
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
  const options = Object.fromEntries(views.map(({name, form}) => [name, form]));
  return segments(views[0].forms, options, (view) => state.set({view}), views[1].hint);
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
