/** Building elements without a framework. */

/**
 * element('button', {class: 'play', title: 'Play', onclick: play}, '▶') -> HTMLElement. Attributes that are functions become
 * event listeners, true sets an empty attribute, false, null and undefined leave it out. Children: nodes or text.
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svgElement(tag, attributes = {}, ...children) {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name.replace(/^on/, ''), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** `ja` for text with Japanese in it, else `en`: the same character is drawn differently for Japanese and Chinese. */
export function languageOf(text) {
  return /[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3134f}]/u.test(text) ? 'ja' : 'en';
}

/** A token's piece as people read it: the mark of a space at the front goes, a token that is only a space shows ␣. */
export function readable(piece) {
  return piece.replace(/^▁+(?=.)/u, '').replaceAll('▁', '␣') || '∅';
}

/** A weight for a cell or a tooltip: 0.42 -> "42" (percent) would mislead in differences, so .42, 1, 0, −.07. */
export function short(weight) {
  if (!Number.isFinite(weight)) return 'nan';
  const text = Math.abs(weight).toFixed(2);
  const bare = {'0.00': '0', '1.00': '1'}[text] ?? text.replace(/^0/, '');
  return weight < 0 && bare !== '0' ? `−${bare}` : bare;
}

/** Shares as percent with one decimal place: 0.4213 -> "42.1 %". */
export function percent(share) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : 'nan';
}
