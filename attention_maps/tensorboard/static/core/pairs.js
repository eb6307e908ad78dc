/** The weights between two words in every head at every recorded step, from the plugin or from the tensors of an exported page. */

import {shapesOf} from './frame.js';
import {loadLayer, sameTokens} from './load_frame.js';
import {stepName} from './recordings.js';

/**
 * {chosen: [[per head] per layer], steps, weights: [the same per step]}; `chosen` is of the recording itself, `query` and `key` are lists
 * of token positions; `values`: whether weights are multiplied by value norms.
 */
export async function loadPair(source, {run, recording, sample, kind, values}, query, key) {
  if (!source.isFile) return source.pair({run, recording, sample, kind, values, query: query.join(), key: key.join()});
  const read = async (name) => {
    const {layers} = shapesOf(await source.meta(run, name), sample)[kind];
    const place = {run, recording: name, sample, kind, values};
    const tensors = await Promise.all(Array.from({length: layers}, (_, layer) => loadLayer(source, {...place, layer})));
    return tensors.map((tensor) => weightsOf(tensor, query, key));
  };
  const wanted = (await source.meta(run, recording)).samples[sample];
  const found = {chosen: await read(recording), steps: [], weights: []};
  for (const step of (await source.index()).runs[run].steps) {
    const {samples} = await source.meta(run, stepName(step));
    if (!samples[sample] || sameTokens(wanted, {samples: [samples[sample]]}, 0) !== 0) continue;
    found.steps.push(step);
    found.weights.push(await read(stepName(step)));
  }
  return found;
}

/** Of a tensor [H,Q,K] per head: summed over keys, averaged over queries. */
function weightsOf({numbers, shape: [heads, queries, keys]}, query, key) {
  return Array.from({length: heads}, (_, head) => {
    let total = 0;
    for (const row of query) for (const column of key) total += numbers[(head * queries + row) * keys + column];
    return total / query.length;
  });
}
