// How vocabularies spell text: the bytes that a piece stands for, and if a word begins with it, as tracing/token_text.py.

import { unescape } from "./subwords.js";
import { utf8 } from "./utf8.js";

/**
 * @typedef {Object} Piece
 * @property {string} spelled as the vocabulary has it
 * @property {Uint8Array} content the bytes that it stands for
 * @property {boolean | null} begins whether a word begins with it; null: the text tells
 * @property {boolean} special
 */

const NOTHING = new Uint8Array();

/** The bytes that the characters of byte-level pieces stand for (GPT-2). @type {Map<string, number>} */
export const BYTE_OF = new Map();
for (let byte = 0, next = 0x100; byte < 0x100; byte++) {
  const printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  BYTE_OF.set(String.fromCharCode(printable ? byte : next++), byte);
}

/** @param {string} text */
export const isBytes = (text) => Array.from(text).every((character) => BYTE_OF.has(character));

/** @param {string} text */
export const bytesSpelled = (text) => Uint8Array.from(text, (character) => BYTE_OF.get(character) ?? 0);

/**
 * The pieces of ids; `alsoSpecial` are special ids that the tokenizer does not know of.
 * @param {any} tokenizer one of those that openTokenizers() gives
 * @param {number[]} ids
 * @param {Iterable<number>} alsoSpecial
 * @returns {Piece[]}
 */
export function piecesOf(tokenizer, ids, alsoSpecial) {
  const { padId, bosId, eosId, unkId, kind } = tokenizer;
  // Of the hidden ids the unknown stands for text.
  const special = new Set([padId, bosId, eosId, ...[...(tokenizer.hidden ?? [])].filter((id) => id !== unkId), ...alsoSpecial]);
  /** @type {string[]} */
  const spelled = (tokenizer.spelled ?? tokenizer.tokens).call(tokenizer, ids);
  if (kind === "characters" || kind === "bytes") {
    return ids.map((id, i) => {
      const isSpecial = special.has(id);
      return { spelled: spelled[i], content: isSpecial ? NOTHING : tokenizer.bytesOf(id), begins: null, special: isSpecial };
    });
  }
  const listed = kind === "words" || kind === "spaces";
  const spelling = tokenizer.spelling ?? (!listed ? "marks" : spelled.some((s) => s.endsWith("@@")) ? "continued" : "words");
  const isCode = (/** @type {string} */ s) => kind === "sentencepiece-numbered" && /^>>[^<>\s]+<<$/.test(s);
  return linked(ids.map((id, i) => (special.has(id) || isCode(spelled[i])
    ? { spelled: spelled[i], content: NOTHING, begins: null, special: true } : read(spelling, spelled[i]))));
}

/**
 * @param {string} spelling
 * @param {string} spelled
 * @returns {Piece}
 */
function read(spelling, spelled) {
  const piece = (/** @type {string | Uint8Array} */ content, /** @type {boolean | null} */ begins = null) =>
    ({ spelled, content: typeof content === "string" ? utf8(content) : content, begins, special: false });
  switch (spelling) {
    case "byte-level": return piece(isBytes(spelled) ? bytesSpelled(spelled) : spelled);
    case "marks": {
      const byte = /^<0x([0-9A-F]{2})>$/.exec(spelled);
      return piece(byte ? Uint8Array.of(parseInt(byte[1], 16)) : unescape(spelled.replaceAll("▁", " ")));
    }
    case "wordpiece": return piece(spelled.replace(/^##/, ""), !spelled.startsWith("##"));
    case "word-ends": return piece(spelled.replace(/<\/w>$/, ""), true);
    case "continued": return piece(spelled.replace(/@@$/, ""), true);
    default: return piece(spelled, spelling === "words" ? true : null);
  }
}

/**
 * Corrects where words begin: a mark at the end of a piece tells about the one behind it.
 * @param {Piece[]} pieces
 */
function linked(pieces) {
  const endsWords = pieces.some(({ spelled }) => spelled.endsWith("</w>"));
  return pieces.map((piece, i) => {
    const before = pieces[i - 1];
    const goesOn = before && piece.begins && !before.special
      && (before.spelled.endsWith("@@") || (endsWords && !before.spelled.endsWith("</w>")));
    return goesOn ? { ...piece, begins: false } : piece;
  });
}
