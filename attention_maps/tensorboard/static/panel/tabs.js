/** The views, one at a time, behind tabs; beside them what the view is set with, and the export. */

import {element} from '../dom/elements.js';
import {hideTooltip} from '../dom/tooltip.js';
import {view as alignment} from '../views/alignment/alignment.js';
import {view as curves} from '../views/curves/curves.js';
import {view as lines} from '../views/lines/lines.js';
import {view as map} from '../views/map/heat_map.js';
import {view as sentence} from '../views/sentence/sentence.js';
import {view as steps} from '../views/steps.js';
import {view as strength} from '../views/strength/strength.js';
import {exportMenu} from './export.js';

const VIEWS = [map, lines, sentence, strength, alignment, curves, steps];

/** {element, draw(frame), fail(message), current(), frame()}. A view is made when it is first looked at, and kept. */
export function createTabs(context) {
  const {state} = context;
  const made = new Map(); // name -> what the view's `create` gave
  let frame = null;
  const buttons = VIEWS.map(({name, title, hint}) =>
    element(
      'button',
      {type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': 'view', title: hint, onclick: () => state.set({view: name})},
      title,
    ),
  );
  const list = element('div', {class: 'tabs', role: 'tablist', 'aria-label': 'views', onkeydown: byArrow}, buttons);
  const name = element('h2', {class: 'frame-name'});
  const detail = element('span', {class: 'frame-detail'});
  const controls = element('div', {class: 'controls-of-view'});
  const panel = element('div', {class: 'view', id: 'view', role: 'tabpanel'});
  const nothing = element('p', {class: 'nothing', hidden: true});
  const stage = element(
    'section',
    {class: 'stage', 'aria-label': 'view'},
    element(
      'div',
      {class: 'stage-head'},
      list,
      exportMenu(
        context,
        () => made.get(chosen().name),
        () => frame,
      ),
    ),
    element('div', {class: 'stage-title'}, name, detail),
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
    event.preventDefault(); // elsewhere the same keys go through time
    const next = VIEWS[(VIEWS.indexOf(chosen()) + by + VIEWS.length) % VIEWS.length];
    state.set({view: next.name});
    list.querySelector('[aria-selected=true]').focus();
  }

  function show() {
    const view = chosen();
    VIEWS.forEach((one, i) => {
      buttons[i].setAttribute('aria-selected', String(one === view));
      buttons[i].tabIndex = one === view ? 0 : -1;
    });
    panel.setAttribute('aria-labelledby', `tab-${view.name}`);
    if (!made.has(view.name)) made.set(view.name, view.create(context));
    const instance = made.get(view.name);
    if (panel.firstChild !== instance.element) {
      panel.replaceChildren(instance.element);
      controls.replaceChildren(...(instance.controls ? [instance.controls] : []));
      panel.scrollTop = 0;
    }
    return instance;
  }

  function draw(drawn, {title, about}) {
    frame = drawn;
    hideTooltip(); // it tells of what was there before
    name.textContent = title;
    detail.textContent = detail.title = about;
    nothing.hidden = true;
    panel.hidden = controls.hidden = false;
    show().draw(frame);
  }

  /** Nothing can be drawn: say why instead of showing something else. */
  function fail(message) {
    frame = null;
    hideTooltip();
    show();
    name.textContent = '';
    detail.textContent = '';
    nothing.textContent = message;
    nothing.hidden = false;
    panel.hidden = controls.hidden = true;
  }

  return {element: stage, draw, fail, show, current: () => made.get(chosen().name), frame: () => frame};
}
