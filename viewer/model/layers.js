// Section 3.1: the two stacks of figure 1, one layer of each, and the residual sum around every sublayer.
//
// the paper                        norm first
//
// x ─┬─> sublayer ─> + ─> norm     x ─┬─> norm ─> sublayer ─> + ─>
//    └───────────────┘                └───────────────────────┘

import { MultiHeadAttention } from "./attention.js";
import { FeedForward } from "./feed_forward.js";
import { Norm } from "./norm.js";
import { countUp, makeDistances } from "./relative.js";

/** @typedef {import("./defaults.js").Config} Config */
/** @typedef {import("./weights.js").Weights} Weights */
/** @typedef {import("./how.js").How} How */
/** @typedef {import("./relative.js").Distances} Distances */

/** The left stack: N layers, and a final norm where the config has one (`norm = "pre"`); the paper has none. */
export class Encoder {
  /**
   * @param {Config} config
   * @param {Weights} weights
   */
  constructor(config, weights) {
    this.width = config.d_model;
    this.relative = makeDistances(config, weights, false);
    /** @type {EncoderLayer[]} */
    this.layers = [];
    for (let n = 0; n < config.num_encoder_layers; n++) this.layers.push(new EncoderLayer(config, weights.within(`layers.${n}`), n));
    this.norm = config.final_norm ? new Norm(config, config.d_model, weights.within("norm")) : null;
  }

  /**
   * @param {Float32Array} x (S, D)
   * @param {Uint8Array | null} mask (S, S)
   * @param {How} how
   * @returns {Float32Array} (S, D)
   */
  apply(x, mask, how) {
    const places = countUp(x.length / this.width);
    const distances = this.relative && this.relative.of(places, places);
    this.layers.forEach((layer, n) => {
      if (!how.layersOff?.has(`encoder.${n}`)) x = layer.apply(x, mask, distances, how);
    });
    return this.norm ? this.norm.apply(x, how) : x;
  }
}

/** The right stack: N layers, and a final norm as the encoder's. Without a memory its layers have no cross-attention. */
export class Decoder {
  /**
   * @param {Config} config
   * @param {Weights} weights
   * @param {boolean} hasMemory
   */
  constructor(config, weights, hasMemory) {
    this.width = config.d_model;
    this.relative = makeDistances(config, weights, true);
    /** @type {DecoderLayer[]} */
    this.layers = [];
    for (let n = 0; n < config.num_decoder_layers; n++) this.layers.push(new DecoderLayer(config, weights.within(`layers.${n}`), n, hasMemory));
    this.norm = config.final_norm ? new Norm(config, config.d_model, weights.within("norm")) : null;
  }

  /**
   * The states before the final norm. With a `cache`, in a step of decoding, T is the W hypotheses.
   * @param {Float32Array} x (T, D)
   * @param {Float32Array | null} memory (S, D)
   * @param {Uint8Array | null} mask (T, T), or that of the cache, (W, M)
   * @param {Uint8Array | null} memoryMask (T, S)
   * @param {import("./cache.js").DecoderCache | null} cache
   * @param {How} how
   * @returns {Float32Array} (T, D)
   */
  apply(x, memory, mask, memoryMask, cache, how) {
    const T = x.length / this.width;
    const keys = cache ? cache.positions : countUp(T);
    const distances = this.relative && this.relative.of(keys.slice(keys.length - T), keys);
    this.layers.forEach((layer, n) => {
      if (!how.layersOff?.has(`decoder.${n}`)) x = layer.apply(x, memory, mask, memoryMask, cache ? cache.layers[n] : null, distances, how);
    });
    return x;
  }
}

/**
 * The residual sum: LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) with the norm first.
 * @param {Float32Array} x (L, D)
 * @param {string} place of the sublayer
 * @param {Norm} norm
 * @param {boolean} normFirst
 * @param {(x: Float32Array) => Float32Array} sublayer
 * @param {How} how
 * @returns {Float32Array} (L, D)
 */
function add(x, place, norm, normFirst, sublayer, how) {
  const added = sublayer(normFirst ? norm.apply(x, how) : x);
  const sum = new Float32Array(x.length);
  for (let i = 0; i < sum.length; i++) sum[i] = x[i] + added[i];
  const after = normFirst ? sum : norm.apply(sum, how);
  how.tell?.(place + ".sum", { before: x, added, after });
  return after;
}

/** Self-attention (the second use of attention in section 3.2.3), then a feed-forward network. */
class EncoderLayer {
  /**
   * @param {Config} config
   * @param {Weights} weights
   * @param {number} number
   */
  constructor(config, weights, number) {
    this.normFirst = config.norm === "pre";
    this.selfAttn = new MultiHeadAttention(config, weights.within("self_attn"), `encoder.self.${number}`);
    this.selfAttnNorm = new Norm(config, config.d_model, weights.within("self_attn_norm"));
    this.feedForward = new FeedForward(config, weights.within("feed_forward"));
    this.feedForwardNorm = new Norm(config, config.d_model, weights.within("feed_forward_norm"));
  }

  /**
   * @param {Float32Array} x (S, D)
   * @param {Uint8Array | null} mask (S, S)
   * @param {Distances | null} distances
   * @param {How} how
   * @returns {Float32Array} (S, D)
   */
  apply(x, mask, distances, how) {
    const { selfAttn, feedForward, normFirst } = this;
    x = add(x, selfAttn.place, this.selfAttnNorm, normFirst, (x) => selfAttn.toItself(x, mask, distances, null, how), how);
    return add(x, feedForward.place, this.feedForwardNorm, normFirst, (x) => feedForward.apply(x, how), how);
  }
}

/**
 * Masked self-attention, attention over the encoder's memory where there is one, then a feed-forward network: the third
 * and the first use of attention in section 3.2.3.
 */
class DecoderLayer {
  /**
   * @param {Config} config
   * @param {Weights} weights
   * @param {number} number
   * @param {boolean} hasMemory
   */
  constructor(config, weights, number, hasMemory) {
    this.normFirst = config.norm === "pre";
    this.selfAttn = new MultiHeadAttention(config, weights.within("self_attn"), `decoder.self.${number}`);
    this.selfAttnNorm = new Norm(config, config.d_model, weights.within("self_attn_norm"));
    this.crossAttn = hasMemory ? new MultiHeadAttention(config, weights.within("cross_attn"), `cross.${number}`) : null;
    this.crossAttnNorm = hasMemory ? new Norm(config, config.d_model, weights.within("cross_attn_norm")) : null;
    this.feedForward = new FeedForward(config, weights.within("feed_forward"));
    this.feedForwardNorm = new Norm(config, config.d_model, weights.within("feed_forward_norm"));
  }

  /**
   * @param {Float32Array} x (T, D)
   * @param {Float32Array | null} memory (S, D)
   * @param {Uint8Array | null} mask (T, M)
   * @param {Uint8Array | null} memoryMask (T, S)
   * @param {import("./cache.js").LayerCache | null} cache
   * @param {Distances | null} distances
   * @param {How} how
   * @returns {Float32Array} (T, D)
   */
  apply(x, memory, mask, memoryMask, cache, distances, how) {
    const { selfAttn, crossAttn, crossAttnNorm, feedForward, normFirst } = this;
    x = add(x, selfAttn.place, this.selfAttnNorm, normFirst, (x) => selfAttn.toItself(x, mask, distances, cache, how), how);
    if (crossAttn && crossAttnNorm && memory) {
      x = add(x, crossAttn.place, crossAttnNorm, normFirst, (x) => crossAttn.toMemory(x, memory, memoryMask, cache, how), how);
    }
    return add(x, feedForward.place, this.feedForwardNorm, normFirst, (x) => feedForward.apply(x, how), how);
  }
}
