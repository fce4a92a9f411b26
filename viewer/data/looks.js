// How a head looks: at one word or at many, at the first or the one before, and whether it follows the words.

/**
 * @typedef {Object} Looks
 * @property {number} sharp the mean of the rows' largest weights
 * @property {number} follows the same, times how many columns they fall on per row
 * @property {number} first the mean weight of the first column
 * @property {number} before the mean weight of the place before a row's own
 * @property {number} most the column that most weight goes to, of the rows' largest weights; -1: none
 * @property {number} share how much of all weight that is
 * @property {boolean} aligned whether the largest weights run along the diagonal
 */

/**
 * How a head looks, from its weights over what is not special.
 * @param {Float32Array} weights (L, M)
 * @param {number} columns M
 * @param {boolean[]} ofRow which rows count
 * @param {boolean[]} ofColumn which columns count
 * @returns {Looks}
 */
export function looks(weights, columns, ofRow, ofColumn) {
  let rows = 0, sharp = 0, first = 0, before = 0, last = -1, back = 0, off = 0;
  const seen = new Map();
  for (let i = 0; i < ofRow.length; i++) {
    if (!ofRow[i]) continue;
    let best = -1;
    for (let j = 0; j < columns; j++) if (ofColumn[j] && (best < 0 || weights[i * columns + j] > weights[i * columns + best])) best = j;
    rows++;
    first += weights[i * columns];
    before += i > 0 ? weights[i * columns + i - 1] : 0;
    if (best < 0) continue;
    back += best < last ? 1 : 0;
    off += Math.abs(i - best);
    last = best;
    sharp += weights[i * columns + best];
    seen.set(best, (seen.get(best) ?? 0) + weights[i * columns + best]);
  }
  const most = [...seen].reduce((/** @type {[number, number]} */ found, entry) => (entry[1] > found[1] ? entry : found), [-1, 0]);
  // Along the diagonal, and from the end to the end: else what a row looks at may be the word beside the one that it writes.
  const end = weights.slice((ofRow.length - 1) * columns, ofRow.length * columns);
  const ends = ofRow.length > 0 && !ofRow[ofRow.length - 1] && end.indexOf(Math.max(...end)) === columns - 1;
  sharp = rows ? sharp / rows : 0;
  // Rows that look each at a column of its own follow the words; rows that all look at one rest there.
  return { sharp, follows: rows ? (sharp * seen.size) / rows : 0, first: rows ? first / rows : 0, before: rows > 1 ? before / (rows - 1) : 0, most: most[0], share: rows ? most[1] / rows : 0, aligned: ends && rows > 0 && !back && off / rows < 1 };
}

/**
 * How well each head of each layer follows the words, (N, H).
 * @param {Float32Array[]} layers of each layer the weights (H, L, M)
 * @param {import("./trace.js").Token[]} rows
 * @param {import("./trace.js").Token[]} columns
 * @param {number} H
 */
export function following(layers, rows, columns, H) {
  const cells = rows.length * columns.length, ofRow = rows.map((token) => !token.special), ofColumn = columns.map((token) => !token.special);
  return layers.map((weights) => Array.from({ length: H }, (_, h) => looks(weights.subarray(h * cells, (h + 1) * cells), columns.length, ofRow, ofColumn).follows));
}
