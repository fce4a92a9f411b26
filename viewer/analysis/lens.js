// The logit lens (nostalgebraist 2020): what a model would write if it stopped behind each sublayer.

import { top as likeliest } from "../search/beam.js";
import { pass, rowOf, sumsOf, written } from "./passes.js";

/** @typedef {{text: string, piece: string, id: number, probability: number}} Candidate */
/** @typedef {{top: Candidate[], chosen: number, rank: number}} LensCell `rank`: how many words are more probable than the one that was written */
/** @typedef {{sequence: string, stages: string[], cells: LensCell[][]}} Lens cells by stage and row */

/**
 * The residual stream behind each sublayer goes through the stack's final norm, where there is one, and the output
 * projection, as the last layer's does; of a classifier it is pooled, and goes through the head.
 * @param {any} model
 * @param {import("./passes.js").Given} given
 * @param {import("./passes.js").Name} name
 * @param {{how?: import("./passes.js").How, top?: number, pause?: () => Promise<void> | void}} [options] `pause` lets others in
 *   between two stages
 * @returns {Promise<Lens>}
 */
export async function lens(model, given, name, { how, top = 5, pause } = {}) {
  const { logits, records, stack } = pass(model, given, how);
  const rows = written(given, logits), width = logits.length / rows.length; // R, V
  const streams = [{ stage: "embedding", states: records.get(stack === "decoder" ? "tgt_embedding" : "src_embedding").output }];
  for (const { layer, sublayer, after } of sumsOf(records, stack)) streams.push({ stage: `layer ${layer} ${sublayer}`, states: after });
  /** @type {LensCell[][]} */
  const cells = [];
  for (const { states } of streams) {
    const read = model.readout(states); // (R, V)
    cells.push(rows.map((id, row) => cellOf(rowOf(read, row, width), id, name, top)));
    await pause?.();
  }
  return { sequence: given.tgt ? "out" : "classes", stages: streams.map(({ stage }) => stage), cells };
}

/**
 * @param {Float64Array} logProbs (V,)
 * @param {number} id the word that was written
 * @param {import("./passes.js").Name} name
 * @param {number} top
 * @returns {LensCell}
 */
function cellOf(logProbs, id, name, top) {
  const best = likeliest(logProbs, top).map((one) => ({ ...name(one), id: one, probability: Math.exp(logProbs[one]) }));
  let rank = 0;
  for (const one of logProbs) if (one > logProbs[id]) rank++;
  return { top: best, chosen: Math.exp(logProbs[id]), rank };
}
