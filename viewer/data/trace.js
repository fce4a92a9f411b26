// What the page holds: traces, their sequences, their attentions.

import { Attention } from "./attention.js";
import { json } from "./islands.js";

/**
 * @typedef {Object} Token one place of a sequence
 * @property {string} text the text that it stands for, as a reader would write it
 * @property {string} piece its spelling in the vocabulary
 * @property {number | null} id
 * @property {number | null} word the number of the word that it is a part of; null for a special token
 * @property {boolean} special
 * @property {number} segment 0, or 1 in the second of two texts that were read together
 * @property {string | null} [adds] the text that it adds to its word, where that differs from `text`: a character spelled in bytes is added by the first of them
 * @property {boolean} continues whether it belongs to the same word as the token before it
 * @property {boolean} [plain] whether it is no token, but a name that is shown as it stands
 */

/**
 * @typedef {Object} Trace
 * @property {Record<string, any>} model
 * @property {Record<string, Token[]>} sequences
 * @property {Map<string, Attention>} attentions
 * @property {number | null} faithfulness null: the weights came from elsewhere
 * @property {{off: string[], layersOff: string[], hidden: number[]}} [how] what was switched off or hidden, where the page's model made it
 * @property {any} search the tree of a search, or null: {beam_size, length_penalty, nodes}
 * @property {Record<string, string>} provenance
 * @property {Predictions | null} predictions what the model thought of each token that was written; null: not known
 * @property {{label: string, probability: number}[] | null} classes
 */

/**
 * @typedef {Object} Predictions
 * @property {string} sequence the sequence that was written
 * @property {{chosen: Guess, top: Guess[]}[]} rows
 */

/**
 * @typedef {Object} Guess
 * @property {string} text
 * @property {string} piece
 * @property {number} id
 * @property {number} probability
 */

/**
 * A token's part of the text that the tokens of a word make up together.
 * @param {Token} token
 */
export const written = (token) => token.adds ?? token.text;

/** Everything that Python put into the page. */
export async function read() {
  const manifest = await json("manifest");
  return { ...manifest, traces: manifest.traces.map(trace) };
}

/**
 * A trace as Python or the page's model wrote it, with attentions that are decoded when they are looked at.
 * @param {any} written
 * @returns {Trace}
 */
export function trace(written) {
  /** @type {Record<string, Token[]>} */
  const sequences = {};
  for (const [name, columns] of Object.entries(written.sequences)) sequences[name] = tokens(columns);
  const attentions = new Map(written.attentions.map((/** @type {any} */ one) =>
    [one.name, new Attention(one, sequences[one.queries], sequences[one.keys])]));
  return { predictions: null, classes: null, ...written, sequences, attentions };
}

/**
 * @param {any} columns
 * @returns {Token[]}
 */
function tokens(columns) {
  if (Array.isArray(columns)) return columns;
  return columns.text.map((/** @type {string} */ text, /** @type {number} */ i) => ({
    text,
    piece: columns.piece[i],
    id: columns.id[i],
    word: columns.word[i],
    special: columns.special[i],
    segment: columns.segment[i],
    adds: columns.adds?.[i] ?? null,
    continues: i > 0 && columns.word[i] !== null && columns.word[i] === columns.word[i - 1]
      && columns.segment[i] === columns.segment[i - 1],
  }));
}
