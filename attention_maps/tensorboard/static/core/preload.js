/** Reads the recordings around the current one while the page is idle, so that moving through the steps draws from memory. */

import {load, loadOverview} from './load_page.js';
import {Unavailable} from './unavailable.js';

const REACH = 6; // recordings on either side
const BUDGET = 200e6; // bytes of decoded maps

/** {start(context), stop()}: `start` restarts from what is currently drawn. */
export function createPreloader() {
  let turn = 0;

  async function start({source, state, recordings, fitted}) {
    const mine = ++turn;
    const among = recordings.siblings(state.now.run, state.now.recording);
    const place = among.indexOf(state.now.recording);
    const nearest = Array.from({length: REACH}, (_, i) => [place + i + 1, place - i - 1]).flat();
    const before = source.tensors.size;
    let wanted = {...fitted(), run: state.now.run};
    for (const recording of nearest.map((i) => among[i]).filter(Boolean)) {
      await idle(source);
      if (mine !== turn || source.tensors.size - before > BUDGET) return;
      wanted = {...wanted, recording};
      try {
        const {meta, fitted: there} = await load(source, wanted);
        await loadOverview(source, there, meta);
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error; // an unreadable recording is reported when it is selected
      }
    }
  }

  return {start, stop: () => turn++};
}

/** Resolves when the page, with the models in it, has nothing else to do. */
export async function idle(source) {
  await source.quiet();
  await new Promise((done) => (window.requestIdleCallback ? requestIdleCallback(done, {timeout: 200}) : setTimeout(done, 30)));
}
