/** The Attention tab: TensorBoard, or an exported page, calls render() in an empty body. */

import {element} from './dom/elements.js';
import {openPage} from './page.js';

const STYLES = ['style.css', 'views.css'];

/** Build the page. Its style sheets are linked here, except in an exported page, which carries them. */
export async function render() {
  document.documentElement.lang = 'en';
  if (!document.getElementById('chumoku-archive')) await Promise.all(STYLES.map(linked));
  await openPage(document.body);
}

/** Pictures are measured as they are drawn, so the style comes first. */
function linked(name) {
  return new Promise((done) => {
    document.head.append(element('link', {rel: 'stylesheet', href: `static/${name}`, onload: done, onerror: done}));
  });
}
