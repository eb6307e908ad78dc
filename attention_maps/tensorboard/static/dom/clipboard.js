/** Copies text, also on pages without https, where browsers offer no clipboard API. */

import {element} from './elements.js';

/** Copy a text to the clipboard -> whether that succeeded. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element('textarea', {style: 'position: fixed; opacity: 0'});
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy'); // deprecated, but the only way without https
    area.remove();
    return copied;
  }
}
