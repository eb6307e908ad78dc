/** TensorBoard around the page: its URL, reload button (by the protocol of its experimental plugin library), keyboard focus and theme. */

/** The window whose URL holds the state: TensorBoard's, which shows the page in an iframe; our own if that is not accessible. */
export function host() {
  try {
    return window.parent.location.hash === undefined ? window : window.parent;
  } catch {
    return window;
  }
}

/** Call `reloaded` whenever TensorBoard reloads its data; does nothing outside TensorBoard. */
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

/** Focus the page, so that keys work before the first click, unless a field elsewhere in TensorBoard is being edited. */
export function takeKeyboard() {
  try {
    let busy = window.parent === window ? null : window.parent.document.activeElement;
    while (busy?.shadowRoot?.activeElement) busy = busy.shadowRoot.activeElement;
    if (!busy?.closest('input, textarea, select, [contenteditable], [role=combobox], [role=dialog]')) window.focus();
  } catch {
    // a parent of another origin keeps the focus
  }
}

/** Whether the page is visible: TensorBoard keeps the frames of inactive tabs, but hides them. */
export function isVisible() {
  return document.visibilityState === 'visible' && window.innerWidth > 0 && window.innerHeight > 0;
}

/** Whether TensorBoard uses its dark theme; outside TensorBoard, what the system prefers. */
export function isDark() {
  try {
    if (window.parent !== window) return window.parent.document.body.classList.contains('dark-mode');
  } catch {
    // a parent of another origin: ask the system
  }
  return window.matchMedia('(prefers-color-scheme: dark)').matches;
}

/** Call `changed` whenever the theme changes. */
export function watchTheme(changed) {
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
  try {
    const {body} = window.parent.document;
    new MutationObserver(changed).observe(body, {attributes: true, attributeFilter: ['class']});
  } catch {
    // a parent of another origin does not show its theme
  }
}
