// Layer norm (section 3.1), or its root-mean-square part (Zhang and Sennrich 2019).

/** A norm over vectors of one width; "rms" neither subtracts the mean nor adds a bias. */
export class Norm {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {number} width
   * @param {import("./weights.js").Weights} weights
   */
  constructor(config, width, weights) {
    this.place = weights.place;
    this.width = width;
    this.epsilon = config.norm_eps;
    this.subtractsMean = config.norm_type === "layer";
    this.weight = weights.take("weight", width);
    this.bias = config.norm_type === "layer" && config.bias ? weights.take("bias", width) : null;
  }

  /**
   * @param {Float32Array} x (L, width)
   * @param {import("./how.js").How} how
   * @returns {Float32Array} (L, width)
   */
  apply(x, how) {
    const { width, weight, bias } = this;
    const output = new Float32Array(x.length);
    for (let start = 0; start < x.length; start += width) {
      let mean = 0, square = 0;
      if (this.subtractsMean) {
        for (let d = 0; d < width; d++) mean += x[start + d];
        mean /= width;
      }
      for (let d = 0; d < width; d++) square += (x[start + d] - mean) ** 2;
      const scale = 1 / Math.sqrt(square / width + this.epsilon);
      for (let d = 0; d < width; d++) output[start + d] = (x[start + d] - mean) * scale * weight[d] + (bias ? bias[d] : 0);
    }
    how.tell?.(this.place, { input: x, output });
    return output;
  }
}
