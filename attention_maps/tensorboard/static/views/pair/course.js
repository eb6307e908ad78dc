/** Drawing of the weights of a head over the recorded steps. All lengths are CSS pixels. */

export const COURSE = {width: 130, height: 26};
const MARGIN = 3;

/** The weights, evenly spaced from 0 to `top`, with a mark at the shown step `at`. */
export function drawCourse(pen, course, {top, at, inks}, left = 0, above = 0) {
  const {width, height} = COURSE;
  const x = (i) => left + MARGIN + (i / Math.max(course.length - 1, 1)) * (width - 2 * MARGIN);
  const y = (weight) => above + MARGIN + (1 - weight / top) * (height - 2 * MARGIN);
  pen.line(left, y(0), left + width, y(0), {stroke: inks.line, width: 1});
  if (course.length > 1) pen.path(course.map((weight, i) => [x(i), y(weight)]), {stroke: inks.accent, width: 1.5});
  if (at >= 0) pen.circle(x(at), y(course[at]), 3, {fill: inks.ink});
}

/** The index of the step at a distance from the left edge. */
export function stepAt(x, count) {
  const share = (x - MARGIN) / (COURSE.width - 2 * MARGIN);
  return Math.round(Math.min(Math.max(share, 0), 1) * (count - 1));
}
