// Turns ids into tokens that can be shown: their text, their spelling, their word, exactly as tracing/tokens.py does.

import { SPACES } from "./normalization.js";
import { piecesOf } from "./spelling.js";
import { characterAt, hex } from "./utf8.js";
import { wordEnds } from "./words.js";

/** @typedef {import("../data/trace.js").Token} Token */

// Thai, Lao, Burmese, Khmer, Japanese and Chinese are written without spaces: a token is all of a word that can be seen.
const UNSPACED = "[\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff"
  + "\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}]";
const IS_UNSPACED = new RegExp(`^${UNSPACED}`, "u"), ENDS_UNSPACED = new RegExp(`${UNSPACED}$`, "u");
const BLANK = new RegExp(`^[${SPACES}]*$`, "u"), NOT_SPACE = new RegExp(`[^${SPACES}]`, "gu");

/**
 * The tokens of a sequence of ids.
 * @param {import("./tokenizers.js").Tokenizer} tokenizer
 * @param {number[]} ids
 * @param {Iterable<number>} [alsoSpecial] special ids that the tokenizer does not know of
 * @param {number[]} [segments] as many numbers as ids, or none
 * @returns {Token[]}
 */
export function labels(tokenizer, ids, alsoSpecial = [], segments = []) {
  const pieces = piecesOf(tokenizer, ids, alsoSpecial);
  /** @type {Token[]} */
  const found = [];
  // Special tokens belong to no word, and no word goes across them.
  for (let start = 0, firstWord = 0, end = 0; start < pieces.length; start = end) {
    const { special } = pieces[start];
    for (end = start; end < pieces.length && pieces[end].special === special; end++);
    const run = pieces.slice(start, end);
    const texts = special ? run.map(({ spelled }) => ({ text: spelled, adds: spelled })) : textsOf(run);
    const words = special ? [] : wordsOf(run, texts.map(({ adds }) => adds), firstWord);
    run.forEach(({ spelled }, i) => {
      const place = start + i, { text, adds } = texts[i], before = found[place - 1];
      const word = words[i] ?? null, segment = segments[place] ?? 0;
      const continues = word !== null && before?.word === word && before.segment === segment;
      found.push({
        text, piece: spelled, id: ids[place], word, special, segment, adds: adds === text ? null : adds, continues,
      });
    });
    firstWord = Math.max(firstWord, ...words.slice(-1).map((word) => word + 1));
  }
  return found;
}

/**
 * The text that each piece shows, and the one that it adds; the first piece adds a character that several share.
 * @param {import("./spelling.js").Piece[]} pieces
 */
function textsOf(pieces) {
  const found = pieces.map(() => ({ text: "", adds: "" })), bounds = [0];
  for (const { content } of pieces) bounds.push(bounds[bounds.length - 1] + content.length);
  const data = new Uint8Array(bounds[pieces.length]);
  pieces.forEach(({ content }, i) => data.set(content, bounds[i]));
  for (let start = 0, place = 0, length = 0; start < data.length; start += length) {
    let code;
    [length, code] = characterAt(data, start);
    const end = start + length, character = code < 0 ? "" : String.fromCodePoint(code);
    while (bounds[place + 1] <= start) place++;
    found[place].adds += character;
    if (character && end <= bounds[place + 1]) {
      found[place].text += character;
      continue;
    }
    for (let part = place; part < pieces.length && bounds[part] < end; part++) {
      const bytes = data.subarray(Math.max(start, bounds[part]), Math.min(end, bounds[part + 1]));
      const digits = Array.from(bytes, hex).join(" ");
      if (digits) found[part].text += `${character}[${digits}]`;
    }
  }
  return found;
}

/**
 * The number of each piece's word, counted from `first`.
 * @param {import("./spelling.js").Piece[]} pieces
 * @param {string[]} adds
 * @param {number} first
 */
function wordsOf(pieces, adds, first) {
  const told = pieces.every(({ begins }) => begins !== null);
  const begins = told ? pieces.map((piece) => piece.begins) : beginsByText(adds);
  let number = first - 1;
  return begins.map((begin, place) => (number += begin || place === 0 ? 1 : 0));
}

/**
 * Where words begin, as wordEnds() defines words; space belongs to the word behind it.
 * @param {string[]} adds
 */
function beginsByText(adds) {
  const text = adds.join(""), ends = wordEnds(text);
  let start = 0, first = -1, number = 0, last = -1, blank = true;
  return adds.map((part) => {
    // `first`: where the next letter stands.
    if (first < start) {
      NOT_SPACE.lastIndex = start;
      first = NOT_SPACE.exec(text)?.index ?? text.length;
    }
    const inWord = part !== "" && first < text.length;
    if (inWord) while (number < ends.length && ends[number] <= first) number++;
    const now = inWord ? number : last, isBlank = BLANK.test(part);
    const begin = now !== last || (!blank && standsAlone(text, start, part));
    blank = begin ? part !== "" && isBlank : blank && isBlank;
    start += part.length;
    last = now;
    return begin;
  });
}

/**
 * Whether a token within a run of letters is a word of its own, since its script has no spaces.
 * @param {string} text
 * @param {number} start
 * @param {string} part
 */
function standsAlone(text, start, part) {
  if (!part || /^\p{M}/u.test(part)) return false;
  return IS_UNSPACED.test(part) || ENDS_UNSPACED.test(text.slice(Math.max(0, start - 2), start));
}
