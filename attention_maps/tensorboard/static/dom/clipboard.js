/** Copying text, also where the browser gives no clipboard to pages that are not served over https. */

import {element} from './elements.js';

/** Put a text on the clipboard -> whether it is there. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element('textarea', {style: 'position: fixed; opacity: 0'});
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy'); // deprecated, and the only way without https
    area.remove();
    return copied;
  }
}
