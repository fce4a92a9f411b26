// Five figures that say what kind of head a head is, as analysis/statistics.py defines them.

import { entropy } from "./numbers.js";

/**
 * Of each head of each layer, (N, H): means over the rows that they say anything about; 0 where there are none.
 * @param {Float32Array[]} layers of each layer the weights (H, L, M)
 * @param {import("./trace.js").Token[]} keys the tokens of the columns
 * @param {number} L
 * @param {number} M
 * @param {number} H
 * @param {Uint8Array | null} mask (L, M)
 */
export function statistics(layers, keys, L, M, H, mask) {
  const sinks = keys.map((token, place) => place === 0 || token.special);
  /** @type {Record<string, number[][]>} */
  const found = { entropy: [], distance: [], diagonality: [], previous: [], sink: [] };
  for (const weights of layers) {
    const heads = Array.from({ length: H }, (_, h) => measured(weights.subarray(h * L * M, (h + 1) * L * M), sinks, L, M, mask));
    for (const name of Object.keys(found)) found[name].push(heads.map((head) => head[name]));
  }
  return found;
}

/**
 * @param {Float32Array} weights (L, M)
 * @param {boolean[]} sinks (M,)
 * @param {number} L
 * @param {number} M
 * @param {Uint8Array | null} mask
 * @returns {Record<string, number>}
 */
function measured(weights, sinks, L, M, mask) {
  const sums = { entropy: 0, distance: 0, diagonality: 0, previous: 0, sink: 0 };
  let rows = 0, withPrevious = 0, free = 0;
  for (let i = 0; i < L; i++) {
    const row = weights.subarray(i * M, (i + 1) * M);
    if (!row.some((weight) => weight > 0)) continue;
    rows++;
    sums.entropy += entropy(row);
    let far = 0, off = 0, inSinks = 0;
    row.forEach((weight, j) => {
      far += weight * Math.abs(i - j);
      off += weight * Math.abs((i + 0.5) / L - (j + 0.5) / M);
      if (sinks[j]) inSinks += weight;
    });
    sums.distance += far;
    sums.diagonality += 1 - off;
    if (i >= 1 && i <= M) {
      withPrevious++;
      sums.previous += row[i - 1];
    }
    if (!mask || sinks.some((sink, j) => !sink && mask[i * M + j])) {
      free++;
      sums.sink += inSinks;
    }
  }
  const counts = { entropy: rows, distance: rows, diagonality: rows, previous: withPrevious, sink: free };
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / (counts[/** @type {keyof typeof counts} */ (name)] || 1)]));
}
