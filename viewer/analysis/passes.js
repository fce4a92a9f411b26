// A pass of any family as the analysis needs it: what went in, what each row was to write, and all that was told.

import { PLAIN } from "../model/how.js";

/** @typedef {import("../model/how.js").How} How */
/** @typedef {import("../data/trace.js").Token} Token */

/**
 * What a pass reads, and what it wrote, as a trace's sequences have it. A model that has no encoder has no `src`, one
 * that has no decoder no `tgt`.
 * @typedef {Object} Given
 * @property {number[] | null} src
 * @property {number[] | null} tgt what the decoder reads
 * @property {number[] | null} out what each of its rows is to write; null: of a classifier
 * @property {number[]} [segments] of an encoder with segments
 */

/** @typedef {(id: number) => {text: string, piece: string}} Name names a word of the vocabulary, or a class */

/**
 * Runs a pass, and returns its logits, a row for each word that was written or one for a classifier, with everything
 * that was told.
 * @param {any} model one of families.js that writes something
 * @param {Given} given
 * @param {How} [how]
 */
export function pass(model, given, how = PLAIN) {
  /** @type {Map<string, any>} */
  const records = new Map();
  const told = { ...how, tell: (/** @type {string} */ place, /** @type {any} */ record) => void records.set(place, record) };
  const logits = logitsOf(model, given, told);
  return { logits, records, stack: given.tgt ? "decoder" : "encoder" };
}

/**
 * Logits (R, V), of a classifier (1, C).
 * @param {any} model
 * @param {Given} given
 * @param {How} how
 * @returns {Float32Array}
 */
export function logitsOf(model, { src, tgt, segments }, how = PLAIN) {
  const asked = segments ? { ...how, segments } : how;
  if (src && tgt) return model.forward(src, tgt, asked);
  return model.forward(src ?? tgt, asked);
}

/**
 * What each row wrote: the words that are given, where one is unknown (-1) the most probable one, or a classifier's most
 * probable class.
 * @param {Given} given
 * @param {Float32Array} logits
 * @returns {number[]}
 */
export function written({ out, tgt }, logits) {
  if (tgt && !out) throw new Error("a pass of a decoder needs the words that it wrote");
  const rows = tgt && out ? out : [-1], width = logits.length / rows.length;
  return rows.map((id, row) => (id < 0 ? topOf(logits.subarray(row * width, (row + 1) * width), 1)[0] : id));
}

/**
 * The residual sums of the stack that writes, in the order of the pass.
 * @param {Map<string, any>} records
 * @param {string} stack "encoder" or "decoder"
 * @returns {{place: string, layer: number, sublayer: string, before: Float32Array, added: Float32Array, after: Float32Array}[]}
 */
export function sumsOf(records, stack) {
  return [...records.entries()].flatMap(([name, record]) => {
    const [of, , layer, sublayer, last] = name.split(".");
    return of === stack && last === "sum" ? [{ ...record, place: name.slice(0, -4), layer: Number(layer), sublayer }] : [];
  });
}

/**
 * The logarithms of the softmax of a row, in double precision.
 * @param {Float32Array} logits (R, V)
 * @param {number} row
 * @param {number} width V
 * @returns {Float64Array}
 */
export function logSoftmax(logits, row, width) {
  const out = Float64Array.from(logits.subarray(row * width, (row + 1) * width));
  let most = -Infinity, sum = 0;
  for (const one of out) if (one > most) most = one;
  for (const one of out) sum += Math.exp(one - most);
  const norm = most + Math.log(sum);
  for (let i = 0; i < out.length; i++) out[i] -= norm;
  return out;
}

/**
 * The places of the `count` largest numbers, the largest first; of equal ones the first.
 * @param {ArrayLike<number>} row
 * @param {number} count
 */
export function topOf(row, count) {
  /** @type {number[]} */
  const best = [];
  for (let i = 0; i < row.length; i++) {
    if (best.length === count && row[i] <= row[best[count - 1]]) continue;
    let at = best.length;
    while (at > 0 && row[best[at - 1]] < row[i]) at--;
    best.splice(at, 0, i);
    if (best.length > count) best.pop();
  }
  return best;
}
