// Word alignments out of cross-attention, as analysis/alignment.py has them.

import { written } from "./trace.js";

/** @typedef {import("./trace.js").Token} Token */
/** @typedef {{method: string, threshold: number, reads: boolean, tokens: boolean}} How */
/** @typedef {{number: number, places: number[], token: Token}} Unit a word, or a token, with its number in its sentence */

/**
 * What of a sequence can be aligned: its words, or its tokens, without special ones.
 * @param {Token[]} sequence
 * @param {boolean} tokens
 * @returns {Unit[]}
 */
export function units(sequence, tokens) {
  /** @type {Map<number, Unit>} */
  const found = new Map();
  sequence.forEach((token, place) => {
    if (token.special || (!tokens && token.word === null)) return;
    const number = tokens ? found.size : /** @type {number} */ (token.word), known = found.get(number);
    if (!known) found.set(number, { number, places: [place], token: { ...token, continues: false } });
    else {
      known.places.push(place);
      known.token = { ...known.token, text: written(known.token) + written(token), adds: null, id: null };
    }
  });
  return [...found.values()];
}

/**
 * How much each target attends to each source, (targets, sources): the sum over a source's tokens, the mean over a target's.
 * @param {Float32Array} weights (T, S)
 * @param {Unit[]} targets
 * @param {Unit[]} sources
 * @param {number} T
 * @param {boolean} reads whether a token has the row of the step that reads it, not of the one that writes it
 */
export function soft(weights, targets, sources, T, reads) {
  const out = new Float32Array(targets.length * sources.length), S = weights.length / T;
  targets.forEach(({ places: rows }, i) => sources.forEach(({ places: columns }, j) => {
    let sum = 0;
    for (const row of rows) for (const column of columns) sum += weights[Math.min(row + Number(reads), T - 1) * S + column];
    out[i * sources.length + j] = sum / rows.length;
  }));
  return out;
}

/**
 * The chosen cells of (targets, sources), 1 or 0.
 * @param {Float32Array} values
 * @param {number} width how many sources
 * @param {How} how
 */
export function linked(values, width, { method, threshold }) {
  const height = values.length / width;
  if (method === "threshold") return Uint8Array.from(values, (value) => Number(value >= threshold));
  const out = new Uint8Array(values.length);
  for (let i = 0; i < height; i++) {
    let best = 0;
    for (let j = 1; j < width; j++) if (values[i * width + j] > values[i * width + best]) best = j;
    if (method === "argmax" || firstOfColumn(values, width, best) === i) out[i * width + best] = 1;
  }
  return out;
}

/** @param {Float32Array} values @param {number} width @param {number} j the row that has most in a column */
function firstOfColumn(values, width, j) {
  let best = 0;
  for (let i = 1; i * width < values.length; i++) if (values[i * width + j] > values[best * width + j]) best = i;
  return best;
}

/**
 * Links against gold: Och and Ney (2003), section 6.
 * @param {Uint8Array} links
 * @param {Uint8Array} gold 2: sure, 1: possible
 */
export function agreement(links, gold) {
  let found = 0, sure = 0, foundSure = 0, foundPossible = 0;
  links.forEach((link, at) => {
    found += link;
    sure += Number(gold[at] === 2);
    foundSure += Number(link && gold[at] === 2);
    foundPossible += Number(link && gold[at] > 0);
  });
  const precision = found ? foundPossible / found : 0, recall = sure ? foundSure / sure : 0;
  return {
    precision, recall, links: found, f1: precision + recall ? (2 * precision * recall) / (precision + recall) : 0,
    aer: found + sure ? 1 - (foundSure + foundPossible) / (found + sure) : 0,
  };
}
