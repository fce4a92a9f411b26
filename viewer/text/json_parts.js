// The components of a tokenizer.json around its model: what spells a text, what cuts it into words, what joins pieces.

import { cleanUpSpaces } from "./numbered.js";
import { SPACE_MARK, shortestRule } from "./sentencepiece_normalizer.js";
import { BYTE_OF, bytesSpelled, isBytes } from "./spelling.js";
import { patternOf, split } from "./json_patterns.js";
import { decoded, utf8 } from "./utf8.js";

/** @typedef {{text: string, first: boolean}} Word a part of a text, and whether the text begins with it */

const CHARACTER_OF = Array.from({ length: 256 }, () => "");
for (const [character, byte] of BYTE_OF) CHARACTER_OF[byte] = character;
const asCharacters = (/** @type {string} */ text) => Array.from(utf8(text), (byte) => CHARACTER_OF[byte]).join("");
/** @type {(text: string, to: (character: string) => string) => string} */
const perCharacter = (text, to) => Array.from(text, to).join("");

const CHINESE = new RegExp("[\\u4e00-\\u9fff\\u3400-\\u4dbf\\u{20000}-\\u{2a6df}\\u{2a700}-\\u{2b73f}"
  + "\\u{2b740}-\\u{2b81f}\\u{2b920}-\\u{2ceaf}\\uf900-\\ufaff\\u{2f800}-\\u{2fa1f}]", "gu");
const GPT2_WORDS = { Regex: "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" };
const PUNCTUATION = /[!-/:-@[-`{-~]|\p{P}/gu, WHITE = /\p{White_Space}/gu;

/**
 * @param {string} part
 * @param {any} spec
 * @returns {never}
 */
function refuse(part, spec) {
  throw new Error(`the tokenizer asks for the ${part} \`${spec?.type}\`, which this page does not run`);
}

/**
 * The function that spells a text.
 * @param {any} spec null: it stays as it is
 * @returns {(text: string) => string}
 */
export function normalizerFrom(spec) {
  switch (spec?.type) {
    case undefined: return (text) => text;
    case "Sequence": {
      const parts = spec.normalizers.map(normalizerFrom);
      return (text) => parts.reduce((/** @type {string} */ all, /** @type {any} */ part) => part(all), text);
    }
    case "NFC": case "NFD": case "NFKC": case "NFKD": return (text) => text.normalize(spec.type);
    case "Lowercase": return lower;
    case "StripAccents": return (text) => text.replace(/\p{M}/gu, "");
    case "Strip": return (text) => {
      if (spec.strip_left) text = text.replace(/^\p{White_Space}+/u, "");
      return spec.strip_right ? text.replace(/(?<!\p{White_Space})\p{White_Space}+$/u, "") : text;
    };
    case "Prepend": return (text) => (text ? spec.prepend + text : text);
    case "Replace": {
      const pattern = patternOf(spec.pattern);
      return (text) => text.replace(pattern, () => spec.content);
    }
    case "ByteLevel": return asCharacters;
    case "BertNormalizer": return bertNormalizer(spec);
    case "Precompiled": return precompiled(Uint8Array.from(atob(spec.precompiled_charsmap), (c) => c.charCodeAt(0)));
    default: return refuse("normalizer", spec);
  }
}

/** The lower case of each character by itself. @param {string} text */
const lower = (text) => perCharacter(text, (character) => character.toLowerCase());

/** @param {any} spec */
function bertNormalizer({ clean_text, handle_chinese_chars, strip_accents, lowercase }) {
  return (/** @type {string} */ text) => {
    if (clean_text) text = text.replace(/(?![\t\n\r])[\ufffd\p{Cc}\p{Cf}\p{Co}]/gu, "").replace(WHITE, " ");
    if (handle_chinese_chars) text = text.replace(CHINESE, " $& ");
    if (strip_accents ?? lowercase) text = text.normalize("NFD").replace(/\p{Mn}/gu, "");
    return lowercase ? lower(text) : text;
  };
}

/**
 * SentencePiece's map of characters as the library applies it: to a short grapheme whole, else to its characters.
 * @param {Uint8Array} bytes
 */
function precompiled(bytes) {
  const rule = shortestRule(bytes), graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
  return (/** @type {string} */ text) => {
    let made = "";
    for (const { segment } of graphemes.segment(text)) {
      const whole = utf8(segment).length < 6 ? rule(segment) : null;
      made += whole ?? perCharacter(segment, (character) => rule(character) ?? character);
    }
    return made;
  };
}

/**
 * The function that cuts a text into words.
 * @param {any} spec null: it is one
 * @returns {(words: Word[]) => Word[]}
 */
export function cutterFrom(spec) {
  /** @type {(cut: (text: string, first: boolean) => string[]) => (words: Word[]) => Word[]} */
  const each = (cut) => (words) => words.flatMap(({ text, first }) =>
    cut(text, first).map((part, i) => ({ text: part, first: first && i === 0 })).filter((word) => word.text));
  switch (spec?.type) {
    case undefined: return (words) => words;
    case "Sequence": {
      const parts = spec.pretokenizers.map(cutterFrom);
      return (words) => parts.reduce((/** @type {Word[]} */ all, /** @type {any} */ part) => part(all), words);
    }
    case "BertPreTokenizer":
      return each((text) => split(text, WHITE, "Removed").flatMap((word) => split(word, PUNCTUATION, "Isolated")));
    case "ByteLevel": {
      const words = patternOf(GPT2_WORDS);
      return each((text) => {
        if (spec.add_prefix_space && !text.startsWith(" ")) text = ` ${text}`;
        return (spec.use_regex === false ? [text] : split(text, words, "Isolated")).map(asCharacters);
      });
    }
    case "Metaspace": {
      const mark = spec.replacement ?? SPACE_MARK, scheme = schemeOf(spec), at = patternOf({ String: mark });
      return each((text, first) => {
        text = text.replaceAll(" ", mark);
        if ((scheme === "always" || (scheme === "first" && first)) && !text.startsWith(mark)) text = mark + text;
        return spec.split === false ? [text] : split(text, at, "MergedWithNext");
      });
    }
    case "Split": {
      const pattern = patternOf(spec.pattern);
      return each((text) => split(text, pattern, spec.behavior, spec.invert));
    }
    case "CharDelimiterSplit": {
      const pattern = patternOf({ String: spec.delimiter });
      return each((text) => split(text, pattern, "Removed"));
    }
    case "Digits": return each((text) => split(text, /\p{N}/gu, spec.individual_digits ? "Isolated" : "Contiguous"));
    case "Punctuation": return each((text) => split(text, PUNCTUATION, spec.behavior ?? "Isolated"));
    case "Whitespace": {
      const pattern = patternOf({ Regex: "[\\w\u200c\u200d]+|[^\\w\\s\u200c\u200d]+" });
      return each((text) => split(text, pattern, "Removed", true));
    }
    case "WhitespaceSplit": return each((text) => split(text, WHITE, "Removed"));
    default: return refuse("pre-tokenizer", spec);
  }
}

/** @param {any} spec */
const schemeOf = (spec) => (spec.add_prefix_space === false ? "never" : spec.prepend_scheme ?? "always");

/**
 * The function that makes texts of pieces; joined they are the text.
 * @param {any} spec null: a space stands between the pieces
 * @returns {(pieces: string[]) => string[]}
 */
export function joinerFrom(spec) {
  switch (spec?.type) {
    case undefined: return (pieces) => [pieces.join(" ")];
    case "Sequence": {
      const parts = spec.decoders.map(joinerFrom);
      return (pieces) => parts.reduce((/** @type {string[]} */ all, /** @type {any} */ part) => part(all), pieces);
    }
    case "Fuse": return (pieces) => [pieces.join("")];
    case "ByteLevel": return (pieces) => {
      const bytes = pieces.flatMap((piece) => Array.from(isBytes(piece) ? bytesSpelled(piece) : utf8(piece)));
      return [decoded(Uint8Array.from(bytes))];
    };
    case "WordPiece": return (pieces) => pieces.map((piece, i) => {
      if (i && piece.startsWith(spec.prefix)) piece = piece.slice(spec.prefix.length);
      else if (i) piece = ` ${piece}`;
      return spec.cleanup ? cleanUpSpaces(piece).replaceAll(" do not", " don't") : piece;
    });
    case "Metaspace": {
      const mark = spec.replacement ?? SPACE_MARK, dropped = schemeOf(spec) !== "never";
      return (pieces) => pieces.map((piece, i) => piece.replaceAll(mark, i || !dropped ? " " : ""));
    }
    case "BPEDecoder": return (pieces) =>
      pieces.map((piece, i) => piece.replaceAll(spec.suffix ?? "</w>", i < pieces.length - 1 ? " " : ""));
    case "Replace": {
      const pattern = patternOf(spec.pattern);
      return (pieces) => pieces.map((piece) => piece.replace(pattern, () => spec.content));
    }
    case "Strip": return (pieces) => pieces.map((piece) => {
      const characters = Array.from(piece);
      let start = 0, end = characters.length;
      while (start < Math.min(spec.start, characters.length) && characters[start] === spec.content) start++;
      while (end > 0 && characters.length - end < spec.stop && characters[end - 1] === spec.content) end--;
      return characters.slice(start, end).join("");
    });
    case "ByteFallback": return joinBytes;
    default: return refuse("decoder", spec);
  }
}

/**
 * Bytes that make up characters become these; of others each is U+FFFD.
 * @param {string[]} pieces
 */
function joinBytes(pieces) {
  /** @type {string[]} */
  const found = [];
  /** @type {number[]} */
  let bytes = [];
  const write = () => {
    if (!bytes.length) return;
    try {
      found.push(decoded(Uint8Array.from(bytes), true));
    } catch {
      found.push(..."\ufffd".repeat(bytes.length));
    }
    bytes = [];
  };
  for (const piece of pieces) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece);
    if (byte) {
      bytes.push(parseInt(byte[1], 16));
      continue;
    }
    write();
    found.push(piece);
  }
  write();
  return found;
}
