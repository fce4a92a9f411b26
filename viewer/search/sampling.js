// Drawn outputs: temperature, top-k and top-p (nucleus) sampling. The token of the largest log-probability plus Gumbel
// noise is a draw from the distribution.

import { Random } from "./random.js";

/**
 * @typedef {Object} Sampling
 * @property {number} temperature divides the logits: below 1 sharper, above 1 flatter
 * @property {number} topK draws from so many most probable tokens; 0: from all
 * @property {number} topP draws from the fewest tokens that together are so probable
 * @property {number} seed decides the draws, with the place of the text
 */

/**
 * What a search chooses by instead of log-probabilities.
 * @param {Sampling} sampling
 * @param {number} place of the text among others
 * @returns {(logProbs: Float64Array) => Float64Array}
 */
export function drawing(sampling, place) {
  const random = new Random(sampling.seed, place);
  return (logProbs) => filtered(logProbs, sampling).map((value) => value - Math.log(random.exponential()));
}

/**
 * Log-probabilities after temperature, top-k and top-p, up to a constant; minus infinity at what is left out.
 * @param {Float64Array} logProbs (V,)
 * @param {Sampling} sampling
 */
function filtered(logProbs, { temperature, topK, topP }) {
  let highest = -Infinity;
  for (const value of logProbs) if (value > highest) highest = value;
  const scores = logProbs.map((value) => (value - highest) / temperature);
  if (!topK && topP === 1) return scores;
  const order = Array.from(scores, (_, place) => place).sort((a, b) => scores[b] - scores[a] || a - b);
  const kept = topK ? order.slice(0, topK) : order;
  for (const place of order.slice(kept.length)) scores[place] = -Infinity;
  if (topP < 1) {
    const sum = kept.reduce((total, place) => total + Math.exp(scores[place]), 0);
    let before = 0;
    for (const place of kept) {
      const probability = Math.exp(scores[place]) / sum;
      if (before >= topP) scores[place] = -Infinity; // the token that reaches top_p stays
      before += probability;
    }
  }
  return scores;
}
