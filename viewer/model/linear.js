// x W^T + b: where a model spends its time.

/** A linear layer: (L, inWidth) to (L, outWidth). */
export class Linear {
  /**
   * @param {Float32Array} weight (outWidth, inWidth)
   * @param {Float32Array | null} bias (outWidth,)
   * @param {number} inWidth
   */
  constructor(weight, bias, inWidth) {
    this.weight = weight;
    this.bias = bias;
    this.inWidth = inWidth;
    this.outWidth = weight.length / inWidth;
  }

  /**
   * @param {import("./weights.js").Weights} weights
   * @param {number} inWidth
   * @param {number} outWidth
   * @param {boolean} bias
   */
  static from(weights, inWidth, outWidth, bias) {
    return new Linear(weights.take("weight", outWidth, inWidth), bias ? weights.take("bias", outWidth) : null, inWidth);
  }

  /**
   * The layer that gives some of the outputs alone.
   * @param {number} from
   * @param {number} to
   */
  rows(from, to) {
    return new Linear(this.weight.subarray(from * this.inWidth, to * this.inWidth), this.bias?.subarray(from, to) ?? null, this.inWidth);
  }

  /**
   * @param {Float32Array} x (L, inWidth)
   * @returns {Float32Array} (L, outWidth)
   */
  apply(x) {
    const { weight, bias, inWidth, outWidth } = this;
    const L = x.length / inWidth;
    const y = new Float32Array(L * outWidth);
    multiply(x, weight, inWidth, y);
    if (bias) for (let i = 0, at = 0; i < L; i++) for (let o = 0; o < outWidth; o++, at++) y[at] += bias[o];
    return y;
  }
}

/**
 * y = x W^T. Each weight is read once for every two rows of x, and eight sums stay in registers.
 * @param {Float32Array} x (L, inWidth)
 * @param {Float32Array} weight (outWidth, inWidth)
 * @param {number} inWidth
 * @param {Float32Array} y (L, outWidth)
 */
function multiply(x, weight, inWidth, y) {
  const L = x.length / inWidth, outWidth = weight.length / inWidth;
  for (let o = 0; o < outWidth; o++) {
    for (let i = 0; i < L; i++) {
      y[i * outWidth + o] = dot(x, i * inWidth, weight, o * inWidth, inWidth);
    }
  }
}

/**
 * The sum of a[i + d] * b[j + d] for d below `width`.
 * @param {Float32Array} a
 * @param {number} i
 * @param {Float32Array} b
 * @param {number} j
 * @param {number} width
 */
export function dot(a, i, b, j, width) {
  const whole = i + width - (width % 4);
  let first = 0, second = 0, third = 0, fourth = 0;
  for (; i < whole; i += 4, j += 4) {
    first += a[i] * b[j];
    second += a[i + 1] * b[j + 1];
    third += a[i + 2] * b[j + 2];
    fourth += a[i + 3] * b[j + 3];
  }
  for (let left = width % 4; left > 0; left--) first += a[i++] * b[j++];
  return first + second + (third + fourth);
}
