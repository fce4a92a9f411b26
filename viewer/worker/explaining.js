// What a pass was made of, asked by the page: the analysis on the model that the worker holds.

import { contributions } from "../analysis/contributions.js";
import { lens } from "../analysis/lens.js";
import { occlusion } from "../analysis/occlusion.js";
import { labels } from "../text/labels.js";
import { howOf } from "./how.js";
import { given, run, tokensOf } from "./passes.js";
import { specialIds } from "./special.js";

/** @typedef {import("./opening.js").Opened} Opened */
/** @typedef {Omit<import("./passes.js").Pass, "outputs">} Sequences */

/**
 * What each layer would write.
 * @param {Opened} opened
 * @param {Sequences} sequences
 * @param {any} asked
 * @param {() => Promise<void> | void} pause
 */
export function lensOf(opened, sequences, asked, pause) {
  return lens(opened.model, given(ended(opened, sequences, asked)), named(opened), { how: howOf(asked), top: asked.top ?? 5, pause });
}

/**
 * What each part adds to the logit of a word, `asked.row`, against another one, `asked.against`.
 * @param {Opened} opened
 * @param {Sequences} sequences
 * @param {any} asked
 */
export function contributionsOf(opened, sequences, asked) {
  const { row = 0, word = null, against = null } = asked;
  return contributions(opened.model, given(ended(opened, sequences, asked)), named(opened), { row, word, against, how: howOf(asked) });
}

/**
 * How much what was written depends on each word that was read.
 * @param {Opened} opened
 * @param {Sequences} sequences
 * @param {any} asked
 * @param {() => Promise<void> | void} pause
 */
export function occlusionOf(opened, sequences, asked, pause) {
  const whole = ended(opened, sequences, asked), tokens = tokensOf(opened, whole);
  return occlusion(opened.model, given(whole), tokens.src ?? tokens.tgt ?? [], { how: howOf(asked), row: asked.row ?? null, pause });
}

/**
 * A text that ends nowhere goes on with the token that the model holds likeliest.
 * @param {Opened} opened
 * @param {Sequences} sequences
 * @param {any} asked
 */
const ended = (opened, sequences, asked) => (sequences.out.at(-1) === -1 ? run(opened, sequences, asked, () => {}) : sequences);

/** Names what a model writes: words, or a classifier's labels. @param {Opened} opened @returns {import("../analysis/passes.js").Name} */
function named({ config, tokenizers, labels: names }) {
  if (config.num_classes) return (id) => ({ text: names[id], piece: names[id] });
  return (id) => {
    const [{ text, piece }] = labels(tokenizers.target, [id], specialIds(config));
    return { text, piece };
  };
}
