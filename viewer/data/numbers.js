// Numbers as Python stored them, and what is computed from them.

export const HALVES = halves();

/** The value of each of the 65,536 half-precision numbers. */
function halves() {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const size = exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
    table[bits] = bits & 0x8000 ? -size : size;
  }
  return table;
}

/**
 * Half-precision numbers whose high bytes stand in one run and low bytes in another, which deflates better.
 * @param {Uint8Array} bytes
 * @param {number} high where the high bytes begin
 * @param {number} low where the low bytes begin
 * @param {number} count
 */
export function fromHalves(bytes, high, low, count) {
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) values[i] = HALVES[(bytes[high + i] << 8) | bytes[low + i]];
  return values;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} start
 * @param {number} count
 */
export function fromSingles(bytes, start, count) {
  return new Float32Array(bytes.slice(start, start + 4 * count).buffer);
}

/**
 * q k^T, times `scale`: (L, K) and (M, K) to (L, M). Two rows by four columns at a time stay in registers.
 * @param {Float32Array} q
 * @param {Float32Array} k
 * @param {number} width K
 * @param {number} scale
 */
export function products(q, k, width, scale) {
  const L = q.length / width, M = k.length / width;
  const out = new Float32Array(L * M);
  for (let i = 0; i < L; i += 2) {
    const a = i * width, b = i + 1 < L ? a + width : a;
    for (let j = 0; j < M; j += 4) {
      const left = Math.min(4, M - j);
      const c = j * width, d = left > 1 ? c + width : c, e = left > 2 ? d + width : d, f = left > 3 ? e + width : e;
      let ac = 0, ad = 0, ae = 0, af = 0, bc = 0, bd = 0, be = 0, bf = 0;
      for (let x = 0; x < width; x++) {
        const u = q[a + x], v = q[b + x], kc = k[c + x], kd = k[d + x], ke = k[e + x], kf = k[f + x];
        ac += u * kc; ad += u * kd; ae += u * ke; af += u * kf;
        bc += v * kc; bd += v * kd; be += v * ke; bf += v * kf;
      }
      const first = i * M + j, sums = left === 4 ? null : [ac, ad, ae, bc, bd, be];
      if (sums) for (let y = 0; y < left; y++) out[first + y] = sums[y] * scale;
      else { out[first] = ac * scale; out[first + 1] = ad * scale; out[first + 2] = ae * scale; out[first + 3] = af * scale; }
      if (i + 1 >= L) continue;
      const second = first + M;
      if (sums) for (let y = 0; y < left; y++) out[second + y] = sums[3 + y] * scale;
      else { out[second] = bc * scale; out[second + 1] = bd * scale; out[second + 2] = be * scale; out[second + 3] = bf * scale; }
    }
  }
  return out;
}

/**
 * The softmax of each row, in place; a row of minus infinities becomes zeros.
 * @param {Float32Array} scores (L, M)
 * @param {number} M
 */
export function softmax(scores, M) {
  for (let start = 0; start < scores.length; start += M) {
    let largest = -Infinity;
    for (let j = start; j < start + M; j++) if (scores[j] > largest) largest = scores[j];
    let sum = 0;
    for (let j = start; j < start + M; j++) sum += scores[j] = largest === -Infinity ? 0 : Math.exp(scores[j] - largest);
    if (sum > 0) for (let j = start; j < start + M; j++) scores[j] /= sum;
  }
  return scores;
}

/**
 * -sum w ln w, in nats.
 * @param {ArrayLike<number>} row
 */
export function entropy(row) {
  let sum = 0;
  for (let j = 0; j < row.length; j++) if (row[j] > 0) sum -= row[j] * Math.log(row[j]);
  return sum;
}

/**
 * The place of `value` among the row's values, 1 for the largest.
 * @param {ArrayLike<number>} row
 * @param {number} at
 */
export function rank(row, at) {
  let before = 1;
  for (let j = 0; j < row.length; j++) if (row[j] > row[at] || (row[j] === row[at] && j < at)) before++;
  return before;
}

/**
 * The places of the largest values, the largest first.
 * @param {ArrayLike<number>} row
 * @param {number} count
 */
export function largest(row, count) {
  return Array.from(row, (_, j) => j).sort((a, b) => row[b] - row[a] || a - b).slice(0, count);
}
