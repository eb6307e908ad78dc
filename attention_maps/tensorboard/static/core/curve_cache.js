/** The curves of runs, read once until new recordings are found. */

/** {ready(run): what is in memory or undefined, read(run): a promise of it, forget()}. */
export function curveReadings(source) {
  let known = new Map();
  let asked = new Map();

  function read(run) {
    if (!asked.has(run)) asked.set(run, remember(run, known, asked));
    return asked.get(run);
  }

  /** An answer that comes after forget() is put where nobody looks any more. */
  async function remember(run, answers, questions) {
    try {
      answers.set(run, await source.curves(run));
      return answers.get(run);
    } catch (error) {
      questions.delete(run); // it may go better the next time
      throw error;
    }
  }

  function forget() {
    known = new Map();
    asked = new Map();
  }

  return {ready: (run) => known.get(run), read, forget};
}
