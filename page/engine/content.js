/**
 * What a page contains beside the tab: recordings, and models with one worker for each run. All is unpacked when it is first needed. In the
 * page, this folder is one of the tab's, beside `core`.
 */

import {bytesOf} from '../core/base64.js';
import {keptPromise} from '../core/kept_promise.js';
import {Unavailable} from '../core/unavailable.js';
import {Refused, WorkerClient} from './client.js';

/** {archive, models} for the tab's Archive; `models` are {runs: their names, call(method, argument, onProgress, signal) -> Promise}. */
export function contentOf(document) {
  const textOf = (id) => document.getElementById(`chumoku-${id}`).textContent;
  const {index, about, runs} = JSON.parse(textOf('index'));
  const read = (what, run) => unpacked(bytesOf(textOf(`${what}-${runs.indexOf(run)}`))).then(JSON.parse);
  const scripts = new Map(); // under 'worker', the promise of the address of the worker's script
  const clients = new Map(); // run -> promise of a WorkerClient

  async function started(run) {
    const address = async () => URL.createObjectURL(new Blob([await unpacked(bytesOf(textOf('worker')))], {type: 'text/javascript'}));
    const script = keptPromise(scripts, 'worker', address);
    const {checkpoints, ...rest} = await read('model', run);
    const loaded = checkpoints.map(({weights, ...checkpoint}) => ({...checkpoint, weights: new Blob([bytesOf(textOf(`weights-${weights}`))])}));
    return new WorkerClient(await script, {checkpoints: loaded, ...rest});
  }

  async function call(method, argument, ...rest) {
    const {run} = argument;
    try {
      return await (await keptPromise(clients, run, () => started(run))).call(method, argument, ...rest);
    } catch (error) {
      throw error instanceof Refused ? new Unavailable(error.message) : error;
    }
  }

  return {archive: {index, about, read: (run) => read('recordings', run)}, models: {runs, call}};
}

/** The text of gzip data. */
function unpacked(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
}
