// Beam search (section 6.1) for one output; greedy search and sampling are beams of one, which choose in another way.
// The definitions are those of docs/concepts/search.md.

import { compareIds, rank } from "./hypothesis.js";

/** @typedef {import("./hypothesis.js").Hypothesis} Hypothesis */
/** @typedef {import("./hypothesis.js").Weighed} Weighed */
/** @typedef {import("./steps.js").Steps} Steps */

/**
 * @typedef {Object} Step what a step of a search shows while it goes on
 * @property {Steps} steps before the chosen tokens are added
 * @property {Float64Array} logProbs (W, V)
 * @property {Weighed[]} weighed the best continuations, best first
 */

/**
 * The `n_best` hypotheses of the rank that is highest, best first, and how near the search came to another outcome.
 * It is done when no live hypothesis can still enter the n best; once W have finished, when none would as it stands.
 * @param {Steps} steps
 * @param {any} decode `beam_size`, `n_best`, `length_penalty`
 * @param {{watch?: (step: Step) => void, prefer?: ((logProbs: Float64Array) => ArrayLike<number>) | null}} [options] what is told of
 *   each step; values to choose by in place of log-probabilities, for a beam of one
 */
export async function search(steps, decode, { watch, prefer = null } = {}) {
  const width = decode.beam_size;
  steps.addsEnds = prefer !== null;
  await steps.start(width);
  const begun = steps.prefixed.reduce((sum, one) => sum + one, 0);
  let scores = Array.from({ length: width }, (_, w) => (w ? -Infinity : begun));
  /** @type {Hypothesis[]} */
  const finished = [];
  let margin = Infinity;
  for (;;) {
    const logProbs = await steps.logProbs();
    const chosen = width === 1 ? best(logProbs, scores[0], steps.eos, prefer) : continuations(logProbs, scores, steps);
    watch?.({ steps, logProbs, weighed: chosen.weighed });
    for (const { parent, score } of chosen.weighed.filter((one) => one.fate === "finished")) finished.push(steps.finished(parent, score));
    const live = chosen.weighed.filter((one) => one.fate === "live");
    margin = Math.min(margin, chosen.margin);
    scores = Array.from({ length: width }, (_, w) => live[w]?.score ?? -Infinity);
    steps.advance(
      Array.from({ length: width }, (_, w) => live[w]?.token ?? steps.eos),
      width === 1 ? null : Array.from({ length: width }, (_, w) => live[w]?.parent ?? 0),
    );
    const rival = Math.max(...scores);
    let ahead = 0;
    if (finished.length) {
      const against = compared(finished, rival, steps, decode);
      ahead = against.ahead;
      margin = Math.min(margin, against.nearest);
    }
    if (rival === -Infinity || ahead >= decode.n_best) return nBest(finished, margin, decode);
  }
}

/**
 * The best token of an only hypothesis, of equal ones the lower id, and the one behind it.
 * @param {Float64Array} logProbs (V,)
 * @param {number} score
 * @param {number} eos
 * @param {((logProbs: Float64Array) => ArrayLike<number>) | null} prefer
 */
function best(logProbs, score, eos, prefer) {
  const values = prefer ? prefer(logProbs) : logProbs;
  const [first, second] = top(values, 2);
  /** @type {Weighed[]} */
  const weighed = [{ parent: 0, token: first, logProb: logProbs[first], score: score + logProbs[first], fate: first === eos ? "finished" : "live" }];
  if (second !== undefined && values[second] > -Infinity) {
    weighed.push({ parent: 0, token: second, logProb: logProbs[second], score: score + logProbs[second], fate: "pruned" });
  }
  return { weighed, margin: second === undefined ? Infinity : values[first] - values[second] };
}

/**
 * The 2W best continuations: those among the first W that end are finished, the first W that do not end live on.
 * @param {Float64Array} logProbs (W, V)
 * @param {number[]} scores (W,)
 * @param {Steps} steps
 */
function continuations(logProbs, scores, steps) {
  const width = scores.length, { size, eos } = steps;
  const totals = new Float64Array(logProbs.length);
  for (let row = 0, i = 0; row < width; row++) for (let end = i + size; i < end; i++) totals[i] = scores[row] + logProbs[i];
  const places = top(totals, 2 * width + 1);
  let living = 0;
  /** @type {Weighed[]} */
  const weighed = places.slice(0, 2 * width).map((place, at) => {
    const parent = Math.floor(place / size), token = place % size, score = totals[place];
    const ends = token === eos, isLive = !ends && living < width && ++living > 0;
    return { parent, token, logProb: logProbs[place], score, fate: ends && at < width ? "finished" : isLive ? "live" : "pruned" };
  });
  const values = places.map((place) => totals[place]), ends = places.map((place) => place % size === eos);
  return { weighed: weighed.filter((one) => one.score > -Infinity), margin: margins(values, ends, width) };
}

/**
 * The least gap whose loss would change what finishes or lives on.
 * @param {number[]} values of the best continuations, falling
 * @param {boolean[]} ends
 * @param {number} width
 */
function margins(values, ends, width) {
  const living = values.filter((_, at) => !ends[at]), cut = values[width] ?? -Infinity;
  const last = Math.min(Infinity, ...values.slice(0, width).filter((_, at) => ends[at]));
  const refused = Math.max(-Infinity, ...values.slice(width).filter((_, at) => ends[width + at]));
  const gaps = [living[width - 1] - living[width], last - cut, values[width - 1] - refused];
  return Math.min(...gaps.map((gap) => (Number.isNaN(gap) ? Infinity : gap)));
}

/**
 * How many finished hypotheses rank no lower than the best live one, and by what least. Until W have finished, the live
 * one is taken for what it becomes if it loses nothing more and ends where that ranks highest; from then on for what it is.
 * @param {Hypothesis[]} finished
 * @param {number} rival the score of the best live one
 * @param {Steps} steps
 * @param {any} decode
 */
function compared(finished, rival, steps, decode) {
  const penalty = decode.length_penalty, longest = steps.limit + Number(!steps.cuts);
  let { length } = steps;
  if (finished.length < decode.beam_size) length = penalty > 0 ? longest : Math.min(length + 1, longest);
  length += steps.prefixLength;
  const bound = rank(rival, length, penalty);
  const ahead = finished.filter((one) => rank(one.score, one.length, penalty) >= bound).length;
  return { ahead, nearest: Math.min(...finished.map((one) => Math.abs(lead(one, rival, length, penalty)))) };
}

/**
 * @param {Hypothesis[]} finished
 * @param {number} margin
 * @param {any} decode
 * @returns {{hypotheses: Hypothesis[], margin: number}} the ids stay what they are while no score changes by half of the margin
 */
function nBest(finished, margin, decode) {
  const penalty = decode.length_penalty;
  const ranked = [...finished].sort((a, b) =>
    rank(b.score, b.length, penalty) - rank(a.score, a.length, penalty) || compareIds(a.ids, b.ids));
  ranked.slice(0, decode.n_best).forEach((one, place) => {
    for (const other of ranked.slice(place + 1)) margin = Math.min(margin, lead(one, other.score, other.length, penalty));
  });
  return { hypotheses: ranked.slice(0, decode.n_best), margin };
}

/**
 * Twice the change that, taken from the first score and added to the second, makes them rank alike.
 * @param {Hypothesis} first
 * @param {number} score
 * @param {number} length
 * @param {number} penalty
 */
function lead(first, score, length, penalty) {
  const gap = rank(first.score, first.length, penalty) - rank(score, length, penalty);
  return 2 * gap / (1 / first.length ** penalty + 1 / length ** penalty);
}

/**
 * The places of the k largest values, the largest first, of equal ones the first.
 * @param {ArrayLike<number>} values
 * @param {number} k
 * @returns {number[]}
 */
export function top(values, k) {
  /** @type {number[]} */
  const places = [];
  let least = -Infinity;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (places.length === k && !(value > least)) continue;
    let at = places.length;
    while (at > 0 && values[places[at - 1]] < value) at--;
    places.splice(at, 0, i);
    if (places.length > k) places.pop();
    if (places.length === k) least = values[places[k - 1]];
  }
  return places;
}
