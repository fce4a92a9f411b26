// The most probable pieces of a text (unigram), found as SentencePiece finds them, in its arithmetic.

/** So much less than the least probable piece a character counts that no piece has. */
export const UNKNOWN_PENALTY = 10;

/** Pieces in the order of the alphabet, among which those that a text goes on with are found letter by letter. */
export class PieceTable {
  #pieces; #ids;

  /** @param {Iterable<[string, number]>} pieces with their ids */
  constructor(pieces) {
    const sorted = [...pieces].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#pieces = sorted.map(([piece]) => piece);
    this.#ids = sorted.map(([, id]) => id);
  }

  /**
   * Tells of each piece that stands at a place, the shortest first: its end and its id.
   * @param {string} text
   * @param {number} at
   * @param {(end: number, id: number) => void} tell
   */
  standing(text, at, tell) {
    const pieces = this.#pieces;
    let low = 0, high = pieces.length;
    for (let depth = 0; at + depth < text.length && low < high; depth++) {
      const code = text.charCodeAt(at + depth);
      low = this.#first(low, high, depth, code);
      high = this.#first(low, high, depth, code + 1);
      if (low < high && pieces[low].length === depth + 1) tell(at + depth + 1, this.#ids[low++]);
    }
  }

  /**
   * The first piece from `low` to `high` whose character at `depth` is not below `code`.
   * @param {number} low
   * @param {number} high
   * @param {number} depth
   * @param {number} code
   */
  #first(low, high, depth, code) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#pieces[middle].charCodeAt(depth) < code) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * Where the pieces of the best path begin and, at last, the text's end; of two equal ones the first stays. In
 * SentencePiece the score of a path is a float32, in which many are equal.
 * @param {string} text
 * @param {PieceTable} table
 * @param {(id: number) => number | null} scoreOf null: the piece is not used
 * @param {number} unknownScore
 * @param {boolean} [inDoubles] as the library `tokenizers` adds scores up
 * @returns {number[]}
 */
export function bestPath(text, table, scoreOf, unknownScore, inDoubles = false) {
  const scores = new (inDoubles ? Float64Array : Float32Array)(text.length + 1), round = inDoubles ? Number : Math.fround;
  const from = new Int32Array(text.length + 1).fill(-1);
  /** @type {(start: number, end: number, score: number) => void} */
  const arrive = (start, end, score) => {
    if (from[end] >= 0 && !(score > scores[end])) return;
    scores[end] = score;
    from[end] = start;
  };
  for (let start = 0; start < text.length;) {
    const next = start + ((text.codePointAt(start) ?? 0) > 0xffff ? 2 : 1);
    let single = false;
    table.standing(text, start, (end, id) => {
      const score = scoreOf(id);
      if (score === null) return;
      arrive(start, end, round(score + scores[start]));
      single ||= end === next;
    });
    if (!single) arrive(start, next, round(unknownScore + scores[start]));
    start = next;
  }
  const places = [text.length];
  while (places[places.length - 1] > 0) places.push(from[places[places.length - 1]]);
  return places.reverse();
}
