// Section 3.2: scaled dot-product attention and multi-head attention.

import { dot, Linear } from "./linear.js";
import { Norm } from "./norm.js";
import { rotate } from "./relative.js";

/**
 * @typedef {Object} Sizes
 * @property {number} L queries
 * @property {number} M keys
 * @property {number} H heads of queries
 * @property {number} G heads of keys and values; each serves H / G neighbouring heads of queries
 * @property {number} K the width of a head
 */

/**
 * q k^T / sqrt(d_k) + bias, for the pairs that `mask` lets through; 0 for the others.
 * @param {Float32Array} q (L, H * K)
 * @param {Float32Array} k (M, G * K)
 * @param {Sizes} sizes
 * @param {Uint8Array | null} mask (L, M)
 * @param {Float32Array | null} bias (H, L, M)
 * @returns {Float32Array} (H, L, M)
 */
export function attentionScores(q, k, { L, M, H, G, K }, mask, bias) {
  const scores = new Float32Array(H * L * M);
  const scale = K ** -0.5;
  for (let h = 0, at = 0; h < H; h++) {
    const shared = Math.floor((h * G) / H) * K;
    for (let i = 0; i < L; i++) {
      for (let j = 0; j < M; j++, at++) {
        if (mask && !mask[i * M + j]) continue;
        scores[at] = dot(q, (i * H + h) * K, k, j * G * K + shared, K) * scale + (bias ? bias[at] : 0);
      }
    }
  }
  return scores;
}

/**
 * The softmax of each row over the keys that `mask` lets through; zeros where it lets none through.
 * @param {Float32Array} scores (H, L, M)
 * @param {Sizes} sizes
 * @param {Uint8Array | null} mask (L, M)
 * @returns {Float32Array} (H, L, M)
 */
export function attentionWeights(scores, { L, M }, mask) {
  const weights = new Float32Array(scores.length);
  for (let start = 0, row = 0; start < scores.length; start += M, row = (row + 1) % L) {
    let largest = -Infinity, sum = 0;
    for (let j = 0; j < M; j++) {
      if ((!mask || mask[row * M + j]) && scores[start + j] > largest) largest = scores[start + j];
    }
    for (let j = 0; j < M; j++) {
      if (!mask || mask[row * M + j]) sum += weights[start + j] = Math.exp(scores[start + j] - largest);
    }
    if (sum > 0) for (let j = 0; j < M; j++) weights[start + j] /= sum;
  }
  return weights;
}

/**
 * The weighted sum of the values, the heads side by side.
 * @param {Float32Array} weights (H, L, M)
 * @param {Float32Array} v (M, G * K)
 * @param {Sizes} sizes
 * @returns {Float32Array} (L, H * K)
 */
export function weightedSum(weights, v, { L, M, H, G, K }) {
  const output = new Float32Array(L * H * K);
  for (let h = 0, at = 0; h < H; h++) {
    const shared = Math.floor((h * G) / H) * K;
    for (let i = 0; i < L; i++) {
      const to = (i * H + h) * K;
      for (let j = 0; j < M; j++, at++) {
        const weight = weights[at], from = j * G * K + shared;
        if (weight === 0) continue;
        for (let d = 0; d < K; d++) output[to + d] += weight * v[from + d];
      }
    }
  }
  return output;
}

/** Section 3.2.2: Concat(head_1, ..., head_H) W^O. `qkv_proj` packs W^Q, W^K and W^V, in that order. */
export class MultiHeadAttention {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {import("./weights.js").Weights} weights
   * @param {string} name "encoder.self.0", "decoder.self.0" or "cross.0": by it a head is switched off
   */
  constructor(config, weights, name) {
    const { d_model, num_heads, head_width, num_kv_heads } = config;
    this.place = weights.place;
    this.name = name;
    this.H = num_heads;
    this.G = num_kv_heads;
    this.K = head_width;
    const qWidth = num_heads * head_width, kvWidth = num_kv_heads * head_width;
    const packed = Linear.from(weights.within("qkv_proj"), d_model, qWidth + 2 * kvWidth, config.qkv_bias);
    this.qProj = packed.rows(0, qWidth);
    this.kProj = packed.rows(qWidth, qWidth + kvWidth);
    this.vProj = packed.rows(qWidth + kvWidth, qWidth + 2 * kvWidth);
    const queries = config.qk_norm && (config.cross_query_norm || !name.startsWith("cross"));
    this.qNorm = queries ? new Norm(config, head_width, weights.within("q_norm")) : null;
    this.kNorm = config.qk_norm ? new Norm(config, head_width, weights.within("k_norm")) : null;
    this.outProj = Linear.from(weights.within("out_proj"), qWidth, d_model, config.bias);
  }

  /**
   * Attends from `x` to itself, and to its past where there is a `cache`.
   * @param {Float32Array} x (L, D)
   * @param {Uint8Array | null} mask (L, M)
   * @param {import("./relative.js").Distances | null} distances
   * @param {import("./cache.js").LayerCache | null} cache keys and values of earlier steps, to which the new ones are added
   * @param {import("./how.js").How} how
   * @returns {Float32Array} (L, D)
   */
  toItself(x, mask, distances, cache, how) {
    let q = this.queries(x, how), { k, v } = this.keysAndValues(x, how);
    const rotation = distances?.rotation;
    if (rotation) {
      q = rotate(q, rotation, this.H, this.K);
      k = rotate(k, rotation, this.G, this.K);
    }
    if (cache) ({ k, v } = cache.extendSelf(k, v));
    return this.attend(x, q, k, v, mask, distances?.bias ?? null, how);
  }

  /**
   * Attends from `x` to a memory, whose keys and values are computed once and kept in the `cache`.
   * @param {Float32Array} x (L, D)
   * @param {Float32Array} memory (M, D)
   * @param {Uint8Array | null} mask (L, M)
   * @param {import("./cache.js").LayerCache | null} cache
   * @param {import("./how.js").How} how
   * @returns {Float32Array} (L, D)
   */
  toMemory(x, memory, mask, cache, how) {
    const project = () => this.keysAndValues(memory, how);
    const { k, v } = cache ? cache.keepMemory(project) : project();
    return this.attend(x, this.queries(x, how), k, v, mask, null, how);
  }

  /**
   * (L, D) to (L, H * K).
   * @param {Float32Array} x
   * @param {import("./how.js").How} how
   */
  queries(x, how) {
    const q = this.qProj.apply(x);
    return this.qNorm ? this.qNorm.apply(q, how) : q;
  }

  /**
   * (M, D) to (M, G * K), twice.
   * @param {Float32Array} x
   * @param {import("./how.js").How} how
   */
  keysAndValues(x, how) {
    const k = this.kProj.apply(x);
    return { k: this.kNorm ? this.kNorm.apply(k, how) : k, v: this.vProj.apply(x) };
  }

  /**
   * Equation 1 for each head, and W^O.
   * @param {Float32Array} input (L, D), of which the queries are
   * @param {Float32Array} q (L, H * K)
   * @param {Float32Array} k (M, G * K)
   * @param {Float32Array} v (M, G * K)
   * @param {Uint8Array | null} mask (L, M)
   * @param {Float32Array | null} bias (H, L, M)
   * @param {import("./how.js").How} how
   * @returns {Float32Array} (L, D)
   */
  attend(input, q, k, v, mask, bias, how) {
    const { H, G, K } = this;
    const sizes = { L: q.length / (H * K), M: k.length / (G * K), H, G, K };
    // Whoever is told sees the scores that the mask hides, too.
    const scores = attentionScores(q, k, sizes, how.tell ? null : mask, bias); // (H, L, M)
    const weights = attentionWeights(scores, sizes, mask); // (H, L, M)
    const heads = weightedSum(weights, v, sizes); // (L, H * K)
    if (how.off) this.silence(heads, how.off);
    const output = this.outProj.apply(heads); // (L, D)
    how.tell?.(this.place, {
      ...sizes, input, q: splitHeads(q, H, K), k: splitHeads(k, G, K), v: splitHeads(v, G, K), scores, mask, weights, heads, output,
    });
    return output;
  }

  /**
   * Sets the heads that are off to zero (Michel et al. 2019, section 2.3).
   * @param {Float32Array} heads (L, H * K)
   * @param {ReadonlySet<string>} off
   */
  silence(heads, off) {
    const { H, K } = this;
    for (let h = 0; h < H; h++) {
      if (!off.has(`${this.name}.${h}`)) continue;
      for (let start = h * K; start < heads.length; start += H * K) heads.fill(0, start, start + K);
    }
  }
}

/**
 * (L, H * K) to (H, L, K).
 * @param {Float32Array} x
 * @param {number} H
 * @param {number} K
 */
function splitHeads(x, H, K) {
  const L = x.length / (H * K);
  const split = new Float32Array(x.length);
  for (let i = 0; i < L; i++) {
    for (let h = 0; h < H; h++) split.set(x.subarray((i * H + h) * K, (i * H + h + 1) * K), (h * L + i) * K);
  }
  return split;
}
