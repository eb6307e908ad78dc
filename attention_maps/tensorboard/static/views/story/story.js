/** The story view: the loss of a run, and below it a band for each head, coloured by what the head does at each recorded step. */

import {KIND_NAMES, layerNumber} from '../../core/frame.js';
import {measureOf, measureText, shownName} from '../../core/measures.js';
import {stepName, stepOf} from '../../core/recordings.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {firstSteps} from '../../dom/explain.js';
import {segments} from '../../dom/fields.js';
import {hideTooltip, showTooltip, watchHover} from '../../dom/tooltip.js';
import {inksOf} from '../../draw/colours.js';
import {sharpContext} from '../../draw/matrix_pixels.js';
import {CanvasPen, SvgPen} from '../../draw/pen.js';
import {headWithReason} from '../../finding/sentence.js';
import {createExample} from './example.js';
import {besideRules, births, evidence, histories, LABELS, measureBehind, mostImportant, scoresAround} from './history.js';
import {drawBand, drawLoss, lossText, nameOf, stepScale, uniformAlpha} from './picture.js';
import {Strip} from './strip.js';

export const create = (context) => new Story(context);

const BANDS =
  'A band is coloured by the label of its head at each step, stronger where more of its attention fits the label. ' +
  'Click a band for the map of that head at that step, the loss to go to a step.';
const EVENTS = 6; // sentences about heads above the picture
const LOSS = {tall: 150, low: 112}; // height of the chart in CSS pixels, by the height of the window
const BAND = 16; // height of a band

class Story {
  constructor(context) {
    this.context = context;
    const {state} = context;
    this.spacing = segments('steps', {log: 'logarithmic', even: 'linear'}, (spacing) => state.set({spacing}));
    const start = element('span', {class: 'story-start'}, 'New? Read the ', firstSteps(), '.');
    this.controls = element('div', {class: 'view-controls'}, this.spacing.element, start);
    this.example = createExample(context);
    this.events = element('ol', {class: 'story-events'});
    this.loss = element('canvas', {class: 'story-loss', role: 'img'});
    this.now = element('div', {class: 'story-now', 'aria-hidden': 'true', hidden: true});
    this.rows = element('div', {class: 'story-rows', role: 'group', 'aria-label': 'heads over the training'});
    this.picture = element('div', {class: 'story-picture'}, this.loss, this.rows, this.now);
    this.legend = element('ul', {class: 'story-legend', 'aria-label': 'colours'});
    this.strip = new Strip(context);
    this.note = element('p', {class: 'view-note', role: 'status'});
    const parts = [this.example.element, this.events, this.picture, this.legend, this.note, this.strip.element];
    this.element = element('div', {class: 'story-view'}, parts);
    new ResizeObserver(() => this.paint()).observe(this.picture);
    watchHover(this.picture, (event) => this.point(event));
    this.picture.addEventListener('click', (event) => this.go(event));
  }

  draw(frame) {
    const {run} = this.context.state.now;
    this.frame = frame;
    this.spacing.show(this.context.state.now.spacing);
    this.example.draw(frame);
    const turn = (this.turn = {});
    const show = (curves) => turn === this.turn && this.show(curves);
    const known = this.context.curves.ready(run);
    if (known) return show(known);
    return this.context.curves.read(run).then(show, (error) => {
      if (!(error instanceof Unavailable)) throw error;
      if (turn === this.turn) this.lacking(error.message);
    });
  }

  /** `curves` are rebuilt only if they, the spacing or the theme differ: a move of the slider only moves the line of the step. */
  show(curves) {
    const palette = this.context.colours();
    const {spacing} = this.context.state.now;
    if (curves !== this.curves || spacing !== this.spaced || palette !== this.palette) {
      Object.assign(this, {curves, palette, spaced: spacing, heads: this.histories(curves)});
      if (!curves.steps.length) return this.lacking('This run recorded no training steps, only generated texts.');
      this.picture.hidden = false;
      this.tell();
      this.build();
      this.paint();
    }
    this.mark();
    this.context.tell('story', this.sentence());
    this.strip.draw(this.frame, this.birthsOfSelected());
  }

  /** What the view shows, and the selected head. */
  sentence() {
    const {steps} = this.curves;
    const until = steps.length > 1 ? `from step ${this.stepText(0)} to step ${this.stepText(steps.length - 1)}` : `until step ${this.stepText(0)}`;
    const selected = headWithReason(this.context.shown());
    return `What the training did to each head, ${until}; the list of heads has their attention maps. Selected: ${selected}.`;
  }

  /** The steps that the story names for the selected head: since when it does what it does at the end. */
  birthsOfSelected() {
    const {kind, layer, head} = this.context.fitted();
    const selected = this.heads.find((one) => one.kind === kind && one.layer === layer && one.head === head);
    return (selected?.roles ?? []).filter(({birth}) => birth > 0).map(({birth}) => stepName(this.curves.steps[birth]));
  }

  /** The history of each head, with the model's own number of its layer. */
  histories(curves) {
    const meta = this.context.meta();
    return histories(curves).map((head) => ({...head, number: layerNumber(meta, head.kind, head.layer)}));
  }

  lacking(why) {
    this.curves = null;
    this.context.tell('story', '');
    for (const part of [this.events, this.rows, this.legend]) part.replaceChildren();
    this.example.show([]);
    this.picture.hidden = true;
    this.note.textContent = why;
    this.strip.draw(this.frame, []);
  }

  /** What happened, in sentences, each a link. */
  tell() {
    const {curves, heads} = this;
    const told = [];
    const loss = lossText(curves);
    if (loss) told.push([this.link(null, curves.steps.at(-1), loss)]);
    this.several = new Set(heads.map(({kind}) => kind)).size > 1; // kinds, which sentences name
    for (const event of births(heads).slice(0, EVENTS)) {
      const {head, name, birth, others} = event;
      const why = evidence(event, curves);
      const more = others ? `, at the end the strongest of ${others + 1} heads with this label` : '';
      const only = birth === curves.steps.length - 1 ? ', at the last step only' : '';
      const [first] = scoresAround(measureBehind(name), birth, head, curves);
      const [when, does] = first?.index === birth ? [', the first with scores', 'is'] : ['', 'becomes']; // it may be older
      const label = `${nameOf(head, this.several)} ${does} “${name}”${why && ` (${why})`}`;
      const text = `Step ${this.stepText(birth)}${when}: ${label}${more}${only}.`;
      told.push([this.link(head, this.scoredStep(head, {name, birth}), text, name), ...this.scores(head, {name, birth})]);
    }
    this.example.show(heads);
    const needed = mostImportant(heads);
    if (needed) {
      const rise = measureText('importance', needed.importance);
      const text = `Most important at the end: ${nameOf(needed, this.several)}. Without it the loss rises by ${rise} per token.`;
      const {index} = scoresAround('importance', 0, needed, curves).at(-1);
      told.push([this.link(needed, curves.steps[index], text, '', 'importance')]);
    }
    this.events.replaceChildren(...told.map((parts) => element('li', {}, parts)));
    this.note.textContent = heads.length
      ? `${this.progress()}${BANDS}`
      : 'This run recorded no labels of heads: it is older, or of another program. The other views show its maps.';
  }

  /** What shows whether a sentence is right: the scores before and at a step and at the end, each a link, beside a rule without a model. */
  scores(head, {name, birth}) {
    const measure = measureBehind(name);
    const found = scoresAround(measure, birth, head, this.curves);
    if (!found.length) return [];
    const links = found.map(({index, value}) => {
      return this.link(head, this.curves.steps[index], `${measureText(measure, value)} at step ${this.stepText(index)}`, name);
    });
    const before = found[0].index < birth ? [] : ['not scored before', ' → '];
    const between = links.flatMap((link, place) => (place ? [' → ', link] : [link]));
    const rules = besideRules(measure, head, this.curves);
    return [element('div', {class: 'story-scores'}, `${measureOf(measure).title}: `, ...before, ...between, '.', rules && ` ${rules}`)];
  }

  /** The step at which a head got a label, or the first one after it with its score; of an older label, the last one with its score. */
  scoredStep(head, {name, birth}) {
    const scored = scoresAround(measureBehind(name), birth, head, this.curves);
    const born = birth > 0 ? birth : -1;
    const {index} = (born < 0 ? scored.at(-1) : scored.find((one) => one.index >= birth)) ?? {index: born};
    return this.curves.steps.at(index);
  }

  /** What a band needs that a run does not have yet. */
  progress() {
    if (this.curves.steps.length === 1) return 'Only one step is recorded so far; tick “follow latest” to see the next ones. ';
    return this.context.state.now.follow ? 'New steps appear here as they are recorded. ' : '';
  }

  stepText(place) {
    return this.curves.steps[place].toLocaleString('en');
  }

  /** A button that opens the map of a head, or of the selected one, at a step. */
  link(head, step, text, name = '', measure = measureBehind(name)) {
    const onclick = () => this.open(head, step, name, measure);
    return element('button', {type: 'button', class: 'link', onclick, title: 'open this map'}, text);
  }

  /** Open the map of a head at a step, where the list of heads shows a measure: the one behind the label `name`. */
  open(one, step, name = '', shown = '') {
    const {state, fitted} = this.context;
    const {kind, layer, head} = one ?? fitted();
    const measure = shown || state.now.measure;
    const word = fitted().kind === kind ? this.example.wordsFor(name) : {token: null, partner: ''};
    state.set({kind, layer, head, recording: stepName(step), follow: false, view: 'map', measure, ...word});
  }

  build() {
    const {heads, palette} = this;
    const kinds = new Set(heads.map(({kind}) => kind));
    const most = Math.max(...heads.map(({importance}) => importance || 0));
    this.made = heads.map((head) => this.row(head, most));
    const heading = ['', '', 'label at the end', 'importance'].map((text) => element('span', {}, text));
    const titles = element('div', {class: 'story-row story-titles'}, heading);
    const parts = [...kinds].flatMap((kind) => [
      ...(kinds.size > 1 ? [element('h3', {}, KIND_NAMES[kind])] : []),
      ...this.made.filter(({head}) => head.kind === kind).map(({row}) => row),
    ]);
    this.rows.replaceChildren(...(heads.length ? [titles] : []), ...parts);
    const present = LABELS.filter((label) => heads.some(({labels}) => labels.some((names) => names.some(({name}) => name === label))));
    const opacity = (label) => (label === 'broad' ? uniformAlpha(palette) : 1);
    const sample = (label) => element('span', {class: 'story-colour', style: `background: ${palette.label(label)}; opacity: ${opacity(label)}`});
    this.legend.replaceChildren(...present.map((label) => element('li', {}, sample(label), shownName(label))));
  }

  /** "induction since step 200", for one of the names in the label of a head at the end. */
  roleText({name, birth}) {
    if (birth <= 0) return shownName(name);
    if (birth === this.curves.steps.length - 1) return `${shownName(name)} only at the last step`;
    return `${shownName(name)} since step ${this.stepText(birth)}`;
  }

  /** {head, canvas, row}: name, band, label and importance of a head; `most` is the largest importance. */
  row(head, most) {
    const {steps} = this.curves;
    const what = head.roles.map((role) => this.roleText(role)).join(', ');
    const canvas = element('canvas', {role: 'img', 'aria-label': `${nameOf(head)}: ${what || 'no label'}`});
    const share = most > 0 && head.importance > 0 ? head.importance / most : 0;
    const curves = {kind: head.kind, layer: head.layer, head: head.head, view: 'curves', measure: 'importance'};
    const rise = `the loss without this head: ${measureText('importance', head.importance)} more`;
    const importance = element(
      'button',
      {
        type: 'button',
        class: 'story-importance',
        title: rise,
        'aria-label': `${nameOf(head)}: ${rise}`,
        disabled: !Number.isFinite(head.importance),
        onclick: () => this.context.state.set(curves),
      },
      Number.isFinite(head.importance) ? element('span', {style: `width: ${(100 * share).toFixed(1)}%`}) : '',
    );
    const births = head.roles.map((role) => {
      return this.link(head, this.scoredStep(head, role), this.roleText(role), role.name);
    });
    const label = element('span', {class: 'story-label'}, births.length ? births : '–');
    const band = element('div', {class: 'story-band'}, canvas);
    const row = element('div', {class: 'story-row'}, this.link(head, steps.at(-1), nameOf(head)), band, label, importance);
    row.dataset.head = [head.kind, head.layer, head.head].join('|');
    return {head, canvas, row};
  }

  /** Left edge and width of the bands in the picture; of the whole picture without heads. */
  room() {
    const [band] = this.rows.getElementsByClassName('story-band');
    const box = this.picture.getBoundingClientRect();
    if (!band) return {left: 60, width: Math.max(box.width - 80, 20)};
    const {left, width} = band.getBoundingClientRect();
    return {left: left - box.left, width: Math.max(width, 20)};
  }

  paint() {
    const width = this.picture.clientWidth;
    if (!this.curves || !width) return;
    const room = this.room();
    this.scale = stepScale(this.curves.steps, this.spaced, room);
    const inks = inksOf(this.element);
    const tall = window.innerHeight < 700 ? LOSS.low : LOSS.tall;
    drawLoss(new CanvasPen(sharpContext(this.loss, width, tall)), this.curves, this.scale, inks, tall);
    this.loss.setAttribute('aria-label', lossText(this.curves) || 'no loss is recorded');
    for (const {head, canvas} of this.made) {
      const pen = new CanvasPen(sharpContext(canvas, room.width, BAND));
      drawBand(pen, head, {scale: this.scale, left: -room.left, top: 0, height: BAND, palette: this.palette, inks});
    }
    this.mark();
  }

  /** Mark the shown step and the selected head. */
  mark() {
    const step = stepOf(this.context.state.now.recording);
    this.now.hidden = step === null || !this.scale;
    if (!this.now.hidden) this.now.style.left = `${this.scale.x(step).toFixed(1)}px`;
    const {kind, layer, head} = this.context.fitted();
    for (const {row} of this.made ?? []) row.classList.toggle('selected', row.dataset.head === [kind, layer, head].join('|'));
  }

  /** What the pointer is at: {index of the step, the row or undefined}; null beside the bands. */
  at(event) {
    if (!this.curves || !this.scale || event.target.closest('button')) return null;
    const x = event.clientX - this.picture.getBoundingClientRect().left;
    if (x < this.scale.left - 4 || x > this.scale.left + this.scale.width + 4) return null;
    return {index: this.scale.indexAt(x), made: this.made.find(({row}) => row.contains(event.target))};
  }

  point(event) {
    const at = this.at(event);
    if (!at) return hideTooltip();
    const {index, made} = at;
    const loss = this.curves.loss?.[index];
    const lines = [`step ${this.stepText(index)}`, Number.isFinite(loss) ? `loss ${loss.toFixed(3)} nats` : ''];
    if (made) {
      const {head} = made;
      const share = (strength) => (Number.isFinite(strength) ? ` ${(100 * strength).toFixed(0)} %` : '');
      const names = head.labels[index].map(({name, strength}) => `${shownName(name)}${share(strength)}`);
      lines.push(`${nameOf(head)}: ${names.join(', ') || 'no label'}`);
    }
    return showTooltip(event, ...lines);
  }

  /** A band opens the map of its head at a step; the loss only goes to the step. */
  go(event) {
    const at = this.at(event);
    if (!at) return;
    const step = this.curves.steps[at.index];
    if (at.made) this.open(at.made.head, step);
    else this.context.goToStep(step);
  }

  svg() {
    if (!this.curves) return null;
    const pen = new SvgPen();
    const inks = inksOf(this.element);
    const [left, width, right] = [190, 640, 360];
    const scale = stepScale(this.curves.steps, this.spaced, {left, width});
    drawLoss(pen, this.curves, scale, inks, LOSS.tall);
    this.heads.forEach((head, i) => {
      const top = LOSS.tall + i * (BAND + 4);
      pen.text(left - 10, top + BAND / 2, nameOf(head, true), {size: 11, fill: inks.ink, anchor: 'end'});
      drawBand(pen, head, {scale, left: 0, top, height: BAND, palette: this.palette, inks});
      const label = head.roles.map((role) => this.roleText(role)).join(', ');
      pen.text(left + width + 10, top + BAND / 2, label, {size: 11, fill: inks.ink});
    });
    const bands = LOSS.tall + this.heads.length * (BAND + 4);
    const height = bands + this.strip.drawSvg(pen, bands + 16, inks) + 16;
    return pen.svg(left + width + right, height, {title: `story · ${this.context.state.now.run}`, paper: inks.paper, margin: 12});
  }
}
