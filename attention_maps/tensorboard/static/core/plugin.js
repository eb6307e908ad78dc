/** What TensorBoard's plugin sends: recordings, curves and answers, by its routes (relative: they work under --path_prefix too). */

import {numbersOf} from './float16.js';
import {Unavailable} from './unavailable.js';

export class Plugin {
  isFile = false;

  canAsk() {
    return true;
  }

  about() {
    return null;
  }

  /** Never cached: new steps appear while training. */
  async index() {
    return (await sent('index')).json();
  }

  async curves(run) {
    return (await sent('curves', {run})).json();
  }

  async pair(place) {
    return (await sent('pair', place)).json();
  }

  async meta(run, recording) {
    const text = await (await sent('meta', {run, recording})).text();
    return {meta: JSON.parse(text), size: text.length};
  }

  async checkpoints(run) {
    return (await sent('checkpoints', {run})).json();
  }

  async ask(question) {
    return (await posted('ask', question)).json();
  }

  async clear(run) {
    await posted('clear', {run});
  }

  async effects(question) {
    return (await posted('effects', question)).json();
  }

  async circuits(question) {
    return (await posted('circuits', question)).json();
  }

  async answered(run, recording) {
    return (await sent('answer', {run, recording})).json();
  }

  async tensor(run, recording, sample, kind, layer, what) {
    const response = await sent('tensor', {run, recording, sample, kind, layer, what});
    const shape = response.headers.get('X-Shape').split(',').map(Number);
    return {numbers: numbersOf(await response.arrayBuffer(), response.headers.get('X-Dtype')), shape};
  }
}

/** GET a route with those of its parameters that are given. */
async function sent(route, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return answerTo(given.length ? `${route}?${query}` : route, {cache: 'no-store'});
}

/** POST an object as JSON. */
async function posted(route, content) {
  return answerTo(route, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(content), cache: 'no-store'});
}

async function answerTo(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Unavailable('TensorBoard does not answer: is it still running?');
  }
  if (!response.ok) throw new Unavailable((await response.text()).trim() || `${address}: HTTP ${response.status}`);
  return response;
}
