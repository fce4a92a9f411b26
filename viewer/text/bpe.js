// Byte-pair encoding as SentencePiece does it: of all neighbours that make a piece, those of the highest score are joined.

/**
 * Where the pieces of a text begin, and at last its end. Of equal scores the left-most pair is joined first.
 * @param {string} text
 * @param {import("./sentencepiece_normalizer.js").Symbols} symbols which stay as they are
 * @param {(piece: string) => number | undefined} scoreOf
 * @param {number} longest no piece has more characters
 * @param {(piece: string, cut: number) => void} joined is told of each pair that could be joined, and of its left part
 * @returns {number[]}
 */
export function joinPairs(text, symbols, scoreOf, longest, joined) {
  /** @type {number[]} */
  const starts = [];
  /** @type {number[]} */
  const ends = [];
  /** @type {boolean[]} */
  const whole = [];
  for (let place = 0; place < text.length;) {
    const symbol = symbols.at(text, place);
    starts.push(place);
    place += symbol || ((text.codePointAt(place) ?? 0) > 0xffff ? 2 : 1);
    ends.push(place);
    whole.push(symbol > 0);
  }
  const count = starts.length;
  const before = starts.map((_, i) => i - 1), behind = starts.map((_, i) => i + 1);
  const agenda = new Agenda();

  const consider = (/** @type {number} */ left, /** @type {number} */ right) => {
    if (left < 0 || right >= count || whole[left] || whole[right] || ends[right] - starts[left] > longest) return;
    const piece = text.slice(starts[left], ends[right]), score = scoreOf(piece);
    if (score === undefined) return;
    agenda.add({ left, right, score, end: ends[right] });
    joined(piece, ends[left] - starts[left]);
  };
  for (let i = 1; i < count; i++) consider(i - 1, i);
  for (let pair = agenda.take(); pair; pair = agenda.take()) {
    const { left, right, end } = pair;
    // A part of it may have been joined with another one since.
    if (ends[left] < 0 || behind[left] !== right || ends[right] !== end) continue;
    ends[left] = end;
    ends[right] = -1;
    behind[left] = behind[right];
    if (behind[left] < count) before[behind[left]] = left;
    consider(before[left], left);
    consider(left, behind[left]);
  }
  const found = [];
  for (let i = 0; i < count; i = behind[i]) found.push(starts[i]);
  return [...found, text.length];
}

/** @typedef {{left: number, right: number, score: number, end: number}} Pair */

/** Pairs, of which the next is always the one of the highest score, of equal ones the left-most: a binary heap. */
export class Agenda {
  /** @type {Pair[]} */
  #pairs = [];

  /** @param {Pair} pair */
  add(pair) {
    const pairs = this.#pairs;
    let place = pairs.length;
    for (let above = (place - 1) >> 1; place && isFirst(pair, pairs[above]); above = (place - 1) >> 1) {
      pairs[place] = pairs[above];
      place = above;
    }
    pairs[place] = pair;
  }

  /** Takes the next pair away and returns it. */
  take() {
    const pairs = this.#pairs, taken = pairs[0], last = pairs.pop();
    if (!last || !pairs.length) return last;
    let place = 0;
    for (let below = 1; below < pairs.length; below = 2 * place + 1) {
      if (below + 1 < pairs.length && isFirst(pairs[below + 1], pairs[below])) below++;
      if (!isFirst(pairs[below], last)) break;
      pairs[place] = pairs[below];
      place = below;
    }
    pairs[place] = last;
    return taken;
  }
}

/**
 * @param {Pair} a
 * @param {Pair} b
 */
const isFirst = (a, b) => a.score > b.score || (a.score === b.score && a.left < b.left);
