// For a moment: the tokens of ids without their spelling; replaced by the module of the same name.

/** @param {any} tokenizer @param {number[]} ids @param {number[]} [special] @param {number[]} [segments] */
export function labels(tokenizer, ids, special = [], segments = []) {
  return tokenizer.tokens(ids).map((/** @type {string} */ piece, /** @type {number} */ i) => ({
    text: piece.replace("▁", " "), piece, id: ids[i], word: special.includes(ids[i]) ? null : i, special: special.includes(ids[i]), segment: segments[i] ?? 0, continues: false,
  }));
}
