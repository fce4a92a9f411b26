// What a model wrote, as words with the probability of each; and two of them, word against word.

import { spoken, t } from "../shell/language.js";

/** @typedef {import("../data/trace.js").Token & {adds?: string | null}} Token */

/**
 * @typedef {Object} Choices what the model could have written at a place, the likeliest first
 * @property {number[]} ids
 * @property {string[]} tokens
 * @property {number[]} probabilities
 */

/**
 * @typedef {Object} Piece a token of a word
 * @property {string} text what it adds to the word
 * @property {number} place among the tokens that were written
 * @property {number | null} id its number in the vocabulary, where it is known
 * @property {number | null} probability null where it is not known
 * @property {Choices | null} top
 */

/**
 * @typedef {Object} Word
 * @property {string} before the space before it
 * @property {string} text
 * @property {Piece[]} pieces
 * @property {number | null} probability the product of those of its pieces
 */

/**
 * The words of a text that was written token by token. Special tokens, such as the end, are left out.
 * @param {Token[]} tokens
 * @param {number[]} [probabilities] of each token
 * @param {Choices[]} [top] of each token
 * @param {string} [text] what they say together, where it is known; else space is set as people set it
 * @returns {Word[]}
 */
export function words(tokens, probabilities = [], top = [], text) {
  /** @type {Word[]} */
  const found = [];
  tokens.forEach((token, place) => {
    if (token.special) return;
    const piece = { text: token.adds ?? token.text, place, id: token.id ?? null, probability: probabilities[place] ?? null, top: top[place] ?? null };
    if (token.continues && found.length) found[found.length - 1].pieces.push(piece);
    else found.push({ before: "", text: "", pieces: [piece], probability: null });
  });
  for (const word of found) {
    const whole = word.pieces.map((piece) => piece.text).join("");
    word.text = whole.trimStart();
    word.before = whole.slice(0, whole.length - word.text.length);
    word.probability = product(word.pieces.map((piece) => piece.probability));
  }
  if (text === undefined || !fitted(found, text)) spaced(found);
  return found;
}

/** Takes the space between words from the text; false where they do not say it. @param {Word[]} found @param {string} text */
function fitted(found, text) {
  /** @type {string[]} */
  const before = [];
  let at = 0;
  for (const word of found) {
    const own = word.text.trimEnd(), next = text.indexOf(own, at);
    if (next < 0 || text.slice(at, next).trim()) return false;
    before.push(text.slice(at, next));
    at = next + own.length;
  }
  found.forEach((word, i) => { word.before = before[i]; });
  return true;
}

const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** Sets words apart where their vocabulary has no space: none before what closes, none behind what opens or joins. @param {Word[]} found */
function spaced(found) {
  if (found.some((word, i) => i > 0 && (word.before || /\s$/.test(found[i - 1].text)))) return;
  found.forEach((word, i) => {
    const last = found[i - 1]?.text ?? "", first = word.text;
    const closes = /^\p{P}/u.test(first) && !/^[([{¿¡]/.test(first), opens = /[([{¿¡\-/'’]$/.test(last);
    if (i && !closes && !opens && !(UNSPACED.test(last.slice(-1)) && UNSPACED.test(first.slice(0, 1)))) word.before = " ";
  });
}

/** @param {(number | null)[]} factors */
export function product(factors) {
  return factors.reduce((/** @type {number | null} */ all, one) => (all === null || one === null ? null : all * one), 1);
}

/**
 * How likely the model held all that it wrote, the end included: the product over the tokens, and its geometric mean.
 * @param {number[]} probabilities
 */
export function sureness(probabilities) {
  const logs = probabilities.map((probability) => Math.log(Math.max(probability, 1e-30)));
  const sum = logs.reduce((all, one) => all + one, 0);
  return { whole: Math.exp(sum), token: logs.length ? Math.exp(sum / logs.length) : 1 };
}

/**
 * The word that was the least sure, or null where no probability is known.
 * @param {Word[]} written
 */
export function leastSure(written) {
  /** @type {Word | null} */
  let least = null;
  for (const word of written) if (word.probability !== null && (least === null || word.probability < (least.probability ?? 1))) least = word;
  return least;
}

/** Five shades: 0 where the model was sure, 4 where it hardly was; "unknown" where nobody knows yet. @param {number | null} probability */
export function shade(probability) {
  if (probability === null) return "unknown";
  if (probability >= 0.9) return 0;
  return probability >= 0.7 ? 1 : probability >= 0.5 ? 2 : probability >= 0.25 ? 3 : 4;
}

/** A probability as people read it: "34 %", never 0 or 100 % for what is not. @param {number} probability */
export function percent(probability) {
  const number = probability > 0 && probability < 0.0005 ? "< 0.1" : probability < 0.01 ? (100 * probability).toFixed(1)
    : probability < 1 && probability > 0.995 ? "> 99" : String(Math.round(100 * probability));
  return number + (spoken() === "ko" ? "%" : "\u00a0%"); // the sign never begins a line
}

/**
 * Two probabilities with as many digits as tell them apart. @param {number} one @param {number} other
 * @returns {[string, string]}
 */
export function percents(one, other) {
  const short = /** @type {[string, string]} */ ([percent(one), percent(other)]);
  if (short[0] !== short[1] || one === other) return short;
  const sign = percent(0.5).slice(2), long = (/** @type {number} */ value) => Number((100 * value).toPrecision(3)).toString() + sign;
  return [long(one), long(other)];
}

/** How many times less likely something is that lost so much log-probability. @param {number} change */
export function times(change) {
  const factor = Math.exp(Math.min(20, Math.abs(change)));
  return factor >= 1000 ? t("more than {count}", { count: "1,000" }) : factor >= 100 ? String(Math.round(factor)) : factor.toFixed(1);
}

/**
 * Which words of two texts stand in both, in order (the longest common subsequence).
 * @param {string[]} before
 * @param {string[]} after
 * @returns {{before: boolean[], after: boolean[]}} true for a word that the other text does not have there
 */
export function changes(before, after) {
  const rows = before.length, columns = after.length;
  const longest = Array.from({ length: rows + 1 }, () => new Uint16Array(columns + 1));
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      longest[i][j] = before[i] === after[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const changed = { before: before.map(() => true), after: after.map(() => true) };
  for (let i = 0, j = 0; i < rows && j < columns;) {
    if (before[i] === after[j]) {
      changed.before[i++] = false;
      changed.after[j++] = false;
    } else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return changed;
}

/**
 * The beginnings that a choice at a place leaves as they are: one for each part of the line, up to the part with the place.
 * @param {any} result what the client gave
 * @param {number} place among its tokens, each part's end token among them
 * @param {number} id what is chosen there
 * @returns {number[][]}
 */
export function prefixes(result, place, id) {
  const parts = result.parts ?? [{ ids: result.ids, labels: result.labels }], kept = [];
  for (const { ids, labels } of parts) {
    if (place < labels.length) return [...kept, [...ids.slice(0, place), id]];
    kept.push([...ids]);
    place -= labels.length;
  }
  return kept;
}
