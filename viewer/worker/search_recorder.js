// The tree of one sentence's search, and where each live hypothesis looked at each step, as tasks/search_recorder.py has it.

import { rank } from "../search/hypothesis.js";
import { search } from "../search/beam.js";
import { Steps } from "../search/steps.js";
import { labels } from "../text/labels.js";
import { howOf } from "./how.js";
import { specialIds } from "./special.js";

/** @typedef {import("./opening.js").Opened} Opened */

/**
 * @typedef {Object} Recorded
 * @property {{beam_size: number, length_penalty: number, nodes: any[]}} tree
 * @property {any[]} rows the tokens that each row's hypothesis has read last
 * @property {{q: Float32Array, k: Float32Array, v: Float32Array, weights: Float32Array, mask: null}[]} layers of the cross-attention
 * @property {number[]} ids of what was found best
 */

/**
 * @param {Opened} opened
 * @param {number[]} src the source as the encoder reads it
 * @param {any} decode
 * @param {any} asked
 * @param {() => Promise<void> | void} [pause]
 * @returns {Promise<Recorded>}
 */
export async function recordSearch(opened, src, decode, asked, pause) {
  const { model, config, tokenizers: { target } } = opened;
  /** @type {Map<string, any>} the last call of each layer */
  const calls = new Map();
  /** @type {{q: Float32Array[], weights: Float32Array[], record: any}[]} */
  const layers = [];
  const steps = new Steps(model, src, decode, {
    how: howOf(asked, (place, record) => { if (place.endsWith(".cross_attn")) calls.set(place, record); }), prefix: asked.prefix ?? [], pause,
  });
  const root = { parent: null, token: config.bos_id, log_prob: 0, score: 0, ranked_by: 0, status: "live", row: 0, length: 0 };
  /** @type {any[]} */
  const nodes = [root], readers = [0];
  let live = [0], first = 0;
  const { hypotheses } = await search(steps, decode, {
    watch: ({ weighed }) => {
      const parents = live, width = parents.length;
      live = [];
      for (const { parent, token, logProb, score, fate } of weighed) {
        const of = parents[parent], length = nodes[of].length + 1;
        if (fate === "live") live.push(nodes.length);
        nodes.push({ parent: of, token, log_prob: logProb, score, ranked_by: rank(score, length, decode.length_penalty), status: fate, row: first + parent, length });
      }
      [...calls.values()].forEach((record, n) => {
        const layer = (layers[n] ??= { q: [], weights: [], record });
        layer.q.push(...ofRows(record.q, record.H, record.L, record.K, width));
        layer.weights.push(...ofRows(record.weights, record.H, record.L, record.M, width));
      });
      first += width;
      readers.push(...live);
    },
  });
  const best = nodes.findIndex((node, place) => node.status === "finished" && same(written(nodes, place), hypotheses[0].ids));
  const continued = new Set(nodes.map((node) => node.parent));
  nodes.forEach((node, place) => { if (node.status === "live" && !continued.has(place)) node.status = "pruned"; });
  if (best >= 0) nodes[best].status = "best";
  const named = labels(target, nodes.map((node) => node.token), specialIds(config));
  return {
    tree: { beam_size: decode.beam_size, length_penalty: decode.length_penalty, nodes: nodes.map(({ length, ...node }, i) => ({ ...node, token: named[i] })) },
    rows: readers.slice(0, first).map((node) => named[node]), ids: hypotheses[0].ids,
    layers: layers.map(({ q, weights, record: { H, k, v } }) => ({ q: byHeads(q, H), weights: byHeads(weights, H), k, v, mask: null })),
  };
}

/** The rows of live hypotheses, each with all of its heads: (H, W, K) to `width` times (H, K). @param {Float32Array} numbers @param {number} H @param {number} L @param {number} K @param {number} width */
function ofRows(numbers, H, L, K, width) {
  return Array.from({ length: width }, (_, row) => {
    const found = new Float32Array(H * K);
    for (let head = 0; head < H; head++) found.set(numbers.subarray((head * L + row) * K, (head * L + row + 1) * K), head * K);
    return found;
  });
}

/** Rows (H, K) as one tensor (H, R, K). @param {Float32Array[]} rows @param {number} H */
function byHeads(rows, H) {
  const K = rows[0].length / H, found = new Float32Array(rows.length * H * K);
  rows.forEach((row, at) => {
    for (let head = 0; head < H; head++) found.set(row.subarray(head * K, (head + 1) * K), (head * rows.length + at) * K);
  });
  return found;
}

/** The tokens on the way to a node, without start and end. @param {any[]} nodes @param {number} place */
function written(nodes, place) {
  const ids = [];
  for (let at = nodes[place].parent; at !== null && nodes[at].parent !== null; at = nodes[at].parent) ids.unshift(nodes[at].token);
  return ids;
}

/** @param {number[]} a @param {number[]} b */
function same(a, b) { return a.length === b.length && a.every((id, i) => id === b[i]); }
