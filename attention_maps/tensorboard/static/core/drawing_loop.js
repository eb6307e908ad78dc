/** When to draw: one drawing after the other, and what was asked for meanwhile only once. */

/**
 * ask(): draw soon, and once more if asked meanwhile, also by the drawing itself; never two at once. finished(): resolves when nothing is
 * left to be drawn. isOutdated(): whether the drawing under way was overtaken. failed(error) is called with what `draw` throws,
 * changed(busy) when drawing begins and when all is drawn.
 */
export function drawingLoop(draw, failed, changed) {
  let wanted = 0; // when it was asked for, 0 for not
  let running = null;

  async function run() {
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

  function ask() {
    wanted ||= performance.now();
    if (running) return;
    changed(true);
    running = Promise.resolve().then(run); // later: a drawing that asks at once must find that one is running
  }

  return {ask, finished: () => running ?? Promise.resolve(), isOutdated: () => wanted > 0};
}
