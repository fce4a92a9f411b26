// Weights as a view shows them: hidden tokens left out, rows scaled to one again, pieces merged into words.

import { written } from "../data/trace.js";
import { t } from "../shell/language.js";
import { bound, shorten, visible } from "./labels.js";

/** @typedef {import("../data/trace.js").Token} Token */

/**
 * @typedef {Object} Options
 * @property {boolean} [special] hide special tokens
 * @property {boolean} [sink] hide the first token
 * @property {boolean} [words] merge pieces into words: the sum over a word's keys, the mean over its queries
 * @property {string} [pair] which of two texts look at which: "ab" is the first at the second; "" is all
 */

/**
 * @typedef {Object} Axis
 * @property {Token[]} tokens one for each place shown
 * @property {number[][]} places which tokens of the sequence each is made of
 */

/**
 * The rows and columns that are left, which is the same for all heads.
 * @param {import("../data/attention.js").Attention} attention
 * @param {Options} options
 */
export function axes(attention, options) {
  const [of, at] = options.pair ? [...options.pair].map((letter) => (letter === "a" ? 0 : 1)) : [null, null];
  const rows = axis(attention.rows, ofRows(attention, options), of), columns = axis(attention.columns, options, at);
  return { rows, columns, hidden: hiddenTokens(attention.columns, options) };
}

/**
 * What is hidden of the rows: the first token is one that is looked at, which the first row is in self-attention alone.
 * @param {import("../data/attention.js").Attention} attention
 * @param {Options} options
 * @returns {Options}
 */
const ofRows = (attention, options) => ({ ...options, sink: Boolean(options.sink) && attention.rows === attention.columns });

/**
 * @param {Token[]} tokens
 * @param {Options} options
 * @param {number | null} segment
 * @returns {Axis}
 */
function axis(tokens, options, segment) {
  /** @type {number[][]} */
  const places = [];
  tokens.forEach((token, place) => {
    if (hides(token, place, options) || (segment !== null && token.segment !== segment)) return;
    const last = places[places.length - 1];
    if (options.words && token.continues && last && last[last.length - 1] === place - 1) last.push(place);
    else places.push([place]);
  });
  return { tokens: places.map((group) => joined(group.map((place) => tokens[place]), options)), places };
}

/**
 * @param {Token} token
 * @param {number} place
 * @param {Options} options
 */
const hides = (token, place, options) => Boolean((options.special && token.special) || (options.sink && place === 0));

/**
 * @param {Token[]} group
 * @param {Options} options
 * @returns {Token}
 */
function joined(group, options) {
  if (group.length === 1) return options.words ? { ...group[0], continues: false } : group[0];
  const text = group.map(written).join(""), piece = group.map((token) => token.piece).join("");
  return { ...group[0], text, adds: null, piece, id: null, continues: false };
}

/**
 * @param {Token[]} columns
 * @param {Options} options
 */
function hiddenTokens(columns, options) {
  return [...new Set(columns.filter((token, place) => hides(token, place, options)).map((token) => token.text))];
}

/**
 * The weights (rows shown, columns shown) of (L, M) ones, and which part of the rows' weight was on hidden columns.
 * @param {Float32Array} weights
 * @param {import("../data/attention.js").Attention} attention
 * @param {{rows: Axis, columns: Axis}} axes
 * @param {Options} options
 * @returns {{values: Float32Array, share: number}}
 */
export function shown(weights, attention, { rows, columns }, options) {
  const M = attention.columns.length, width = columns.places.length;
  if (rows.places.length === attention.rows.length && width === M) return { values: weights, share: 0 };
  const kept = attention.columns.map((token, place) => !hides(token, place, options));
  const values = new Float32Array(rows.places.length * width);
  let hidden = 0, total = 0;
  rows.places.forEach((group, i) => {
    for (const row of group) {
      let sum = 0, left = 0;
      for (let j = 0; j < M; j++) {
        const weight = weights[row * M + j];
        sum += weight;
        if (kept[j]) left += weight;
      }
      hidden += sum - left;
      total += sum;
      if (left <= 0) continue;
      const scale = (options.special || options.sink ? 1 / left : 1) / group.length;
      for (let j = 0; j < width; j++) for (const place of columns.places[j]) values[i * width + j] += weights[row * M + place] * scale;
    }
  });
  return { values, share: total > 0 ? hidden / total : 0 };
}

/**
 * Which of the cells that are shown are masked: those in which no query of the row may look at a key of the column.
 * It is the same in all layers; null where there is no mask.
 * @param {import("../data/attention.js").Layer} layer
 * @param {{rows: Axis, columns: Axis}} axes
 * @returns {((row: number, column: number) => boolean) | null}
 */
export function blocked(layer, { rows, columns }) {
  if (!layer.mask) return null;
  const width = columns.places.length, cells = new Uint8Array(rows.places.length * width);
  rows.places.forEach((of, i) => columns.places.forEach((at, j) => { cells[i * width + j] = of.some((a) => at.some((b) => layer.allowed(a, b))) ? 0 : 1; }));
  return (row, column) => cells[row * width + column] === 1;
}

/**
 * What the rows and columns of an attention are: "written" looks at "read".
 * @param {import("../data/attention.js").Attention} attention
 * @returns {import("./axis.js").Titles}
 */
export function titles(attention) {
  const crossed = attention.rows !== attention.columns;
  return crossed ? { rows: t("written"), columns: t("read") } : { rows: t("looks (query)"), columns: t("is looked at (key)") };
}

/**
 * What a picture says of what it leaves out or puts together.
 * @param {import("../data/attention.js").Attention} attention
 * @param {string[]} hidden
 * @param {number} share
 * @param {Options} options
 */
export function note(attention, hidden, share, { words, pair }) {
  const names = hidden.slice(0, 6).map((text) => shorten(visible(text), 16)).join(", ") + (hidden.length > 6 ? ", …" : "");
  return [
    names && t("hidden: {tokens} ({share} % of the weight of the rows shown), the rest scaled to one", { tokens: names, share: Math.round(100 * share) }),
    words && t("pieces merged into words: the sum over a word's keys, the mean over its queries"),
    pair && t("only {from} → {to}, rows not scaled again", { from: pair[0].toUpperCase(), to: pair[1].toUpperCase() }),
    attention.error > 1e-4 && t("weights are within {error} of the model's", { error: bound(attention.error) }),
  ].filter(Boolean).join("; ");
}
