/** The answer to a question about a text: what the model predicts in it, also without some of its heads; tab_answers/answer.py. */

import {exampleOf, textExample} from './example.js';
import {unknownCharacters} from './input_notes.js';
import {lossesOf, nextTokens} from './predictions.js';
import {decodingIn} from './question.js';
import {forwardPass, recordingOf} from './recorder.js';
import {changedOutputs} from './replaced_outputs.js';
import {continuation, translation} from './writing.js';

/**
 * {answer, recordings()}. The answer has the keys of tab_answers/answer.py and `ids` of the tokens read, {source, target, next}. The function
 * computes {recording, whole: the recording of the whole model; null unless heads are removed or patched}. question: from `readQuestion`.
 * onProgress gets {written: the text so far}, and {rewritten: the text so far} of the model without the heads. Throws Refusal.
 */
export function answerTo(question, checkpoint, onProgress) {
  const {model, source, target: tokenizer, labels, data} = checkpoint;
  const text = question.source ?? question.text;
  const onText = (written) => onProgress({written});
  const start = exampleOf(checkpoint, text, question.target, question, onText);
  const outputs = changedOutputs(question, checkpoint, start);
  const {example, written} = extended(checkpoint, start, question, null, onText);
  const whole = forwardPass(model, example);
  const losses = ({logits}) => lossesOf(logits, model.vocabSize, example.next);
  const next = ({logits}, other) => nextTokens(logits, other, model.vocabSize, example.next, tokenizer, data.limits.top);
  const common = {
    task: data.task,
    checkpoint: checkpoint.name,
    step: checkpoint.step,
    tokens: tokenizer.pieces(example.target),
    predicts: tokenizer.pieces(example.next),
    source: example.source && source.pieces(example.source),
    typed: start.target.length,
    notes: notesOn(text, checkpoint),
    decoding: decodingIn(question),
    ids: example,
  };
  const ofWhole = () => recordingOf(checkpoint, whole, '', labels);
  if (!outputs) {
    const answer = {...common, next: next(whole, null), losses: losses(whole), written, whole: null};
    return {answer, recordings: () => ({recording: ofWhole(), whole: null})};
  }
  const rewritten = writtenWithout(checkpoint, start, question, outputs, (part) => onProgress({rewritten: part}));
  const changed = forwardPass(model, example, outputs);
  const answer = {
    ...common,
    next: next(changed, whole.logits),
    losses: losses(changed),
    written: rewritten,
    whole: {losses: losses(whole), written},
  };
  const recordings = () => {
    const before = ofWhole();
    return {recording: recordingOf(checkpoint, changed, nameOf(question), before.meta.labels), whole: before};
  };
  return {answer, recordings};
}

/** {example, written}: an example with what a GPT writes after it, or with the translation that is read; `written`: null if it was given. */
function extended(checkpoint, start, {written: count, source, target, decoding}, replace, onText) {
  if (source !== null) return {example: start, written: target === null ? checkpoint.target.decode(start.target) : null};
  if (!count) return {example: start, written: null};
  const most = Math.min(count, checkpoint.data.longest - start.target.length);
  const {ids, text} = continuation(checkpoint, start.target, most, decoding, replace, onText);
  return {example: textExample([...start.target, ...ids]), written: text};
}

/**
 * What the model writes while its heads are replaced; null if nothing was asked, and for a translation while they are patched, because their
 * outputs exist for the tokens of the whole model only.
 */
function writtenWithout(checkpoint, start, question, replace, onText) {
  const {source, target, patch, decoding} = question;
  if (source === null) return extended(checkpoint, start, question, replace, onText).written;
  return target !== null || patch ? null : translation(checkpoint, start.source, decoding, replace, onText).text;
}

/** Sentences about parts of a text that the model cannot read. */
function notesOn(text, {source: tokenizer, data}) {
  const {longest, task, character_names: names} = data;
  const ids = tokenizer.encode(text);
  const notes = [unknownCharacters(tokenizer, text, ids, names)];
  if (task === 'gpt' && ids.length >= longest) {
    notes.push(`with the token before it, the text has ${ids.length + 1} tokens; only the last ${longest} are read`);
  }
  return notes.filter(Boolean);
}

/** The name of a text read without some heads: `without layer 0 · head 1 (zero ablation)`. */
function nameOf({removed, patch, how, source}) {
  const heads = [...removed.map((head) => [...head, 'without']), ...(patch?.heads ?? []).map((head) => [...head, 'patched'])];
  if (heads.length > 1) return `${heads.length} heads or layers changed`;
  const [[kind, layer, head, what]] = heads;
  const kinds = {cross: 'cross-attention · ', encoder: 'encoder · ', decoder: 'decoder · '};
  const method = what === 'without' ? ` (${how} ablation)` : '';
  return `${what} layer ${layer} · ${source === null ? '' : kinds[kind]}${head === null ? 'all heads' : `head ${head}`}${method}`;
}
