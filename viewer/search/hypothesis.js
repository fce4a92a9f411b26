// The records of a search: what it found, and what each of its steps weighed.

/**
 * @typedef {Object} Hypothesis
 * @property {number[]} ids without start and end token, and without what every output begins with
 * @property {number} score the sum of the log-probabilities of what it holds, in nats, with that of the end token
 * @property {boolean} ended false: it was cut off at its limit, and no end token is in score or length
 * @property {number} length its tokens, with the end token and what every output begins with
 */

/**
 * @typedef {Object} Weighed a continuation that a step weighed
 * @property {number} parent the place of the live hypothesis that it continues
 * @property {number} token
 * @property {number} logProb of the token
 * @property {number} score of the whole
 * @property {"live" | "finished" | "pruned"} fate
 */

/**
 * Score / length ** penalty, by which hypotheses are compared: higher is better.
 * @param {number} score
 * @param {number} length
 * @param {number} penalty
 */
export function rank(score, length, penalty) {
  return score / length ** penalty;
}

/**
 * Which of two sequences of ids comes first.
 * @param {number[]} a
 * @param {number[]} b
 */
export function compareIds(a, b) {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}
