/** What a model in an exported page writes while it is asked: the text so far, and a button that stops it. */

import {element} from '../../dom/elements.js';
import {writtenLine} from './answer.js';

export class Writing {
  constructor() {
    this.lines = element('div', {class: 'ask-so-far'});
    const stop = element('button', {type: 'button', class: 'ask-stop', onclick: () => this.stopping.abort()}, 'stop');
    this.element = element('div', {class: 'ask-writing', hidden: true}, this.lines, stop);
    this.stopping = null; // an AbortController, as long as a model is asked
  }

  /**
   * {onProgress, signal} for a question: `changed` tells whether heads are removed or patched, `isShown` whether it is still about the run
   * shown, `canStop` whether what answers it can be stopped.
   */
  begin({task, changed, isShown, canStop}) {
    this.stopping = new AbortController();
    this.element.hidden = !canStop;
    const texts = {};
    const names = {written: changed ? 'The whole model' : 'The model', rewritten: 'The model without the heads'};
    const onProgress = (part) => {
      if (!isShown()) return;
      Object.assign(texts, part);
      this.lines.replaceChildren(...Object.entries(texts).map(([what, text]) => writtenLine(names[what], task, text)));
      this.element.hidden = false;
    };
    return {onProgress, signal: this.stopping.signal};
  }

  end() {
    this.element.hidden = true;
    this.lines.replaceChildren();
  }
}
