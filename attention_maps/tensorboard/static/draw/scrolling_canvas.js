/** A scrolling area above one canvas of the size of the visible part: a long text needs no more memory than a short one. */

import {element} from '../dom/elements.js';
import {CanvasPen} from './pen.js';

export class ScrollingCanvas {
  /**
   * `paint(pen, window)` draws the part of the content in window = {left, top, width, height}; after a change of size
   * `resized()` is called first. Elements in `content` are above the drawing.
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

  /** Set the size of the drawing, unless the elements in `content` determine it. */
  size(width, height) {
    Object.assign(this.content.style, {width: `${Math.ceil(width)}px`, height: `${Math.ceil(height)}px`});
  }

  /** Draw in the next animation frame; several calls draw once. */
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

  /** Pointer position in the content: [x, y]. */
  place(event) {
    const box = this.content.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}
