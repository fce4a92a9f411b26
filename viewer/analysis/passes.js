// A pass of any family as the analysis needs it: what went in, what each row was to write, and all that was told.

import { PLAIN } from "../model/how.js";
import { top } from "../search/beam.js";
import { logSoftmax } from "../search/steps.js";

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
 * Logits (R, V), of a classifier (1, C); of an encoder that writes nothing its states.
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
  return rows.map((id, row) => (id < 0 ? top(logits.subarray(row * width, (row + 1) * width), 1)[0] : id));
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
 * The log-probabilities of a row, in double precision.
 * @param {Float32Array} logits (R, V)
 * @param {number} row
 * @param {number} width V
 * @returns {Float64Array}
 */
export const rowOf = (logits, row, width) => logSoftmax(logits.subarray(row * width, (row + 1) * width), width);
