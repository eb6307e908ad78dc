/** The heads whose output was replaced in the answer to a question: they still attend, but what they find is not used. */

import {Unavailable} from '../../core/unavailable.js';
import {headName, headsOf, howOf} from '../ask/question.js';

const MARKS = {zero: 'removed', mean: 'removed, mean output', other: 'output of another text'};

/** {heads of a kind, how} that were replaced in the recording shown; no heads in a training step. */
export async function loadReplaced({source, fitted}, kind) {
  const {run, recording} = fitted();
  const none = {heads: [], how: ''};
  if (!recording.startsWith('asked_')) return none;
  try {
    const answer = await source.answered(run, recording);
    return {heads: headsOf(answer).filter((one) => one.kind === kind), how: howOf(answer)};
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return none; // the answer is not kept any more
  }
}

/** Ranked heads, those that were replaced last, with a mark `replaced`. */
export function replacedLast(ranked, {heads, how}) {
  const isReplaced = (one) => heads.some(({layer, head}) => layer === one.layer && (head === '*' || head === one.head));
  const [gone, left] = [ranked.filter(isReplaced), ranked.filter((one) => !isReplaced(one))];
  return [...left, ...gone.map((one) => ({...one, replaced: MARKS[how]}))];
}

/** ", without layer 0 · head 2"; '' if nothing was replaced. */
export function withoutText({heads, how}) {
  const names = heads.map((head) => headName(head)).join(', ');
  return names && (how === 'other' ? `, ${names} with the output of another text` : `, without ${names}`);
}
