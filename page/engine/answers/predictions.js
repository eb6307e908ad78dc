/** Predictions of a model in a text, as tab_answers/predictions.py lists them. Logits are Float32Array [T, V]. */

import {largestIndices, logSumExp, rounded} from './numbers.js';

/** The loss of each expected next token in nats; of the first rows. */
export function lossesOf(logits, vocabulary, expected, digits = 6) {
  return expected.map((token, row) => {
    const start = row * vocabulary;
    return rounded(logSumExp(logits, start, vocabulary) - logits[start + token], digits);
  });
}

/**
 * For each row, the `top` likely next tokens of either model and the actual one, the most likely first: [id, piece, probability, probability by
 * the whole model, or null if `whole` is null]. next: the actual tokens, which may be one fewer than the rows.
 */
export function nextTokens(logits, whole, vocabulary, next, tokenizer, top) {
  return Array.from({length: logits.length / vocabulary}, (_, row) => {
    const start = row * vocabulary;
    const chance = chancesIn(logits, start, vocabulary);
    const before = whole && chancesIn(whole, start, vocabulary);
    const listed = [logits, whole].filter(Boolean).flatMap((rows) => largestIndices(rows, start, vocabulary, top));
    const ids = [...new Set([...listed, ...next.slice(row, row + 1)])];
    ids.sort((a, b) => chance(b) - chance(a) || a - b);
    const pieces = tokenizer.pieces(ids);
    return ids.map((id, place) => [id, pieces[place], rounded(chance(id), 6), before && rounded(before(id), 6)]);
  });
}

/** The most likely tokens of each row, [[id, piece, probability]]. */
export function mostLikely(logits, vocabulary, tokenizer, count) {
  return Array.from({length: logits.length / vocabulary}, (_, row) => {
    const chance = chancesIn(logits, row * vocabulary, vocabulary);
    const ids = largestIndices(logits, row * vocabulary, vocabulary, count);
    const pieces = tokenizer.pieces(ids);
    return ids.map((id, place) => [id, pieces[place], rounded(chance(id), 5)]);
  });
}

/** The probability of a token by the row of logits that begins at `start`, as float32. */
function chancesIn(logits, start, vocabulary) {
  const total = logSumExp(logits, start, vocabulary);
  return (id) => Math.fround(Math.exp(logits[start + id] - total));
}
