/** Groups tokens (subword pieces) into words, so that a map has one row or column per word. */

import {languageOf} from './format.js';

/**
 * Groups of positions, one per word: [[0], [1, 2], ...]. Special tokens form groups of their own. A ▁ (preceding space) begins a word;
 * Japanese has no spaces, so the browser's word segmenter decides, and a piece that crosses a word boundary joins both words.
 */
export function wordGroups(tokens) {
  const {pieces, special} = tokens;
  const groups = [];
  let start = 0;
  while (start < pieces.length) {
    if (special[start]) {
      groups.push([start++]);
      continue;
    }
    let end = start;
    while (end < pieces.length && !special[end]) end++;
    groups.push(...(languageOf(pieces.slice(start, end).join('')) === 'ja' ? brokenByLanguage : brokenAtSpaces)(pieces, start, end));
    start = end;
  }
  return groups;
}

function brokenAtSpaces(pieces, start, end) {
  const groups = [];
  for (let i = start; i < end; i++) {
    const text = pieces[i];
    const opens = /^[▁↵⇥]/u.test(text) || /^[^\p{L}\p{N}'’▁]/u.test(text);
    const alone = i > start && /^▁?[^\p{L}\p{N}]+$/u.test(pieces[i - 1]) && pieces[i - 1] !== '▁';
    if (i === start || opens || alone) groups.push([i]);
    else groups.at(-1).push(i);
  }
  return groups;
}

function brokenByLanguage(pieces, start, end) {
  const texts = pieces.slice(start, end).map((piece) => piece.replaceAll('▁', ' '));
  const borders = new Set();
  for (const {index} of new Intl.Segmenter('ja', {granularity: 'word'}).segment(texts.join(''))) borders.add(index);
  const groups = [];
  let place = 0;
  texts.forEach((text, i) => {
    const blank = groups.length && /^ *$/.test(pieces[groups.at(-1)[0]]) && groups.at(-1).length === 1;
    if (!groups.length || (borders.has(place + text.length - text.trimStart().length) && !blank)) groups.push([start + i]);
    else groups.at(-1).push(start + i);
    place += text.length;
  });
  return groups;
}

/** The text of a group. */
export function wordText(pieces, group) {
  return group.map((i) => pieces[i]).join('');
}
