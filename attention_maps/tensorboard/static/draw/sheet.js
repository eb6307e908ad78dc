/** A scrolled area with one sharp canvas under it, as large as what is visible: a long text costs no more memory than a short one. */

import {element} from '../dom/elements.js';
import {CanvasPen} from './pen.js';

export class Sheet {
  /**
   * `paint(pen, window)` draws what lies in window = {left, top, width, height} of the content; `resized()` is called before that
   * whenever the room has changed. Elements put into `content` lie above the drawing.
   */
  constructor(paint, {label = '', resized = () => {}} = {}) {
    this.paint = paint;
    this.canvas = element('canvas', {'aria-hidden': 'true'});
    this.content = element('div', {class: 'sheet-content'});
    this.scroller = element(
      'div',
      {class: 'sheet-scroller', role: 'group', 'aria-label': label, tabindex: 0, onscroll: () => this.repaint()},
      this.content,
    );
    this.element = element('div', {class: 'sheet'}, this.canvas, this.scroller);
    this.observer = new ResizeObserver(() => {
      resized();
      this.repaintNow();
    });
    this.observer.observe(this.scroller);
  }

  /** The size of what is drawn, where it is not given by the elements in `content`. */
  size(width, height) {
    Object.assign(this.content.style, {width: `${Math.ceil(width)}px`, height: `${Math.ceil(height)}px`});
  }

  /** Draw before the next picture of the screen; several calls draw once. */
  repaint() {
    this.waiting ??= requestAnimationFrame(() => this.repaintNow());
  }

  repaintNow() {
    cancelAnimationFrame(this.waiting);
    this.waiting = undefined;
    const {canvas, scroller} = this;
    const [width, height] = [scroller.clientWidth, scroller.clientHeight];
    if (!width || !height) return;
    const sharpness = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * sharpness);
    canvas.height = Math.round(height * sharpness);
    Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
    const context = canvas.getContext('2d');
    const [left, top] = [scroller.scrollLeft, scroller.scrollTop];
    context.setTransform(sharpness, 0, 0, sharpness, -left * sharpness, -top * sharpness);
    this.paint(new CanvasPen(context), {left, top, width, height});
  }

  /** Where the mouse is in the content. */
  place(event) {
    const box = this.content.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

/** The colours of text, lines and ground that the style sheet gives an element, for what is drawn instead of styled. */
export function inksOf(node) {
  const style = getComputedStyle(node);
  const ink = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  return {
    ink: ink('--view-ink', '#15181e'),
    muted: ink('--view-muted', '#5c6470'),
    line: ink('--view-line', '#d5d9e0'),
    paper: ink('--view-paper', '#ffffff'),
    accent: ink('--view-accent', '#2f5fb0'),
  };
}
