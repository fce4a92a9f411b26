// Classes from the states of an encoder; the paper has none.

import { ACTIVATIONS } from "./feed_forward.js";
import { Linear } from "./linear.js";

/** Logits of classes from a text's states, pooled; with an activation, by way of a layer (BERT's pooler). */
export class ClassificationHead {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {import("./weights.js").Weights} weights
   */
  constructor({ d_model, pooling, classifier_activation, num_classes }, weights) {
    this.width = d_model;
    this.takesMean = pooling === "mean";
    this.activation = classifier_activation === "none" ? null : ACTIVATIONS[classifier_activation];
    this.hidden = this.activation && Linear.from(weights.within("hidden"), d_model, d_model, true);
    this.classProjection = Linear.from(weights.within("class_projection"), d_model, num_classes, true);
  }

  /**
   * @param {Float32Array} states (S, D)
   * @param {Uint8Array | null} words (S,) 1 = a word, 0 = padding; null: all are words
   * @param {import("./how.js").How} how
   * @returns {Float32Array} (C,)
   */
  apply(states, words, how) {
    const pooled = this.takesMean ? this.mean(states, words) : states.slice(0, this.width); // (D,)
    let input = pooled;
    if (this.hidden && this.activation) input = this.hidden.apply(pooled).map(this.activation); // (D,)
    const logits = this.classProjection.apply(input); // (C,)
    how.tell?.("head", { states, pooled, input, logits });
    return logits;
  }

  /**
   * @param {Float32Array} states (S, D)
   * @param {Uint8Array | null} words (S,)
   * @returns {Float32Array} (D,)
   */
  mean(states, words) {
    const { width } = this;
    const sum = new Float64Array(width);
    let count = 0;
    for (let i = 0; i < states.length / width; i++) {
      if (words && !words[i]) continue;
      count += 1;
      for (let d = 0; d < width; d++) sum[d] += states[i * width + d];
    }
    return Float32Array.from(sum, (each) => each / count);
  }
}
