/** Reading the recordings around the present one while nothing else is to be done, so that moving through time draws from memory. */

import {isTold, load, loadOverview} from './load_page.js';

const REACH = 6; // recordings on either side
const BUDGET = 200e6; // bytes of decoded maps

/** {start(context), stop()}: `start` begins anew from what is drawn now. */
export function createPreloader() {
  let turn = 0;

  async function start({source, state, recordings, fitted}) {
    const mine = ++turn;
    const among = recordings.siblings(state.now.run, state.now.recording);
    const place = among.indexOf(state.now.recording);
    const nearest = Array.from({length: REACH}, (_, i) => [place + i + 1, place - i - 1]).flat();
    const before = source.tensors.bytes;
    let wanted = {...fitted(), run: state.now.run};
    for (const recording of nearest.map((i) => among[i]).filter(Boolean)) {
      await idle();
      if (mine !== turn || source.tensors.bytes - before > BUDGET) return;
      wanted = {...wanted, recording};
      try {
        const {meta, fitted: there} = await load(source, wanted);
        await loadOverview(source, there, meta);
      } catch (error) {
        if (!isTold(error)) throw error; // an unreadable neighbour is told when somebody goes there
      }
    }
  }

  return {start, stop: () => turn++};
}

function idle() {
  return new Promise((done) => (window.requestIdleCallback ? requestIdleCallback(done, {timeout: 200}) : setTimeout(done, 30)));
}
