/**
 * The worker of a page: it holds the models and answers one call after the other.
 *
 * Messages to it: first {start: {checkpoints: [{name, description, weights: Blob or ArrayBuffer}], tokenizers: [JSON], data}}, then
 * {id, method, argument}. From it: {id, progress: …} while a call runs, and at last {id, answer: …}, {id, refusal: a sentence for the user}
 * or {id, failure: what went wrong in the program}.
 */

import {Answers} from './answers/answers.js';
import {Refusal} from './answers/refusal.js';
import {loadModel} from './model/load.js';
import {Tokenizer} from './tokenizer/tokenizer.js';

/** Methods of `Answers` that a page may call. */
const METHODS = ['checkpoints', 'ask', 'effects', 'circuits'];

let answers = null; // a promise of the Answers

self.onmessage = async ({data: {start, id, method, argument}}) => {
  if (start) {
    answers = begun(start);
    return;
  }
  try {
    if (!METHODS.includes(method)) throw new Error(`there is no method ${method}`);
    const answer = (await answers)[method](argument, (progress) => self.postMessage({id, progress}));
    self.postMessage({id, answer});
  } catch (error) {
    if (error instanceof Refusal) self.postMessage({id, refusal: error.message});
    else self.postMessage({id, failure: `${error}\n${error.stack ?? ''}`});
  }
};

async function begun({checkpoints, tokenizers, data}) {
  const models = {};
  for (const {name, description, weights} of checkpoints) {
    const bytes = weights instanceof Blob ? await weights.arrayBuffer() : weights;
    models[name] = loadedLater(data.checkpoints[name].step, () => loadModel(description, bytes));
  }
  return new Answers({checkpoints: models, tokenizers: tokenizers.map((tokenizer) => new Tokenizer(tokenizer)), data});
}

/** {step, model} of a checkpoint, whose model is loaded by the first question to it. */
function loadedLater(step, load) {
  let model = null;
  return {
    step,
    get model() {
      return (model ??= load());
    },
  };
}
