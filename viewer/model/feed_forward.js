// Section 3.3: the position-wise feed-forward network.

import { Linear } from "./linear.js";

/**
 * The activations by their names in a config.
 * @type {Record<"relu" | "gelu" | "gelu_tanh" | "silu" | "tanh", (x: number) => number>}
 */
export const ACTIVATIONS = {
  relu: (x) => (x > 0 ? x : 0),
  gelu: (x) => (x / 2) * (1 + erf(x * Math.SQRT1_2)),
  gelu_tanh: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
  tanh: Math.tanh, // of a classifier's hidden layer alone
};

/**
 * The error function: its series near 0, else 1 minus the continued fraction of its complement, each taken as far as
 * double precision sees a difference.
 * @param {number} x
 */
export function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = size;
  for (let n = 60; n > 0; n--) fraction = size + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-size * size) / Math.sqrt(Math.PI) / fraction);
}

/** activation(x W1 + b1) W2 + b2, equation 2 of the paper; gated: (activation(x Wg + bg) * (x W1 + b1)) W2 + b2. */
export class FeedForward {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {import("./weights.js").Weights} weights
   */
  constructor({ d_model, d_ff, activation, gated_feed_forward: gated, bias }, weights) {
    this.place = weights.place;
    this.activation = ACTIVATIONS[activation];
    this.gateProj = gated ? Linear.from(weights.within("gate_proj"), d_model, d_ff, bias) : null;
    this.upProj = Linear.from(weights.within("up_proj"), d_model, d_ff, bias);
    this.downProj = Linear.from(weights.within("down_proj"), d_ff, d_model, bias);
  }

  /**
   * @param {Float32Array} x (L, D)
   * @param {import("./how.js").How} how
   * @returns {Float32Array} (L, D)
   */
  apply(x, how) {
    const { activation } = this;
    const up = this.upProj.apply(x); // (L, F)
    const gate = this.gateProj ? this.gateProj.apply(x) : null; // (L, F)
    const activated = new Float32Array(up.length); // (L, F)
    if (gate) for (let i = 0; i < up.length; i++) activated[i] = activation(gate[i]) * up[i];
    else for (let i = 0; i < up.length; i++) activated[i] = activation(up[i]);
    const output = this.downProj.apply(activated); // (L, D)
    how.tell?.(this.place, { input: x, gate, up, activated, output });
    return output;
  }
}
