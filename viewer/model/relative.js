// Positions that act within self-attention, on the distance between a query and a key. The paper has none of them.

/**
 * @typedef {Object} Rotation
 * @property {Float32Array} cos (L, K / 2)
 * @property {Float32Array} sin (L, K / 2)
 */

/**
 * Tells self-attention where its queries and keys stand, by a rotation or a bias.
 * @typedef {Object} Distances
 * @property {Rotation | null} rotation by which queries and new keys are turned
 * @property {Float32Array | null} bias (H, L, M), which is added to the scores
 */

/**
 * What makes the distances of a stack; null where positions are added to the embeddings.
 * @param {import("./defaults.js").Config} config
 * @param {import("./weights.js").Weights} weights
 * @param {boolean} causal
 */
export function makeDistances(config, weights, causal) {
  if (config.positions === "rotary") return new RotaryPositions(config);
  return config.positions === "relative" ? new RelativePositions(config, weights.within("relative"), causal) : null;
}

/** Queries and keys turned by angles that grow with their position (Su et al. 2021). */
class RotaryPositions {
  /** @param {import("./defaults.js").Config} config */
  constructor(config) {
    this.rates = rates(config); // (K / 2,)
  }

  /**
   * @param {ArrayLike<number>} queryPositions (L,)
   * @param {ArrayLike<number>} _keyPositions those in a cache were turned before
   * @returns {Distances}
   */
  of(queryPositions, _keyPositions) {
    const { rates } = this;
    const L = queryPositions.length, half = rates.length;
    const cos = new Float32Array(L * half), sin = new Float32Array(L * half);
    for (let i = 0; i < L; i++) {
      for (let d = 0; d < half; d++) {
        const angle = Math.fround(queryPositions[i] * rates[d]);
        cos[i * half + d] = Math.cos(angle);
        sin[i * half + d] = Math.sin(angle);
      }
    }
    return { rotation: { cos, sin }, bias: null };
  }
}

/**
 * The rate of each pair of dimensions, in single precision, as in the programs that trained published weights. Rates are
 * divided by the factor: all of them (Chen et al. 2023), or with two wavelengths those of longer waves (Llama 3).
 * @param {import("./defaults.js").Config} config
 * @returns {Float32Array} (K / 2,)
 */
function rates({ head_width: K, rotary_base: base, rotary_factor: factor, rotary_wavelengths: [short, long] }) {
  return Float32Array.from({ length: K / 2 }, (_, d) => {
    const rate = Math.fround(1 / Math.fround(base ** Math.fround((2 * d) / K)));
    if (short === undefined) return rate / factor;
    const share = (rate / (2 * Math.PI) - 1 / long) / (1 / short - 1 / long); // 1 at the shorter wave, 0 at the longer
    const kept = Math.min(Math.max(share, 0), 1);
    return kept * rate + ((1 - kept) * rate) / factor;
  });
}

/**
 * Turns queries or keys by their positions' angles; dimension d turns with dimension d + K / 2.
 * @param {Float32Array} x (L, H * K)
 * @param {Rotation} rotation
 * @param {number} H
 * @param {number} K
 * @returns {Float32Array} (L, H * K)
 */
export function rotate(x, { cos, sin }, H, K) {
  const turned = new Float32Array(x.length);
  const half = K / 2, L = x.length / (H * K);
  for (let i = 0; i < L; i++) {
    for (let h = 0; h < H; h++) {
      for (let d = 0; d < half; d++) {
        const first = (i * H + h) * K + d, second = first + half, angle = i * half + d;
        turned[first] = x[first] * cos[angle] - x[second] * sin[angle];
        turned[second] = x[second] * cos[angle] + x[first] * sin[angle];
      }
    }
  }
  return turned;
}

/** A learned number for each head and each bucket of distances (Raffel et al. 2020, section 2.1). */
class RelativePositions {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {import("./weights.js").Weights} weights
   * @param {boolean} causal
   */
  constructor(config, weights, causal) {
    this.H = config.num_heads;
    this.count = config.relative_num_buckets;
    this.maxDistance = config.relative_max_distance;
    this.causal = causal;
    this.bias = weights.within("bias").take("weight", this.count, this.H);
  }

  /**
   * @param {ArrayLike<number>} queryPositions (L,)
   * @param {ArrayLike<number>} keyPositions (M,)
   * @returns {Distances}
   */
  of(queryPositions, keyPositions) {
    const { H } = this, L = queryPositions.length, M = keyPositions.length;
    const bias = new Float32Array(H * L * M);
    for (let i = 0; i < L; i++) {
      for (let j = 0; j < M; j++) {
        const bucket = this.bucket(keyPositions[j] - queryPositions[i]);
        for (let h = 0; h < H; h++) bias[(h * L + i) * M + j] = this.bias[bucket * H + h];
      }
    }
    return { rotation: null, bias };
  }

  /**
   * The bucket of a key's offset from its query: near ones have a bucket each, farther away they grow wider by the
   * logarithm. In single precision, so that an offset at an edge falls to the side to which it fell in training.
   * @param {number} offset
   */
  bucket(offset) {
    const count = this.causal ? this.count : Math.floor(this.count / 2);
    const first = !this.causal && offset > 0 ? count : 0;
    const distance = this.causal ? Math.max(-offset, 0) : Math.abs(offset);
    const exact = Math.floor(count / 2);
    if (distance < exact) return first + distance;
    const growth = Math.fround(Math.fround(Math.log(Math.fround(distance / exact))) / Math.fround(Math.log(this.maxDistance / exact)));
    return first + Math.min(exact + Math.trunc(Math.fround(growth * (count - exact))), count - 1);
  }
}

/**
 * 0, 1, 2 ...
 * @param {number} length
 */
export function countUp(length) {
  return Int32Array.from({ length }, (_, i) => i);
}
