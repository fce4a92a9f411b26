// Section 3.5: positions that are added to the embeddings: the paper's sinusoids, and a learned table.

/**
 * What gives the vector of each position; null where positions act within attention.
 * @param {import("./defaults.js").Config} config
 * @param {import("./weights.js").Weights} weights
 */
export function makeAddedPositions(config, weights) {
  if (config.positions === "sinusoidal") return new SinusoidalPositions(config.d_model);
  return config.positions === "learned" ? new LearnedPositions(config, weights.within("positions")) : null;
}

/** PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same angle. */
class SinusoidalPositions {
  /** @param {number} width d_model */
  constructor(width) {
    this.width = width;
  }

  /**
   * The vectors of the positions `start` to `end`.
   * @param {number} start
   * @param {number} end
   * @returns {Float32Array} (end - start, D)
   */
  rows(start, end) {
    const { width } = this;
    const table = new Float32Array((end - start) * width);
    for (let d = 0; d < width; d += 2) {
      const rate = Math.exp(d * (-Math.log(10000) / width));
      for (let position = start; position < end; position++) {
        const at = (position - start) * width + d;
        table[at] = Math.sin(position * rate);
        table[at + 1] = Math.cos(position * rate);
      }
    }
    return table;
  }
}

/** A learned vector for each position. */
class LearnedPositions {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {import("./weights.js").Weights} weights
   */
  constructor(config, weights) {
    this.width = config.d_model;
    this.table = weights.take("weight", config.max_positions, config.d_model);
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {Float32Array} (end - start, D)
   */
  rows(start, end) {
    return this.table.slice(start * this.width, end * this.width);
  }
}
