/** Entry point of the Attention tab: TensorBoard, or an exported page, calls render() in an empty body. */

import {Archive} from './core/archive.js';
import {Plugin} from './core/plugin.js';
import {Source} from './core/source.js';
import {element} from './dom/elements.js';
import {openPage} from './page.js';

const STYLES = ['style.css', 'views.css'];

/**
 * Build the page. `archive`, `models`: see Archive; an exported page contains them, and the style sheets, which are linked here otherwise.
 */
export async function render(archive = embedded(), models = null) {
  document.documentElement.lang = 'en';
  if (!archive) await Promise.all(STYLES.map(linked));
  await openPage(document.body, new Source(archive ? new Archive(archive, models) : new Plugin()));
}

/** The archive of an exported page, or null. */
function embedded() {
  const found = document.getElementById('chumoku-archive');
  return found && JSON.parse(found.textContent);
}

/** Resolves when the style sheet is loaded: drawing needs final sizes. */
function linked(name) {
  return new Promise((done) => {
    document.head.append(element('link', {rel: 'stylesheet', href: `static/${name}`, onload: done, onerror: done}));
  });
}
