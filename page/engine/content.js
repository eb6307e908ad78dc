/** What a page contains beside the tab: recordings, and models with one worker for each run, started by the first question to it. */

import {Unavailable} from 'chumoku/core/unavailable.js';
import {Refused, WorkerClient} from './client.js';

/** {archive, models} for the tab's Source; `models` are {runs: their names, call(method, argument, onProgress, signal) -> Promise}. */
export async function contentOf(document) {
  const bytesOf = (id) => bytesFrom(document.getElementById(`chumoku-${id}`).textContent);
  const [recordings, models, worker] = await Promise.all(['recordings', 'models', 'worker'].map((id) => unpacked(bytesOf(id))));
  const script = URL.createObjectURL(new Blob([worker], {type: 'text/javascript'}));
  const clients = Object.fromEntries(
    Object.entries(JSON.parse(models)).map(([run, {checkpoints, ...rest}]) => {
      const loaded = checkpoints.map(({weights, ...checkpoint}) => ({...checkpoint, weights: new Blob([bytesOf(`weights-${weights}`)])}));
      return [run, new WorkerClient(script, {checkpoints: loaded, ...rest})];
    }),
  );
  const call = async (method, argument, ...rest) => {
    try {
      return await clients[argument.run].call(method, argument, ...rest);
    } catch (error) {
      throw error instanceof Refused ? new Unavailable(error.message) : error;
    }
  };
  return {archive: JSON.parse(recordings), models: {runs: Object.keys(clients), call}};
}

/** The bytes of a base64 text. */
function bytesFrom(text) {
  return Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
}

/** The text of gzip data. */
function unpacked(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
}
