// Figure 1: the Transformer, an encoder and a decoder between embeddings and output projection.

import { DecoderCache } from "./cache.js";
import { Embeddings } from "./embeddings.js";
import { PLAIN } from "./how.js";
import { Decoder, Encoder } from "./layers.js";
import { Linear } from "./linear.js";
import { causalMask, forEachQuery, sourceMask } from "./masks.js";
import { IncrementalModel } from "./steps.js";

/** @typedef {import("./how.js").How} How */

/** The encoder-decoder of figure 1, for one sentence at a time. */
export class Transformer extends IncrementalModel {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {import("./weights.js").Weights} weights
   */
  constructor(config, weights) {
    const srcEmbedding = new Embeddings(config, config.src_vocab_size, weights.within("src_embedding"));
    // Section 3.4: one matrix for the embeddings and the linear layer before the softmax.
    const shared = config.tie_embeddings === "all" ? srcEmbedding.table : null;
    const tgtEmbedding = new Embeddings(config, config.tgt_vocab_size, weights.within("tgt_embedding"), shared);
    const encoder = new Encoder(config, weights.within("encoder"));
    const decoder = new Decoder(config, weights.within("decoder"), true);
    super(config, tgtEmbedding, decoder, outputProjection(config, weights.within("output_projection"), tgtEmbedding));
    this.srcEmbedding = srcEmbedding;
    this.encoder = encoder;
  }

  /**
   * Logits, before the softmax, for each next target token.
   * @param {ArrayLike<number>} src (S,)
   * @param {ArrayLike<number>} tgt (T,), starting with the start token
   * @param {How} how
   * @returns {Float32Array} (T, V)
   */
  forward(src, tgt, how = PLAIN) {
    const memory = this.encode(src, how); // (S, D)
    const x = this.tgtEmbedding.apply(tgt, how); // (T, D)
    const memoryMask = forEachQuery(this.sourceMask(src, how), tgt.length);
    return this.readout(this.decoder.apply(x, memory, causalMask(tgt.length), memoryMask, null, how), how); // (T, V)
  }

  /**
   * The encoder's output: the memory.
   * @param {ArrayLike<number>} src (S,)
   * @param {How} how
   * @returns {Float32Array} (S, D)
   */
  encode(src, how = PLAIN) {
    return this.encoder.apply(this.srcEmbedding.apply(src, how), forEachQuery(this.sourceMask(src, how), src.length), how);
  }

  /**
   * Encodes the source, and returns the cache from which `step` continues.
   * @param {ArrayLike<number>} src (S,)
   * @param {How} how
   * @param {number} width hypotheses
   */
  start(src, how = PLAIN, width = 1) {
    return new DecoderCache(this.config.num_decoder_layers, width, this.encode(src, how), this.sourceMask(src, how));
  }

  /**
   * @param {ArrayLike<number>} src
   * @param {How} how
   */
  sourceMask(src, how) {
    return sourceMask(src, this.config.pad_id, how.hidden);
  }
}

/**
 * The linear layer before the softmax; its matrix is the target embedding's, where that is shared.
 * @param {import("./defaults.js").Config} config
 * @param {import("./weights.js").Weights} weights
 * @param {Embeddings} tgtEmbedding
 */
export function outputProjection(config, weights, tgtEmbedding) {
  const { d_model, tgt_vocab_size, output_bias, tie_embeddings } = config;
  const weight = tie_embeddings === "none" ? weights.take("weight", tgt_vocab_size, d_model) : tgtEmbedding.table;
  return new Linear(weight, output_bias ? weights.take("bias", tgt_vocab_size) : null, d_model);
}
