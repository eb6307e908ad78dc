/**
 * The page's side of the worker: starts it, calls its methods, and starts it again if it does not get done with a call that nobody waits for.
 *
 * How the worker is started was chosen by experiment, with pages opened from file:// (Chromium 156, Firefox 153). Their policy allowed more than
 * that of our page: `default-src 'none'; script-src 'unsafe-inline' data: blob:; worker-src blob: data:`:
 *
 *     classic script, blob: URL                     both
 *     classic script, data: URL                     both
 *     module, blob: URL                             Firefox only: Chromium fires an error event without a message
 *     module, data: URL, importing a data: URL      both, but each URL would contain those of all that the module imports
 *     module that uses the page's import map        neither: import maps do not reach workers
 *     classic script, importScripts of a blob: URL  Firefox only
 *     eval, new Function, WebAssembly               neither: they need 'unsafe-eval' or 'wasm-unsafe-eval'
 *
 * So the page joins all modules into one classic script (attention_maps/command_line/modules.py) and starts it from a blob: URL,
 * the only thing beside its own inline scripts that the policy of our page allows (POLICY of attention_maps/command_line/page.py).
 */

const PATIENCE = 500; // ms until a new call ends the worker that is still busy with a cancelled one

/** The answer is a refusal: a sentence for the user. */
export class Refused extends Error {}

export class WorkerClient {
  /**
   * `url`: of the classic script; `start`: the first message of worker.js. Weights are best given as Blobs, which are not copied when the
   * worker is started again. The first call starts it. `type`: 'module' for the modules of a server.
   */
  constructor(url, start, type = 'classic') {
    Object.assign(this, {url, start, type});
    this.worker = null;
    this.calls = []; // {message, resolve, reject, onProgress, isCancelled}; the worker computes the first one
    this.last = 0; // number of the last call
    this.timer = null;
  }

  /**
   * Call a method of `Answers` -> a promise of its result. `onProgress` gets the messages of a long call, such as {written: the text so far}.
   * When `signal` is aborted, the promise is rejected at once with its reason, and a late answer is ignored. Rejects with Refused if the
   * question cannot be answered, and with another Error if the worker fails.
   */
  call(method, argument, onProgress = null, signal = null) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const call = {message: {id: ++this.last, method, argument}, resolve, reject, onProgress, isCancelled: false};
      signal?.addEventListener('abort', () => this.cancel(call, signal.reason), {once: true});
      this.calls.push(call);
      if (this.calls.length === 1) this.send();
      else this.hurry();
    });
  }

  /** End the worker, and reject the calls that wait. The next call starts it again. */
  stop(reason = new Error('the worker was stopped')) {
    this.end();
    for (const {reject} of this.calls.splice(0)) reject(reason);
  }

  /** Let the worker compute the first call. */
  send() {
    if (!this.calls.length) return;
    if (!this.worker) {
      this.worker = new Worker(this.url, {type: this.type});
      this.worker.onmessage = ({data}) => this.receive(data);
      this.worker.onerror = (event) => {
        event.preventDefault();
        this.stop(new Error(`the worker of this page failed: ${event.message || 'the browser does not start it'}`));
      };
      this.worker.postMessage({start: this.start});
    }
    this.worker.postMessage(this.calls[0].message);
  }

  receive({progress, answer, refusal, failure}) {
    const [call] = this.calls;
    if (progress !== undefined) {
      if (!call.isCancelled) call.onProgress?.(progress);
      return;
    }
    clearTimeout(this.timer);
    this.timer = null;
    this.calls.shift();
    this.send();
    if (refusal !== undefined) call.reject(new Refused(refusal));
    else if (failure !== undefined) call.reject(new Error(failure));
    else call.resolve(answer); // without effect if the call was cancelled
  }

  cancel(call, reason) {
    const place = this.calls.indexOf(call);
    if (place < 0) return; // answered
    call.isCancelled = true;
    call.reject(reason);
    if (place > 0) this.calls.splice(place, 1);
    else this.hurry();
  }

  /** Do not let a call wait long for a cancelled one. */
  hurry() {
    if (this.timer || this.calls.length < 2 || !this.calls[0].isCancelled) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      if (this.calls.length < 2) return; // the other one was cancelled, too
      this.end();
      this.calls.shift();
      this.send();
    }, PATIENCE);
  }

  end() {
    this.worker?.terminate();
    this.worker = null;
    clearTimeout(this.timer);
    this.timer = null;
  }
}
