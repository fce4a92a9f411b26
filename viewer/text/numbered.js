// A SentencePiece model whose pieces have other ids than the model's own, as text/remapped_sentencepiece.py has it.

import { AddedTokens } from "./added_tokens.js";
import { strip, stripEnd } from "./normalization.js";
import { SentencePiece } from "./sentencepiece.js";
import { SPACE_MARK } from "./sentencepiece_normalizer.js";
import { decoded, sound } from "./utf8.js";

const FORMAT = "pellucid-piece-numbers/1", CODE = /^>>[^<]*<</;
const CLEANED = [" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"];

export class RemappedSentencePiece {
  kind = "sentencepiece-numbered";
  #model; #bare; #table; #pieces; #ofText; #silent; #hasCodes; #added;

  /**
   * @param {Uint8Array} bytes of a `.model` file
   * @param {Uint8Array} numbers the ids of its pieces, as JSON
   */
  constructor(bytes, numbers) {
    this.#model = new SentencePiece(bytes);
    /** @type {any} */
    let table;
    try {
      table = JSON.parse(decoded(numbers, true));
      if (table.format !== FORMAT) throw new Error(`their format is ${table.format}, not ${FORMAT}`);
      const listed = [...Object.values(table.ids), table.pad_id, table.bos_id, table.eos_id, table.unk_id];
      const odd = listed.find((id) => !Number.isInteger(id) || id < 0);
      if (odd !== undefined || !listed.length) throw new Error(`they have ${odd} where an id should be`);
      this.#added = table.added ? new AddedTokens(table.added.tokens) : null;
      this.hidden = new Set(table.hidden.map((/** @type {string} */ token) => table.ids[token]));
    } catch (error) {
      throw new Error(`the numbers of the tokenizer's pieces are malformed: ${/** @type {Error} */ (error).message}`);
    }
    this.#table = table;
    this.#bare = table.added?.one_prefix === true ? new SentencePiece(bytes, true) : this.#model;
    this.padId = table.pad_id;
    this.bosId = table.bos_id;
    this.eosId = table.eos_id;
    this.unkId = table.unk_id;
    const ids = /** @type {[string, number][]} */ (Object.entries(table.ids));
    const special = [this.padId, this.bosId, this.eosId, this.unkId];
    this.size = ids.reduce((most, [, id]) => Math.max(most, id), Math.max(...special)) + 1;
    this.#silent = new Set([...special, ...this.hidden]);
    this.#pieces = new Map(ids.map(([piece, id]) => [id, piece]));
    this.#ofText = new Map(ids.filter(([, id]) => !this.#silent.has(id)));
    this.#hasCodes = ids.some(([piece]) => CODE.exec(piece)?.[0] === piece);
  }

  /** @param {string} text */
  encode(text) {
    const code = (this.#hasCodes && CODE.exec(text)?.[0]) || "";
    const rest = text.slice(code.length), ids = this.#added ? this.#withAdded(rest) : this.#cut(this.#model, rest);
    return code ? [this.#idOf(code), ...ids] : ids;
  }

  /**
   * @param {SentencePiece} model
   * @param {string} text
   */
  #cut(model, text) { return model.cut(sound(text)).map(({ piece }) => this.#ofText.get(piece) ?? this.unkId); }

  /** @param {string} text that may have added tokens */
  #withAdded(text) {
    const parts = this.#added?.split(text) ?? [];
    return parts.flatMap(({ part, added }, place) => {
      if (added) return [this.#idOf(part)];
      // To some models a space before an added token is a piece of its own.
      const keeps = this.#table.added.keeps_spaces === true, end = stripEnd(part);
      const model = place && !(keeps && strip(part[0] ?? "x") === "") ? this.#bare : this.#model;
      const ids = part ? this.#cut(model, part) : [], spaced = keeps && end !== part && parts.length > 1;
      return spaced && (place + 1 < parts.length || !end) ? [...ids, this.#ofText.get(SPACE_MARK) ?? this.unkId] : ids;
    });
  }

  /** @param {number[]} ids */
  decode(ids) {
    const pieces = ids.flatMap((id) => (this.#silent.has(id) ? [] : this.#pieces.get(id) ?? []));
    let text = this.#model.decode(pieces).replaceAll(SPACE_MARK, " ");
    if (this.#table.strip === true) text = strip(text);
    return this.#table.clean_up === true ? cleanUpSpaces(text) : text;
  }

  /** @param {number[]} ids */
  tokens(ids) { return ids.map((id) => this.#pieces.get(id) ?? "<unk>"); }

  /** @param {string} token */
  #idOf(token) { return Object.hasOwn(this.#table.ids, token) ? this.#table.ids[token] : this.unkId; }
}

/**
 * The text without the spaces before marks and English endings that transformers' `clean_up_tokenization` removes.
 * @param {string} text
 */
export const cleanUpSpaces = (text) => CLEANED.reduce((all, spaced) => all.replaceAll(spaced, spaced.trim()), text);
