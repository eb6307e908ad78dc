/** The models that a page contains: one worker for each run, started by the first question to it. */

import {WorkerClient} from './client.js';

/** The models of a document, for the tab's Source: {runs: their names, call(method, argument, onProgress, signal) -> Promise}. */
export async function modelsOf(document) {
  const bytesOf = (id) => bytesFrom(document.getElementById(`chumoku-${id}`).textContent);
  const script = URL.createObjectURL(new Blob([await unpacked(bytesOf('worker'))], {type: 'text/javascript'}));
  const models = JSON.parse(await new Response(await unpacked(bytesOf('models'))).text());
  const clients = Object.fromEntries(
    Object.entries(models).map(([run, {checkpoints, ...rest}]) => {
      const loaded = checkpoints.map(({weights, ...checkpoint}) => ({...checkpoint, weights: new Blob([bytesOf(`weights-${weights}`)])}));
      return [run, new WorkerClient(script, {checkpoints: loaded, ...rest})];
    }),
  );
  return {runs: Object.keys(clients), call: (method, argument, ...rest) => clients[argument.run].call(method, argument, ...rest)};
}

/** The bytes of a base64 text. */
function bytesFrom(text) {
  return Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
}

/** The content of gzip data, as a Blob. */
function unpacked(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).blob();
}
