// Text cut into words and single marks, and words joined into text again, as text/words.py does it.

import { SPACES } from "./normalization.js";

const LETTER = "\\p{L}\\p{N}_", EXTEND = "\\p{M}\\u200c\\u200d\\u{1f3fb}-\\u{1f3ff}";
const LETTERS = `[${LETTER}]+(?:[${EXTEND}]+[${LETTER}]*)*`, MARK = `[^${LETTER}${SPACES}][${EXTEND}]*`;
const WORD = new RegExp(
  `${LETTERS}(?:(?<=\\p{Nd})[.,:](?=\\p{Nd})${LETTERS})*|${MARK}(?:(?<=\\u200d)${MARK})*`, "gu");
const OPENING = "(\\[{¿¡„（「『", CLOSING = ".,!?;:%)\\]}…”。、，！？；：）」』";
const UNSPACED = new RegExp(
  ` (?=[${CLOSING}](?: |\\n?$))|(?<=[${OPENING}]) | (?=['’\\-] [${LETTER}])|(?<=[${LETTER}] ['’\\-]) `, "gu");

/**
 * The words and single marks of a text; white space is dropped.
 * @param {string} text
 * @returns {string[]}
 */
export const cutWords = (text) => text.match(WORD) ?? [];

/**
 * Where each of them ends.
 * @param {string} text
 */
export const wordEnds = (text) => [...text.matchAll(WORD)].map((match) => match.index + match[0].length);

/**
 * The words with spaces as one writes them.
 * @param {string[]} words
 */
export const joinWords = (words) => words.join(" ").replace(UNSPACED, "");
