// The tokenizers of a model, source and target, from the files that its folder holds.

import { HuggingFaceTokenizer } from "./hugging_face.js";
import { RemappedSentencePiece } from "./numbered.js";
import { Subwords } from "./subwords.js";
import { Vocabulary } from "./vocabulary.js";

/**
 * @typedef {Object} Tokenizer
 * @property {string} kind
 * @property {number} size
 * @property {number} padId
 * @property {number} bosId
 * @property {number} eosId
 * @property {number} unkId
 * @property {(text: string) => number[]} encode without begin and end
 * @property {(ids: number[]) => string} decode pad, begin and end are left out
 * @property {(ids: number[]) => string[]} tokens the visible piece of each id
 */

/**
 * Opens the tokenizers of a description's table `tokenizer`. Throws Error with a sentence for the page where a file is
 * damaged or missing, or the kind is not one that runs here.
 * @param {any} table as text/tokenizers.py writes it
 * @param {Map<string, Uint8Array>} files by their names in the folder
 * @returns {{source: Tokenizer, target: Tokenizer}}
 */
export function openTokenizers(table, files) {
  if (table?.joint === true) {
    const both = opened(table, files, "tokenizer", table.kind);
    return { source: both, target: both };
  }
  return {
    source: opened(table, files, "source", table?.kind),
    target: opened(table, files, "target", table?.target_kind ?? table?.kind),
  };
}

/**
 * @param {any} table
 * @param {Map<string, Uint8Array>} files
 * @param {string} side
 * @param {string} kind
 * @returns {Tokenizer}
 */
function opened(table, files, side, kind) {
  if (kind === "own") throw new Error("the model reads text by a tokenizer of its author's own, which no page can hold");
  const file = (/** @type {string} */ part) => {
    const found = files.get(table.files?.[part]);
    if (!found) throw new Error(`the page lacks the file \`${table.files?.[part]}\` of the model's tokenizer`);
    return found;
  };
  switch (kind) {
    case "bpe": case "unigram": case "sentencepiece": return new Subwords(file(side), kind);
    case "words": case "characters": case "bytes": case "spaces": return new Vocabulary(file(side), files);
    case "sentencepiece-numbered": return new RemappedSentencePiece(file(side), file(`${side}_numbers`));
    case "tokenizer.json": return new HuggingFaceTokenizer(file(side), table.options?.[side]);
    default: throw new Error(`the tokenizer's kind \`${kind}\` is not one that this page runs`);
  }
}
