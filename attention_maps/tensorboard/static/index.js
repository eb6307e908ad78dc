/** Entry point of the Attention tab: TensorBoard, or an exported page, calls render() in an empty body. */

import {Source} from './core/source.js';
import {element} from './dom/elements.js';
import {openPage} from './page.js';

const STYLES = ['style.css', 'views.css'];

/** Build the page. Style sheets are linked here, except in an exported page, which contains them; `models`: see Source. */
export async function render(models = null) {
  document.documentElement.lang = 'en';
  const archive = document.getElementById('chumoku-archive');
  if (!archive) await Promise.all(STYLES.map(linked));
  await openPage(document.body, new Source(archive && JSON.parse(archive.textContent), models));
}

/** Resolves when the style sheet is loaded: drawing needs final sizes. */
function linked(name) {
  return new Promise((done) => {
    document.head.append(element('link', {rel: 'stylesheet', href: `static/${name}`, onload: done, onerror: done}));
  });
}
