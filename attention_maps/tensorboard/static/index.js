/** Entry point of the Attention tab: TensorBoard, or an exported page, calls render() in an empty body. */

import {element} from './dom/elements.js';
import {openPage} from './page.js';

const STYLES = ['style.css', 'views.css'];

/** Build the page. Style sheets are linked here, except in an exported page, which contains them. */
export async function render() {
  document.documentElement.lang = 'en';
  if (!document.getElementById('chumoku-archive')) await Promise.all(STYLES.map(linked));
  await openPage(document.body);
}

/** Resolves when the style sheet is loaded: drawing needs final sizes. */
function linked(name) {
  return new Promise((done) => {
    document.head.append(element('link', {rel: 'stylesheet', href: `static/${name}`, onload: done, onerror: done}));
  });
}
