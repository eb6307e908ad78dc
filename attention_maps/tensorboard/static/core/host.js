/** Messages from TensorBoard: its reload button, by the protocol of its experimental plugin library. */

/** Call `reloaded` whenever TensorBoard reads its data again; nothing happens where no TensorBoard is around the page. */
export function onReload(reloaded) {
  if (window.parent === window) return;
  const {port1, port2} = new MessageChannel();
  port1.onmessage = ({data}) => {
    const {type, id, isReply} = JSON.parse(data);
    if (isReply) return;
    if (type === 'experimental.DataReloaded') reloaded();
    port1.postMessage(JSON.stringify({type, id, payload: null, error: null, isReply: true}));
  };
  window.parent.postMessage('experimental.bootstrap', '*', [port2]);
}

/** Take the keyboard, so that keys work before the first click, unless somebody is typing elsewhere in TensorBoard. */
export function takeKeyboard() {
  try {
    let busy = window.parent === window ? null : window.parent.document.activeElement;
    while (busy?.shadowRoot?.activeElement) busy = busy.shadowRoot.activeElement;
    if (!busy?.closest('input, textarea, select, [contenteditable], [role=combobox], [role=dialog]')) window.focus();
  } catch {
    // a foreign parent keeps its keyboard
  }
}

/** Whether somebody can see the page: TensorBoard keeps the frames of other tabs, but hides them. */
export function isVisible() {
  return document.visibilityState === 'visible' && window.innerWidth > 0 && window.innerHeight > 0;
}
