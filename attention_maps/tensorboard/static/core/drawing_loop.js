/** The drawing loop: one drawing at a time; requests made meanwhile are combined into one. */

/**
 * ask(): request a drawing; requests made while one runs, also by the drawing itself, lead to one more. finished(): resolves when nothing
 * is left to draw. isOutdated(): whether the running drawing has been superseded. failed(error) is called with what `draw` throws,
 * changed(busy) when drawing begins and when everything is drawn.
 */
export function drawingLoop(draw, failed, changed) {
  let wanted = false; // whether a request is pending
  let running = null;

  async function run() {
    while (wanted) {
      wanted = false;
      try {
        await draw();
      } catch (error) {
        failed(error);
      }
    }
    running = null;
    changed(false);
  }

  function ask() {
    wanted = true;
    if (running) return;
    changed(true);
    running = Promise.resolve().then(run); // asynchronous: a draw that calls ask() at once must see `running` set
  }

  return {ask, finished: () => running ?? Promise.resolve(), isOutdated: () => wanted};
}
