// Somebody else's tokenizer.json as a tokenizer, as text/hugging_face.py has it.

import { cleanUpSpaces } from "./numbered.js";
import { modelFrom } from "./json_models.js";
import { escaped } from "./json_patterns.js";
import { cutterFrom, joinerFrom, normalizerFrom } from "./json_parts.js";
import { bytesSpelled, isBytes } from "./spelling.js";
import { byteToken, decoded, sound } from "./utf8.js";

/**
 * @typedef {Object} Added a token that is added to the model's vocabulary
 * @property {string} content
 * @property {number} id
 * @property {boolean} single_word
 * @property {boolean} lstrip
 * @property {boolean} rstrip
 * @property {boolean} normalized
 * @property {boolean} special
 */

/**
 * A special token that stands in a text is text, and is cut like any other; decoding leaves out all special tokens.
 */
export class HuggingFaceTokenizer {
  kind = "tokenizer.json";
  padId = 0; bosId = 0; eosId = 0; unkId = 0;
  #ids; #tokens; #normalize; #words; #join; #cut; #silent; #never; #isByteLevel; #cleansUp;
  /** @type {{raw: Added[], normalized: Added[]}} */
  #added = { raw: [], normalized: [] };

  /**
   * @param {Uint8Array} bytes of the file
   * @param {any} options what the file does not say: the special ids, and whether spaces before marks go
   */
  constructor(bytes, options) {
    let table;
    try {
      table = JSON.parse(decoded(bytes, true));
    } catch (error) {
      throw new Error(`the tokenizer's file is damaged: ${/** @type {Error} */ (error).message}`);
    }
    const special = ["pad_id", "bos_id", "eos_id", "unk_id"].map((name) => options?.[name]);
    if (!special.every((id) => Number.isInteger(id) && id >= 0)) {
      throw new Error("the options of the tokenizer do not name its special ids");
    }
    [this.padId, this.bosId, this.eosId, this.unkId] = special;
    const { vocabulary, cut } = modelFrom(table?.model);
    this.#cut = cut;
    this.#normalize = normalizerFrom(table.normalizer);
    this.#words = cutterFrom(table.pre_tokenizer);
    this.#join = joinerFrom(table.decoder);
    this.#cleansUp = options.clean_up === true;
    /** @type {Added[]} */
    const added = table.added_tokens ?? [];
    this.#ids = new Map([...vocabulary, ...added.map(({ content, id }) => /** @type {[string, number]} */ ([content, id]))]);
    this.#tokens = new Map([...this.#ids].map(([token, id]) => [id, token]));
    for (const { content, id } of added) this.#tokens.set(id, content);
    this.size = [...this.#ids.values()].reduce((most, id) => Math.max(most, id), Math.max(...special)) + 1;
    this.hidden = new Set(added.filter((token) => token.special).map(({ id }) => id));
    this.#silent = new Set([...special, ...this.hidden]);
    this.#never = new Set(special.slice(0, 3));
    for (const token of added) this.#added[token.normalized ? "normalized" : "raw"].push(token);
    const decoders = [table.decoder, ...(table.decoder?.decoders ?? [])];
    this.#isByteLevel = decoders.some((part) => part?.type === "ByteLevel");
    const spelled = /** @type {Record<string, string>} */ ({ WordPiece: "wordpiece", WordLevel: "words" });
    this.spelling = this.#isByteLevel ? "byte-level" : table.model.end_of_word_suffix ? "word-ends"
      : spelled[table.model.type] ?? "marks";
  }

  /**
   * @param {string} text
   * @returns {number[]}
   */
  encode(text) {
    const ids = this.#parts(sound(text), this.#added.raw, (token) => token.content).flatMap(({ id, part, first }) => {
      if (id !== undefined) return [id];
      const spelled = this.#normalize(part);
      return this.#parts(spelled, this.#added.normalized, (token) => this.#normalize(token.content)).flatMap((inner) =>
        (inner.id !== undefined ? [inner.id]
          : this.#words([{ text: inner.part, first: first && inner.first }]).flatMap((word) => this.#cut(word.text))));
    });
    // Special tokens that the model's vocabulary lists as pieces are spelled out.
    return ids.flatMap((id) => (this.#never.has(id)
      ? Array.from(this.#tokens.get(id) ?? "", (character) => this.#ids.get(character) ?? this.unkId) : [id]));
  }

  /** @param {number[]} ids */
  decode(ids) {
    const pieces = ids.flatMap((id) => (this.#silent.has(id) ? [] : this.#tokens.get(id) ?? []));
    const text = this.#join(pieces).join("");
    return this.#cleansUp ? cleanUpSpaces(text) : text;
  }

  /** @param {number[]} ids */
  tokens(ids) {
    return ids.map((id) => {
      const token = this.#tokens.get(id);
      if (token === undefined) return "<unk>";
      if (!this.#isByteLevel || this.#silent.has(id) || !isBytes(token)) return token;
      const bytes = bytesSpelled(token);
      try {
        return decoded(bytes, true).replaceAll(" ", "▁");
      } catch {
        return Array.from(bytes, (byte) => (byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : byteToken(byte))).join("");
      }
    });
  }

  /** The pieces as the file spells them. @param {number[]} ids */
  spelled(ids) { return ids.map((id) => this.#tokens.get(id) ?? "<unk>"); }

  /**
   * A text parted at the tokens that were added to the vocabulary, of those that fit the longest.
   * @param {string} text
   * @param {Added[]} added
   * @param {(token: Added) => string} spell
   * @returns {{part: string, first: boolean, id?: number}[]}
   */
  #parts(text, added, spell) {
    if (!text) return [];
    if (!added.length) return [{ part: text, first: true }];
    const known = new Map(added.map((token) => [spell(token), token]));
    known.delete("");
    const longestFirst = [...known.keys()].sort((a, b) => b.length - a.length).map(escaped);
    const found = [];
    let start = 0;
    for (const match of longestFirst.length ? text.matchAll(new RegExp(longestFirst.join("|"), "gu")) : []) {
      const token = /** @type {Added} */ (known.get(match[0]));
      let from = match.index, to = from + match[0].length;
      if (token.special || from < start) continue;
      const within = ENDS_IN_WORD.test(text.slice(Math.max(0, from - 2), from)) || BEGINS_WORD.test(text.slice(to, to + 2));
      if (token.single_word && within) continue;
      if (token.lstrip) while (from > start && WHITE.test(text[from - 1])) from--;
      if (token.rstrip) while (to < text.length && WHITE.test(text[to])) to++;
      if (from > start) found.push({ part: text.slice(start, from), first: start === 0 });
      found.push({ part: "", first: false, id: token.id });
      start = to;
    }
    if (start < text.length) found.push({ part: text.slice(start), first: start === 0 });
    return found;
  }
}

const WHITE = /\p{White_Space}/u, WORD = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d]";
const ENDS_IN_WORD = new RegExp(`${WORD}$`, "u"), BEGINS_WORD = new RegExp(`^${WORD}`, "u");
