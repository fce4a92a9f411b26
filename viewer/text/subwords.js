// Subwords: a SentencePiece model as a tokenizer, as text/subwords.py has it.

import { nfc } from "./normalization.js";
import { SentencePiece } from "./sentencepiece.js";
import { SPACE_MARK } from "./sentencepiece_normalizer.js";
import { sound } from "./utf8.js";

export const SPECIAL_TOKENS = ["<pad>", "<s>", "</s>", "<unk>"];
const NFC_NAME = "pellucid-nfc/1";

/** A model trained by Pellucid (bpe, unigram), which spells a text in its own way first, or by somebody else. */
export class Subwords {
  #model; #escapes; #composes; #shown; #silent;
  padId = 0; bosId = 0; eosId = 0;

  /**
   * @param {Uint8Array} bytes of a `.model` file
   * @param {string} kind bpe, unigram or sentencepiece
   */
  constructor(bytes, kind) {
    const model = this.#model = new SentencePiece(bytes);
    const own = kind !== "sentencepiece";
    this.kind = kind;
    this.size = model.pieces.length;
    const { unk, ...special } = model.special;
    // A special token that the model lacks has an id behind its last piece.
    [this.padId, this.bosId, this.eosId] = [special.pad, special.bos, special.eos].map((id) => (id < 0 ? this.size++ : id));
    this.unkId = unk;
    this.#shown = new Map([this.padId, this.bosId, this.eosId, unk].map((id, i) => [id, SPECIAL_TOKENS[i]]));
    this.#silent = new Set([this.padId, this.bosId, this.eosId]);
    const name = own ? model.normalization : "";
    if (name.startsWith("pellucid-") && name !== NFC_NAME) {
      throw new Error(`the tokenizer has the unknown normalisation \`${name}\`: the model may need a newer version of pellucid`);
    }
    this.#composes = name === NFC_NAME;
    this.#escapes = own && !this.#composes && name !== "nmt_nfkc" && model.hasBytes;
  }

  /** @param {string} text */
  encode(text) {
    if (this.#composes) text = nfc(text);
    return this.#model.cut(sound(this.#escapes ? escape(text) : text)).map(({ id }) => id);
  }

  /** @param {number[]} ids */
  decode(ids) {
    const text = this.#model.decode(ids.filter((id) => !this.#silent.has(id)).map((id) => this.#piece(id)));
    return this.#escapes ? unescape(text) : text;
  }

  /** @param {number[]} ids */
  tokens(ids) { return ids.map((id) => this.#shown.get(id) ?? this.#piece(id)); }

  /** @param {number} id */
  #piece(id) {
    const piece = this.#model.pieces[id];
    if (piece === undefined) throw new Error(`the id ${id} is not below the ${this.size} of the vocabulary`);
    return piece;
  }
}

// A model that writes a text exactly sees ▁, which SentencePiece reads as a space, behind an escape character.

/** @param {string} text */
const escape = (text) => text.replaceAll("\x1b", "\x1b\x1b").replaceAll(SPACE_MARK, "\x1b_");

/** @param {string} text */
export const unescape = (text) => text.replace(/\x1b([_\x1b])/g, (_, mark) => (mark === "_" ? SPACE_MARK : "\x1b"));
