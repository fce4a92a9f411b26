// What the page holds: traces, their sequences, their attentions.

import { Attention } from "./attention.js";
import { json } from "./islands.js";

/**
 * @typedef {Object} Token
 * @property {string} text
 * @property {string} piece
 * @property {number | null} id
 * @property {number | null} word
 * @property {boolean} special
 * @property {number} segment
 * @property {boolean} continues whether it belongs to the same word as the token before it
 * @property {boolean} [plain] whether it is no token, but a name that is shown as it stands
 */

/**
 * @typedef {Object} Trace
 * @property {Record<string, any>} model
 * @property {Record<string, Token[]>} sequences
 * @property {Map<string, Attention>} attentions
 * @property {number} faithfulness
 * @property {any} search the tree of a search, or null: {beam_size, length_penalty, nodes}
 * @property {Record<string, string>} provenance
 */

/** Everything that Python put into the page. */
export async function read() {
  const manifest = await json("manifest");
  return { ...manifest, traces: manifest.traces.map(trace) };
}

/**
 * @param {any} written
 * @returns {Trace}
 */
function trace(written) {
  /** @type {Record<string, Token[]>} */
  const sequences = {};
  for (const [name, columns] of Object.entries(written.sequences)) sequences[name] = tokens(columns);
  const attentions = new Map(written.attentions.map((/** @type {any} */ one) =>
    [one.name, new Attention(one, sequences[one.queries], sequences[one.keys])]));
  return { ...written, sequences, attentions };
}

/**
 * @param {any} columns
 * @returns {Token[]}
 */
function tokens(columns) {
  return columns.text.map((/** @type {string} */ text, /** @type {number} */ i) => ({
    text,
    piece: columns.piece[i],
    id: columns.id[i],
    word: columns.word[i],
    special: columns.special[i],
    segment: columns.segment[i],
    continues: i > 0 && columns.word[i] !== null && columns.word[i] === columns.word[i - 1]
      && columns.segment[i] === columns.segment[i - 1],
  }));
}
