// What a model thought of each token that was written: its probability, and the likeliest others.

import { top } from "../search/beam.js";

/** @typedef {{ids: number[], tokens: string[], probabilities: number[]}} Likeliest */

/**
 * The likeliest tokens of a distribution.
 * @param {Float64Array} logProbs (V,)
 * @param {number} count
 * @param {any} tokenizer
 * @returns {Likeliest}
 */
export function likeliest(logProbs, count, tokenizer) {
  const ids = top(logProbs, count).filter((id) => logProbs[id] > -Infinity);
  return { ids, tokens: tokenizer.tokens(ids), probabilities: ids.map((id) => Math.exp(logProbs[id])) };
}

/**
 * Of each token that was written its probability and the likeliest at its place.
 * @param {Float64Array} logProbs (T, V), row t for the token `written[t]`
 * @param {number[]} written
 * @param {number} count
 * @param {any} tokenizer
 * @param {number[]} never what may not be written, and is not among the likeliest
 */
export function told(logProbs, written, count, tokenizer, never) {
  const size = logProbs.length / written.length;
  const probabilities = written.map((id, t) => Math.exp(logProbs[t * size + id]));
  const top = written.map((_, t) => {
    const row = logProbs.slice(t * size, (t + 1) * size);
    for (const id of never) row[id] = -Infinity;
    return likeliest(row, count, tokenizer);
  });
  return { probabilities, top };
}
