/** How a text is written, in a fold: temperature, top-p, top-k and seed of a GPT, the beam size of a translator. */

import {element} from '../../dom/elements.js';
import {numberField, segments} from '../../dom/fields.js';
import {fold} from '../../dom/fold.js';
import {decodingOf, decodingText} from './question.js';

const LABEL = 'how the text is written: settings of generate.py';
const TITLES = {
  temperature: '0 takes the most likely token each time; below 1 likely tokens get likelier, above 1 all get more equal',
  top_p: 'Nucleus sampling: from the fewest most likely tokens with this total probability',
  top_k: 'Sample from this many most likely tokens',
  seed: 'The same seed gives the same text again',
  beam_size: 'Number of hypotheses that the search keeps at each step; 1 is greedy decoding',
};

export class Decoding {
  constructor(context) {
    const {state} = context;
    const read = () => this.read();
    this.state = state;
    this.temperature = numberField('temperature', {min: 0, max: 1000, step: 0.1}, read, TITLES.temperature);
    this.topP = numberField('top-p', {min: 0, max: 1, step: 0.05, placeholder: 'off'}, read, TITLES.top_p);
    this.topK = numberField('top-k', {min: 1, step: 1, placeholder: 'off'}, read, TITLES.top_k);
    this.seed = numberField('seed', {min: 0, step: 1}, read, TITLES.seed);
    const pick = (size) => state.set({beam_size: Number(size)});
    this.beam = segments('beam size', {1: '1 (greedy)', 2: '2', 4: '4', 8: '8'}, pick, TITLES.beam_size);
    this.greedy = element('span', {class: 'muted'}, '0: the most likely token each time');
    this.sampling = [this.topP, this.topK, this.seed].map((field) => field.element);
    this.chosen = element('span', {});
    const fields = [this.temperature.element, this.greedy, ...this.sampling, this.beam.element];
    const folded = fold(this.chosen, LABEL, (open) => folded.show(open), fields);
    this.element = folded.element;
  }

  /** What the state names, of a model that `translates` or continues. */
  show(translates) {
    const {now} = this.state;
    this.chosen.textContent = `decoding: ${decodingText(decodingOf(now, translates))}`;
    this.temperature.show(now.temperature);
    this.topP.show(now.top_p === 1 ? null : now.top_p);
    this.topK.show(now.top_k || null);
    this.seed.show(now.seed);
    this.beam.show(String(now.beam_size));
    this.temperature.element.hidden = translates;
    this.greedy.hidden = translates || now.temperature > 0;
    for (const field of this.sampling) field.hidden = translates || !now.temperature;
    this.beam.element.hidden = !translates;
  }

  /** Take over what is typed, of which a field tells when it is left. */
  read() {
    const [temperature, topP, topK, seed] = [this.temperature, this.topP, this.topK, this.seed].map((field) => field.value());
    this.state.set({temperature: temperature ?? 0, top_p: topP ?? 1, top_k: topK ?? 0, seed: seed ?? 1});
  }
}
