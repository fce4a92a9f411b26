// A trace of a pass as the page's views read it: tokens, queries and keys of each attention, what the model thought.

import { logSoftmax } from "../search/steps.js";
import { following } from "../data/looks.js";
import { statistics } from "../data/statistics.js";
import { recordSearch } from "./search_recorder.js";
import { settings, wholeSource } from "./translator.js";
import { logProbsOf, run, sequencesOf, tokensOf } from "./passes.js";
import { likeliest } from "./words.js";

/** @typedef {import("./opening.js").Opened} Opened */

const KINDS = [
  { name: "encoder.self", stack: "encoder", block: "self_attn", queries: "src", keys: "src" },
  { name: "decoder.self", stack: "decoder", block: "self_attn", queries: "tgt", keys: "tgt" },
  { name: "cross", stack: "decoder", block: "cross_attn", queries: "out", keys: "src" },
];
const SEARCH = { name: "search.cross", queries: "search", keys: "src", block: "cross_attn" };

/**
 * A trace of a pass, and where `asked.search` says so of the search that found its translation.
 * @param {Opened} opened
 * @param {string} text
 * @param {number[] | null} ids
 * @param {any} asked
 * @param {string} prefix of the names of the bytes that go with the trace
 * @returns {Promise<{trace: any, bytes: Record<string, Uint8Array>}>}
 */
export async function traceOf(opened, text, ids, asked, prefix) {
  /** @type {Map<string, any>} */
  const records = new Map();
  const found = asked.search ? await searched(opened, text, asked) : null;
  const pass = run(opened, await sequencesOf(opened, text, ids ?? found?.ids ?? null, asked), asked, (place, record) => {
    if (/_attn$/.test(place)) records.set(place, record);
  });
  const { config, description } = opened, sequences = { ...tokensOf(opened, pass), ...(found ? { search: found.rows } : {}) };
  /** @type {Record<string, Uint8Array>} */
  const bytes = {};
  const attentions = KINDS.map((kind) => attention(kind, layersOf(kind, records), sequences, config, prefix, bytes));
  if (found) attentions.push(attention(SEARCH, found.layers, sequences, config, prefix, bytes));
  const trace = {
    model: { name: description.task, family: familyOf(config), d_model: config.d_model },
    provenance: { tool: "this page" }, faithfulness: 0, sequences,
    attentions: attentions.filter((one) => one !== null), search: found?.tree ?? null,
    predictions: pass.tgt.length ? predictions(opened, pass) : null,
    classes: config.num_classes ? classes(opened, pass) : null,
  };
  return { trace, bytes };
}

/**
 * The tree of the search by which a translator finds its translation.
 * @param {Opened} opened
 * @param {string} text
 * @param {any} asked
 */
async function searched(opened, text, asked) {
  const { config, tokenizers, decode } = opened;
  if (!config.num_encoder_layers || !config.num_decoder_layers || typeof text !== "string") return null;
  return recordSearch(opened, wholeSource(opened, tokenizers.source.encode(text)), settings({ ...decode, n_best: 1 }, { ...asked, nBest: 1 }), asked);
}

/** What each layer worked on. @param {typeof KINDS[number]} kind @param {Map<string, any>} records */
function layersOf(kind, records) {
  const layers = [];
  for (let n = 0, found; (found = records.get(`${kind.stack}.layers.${n}.${kind.block}`)); n++) layers.push(found);
  return layers;
}

/** @param {any} config */
function familyOf(config) {
  if (!config.num_decoder_layers) return "encoder";
  return config.num_encoder_layers ? "encoder-decoder" : "decoder";
}

/**
 * What the views need of one kind of attention, as payload.py describes it; null where the model has none.
 * @param {{name: string, block: string, queries: string, keys: string}} kind
 * @param {any[]} layers what each of them worked on
 * @param {Record<string, any[]>} sequences
 * @param {any} config
 * @param {string} prefix
 * @param {Record<string, Uint8Array>} bytes which it adds to
 */
function attention(kind, layers, sequences, config, prefix, bytes) {
  if (!layers.length) return null;
  const L = sequences[kind.queries].length, M = sequences[kind.keys].length, H = config.num_heads;
  const G = config.num_kv_heads ?? H, K = config.head_dim ?? config.d_model / H, name = `${prefix}.${kind.name}`;
  /** @type {any} */
  const described = {
    name: kind.name, queries: kind.queries, keys: kind.keys, layers: layers.length, heads: H, kv_heads: G, width: K,
    // With a factor the base alone does not say by how much queries and keys were turned.
    rotary_base: config.positions === "rotary" && config.rotary_factor === 1 && kind.block === "self_attn" ? config.rotary_base : null, store: "vectors",
    stored: layers.map((record, n) => {
      bytes[`${name}.${n}`] = vectors(record.q, record.k, G, M, K);
      return { island: `${name}.${n}`, digits: "f32" };
    }),
    values: layers.map((record, n) => {
      bytes[`${name}.v${n}`] = bytesOf(Float32Array.from(record.v));
      return `${name}.v${n}`;
    }),
    statistics: statistics(layers.map((record) => record.weights), sequences[kind.keys], L, M, H, layers[0].mask),
  };
  if (kind.name === "cross") described.following = following(layers.map((record) => record.weights), sequences[kind.queries], sequences[kind.keys], H);
  if (layers[0].mask?.some((/** @type {number} */ one) => !one)) {
    bytes[`${name}.mask`] = packed(layers[0].mask);
    described.mask = `${name}.mask`;
  }
  if (config.positions === "relative" && kind.block === "self_attn") {
    bytes[`${name}.bias`] = bytesOf(biasOf(layers[0], H, G, L, M, K));
    described.bias = { heads: H, islands: [`${name}.bias`] };
  }
  return described;
}

/**
 * Queries, keys less their mean over the places, and that mean.
 * @param {Float32Array} q (H, L, K)
 * @param {Float32Array} k (G, M, K)
 * @param {number} G
 * @param {number} M
 * @param {number} K
 */
function vectors(q, k, G, M, K) {
  const whole = new Float32Array(q.length + k.length + G * K);
  whole.set(q);
  for (let g = 0; g < G; g++) {
    for (let x = 0; x < K; x++) {
      let sum = 0;
      for (let m = 0; m < M; m++) sum += k[(g * M + m) * K + x];
      const mean = Math.fround(sum / M);
      whole[q.length + k.length + g * K + x] = mean;
      for (let m = 0; m < M; m++) whole[q.length + (g * M + m) * K + x] = k[(g * M + m) * K + x] - mean;
    }
  }
  return bytesOf(whole);
}

/** What a pass added to its scores, (H, L, M): all that is not q k^T / sqrt(K). @param {any} record @param {number} H @param {number} G @param {number} L @param {number} M @param {number} K */
function biasOf({ q, k, scores }, H, G, L, M, K) {
  const bias = new Float32Array(H * L * M), shared = H / G;
  for (let h = 0; h < H; h++) for (let i = 0; i < L; i++) for (let j = 0; j < M; j++) {
    let product = 0;
    for (let x = 0; x < K; x++) product += q[(h * L + i) * K + x] * k[(Math.floor(h / shared) * M + j) * K + x];
    bias[(h * L + i) * M + j] = scores[(h * L + i) * M + j] - product / Math.sqrt(K);
  }
  return bias;
}

/** One bit a cell, the highest first. @param {Uint8Array} mask */
function packed(mask) {
  const bits = new Uint8Array(Math.ceil(mask.length / 8));
  mask.forEach((one, cell) => { if (one) bits[cell >> 3] |= 128 >> (cell & 7); });
  return bits;
}

/** @param {Float32Array} numbers */
function bytesOf(numbers) { return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength); }

/** @param {Opened} opened @param {import("./passes.js").Pass} pass */
function predictions(opened, pass) {
  const { tokenizers: { target }, config } = opened, logProbs = logProbsOf(opened, pass), size = config.tgt_vocab_size;
  const rows = pass.out.map((id, t) => {
    const row = logProbs.subarray(t * size, (t + 1) * size), best = likeliest(row, 5, target);
    const named = best.ids.map((one, i) => ({ text: best.tokens[i], piece: best.tokens[i], id: one, probability: best.probabilities[i] }));
    const [piece] = target.tokens([id]);
    return { chosen: { text: piece, piece, id, probability: Math.exp(row[id]) }, top: named };
  });
  return { sequence: "out", rows };
}

/** @param {Opened} opened @param {import("./passes.js").Pass} pass */
function classes({ labels, config }, pass) {
  const logProbs = logSoftmax(pass.outputs, config.num_classes);
  return labels.map((label, i) => ({ label, probability: Math.exp(logProbs[i]) }));
}
