// One stack of figure 1 alone, as most of what came after the paper has it; and which model a config describes.

import { DecoderCache } from "./cache.js";
import { ClassificationHead } from "./classification.js";
import { readConfig } from "./defaults.js";
import { Embeddings } from "./embeddings.js";
import { PLAIN } from "./how.js";
import { Decoder, Encoder } from "./layers.js";
import { causalMask, forEachQuery, sourceMask } from "./masks.js";
import { IncrementalModel } from "./steps.js";
import { outputProjection, Transformer } from "./transformer.js";
import { Weights } from "./weights.js";

/** @typedef {import("./defaults.js").Config} Config */
/** @typedef {import("./how.js").How} How */

/** The left half of figure 1, as BERT has it: states for each token of a text. */
export class EncoderOnly {
  /**
   * @param {Config} config
   * @param {Weights} weights
   */
  constructor(config, weights) {
    this.config = config;
    this.srcEmbedding = new Embeddings(config, config.src_vocab_size, weights.within("src_embedding"));
    this.encoder = new Encoder(config, weights.within("encoder"));
  }

  /**
   * The states, after the final norm where there is one.
   * @param {ArrayLike<number>} ids (S,)
   * @param {How} how
   * @returns {Float32Array} (S, D)
   */
  states(ids, how = PLAIN) {
    const mask = sourceMask(ids, this.config.pad_id, how.hidden); // (S,)
    return this.encoder.apply(this.srcEmbedding.apply(ids, how), forEachQuery(mask, ids.length), how); // (S, D)
  }

  /**
   * @param {ArrayLike<number>} ids (S,)
   * @param {How} how
   * @returns {Float32Array} (S, D)
   */
  forward(ids, how = PLAIN) {
    return this.states(ids, how);
  }
}

/** An encoder whose first token's state, or the mean of all, decides between classes. */
export class SequenceClassifier extends EncoderOnly {
  /**
   * @param {Config} config
   * @param {Weights} weights
   */
  constructor(config, weights) {
    super(config, weights);
    this.head = new ClassificationHead(config, weights.within("head"));
  }

  /**
   * Logits of the classes.
   * @param {ArrayLike<number>} ids (S,)
   * @param {How} how
   * @returns {Float32Array} (C,)
   */
  forward(ids, how = PLAIN) {
    return this.head.apply(this.states(ids, how), sourceMask(ids, this.config.pad_id, undefined), how); // (C,)
  }

  /**
   * The classes that states of any layer decide for: the final norm where there is one, then the head.
   * @param {Float32Array} states (S, D)
   * @param {How} how
   * @returns {Float32Array} (C,)
   */
  readout(states, how = PLAIN) {
    return this.head.apply(this.encoder.norm ? this.encoder.norm.apply(states, how) : states, null, how); // (C,)
  }
}

/** The right half of figure 1 without cross-attention, as GPT-2 has it: the next token of a text. */
export class DecoderOnly extends IncrementalModel {
  /**
   * @param {Config} config
   * @param {Weights} weights
   */
  constructor(config, weights) {
    const embedding = new Embeddings(config, config.tgt_vocab_size, weights.within("tgt_embedding"));
    const decoder = new Decoder(config, weights.within("decoder"), false);
    super(config, embedding, decoder, outputProjection(config, weights.within("output_projection"), embedding));
  }

  /**
   * Logits, before the softmax, for each next token.
   * @param {ArrayLike<number>} ids (T,)
   * @param {How} how
   * @returns {Float32Array} (T, V)
   */
  forward(ids, how = PLAIN) {
    const x = this.tgtEmbedding.apply(ids, how); // (T, D)
    return this.readout(this.decoder.apply(x, null, causalMask(ids.length, how.hidden), null, null, how), how); // (T, V)
  }

  /**
   * Reads all but the last token of a prompt; `step` continues with the last.
   * @param {ArrayLike<number>} ids (T,)
   * @param {How} how
   * @param {number} width hypotheses
   */
  start(ids, how = PLAIN, width = 1) {
    const cache = new DecoderCache(this.config.num_decoder_layers, width);
    const read = Array.from(ids).slice(0, -1);
    if (read.length) {
      const x = this.tgtEmbedding.apply(read, how); // (T - 1, D)
      cache.fill(read.length);
      this.decoder.apply(x, null, causalMask(read.length, how.hidden), null, cache, how);
    }
    return cache;
  }
}

/**
 * The model that a config describes; the layer counts tell the family. Throws a Refusal where a config cannot be, or the
 * tensors are not those of its model.
 * @param {Partial<import("./defaults.js").Settings>} config a description's `model`
 * @param {Map<string, import("./tensors.js").Tensor>} tensors of `readWeights`
 */
export function buildModel(config, tensors) {
  const whole = readConfig(config);
  const weights = new Weights(tensors);
  const made = whole.num_encoder_layers && whole.num_decoder_layers ? new Transformer(whole, weights)
    : whole.num_decoder_layers ? new DecoderOnly(whole, weights)
    : whole.num_classes ? new SequenceClassifier(whole, weights)
    : new EncoderOnly(whole, weights);
  weights.checkAllTaken();
  return made;
}
