// Decoding a token at a time: the same decoder, with a cache of what it has computed before.

import { PLAIN } from "./how.js";
import { forEachQuery } from "./masks.js";
import { Refusal } from "./refusal.js";

/** @typedef {import("./how.js").How} How */
/** @typedef {import("./cache.js").DecoderCache} DecoderCache */

/** A model that ends in a decoder and a projection, and can write what it writes token by token. */
export class IncrementalModel {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {import("./embeddings.js").Embeddings} tgtEmbedding
   * @param {import("./layers.js").Decoder} decoder
   * @param {import("./linear.js").Linear} outputProjection
   */
  constructor(config, tgtEmbedding, decoder, outputProjection) {
    this.config = config;
    this.tgtEmbedding = tgtEmbedding;
    this.decoder = decoder;
    this.outputProjection = outputProjection;
  }

  /**
   * Logits after one more token for each of the W hypotheses.
   * @param {ArrayLike<number>} tokens (W,) the last token of each hypothesis
   * @param {DecoderCache} cache from `start`; it grows by one position
   * @param {How} how the same as `start` had
   * @returns {Float32Array} (W, V)
   */
  step(tokens, cache, how = PLAIN) {
    if (tokens.length !== cache.width) {
      throw new Refusal("{found} tokens are given for {needed} hypotheses.", { found: tokens.length, needed: cache.width });
    }
    const x = this.tgtEmbedding.apply(tokens, how, cache.length); // (W, D)
    const ownPast = cache.grow(cache.memory ? undefined : how.hidden); // (W, M)
    const states = this.decoder.apply(x, cache.memory, ownPast, forEachQuery(cache.memoryMask, tokens.length), cache, how);
    return this.readout(states, how); // (W, V)
  }

  /**
   * What is written next, from the states of the last layer or, as the logit lens does it, of another one: the final
   * norm where there is one, then the output projection.
   * @param {Float32Array} states (L, D)
   * @param {How} how
   * @returns {Float32Array} (L, V)
   */
  readout(states, how = PLAIN) {
    const input = this.decoder.norm ? this.decoder.norm.apply(states, how) : states; // (L, D)
    const logits = this.outputProjection.apply(input); // (L, V)
    how.tell?.("output_projection", { input, logits });
    return logits;
  }
}
