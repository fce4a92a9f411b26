// How well a head follows the words: sharp, and for each word somewhere else.

/**
 * Of each head of each layer, (N, H): the mean of the rows' largest weights, times how many columns they fall on per row.
 * @param {Float32Array[]} layers of each layer the weights (H, L, M)
 * @param {import("./trace.js").Token[]} rows
 * @param {import("./trace.js").Token[]} columns
 * @param {number} H
 */
export function following(layers, rows, columns, H) {
  const L = rows.length, M = columns.length, read = [...columns.keys()].filter((j) => !columns[j].special), written = [...rows.keys()].filter((i) => !rows[i].special);
  return layers.map((weights) => Array.from({ length: H }, (_, h) => {
    const seen = new Set();
    let sum = 0;
    for (const i of read.length ? written : []) {
      const start = (h * L + i) * M, best = read.reduce((most, j) => (weights[start + j] > weights[start + most] ? j : most));
      seen.add(best);
      sum += weights[start + best];
    }
    return written.length ? (sum / written.length) * (seen.size / written.length) : 0;
  }));
}
