// A line as the model reads it: whole or sentence by sentence, each in as many pieces as its length asks for.
// As tasks/segmentation.py and text/training_text.py have it.

import { SPACES, strip, stripEnd } from "./normalization.js";
import { sentences, spaceBetween, writesSpaces } from "./sentences.js";

/** @typedef {import("./tokenizers.js").Tokenizer} Tokenizer */

/**
 * @typedef {Object} Segment a sentence of a line, or all of the line
 * @property {string} source
 * @property {number[][]} pieces the ids that are translated by themselves
 * @property {string} behind the spaces between it and the next one, as far as the tokenizer distinguishes them; all of
 *   them if they contain a line break
 * @property {string} before the white space before the first segment of a text with line breaks
 */

/** The part of the training lines that has to end as sentences do, and the share of several below which they are unseen. */
const MOSTLY = 0.5, FEW = 0.1;
const SENTENCE_END = /[.!?…。！？।]$/u, INNER_BYTE = /^<0x[89AB][0-9A-F]>$/;
const LEADING_CODE = new RegExp(`^[${SPACES}]*>>[^<${SPACES}]+<<[${SPACES}]*`, "u");
const LINE_BREAK = "\n", BREAK = new RegExp(`(?<![${SPACES}])[${SPACES}]*\\n[${SPACES}]*`, "u");
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

/**
 * Whether a line of several sentences, `length` tokens in all, is unlike what a model was trained on.
 * @param {any} text the table `text` of a description; null: not known
 * @param {number} length
 */
function isUnlike(text, length) {
  if (!text || (text.sentence_ends ?? 0) < MOSTLY) return false;
  return (text.several_sentences ?? 0) < FEW || (text.source_length != null && length > text.source_length);
}

/**
 * The segments of a line; none for a line without text. A text with line breaks is split there, too.
 * @param {string} line
 * @param {Tokenizer} tokenizer
 * @param {number} limit the most tokens of a piece
 * @param {any} text what the model was trained on, by which a line is cut into sentences; null: it is not
 * @param {string} [language] a code of what the line is in
 * @param {boolean} [ledByCodes] whether a line may begin with the code of its target, which is that of each sentence
 * @returns {Segment[]}
 */
export function segmentsOf(line, tokenizer, limit, text, language = "", ledByCodes = false) {
  if (!line.includes(LINE_BREAK)) return segmentsOfRow(line, tokenizer, limit, text, language, ledByCodes);
  /** @type {Segment[]} */
  const segments = [];
  let place = 0;
  for (const row of strip(line).split(BREAK)) {
    const start = line.indexOf(row, place), found = segmentsOfRow(row, tokenizer, limit, text, language, ledByCodes);
    if (segments.length) segments[segments.length - 1].behind += line.slice(place, start);
    else if (found.length) found[0].before = line.slice(0, start);
    segments.push(...found);
    place = start + row.length;
  }
  if (segments.length) segments[segments.length - 1].behind += line.slice(place);
  return segments;
}

/**
 * The segments of a line without line breaks; arguments as in segmentsOf().
 * @param {string} line
 * @param {Tokenizer} tokenizer
 * @param {number} limit
 * @param {any} text
 * @param {string} language
 * @param {boolean} ledByCodes
 * @returns {Segment[]}
 */
function segmentsOfRow(line, tokenizer, limit, text, language, ledByCodes) {
  const ids = tokenizer.encode(line);
  const parts = ids.length && isUnlike(text, ids.length) ? sentences(line, language) : [line];
  if (parts.length === 1) {
    return ids.length && strip(line) ? [{ source: line, pieces: piecesWithText(ids, tokenizer, limit), behind: "", before: "" }] : [];
  }
  const code = ledByCodes ? LEADING_CODE.exec(line)?.[0] ?? "" : "";
  return parts.flatMap((part, i) => {
    const source = strip(part) && (i ? code : "") + strip(part);
    const run = i < parts.length - 1 ? part.slice(stripEnd(part).length) : "";
    const pieces = () => piecesWithText(tokenizer.encode(source), tokenizer, limit);
    return source ? [{ source, pieces: pieces(), behind: spacesAs(run, tokenizer), before: "" }] : [];
  });
}

/**
 * The translations of a line's segments as one line: joined as the segments stood. Where the target writes no spaces
 * there are none; where the source writes none and the target does, there is one. Line breaks stay, with the white space
 * around them.
 * @param {string[]} texts
 * @param {Segment[]} segments
 */
export function joined(texts, segments) {
  const isBroken = segments.some(({ before, behind }) => (before + behind).includes(LINE_BREAK));
  if (texts.length === 1 && !isBroken) return texts[0];
  let line = "", behind = "";
  texts.forEach((text, i) => {
    const core = strip(text);
    if (core) {
      if (!behind.includes(LINE_BREAK)) behind = line && spaceBetween(line, core) ? behind || " " : "";
      line += behind + core;
      behind = "";
    }
    if ((behind + segments[i].behind).includes(LINE_BREAK)) behind += segments[i].behind;
    else behind ||= writesSpaces(segments[i].source) ? segments[i].behind : "";
  });
  return (segments.length ? segments[0].before : "") + line + (isBroken ? behind : "");
}

/**
 * The `count` best ways to choose one of each list, the best first, by the sum of what is chosen. Each list falls; of
 * equal sums the way that takes the better of an earlier sentence comes first.
 * @param {number[][]} ranks
 * @param {number} count
 * @returns {number[][]}
 */
export function rankedTogether(ranks, count) {
  /** @type {{total: number, way: number[]}[]} */
  let best = [{ total: 0, way: [] }];
  for (const falling of ranks) {
    const ways = best.flatMap(({ total, way }) =>
      falling.slice(0, count).map((rank, i) => ({ total: total + rank, way: [...way, i] })));
    best = ways.sort((a, b) => b.total - a.total).slice(0, count);
  }
  return best.map(({ way }) => way);
}

/**
 * @param {number[]} ids
 * @param {Tokenizer} tokenizer
 * @param {number} limit
 */
function piecesWithText(ids, tokenizer, limit) {
  if (ids.length <= limit) return ids.length ? [ids] : [];
  return cut(ids, tokenizer.tokens(ids), limit).filter((piece) => strip(tokenizer.decode(piece)));
}

/**
 * Spaces as they stood, but one where the model reads no more than that; never what ends a line.
 * @param {string} run
 * @param {Tokenizer} tokenizer
 */
function spacesAs(run, tokenizer) {
  const lines = run.split(LINE_END);
  if (lines[lines.length - 1] === "") lines.pop();
  const spaces = lines.join(" ") || (run && " ");
  return spaces && String(tokenizer.encode(`a${spaces}a`)) === String(tokenizer.encode("a a")) ? " " : spaces;
}

/**
 * Pieces of at most `limit` ids, each cut within the second half of what fits: behind the last sentence's end there,
 * else between words, else between characters.
 * @param {number[]} ids
 * @param {string[]} tokens
 * @param {number} limit
 */
export function cut(ids, tokens, limit) {
  const pieces = [];
  let start = 0;
  while (ids.length - start > limit) {
    const end = start + cutPlace(tokens.slice(start, start + limit + 1));
    pieces.push(ids.slice(start, end));
    start = end;
  }
  return [...pieces, ids.slice(start)];
}

/**
 * The best place among the tokens to cut before; the last token is the first that does not fit.
 * @param {string[]} tokens
 */
function cutPlace(tokens) {
  const last = tokens.length - 1, least = Math.floor(tokens.length / 2);
  /** @type {((place: number) => boolean)[]} */
  const kinds = [
    (place) => SENTENCE_END.test(tokens[place - 1]),
    (place) => /^[▁ ]/.test(tokens[place]),
    (place) => !INNER_BYTE.test(tokens[place]),
  ];
  for (const fits of kinds) for (let place = last; place > least; place--) if (fits(place)) return place;
  return last;
}
