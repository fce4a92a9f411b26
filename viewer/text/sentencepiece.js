// A SentencePiece model: a text's pieces, and the text of pieces, as SentencePiece itself finds them.

import { joinPairs } from "./bpe.js";
import { BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, damaged, readModel } from "./sentencepiece_file.js";
import { SPACE_MARK, Symbols, normalizerOf } from "./sentencepiece_normalizer.js";
import { PieceTable, UNKNOWN_PENALTY, bestPath } from "./unigram.js";
import { byteToken, characterAt, utf8 } from "./utf8.js";

/** What a symbol's bytes beyond the first count, where a normal piece has the logarithm of its probability. */
const SYMBOL_BONUS = 0.1;

export class SentencePiece {
  #model; #symbols; #normalize; #denormalize; #table; #longest; #unknown; #lowest;
  /** @type {Map<string, number>} pieces that a text is cut into */
  #ids = new Map();
  /** @type {Map<string, number>} the unknown piece, control pieces and bytes */
  #reserved = new Map();

  /**
   * @param {Uint8Array} bytes of a `.model` file. Throws Error where they are something else
   * @param {boolean} [bare] a text is cut without the space that the model puts before it
   */
  constructor(bytes, bare = false) {
    const model = this.#model = readModel(bytes);
    const fail = (/** @type {string} */ reason) => { throw damaged(bytes, reason); };
    model.pieces.forEach((piece, id) => {
      const type = model.types[id];
      const table = type === NORMAL || type === USER_DEFINED || type === UNUSED ? this.#ids : this.#reserved;
      if (!piece) fail("it has an empty piece");
      if (table.has(piece)) fail(`it has the piece \`${piece}\` twice`);
      if (type === BYTE && !(model.hasBytes && /^<0x[0-9A-F]{2}>$/.test(piece))) fail(`\`${piece}\` is no byte`);
      table.set(piece, id);
    });
    const typed = (/** @type {number} */ type) => model.pieces.filter((_, id) => model.types[id] === type);
    if (typed(UNKNOWN).length !== 1) fail(`it has ${typed(UNKNOWN).length} unknown pieces`);
    if (model.hasBytes && typed(BYTE).length !== 256) fail(`it has ${typed(BYTE).length} of 256 bytes`);
    this.#unknown = model.types.indexOf(UNKNOWN);
    this.#symbols = new Symbols(typed(USER_DEFINED));
    try {
      const normalizer = bare ? { ...model.normalizer, addsSpace: false } : model.normalizer;
      this.#normalize = normalizerOf(normalizer, model.spaceBehind, this.#symbols);
      const denormalizer = model.denormalizer?.map.length ? model.denormalizer : null;
      this.#denormalize = denormalizer && normalizerOf(denormalizer, false, new Symbols([]));
    } catch (error) {
      throw damaged(bytes, /** @type {Error} */ (error).message);
    }
    const scores = model.scores.filter((_, id) => model.types[id] === NORMAL);
    this.#lowest = scores.reduce((a, b) => Math.min(a, b), 3.4028234663852886e38);
    this.#longest = model.pieces.reduce((most, piece) => Math.max(most, piece.length), 0);
    this.#table = model.algorithm === "unigram" ? new PieceTable(this.#ids) : null;
  }

  get pieces() { return this.#model.pieces; }

  /** The name that its normalisation has in the file. */
  get normalization() { return this.#model.normalizer.name; }

  get hasBytes() { return this.#model.hasBytes; }

  /** The ids of the special pieces; -1 for one that it does not have. */
  get special() {
    const { unk, bos, eos, pad } = this.#model.names;
    const own = (/** @type {string} */ piece, /** @type {number} */ type) =>
      (this.#model.types[this.idOf(piece)] === type ? this.idOf(piece) : -1);
    return { unk: own(unk, UNKNOWN), bos: own(bos, CONTROL), eos: own(eos, CONTROL), pad: own(pad, CONTROL) };
  }

  /** @param {string} piece */
  idOf(piece) { return this.#reserved.get(piece) ?? this.#ids.get(piece) ?? this.#unknown; }

  /**
   * The pieces of a text, with their ids. What is unknown is one piece as far as it goes, or its bytes.
   * @param {string} text
   * @returns {{piece: string, id: number}[]}
   */
  cut(text) {
    /** @type {{piece: string, id: number}[]} */
    const found = [], { types } = this.#model;
    let afterUnknown = false;
    for (const piece of this.#cut(this.#normalize(text))) {
      // A piece that is not used, and was not joined from others, is unknown.
      const known = this.idOf(piece), id = types[known] === UNUSED ? this.#unknown : known;
      const unknown = id === this.#unknown;
      if (unknown && this.hasBytes) {
        for (const byte of utf8(piece)) {
          const spelled = byteToken(byte);
          found.push({ piece: spelled, id: this.idOf(spelled) });
        }
      } else if (unknown && afterUnknown) found[found.length - 1].piece += piece;
      else found.push({ piece, id });
      afterUnknown = unknown;
    }
    return found;
  }

  /**
   * @param {string} text as it is normalised
   * @returns {string[]}
   */
  #cut(text) {
    const { algorithm, scores, types } = this.#model;
    if (algorithm === "word") return text.match(/^[^\u2581]+|\u2581[^\u2581]*/gu) ?? [];
    if (algorithm === "bpe") return this.#byPairs(text);
    const score = (/** @type {number} */ id) => (types[id] === UNUSED ? null
      : types[id] === USER_DEFINED ? Math.fround((utf8(this.pieces[id]).length - 1) * SYMBOL_BONUS) : scores[id]);
    const places = this.#table ? bestPath(text, this.#table, score, Math.fround(this.#lowest - UNKNOWN_PENALTY))
      : joinPairs(text, this.#symbols, () => undefined, 0, () => undefined);
    return places.slice(1).map((end, i) => text.slice(places[i], end));
  }

  /**
   * By pairs; a piece that is not used falls into those that it was joined from.
   * @param {string} text
   */
  #byPairs(text) {
    const { scores, types } = this.#model;
    /** @type {Map<string, number>} */
    const unused = new Map();
    const id = (/** @type {string} */ piece) => this.#ids.get(piece) ?? -1;
    const places = joinPairs(text, this.#symbols, (piece) => scores[id(piece)], this.#longest,
      (piece, cut) => { if (types[id(piece)] === UNUSED) unused.set(piece, cut); });
    /** @type {(piece: string) => string[]} */
    const used = (piece) => {
      const cut = types[this.idOf(piece)] === UNUSED ? unused.get(piece) : undefined;
      return cut === undefined ? [piece] : [...used(piece.slice(0, cut)), ...used(piece.slice(cut))];
    };
    const pieces = places.slice(1).map((end, i) => text.slice(places[i], end));
    return unused.size ? pieces.flatMap(used) : pieces;
  }

  /**
   * The text of pieces; what is no piece of the model stands for itself.
   * @param {string[]} pieces
   */
  decode(pieces) {
    const { types, normalizer, unknownAs } = this.#model;
    let text = "", atStart = true, spaceSeen = false;
    /** @type {number[]} */
    let bytes = [];
    const writeBytes = () => {
      for (let place = 0; place < bytes.length;) {
        const [length, code] = characterAt(bytes, place);
        text += code < 0 ? "\ufffd".repeat(length) : String.fromCodePoint(code);
        place += length;
      }
      bytes = [];
    };
    for (let piece of pieces) {
      const id = this.idOf(piece), type = types[id];
      if (type === BYTE) {
        bytes.push(parseInt(piece.slice(3, 5), 16));
        continue;
      }
      writeBytes();
      atStart &&= !spaceSeen && !text;
      spaceSeen = false;
      if (type === CONTROL) continue;
      if (type === UNKNOWN) {
        text += this.pieces[id] === piece ? unknownAs : piece;
        continue;
      }
      if (atStart && (normalizer.addsSpace || normalizer.removesSpaces) && piece.startsWith(SPACE_MARK)) {
        piece = piece.slice(1);
        spaceSeen = !normalizer.removesSpaces;
      }
      text += piece.replaceAll(SPACE_MARK, " ");
    }
    writeBytes();
    return this.#denormalize ? this.#denormalize(text) : text;
  }
}
