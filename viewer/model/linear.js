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
 * y = x W^T. Four rows of W are read once for all rows of x. Five of these at a time, as many as a beam usually has, are
 * multiplied with two of W: ten sums stay in registers, and each number that is read serves two or five of them.
 * @param {Float32Array} x (L, inWidth)
 * @param {Float32Array} weight (outWidth, inWidth)
 * @param {number} inWidth
 * @param {Float32Array} y (L, outWidth)
 */
function multiply(x, weight, inWidth, y) {
  const L = x.length / inWidth, outWidth = weight.length / inWidth;
  const inFours = outWidth - (outWidth % 4), inFives = L - (L % 5);
  for (let o = 0; o < inFours; o += 4) {
    for (let i = 0; i < inFives; i += 5) {
      fiveByTwo(x, i * inWidth, weight, o * inWidth, inWidth, y, i * outWidth + o, outWidth);
      fiveByTwo(x, i * inWidth, weight, (o + 2) * inWidth, inWidth, y, i * outWidth + o + 2, outWidth);
    }
    for (let i = inFives; i < L; i++) oneByFour(x, i * inWidth, weight, o * inWidth, inWidth, y, i * outWidth + o);
  }
  for (let o = inFours; o < outWidth; o++) {
    for (let i = 0; i < L; i++) y[i * outWidth + o] = dot(x, i * inWidth, weight, o * inWidth, inWidth);
  }
}

/**
 * Five rows of x times two of W.
 * @param {Float32Array} x
 * @param {number} p where its first row begins
 * @param {Float32Array} weight
 * @param {number} a where its first row begins
 * @param {number} width of a row
 * @param {Float32Array} y
 * @param {number} at where the products of the first row of x go
 * @param {number} step from there to those of the next
 */
function fiveByTwo(x, p, weight, a, width, y, at, step) {
  const q = p + width, r = q + width, s = r + width, t = s + width, b = a + width;
  let pa = 0, pb = 0, qa = 0, qb = 0, ra = 0, rb = 0, sa = 0, sb = 0, ta = 0, tb = 0;
  for (let n = 0; n < width; n++) {
    const wa = weight[a + n], wb = weight[b + n];
    pa += x[p + n] * wa; pb += x[p + n] * wb;
    qa += x[q + n] * wa; qb += x[q + n] * wb;
    ra += x[r + n] * wa; rb += x[r + n] * wb;
    sa += x[s + n] * wa; sb += x[s + n] * wb;
    ta += x[t + n] * wa; tb += x[t + n] * wb;
  }
  y[at] = pa; y[at + 1] = pb; at += step;
  y[at] = qa; y[at + 1] = qb; at += step;
  y[at] = ra; y[at + 1] = rb; at += step;
  y[at] = sa; y[at + 1] = sb; at += step;
  y[at] = ta; y[at + 1] = tb;
}

/**
 * One row of x times four of W.
 * @param {Float32Array} x
 * @param {number} p where the row begins
 * @param {Float32Array} weight
 * @param {number} a where its first row begins
 * @param {number} width of a row
 * @param {Float32Array} y
 * @param {number} at where the four products go
 */
function oneByFour(x, p, weight, a, width, y, at) {
  const b = a + width, c = b + width, d = c + width;
  let pa = 0, pb = 0, pc = 0, pd = 0;
  for (let n = 0; n < width; n++) {
    const xp = x[p + n];
    pa += xp * weight[a + n]; pb += xp * weight[b + n]; pc += xp * weight[c + n]; pd += xp * weight[d + n];
  }
  y[at] = pa; y[at + 1] = pb; y[at + 2] = pc; y[at + 3] = pd;
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
