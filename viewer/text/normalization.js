// One spelling for a text that can be typed in several, as text/normalization.py has it.

import { SPACE_MARK, Symbols, normalizerOf } from "./sentencepiece_normalizer.js";
import { sound } from "./utf8.js";

/** What Python's str.isspace() holds for, inside the brackets of a regular expression. */
export const SPACES = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACE_RUN = new RegExp(`[${SPACES}]+`, "gu"), AT_START = new RegExp(`^[${SPACES}]+`, "u");
const SPACE = new RegExp(`[${SPACES}]`, "u");

const JOINING = "\\u0600-\\u0dff\\u1000-\\u109f\\u1780-\\u18af\\u1a20-\\u1aaf\\u1b00-\\u1bff\\ua8e0-\\ua8ff"
  + "\\ua980-\\ua9ff\\u{11000}-\\u{1114f}";
const PICTOGRAPHS = "\\u26d3\\u26f9\\u2764\\ufe0f\\u{1f300}-\\u{1f6ff}\\u{1f900}-\\u{1f9ff}";
const UNSEEN = new RegExp(
  `[\\xad\\u200b\\u2060\\ufeff]|(?<![${JOINING}])\\u200c|(?<![${JOINING}${PICTOGRAPHS}])\\u200d`, "gu");
/** The name of the file that holds SentencePiece's own rules, where a vocabulary asks for them. */
const NMT_NFKC = "nmt_nfkc";

/**
 * As Python's str.strip() with nothing given.
 * @param {string} text
 */
export const strip = (text) => stripEnd(text.replace(AT_START, ""));

/**
 * As Python's str.rstrip().
 * @param {string} text
 */
export function stripEnd(text) {
  let end = text.length;
  while (end && SPACE.test(text[end - 1])) end--;
  return text.slice(0, end);
}

/**
 * The text composed (Unicode's NFC), each run of white space one space, none at the ends, no invisible characters.
 * @param {string} text
 */
export function nfc(text) {
  // What is removed may bring two characters together that compose, and these may have been a joiner's reason.
  for (let once = nfcOnce(text); once !== text; once = nfcOnce(text)) text = once;
  return text;
}

/** @param {string} text */
function nfcOnce(text) {
  if (/[^\x00-\x7f]/.test(text)) {
    // Halves of surrogate pairs, between which something unseen goes, must not become a character: two second ones do not.
    text = text.replace(/\p{Cs}/gu, "\udc00").replaceAll(SPACE_MARK, " ").replace(UNSEEN, "").normalize("NFC");
  }
  return text.replace(SPACE_RUN, " ").replace(/^ | $/g, "");
}

/**
 * The function that spells a text by one of the forms that text/normalization.py has.
 * @param {string} form
 * @param {Map<string, Uint8Array>} files of which `nmt_nfkc` holds the compiled rules of that name
 * @returns {(text: string) => string}
 */
export function normalizerBy(form, files) {
  if (form === "none") return (text) => text;
  if (form === "nfc") return nfc;
  const map = files.get(NMT_NFKC);
  if (!map) throw new Error(`the tokenizer spells a text by the rules \`${NMT_NFKC}\`, which this page does not hold`);
  const spec = { name: form, map, addsSpace: false, removesSpaces: true, marksSpaces: false };
  const normalize = normalizerOf(spec, false, new Symbols([]));
  return (text) => normalize(sound(text));
}
