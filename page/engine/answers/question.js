/** Questions, validated before any model is run: the rules and sentences of tab_answers/question.py. */

import {Refusal} from './refusal.js';
import {characterCount, stripped, withCommas, withoutLoneSurrogates} from './text.js';

const KINDS = ['encoder', 'decoder', 'cross'];
const CHECKPOINT = /^(best|last|step-[0-9]{1,15}(-[0-9]{1,6})?|weights-[0-9]{1,15})$/;
const LARGEST_NUMBER = 99_999; // of a layer or head

const [SAMPLING_KEYS, BEAM_KEYS] = [['temperature', 'top_k', 'top_p', 'seed'], ['beam_size']]; // of generate.py: how a text is written
const [WHOLE, OPTIONAL] = [['top_k', 'seed', 'beam_size'], ['top_k', 'top_p']];
const DECODING_KEYS = [...SAMPLING_KEYS, ...BEAM_KEYS];
const TEXT_KEYS = ['text', 'source', 'target', 'reverse', 'continue'];
const QUESTION_KEYS = ['checkpoint', ...TEXT_KEYS, ...DECODING_KEYS, 'removed', 'how', 'patch', 'run', 'after'];
const CIRCUIT_KEYS = ['checkpoint', 'circuit', 'distance', 'token', 'run'];
const EFFECTS_KEYS = ['recording', 'how', 'answer', 'run'];

/**
 * A question about a text, {checkpoint, text, source, target, reverse, written, decoding, removed, how, patch}, from the keys that the tab
 * sends. `decoding`: {temperature, top_k, top_p, seed, beam_size}. `limits`: those of answer_data.py. Throws Refusal.
 */
export function readQuestion(question, limits) {
  refuseOthers(question, QUESTION_KEYS, 'a question');
  const [text, source, target] = ['text', 'source', 'target'].map((key) => textOf(question, key, limits));
  if ((text === null) === (source === null)) throw new Refusal('a question needs either a text (GPT) or a source (translator)');
  if (target !== null && source === null) throw new Refusal('a target needs a source');
  const reverse = question.reverse ?? false;
  if (typeof reverse !== 'boolean' || (reverse && source === null)) {
    throw new Refusal("'reverse' must be true or false, and needs a source");
  }
  const written = question.continue ?? 0;
  if (!isWhole(written, limits.most_written)) {
    throw new Refusal(`'continue' must be a number of tokens from 0 to ${limits.most_written}`);
  }
  const decoding = decodingOf(question, source !== null);
  const patch = patchOf(question.patch, limits);
  if (patch && written) {
    throw new Refusal('a text cannot be continued while heads are patched: their outputs exist for its tokens only');
  }
  const removed = headsOf(question.removed ?? [], 'removed', limits);
  return {checkpoint: checkpointOf(question), text, source, target, reverse, written, decoding, removed, how: howOf(question), patch};
}

/** The settings by which a question has a text written; null if it has none written. */
export function decodingIn({source, target, written, decoding}) {
  const keys = source !== null ? BEAM_KEYS : SAMPLING_KEYS;
  const isWritten = source !== null ? target === null : written > 0;
  return isWritten ? Object.fromEntries(keys.map((key) => [key, decoding[key]])) : null;
}

/** A question about the weights of a head, {checkpoint, kind, layer, head, distance, token}. Throws Refusal. */
export function readCircuit(question, limits) {
  refuseOthers(question, CIRCUIT_KEYS, 'a question about a head');
  const {circuit: place, distance = 1} = question;
  if (!isHead(place) || place[2] === null) throw new Refusal("'circuit' must be a head, [kind, layer, head]");
  const most = limits.most_distance;
  if (!Number.isInteger(distance) || Math.abs(distance) > most) {
    throw new Refusal(`'distance' must be a number of tokens from -${most} to ${most}`);
  }
  const [kind, layer, head] = place;
  if (distance < 0 && kind !== 'encoder') {
    throw new Refusal("only an encoder attends to later tokens: 'distance' must not be negative");
  }
  const token = textOf(question, 'token', limits);
  if (token !== null && characterCount(token) > limits.longest_token) {
    throw new Refusal(`the token has ${withCommas(characterCount(token))} characters, more than the limit of ${limits.longest_token}`);
  }
  return {checkpoint: checkpointOf(question), kind, layer, head, distance, token};
}

/** A question about each head alone in the text of an answer, {answer, how}. Throws Refusal. */
export function readEffects(question) {
  refuseOthers(question, EFFECTS_KEYS, 'a question about each head');
  return {answer: question.answer, how: howOf(question)};
}

/** The last number of an answer that the asker has seen. Throws Refusal. */
export function readAfter({after = 0}) {
  if (!Number.isInteger(after) || after < 0) throw new Refusal("'after' must be the number of an answer, or 0");
  return after;
}

/** Throws Refusal for a question with other keys. */
export function refuseOthers(question, keys, name) {
  const [unknown] = Object.keys(question).filter((key) => !keys.includes(key)).sort();
  if (unknown !== undefined) throw new Refusal(`'${unknown.slice(0, 40)}' is not part of ${name}`);
}

/** How to write, by the rules of generate.py; a text is continued by the most likely tokens by default. */
function decodingOf(question, translates) {
  const isGiven = (key) => Object.hasOwn(question, key);
  const foreign = (translates ? SAMPLING_KEYS : BEAM_KEYS).find(isGiven);
  if (foreign) throw new Refusal(`'${foreign}' needs a ${translates ? 'text' : 'source'}`);
  for (const key of DECODING_KEYS.filter(isGiven)) {
    const value = question[key];
    const isRight = WHOLE.includes(key) ? Number.isInteger(value) : typeof value === 'number';
    if (isRight || (value === null && OPTIONAL.includes(key))) continue;
    throw new Refusal(`'${key}' must be a ${WHOLE.includes(key) ? 'whole number' : 'number'}`);
  }
  const {temperature = 0, top_k = null, top_p = null, seed = 1, beam_size = 4} = question;
  refuseBroken([
    ['seed', seed, seed >= 0 && seed < 2 ** 63, 'must be from 0 to 9223372036854775807'],
    ['beam_size', beam_size, beam_size >= 1 && beam_size <= 1000, 'must be from 1 to 1000'],
    ['temperature', temperature, temperature === 0 || isBetween(temperature, 0.001, 1000), 'must be 0, or from 0.001 to 1000'],
    ['top_k', top_k, top_k === null || top_k >= 1, 'must be at least 1; null switches it off'],
    ['top_p', top_p, top_p === null || (isBetween(top_p, 0, 1) && top_p > 0), 'must be greater than 0 and at most 1; null switches it off'],
  ]);
  return {temperature, top_k, top_p, seed, beam_size};
}

function textOf(question, key, limits) {
  const value = question[key] ?? null;
  if (value === null || (key === 'target' && value === '')) return null;
  if (typeof value !== 'string') throw new Refusal(`the ${key} must be a text`);
  if (!stripped(value)) throw new Refusal(`the ${key} is empty`);
  const [length, most] = [characterCount(value), limits.longest_text];
  if (length > most) throw new Refusal(`the ${key} has ${withCommas(length)} characters, more than the limit of ${withCommas(most)}`);
  return withoutLoneSurrogates(value);
}

function checkpointOf(question) {
  const checkpoint = question.checkpoint || 'best';
  if (typeof checkpoint !== 'string' || !CHECKPOINT.test(checkpoint)) {
    throw new Refusal("'checkpoint' must be best, last or the name of a step such as step-00000500");
  }
  return checkpoint;
}

function howOf({how = 'zero'}) {
  if (how !== 'zero' && how !== 'mean') throw new Refusal("'how' must be zero or mean");
  return how;
}

function patchOf(patch, limits) {
  if (patch === undefined || patch === null) return null;
  const isObject = typeof patch === 'object' && !Array.isArray(patch);
  if (!isObject || Object.keys(patch).some((key) => !['text', 'target', 'heads'].includes(key))) {
    throw new Refusal("'patch' must be an object with a text and heads");
  }
  const [text, heads] = [textOf(patch, 'text', limits), headsOf(patch.heads ?? [], 'patch', limits)];
  if (text === null || !heads.length) throw new Refusal("'patch' needs a text and at least one head");
  return {text, target: textOf(patch, 'target', limits), heads};
}

function headsOf(heads, key, {most_heads: most}) {
  if (!Array.isArray(heads) || heads.length > most || !heads.every(isHead)) {
    throw new Refusal(`'${key}' must be a list of at most ${most} heads, each [kind, layer, head or null]`);
  }
  return heads;
}

function isHead(value) {
  if (!Array.isArray(value) || value.length !== 3 || !KINDS.includes(value[0]) || !isWhole(value[1], LARGEST_NUMBER)) return false;
  return value[2] === null || isWhole(value[2], LARGEST_NUMBER);
}

/** Throws Refusal with a sentence for each rule [key, value, whether it holds, what it says] that does not hold. */
function refuseBroken(rules) {
  const broken = rules.filter(([, , holds]) => !holds).map(([key, value, , rule]) => `${key}=${value}: ${rule}`);
  if (broken.length) throw new Refusal(broken.join('; '));
}

function isBetween(value, least, most) {
  return value >= least && value <= most;
}

function isWhole(value, most) {
  return Number.isInteger(value) && value >= 0 && value <= most;
}
