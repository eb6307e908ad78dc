/** Pointer input on the map: hovering, clicking, dragging, wheel and pinch zoom. */

const CLICK = 4; // pixels that the pointer may move during a click

/** Listen on a canvas with a `layout()` and a `camera`; calls moved(), over(event, place), out() and clicked(place). */
export function watchPointer(canvas, {layout, camera, moved, over, out, clicked}) {
  const fingers = new Map(); // pointer -> its last {x, y}
  let start = null;
  const placeOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  };

  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, placeOf(event));
    start = fingers.size === 1 ? {...placeOf(event), slipped: false} : null;
    if (start && event.pointerType === 'touch' && layout()) point(event, start); // a finger does not hover
  });

  canvas.addEventListener('pointermove', (event) => {
    if (!layout()) return;
    const now = placeOf(event);
    const before = fingers.get(event.pointerId);
    if (before) drag(event, before, now);
    else point(event, now);
  });

  function drag(event, before, now) {
    if (fingers.size === 2) pinch(event.pointerId, before, now);
    else if (start && (start.slipped || Math.hypot(now.x - start.x, now.y - start.y) > CLICK)) {
      start.slipped = true;
      canvas.classList.add('dragged');
      camera.pan(now.x - before.x, now.y - before.y);
      out();
      moved();
    } else return;
    fingers.set(event.pointerId, now);
  }

  function pinch(moving, before, now) {
    const other = [...fingers].find(([id]) => id !== moving)[1];
    const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
    camera.zoomAt(factor, (now.x + other.x) / 2, (now.y + other.y) / 2, layout());
    out();
    moved();
  }

  function point(event, {x, y}) {
    const place = layout().at(x, y);
    if (place && (place.row >= 0 || place.column >= 0)) over(event, place);
    else out();
  }

  function lift(event) {
    fingers.delete(event.pointerId);
    canvas.classList.remove('dragged');
    const here = placeOf(event);
    const place = event.type === 'pointerup' && start && !start.slipped ? layout()?.at(here.x, here.y) : null;
    start = null;
    if (place) clicked(place);
  }

  canvas.addEventListener('pointerup', lift);
  canvas.addEventListener('pointercancel', lift);
  canvas.addEventListener('pointerleave', out);
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!layout()) return;
      event.preventDefault();
      const {x, y} = placeOf(event);
      if (event.shiftKey) camera.pan(-event.deltaY - event.deltaX, 0);
      else camera.zoomAt(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x, y, layout());
      out();
      moved();
    },
    {passive: false},
  );
}
