// How much what was written depends on each word that was read: the log-probability that is lost when it is hidden.

import { logitsOf, rowOf, written } from "./passes.js";

/** @typedef {import("./passes.js").Token} Token */
/** @typedef {{row: number | null, words: {places: number[], text: string, change: number}[]}} Occlusion */

/**
 * What was written is given, not searched anew. A hidden word is hidden from all that attends; of a decoder alone from
 * later places, since a place always sees itself. Special tokens are not hidden.
 * @param {any} model
 * @param {import("./passes.js").Given} given
 * @param {Token[]} read the tokens that the source, or a decoder alone, reads
 * @param {{how?: import("./passes.js").How, row?: number | null, pause?: () => Promise<void> | void}} [options] `row`: one alone,
 *   null: all together; `pause` lets others in between two words
 * @returns {Promise<Occlusion>}
 */
export async function occlusion(model, given, read, { how = {}, row = null, pause } = {}) {
  const logits = logitsOf(model, given, how), rows = written(given, logits);
  const whole = logProbsOf(logits, rows);
  const words = [];
  for (const { places, text } of wordsOf(read)) {
    const hidden = new Set([...(how.hidden ?? []), ...places]);
    const without = logProbsOf(logitsOf(model, given, { ...how, hidden }), rows);
    const changes = whole.map((one, i) => one - without[i]);
    words.push({ places, text, change: row === null ? changes.reduce((a, b) => a + b, 0) : changes[row] });
    await pause?.();
  }
  return { row, words };
}

/**
 * The log-probability of what each row wrote.
 * @param {Float32Array} logits (R, V)
 * @param {number[]} rows
 */
function logProbsOf(logits, rows) {
  const width = logits.length / rows.length;
  return rows.map((id, row) => rowOf(logits, row, width)[id]);
}

/**
 * The words of a sequence, each with the places of its tokens; special tokens are none.
 * @param {Token[]} tokens
 */
export function wordsOf(tokens) {
  /** @type {{places: number[], text: string}[]} */
  const words = [];
  tokens.forEach((token, place) => {
    if (token.special) return;
    const last = words[words.length - 1];
    if (token.continues && last && last.places[last.places.length - 1] === place - 1) {
      last.places.push(place);
      last.text += token.text;
    } else words.push({ places: [place], text: token.text });
  });
  return words;
}
