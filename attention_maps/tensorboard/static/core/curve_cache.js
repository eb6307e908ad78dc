/** The head measures of whole runs, read once until new recordings are found. */

const RUNS = 12; // runs kept in memory, the first ones are dropped first: curves of 200 steps of a large model take some MB

/** {ready(run): the curves in memory or undefined, read(run): a promise of them, forget()}. */
export function createCurveCache(source) {
  let known = new Map();
  let requested = new Map();

  function read(run) {
    if (!requested.has(run)) requested.set(run, remember(run, known, requested));
    return requested.get(run);
  }

  /** An answer that arrives after forget() goes into the discarded maps. */
  async function remember(run, answers, requests) {
    try {
      const found = await source.curves(run);
      answers.set(run, found);
      if (answers.size > RUNS) {
        const [first] = answers.keys();
        answers.delete(first);
        requests.delete(first);
      }
      return found;
    } catch (error) {
      requests.delete(run); // the next call retries
      throw error;
    }
  }

  function forget() {
    known = new Map();
    requested = new Map();
  }

  return {ready: (run) => known.get(run), read, forget};
}
