// A list of entries as a tokenizer: words, characters, bytes, or what stands between spaces, as text/vocabulary.py has it.

import { normalizerBy } from "./normalization.js";
import { SPECIAL_TOKENS } from "./subwords.js";
import { byteToken, decoded, utf8 } from "./utf8.js";
import { cutWords, joinWords } from "./words.js";

const FORMAT = "pellucid-vocabulary/1", KINDS = ["words", "characters", "bytes", "spaces"], UNKNOWN = 3, FIRST_BYTE = 4;
const BYTES = Array.from({ length: 256 }, (_, byte) => byteToken(byte));

export class Vocabulary {
  #entries; #normalize; #lowercase; #ids; #listing;
  padId = 0; bosId = 1; eosId = 2; unkId = UNKNOWN;

  /**
   * @param {Uint8Array} bytes of a vocabulary's JSON
   * @param {Map<string, Uint8Array>} files
   */
  constructor(bytes, files) {
    let table;
    try {
      table = JSON.parse(decoded(bytes, true));
    } catch (error) {
      throw new Error(`the tokenizer's file is not a vocabulary: ${/** @type {Error} */ (error).message}`);
    }
    const tokens = table?.tokens, hasBytes = Boolean(table?.byte_fallback);
    const before = hasBytes ? [...SPECIAL_TOKENS, ...BYTES] : SPECIAL_TOKENS;
    if (table?.format !== FORMAT || !KINDS.includes(table.kind) || !Array.isArray(tokens)
      || before.some((token, id) => tokens[id] !== token) || tokens.some((token) => typeof token !== "string")) {
      throw new Error(`the tokenizer's file is not a vocabulary of the format ${FORMAT}`);
    }
    this.kind = table.kind;
    this.hasBytes = hasBytes;
    this.size = tokens.length;
    this.#lowercase = Boolean(table.lowercase);
    this.#normalize = normalizerBy(table.normalize ?? "none", files);
    this.#listing = tokens;
    this.#entries = tokens.slice(before.length);
    // Special tokens and bytes are left out, so that no text can name them.
    this.#ids = new Map(this.#entries.map((entry, i) => [entry, before.length + i]));
    if (this.#ids.size < this.#entries.length) throw new Error("the tokenizer's file has an entry twice");
  }

  /**
   * @param {string} text
   * @returns {number[]}
   */
  encode(text) {
    text = this.#normalize(text);
    if (this.#lowercase) text = text.toLowerCase();
    if (!this.hasBytes) return this.#cut(text).map((entry) => this.#ids.get(entry) ?? UNKNOWN);
    const spelled = (/** @type {string} */ piece) => Array.from(utf8(piece), (byte) => FIRST_BYTE + byte);
    if (!this.#entries.length) return spelled(text);
    return Array.from(text, (character) => this.#ids.get(character) ?? spelled(character)).flat();
  }

  /** @param {number[]} ids */
  decode(ids) {
    const kept = ids.filter((id) => id >= UNKNOWN);
    if (this.hasBytes) return decoded(Uint8Array.from(kept.flatMap((id) => [...this.bytesOf(id)])));
    const entries = kept.map((id) => this.#listing[id]);
    return this.kind === "words" ? joinWords(entries) : entries.join(this.kind === "spaces" ? " " : "");
  }

  /**
   * The bytes that an id stands for.
   * @param {number} id
   * @returns {Uint8Array}
   */
  bytesOf(id) {
    const byte = this.hasBytes && id >= FIRST_BYTE && id < FIRST_BYTE + 256;
    return byte ? Uint8Array.of(id - FIRST_BYTE) : utf8(this.#listing[id]);
  }

  /**
   * Each id's token as a reader wants it: a space shows as ▁, a byte of ASCII as its character.
   * @param {number[]} ids
   */
  tokens(ids) {
    return ids.map((id) => {
      const byte = this.hasBytes && id >= FIRST_BYTE ? id - FIRST_BYTE : 256, token = this.#listing[id];
      if (byte === 0x20 || token === " ") return "▁";
      return byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : token;
    });
  }

  /** @param {string} text */
  #cut(text) {
    if (this.kind === "words") return cutWords(text);
    return this.kind === "spaces" ? text.match(/[^ \t\n\r\f\v]+/g) ?? [] : Array.from(text);
  }
}
