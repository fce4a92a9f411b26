// What a SentencePiece model's file holds: pieces, and the settings of training and normalisation.

import { decoded } from "./utf8.js";

export const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6;
const ALGORITHMS = ["unigram", "bpe", "word", "char"];

/**
 * @typedef {Object} Normalizer how a text is spelled before it is cut
 * @property {string} name
 * @property {Uint8Array} map the characters that are replaced, as SentencePiece compiles them; empty: none
 * @property {boolean} addsSpace a text is cut as if a space stood before it
 * @property {boolean} removesSpaces those around a text and the second of two
 * @property {boolean} marksSpaces a space becomes ▁
 */

/**
 * @typedef {Object} Model
 * @property {string} algorithm unigram, bpe, word or char
 * @property {string[]} pieces
 * @property {Float32Array} scores
 * @property {Uint8Array} types
 * @property {boolean} hasBytes an unknown character is written in bytes
 * @property {boolean} spaceBehind the space of a text stands behind it
 * @property {string} unknownAs the text that the unknown piece is written as
 * @property {{unk: string, bos: string, eos: string, pad: string}} names of the special pieces
 * @property {Normalizer} normalizer
 * @property {Normalizer | null} denormalizer what is done to a decoded text
 */

/**
 * Reads the bytes of a model. Source: SentencePiece's `sentencepiece_model.proto`.
 * @param {Uint8Array} bytes
 * @returns {Model}
 */
export function readModel(bytes) {
  /** @type {string[]} */
  const pieces = [];
  /** @type {number[]} */
  const scores = [];
  /** @type {number[]} */
  const types = [];
  let training = new Map(), normalization = new Map(), denormalization = null;
  try {
    for (const [number, value] of fields(bytes)) {
      if (number === 1) {
        const piece = new Map(fields(value));
        pieces.push(decoded(piece.get(1), true));
        scores.push(piece.has(2) ? view(piece.get(2)).getFloat32(0, true) : 0);
        types.push(piece.get(3) ?? NORMAL);
      } else if (number === 2) training = new Map(fields(value));
      else if (number === 3) normalization = new Map(fields(value));
      else if (number === 5) denormalization = new Map(fields(value));
    }
    /** @type {(field: number, otherwise: string) => string} */
    const named = (field, otherwise) => (training.get(field)?.length ? decoded(training.get(field)) : otherwise);
    const algorithm = ALGORITHMS[(training.get(3) ?? 1) - 1];
    if (!algorithm) throw new Error(`the algorithm ${training.get(3)}`);
    return {
      algorithm,
      pieces,
      scores: Float32Array.from(scores),
      types: Uint8Array.from(types),
      hasBytes: Boolean(training.get(35)),
      spaceBehind: Boolean(training.get(24)),
      unknownAs: training.has(44) ? decoded(training.get(44)) : " \u2047 ",
      names: { unk: named(45, "<unk>"), bos: named(46, "<s>"), eos: named(47, "</s>"), pad: named(48, "<pad>") },
      normalizer: normalizer(normalization),
      denormalizer: denormalization && normalizer(denormalization),
    };
  } catch (error) {
    throw damaged(bytes, error instanceof Error ? error.message : String(error));
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {string} reason
 */
export function damaged(bytes, reason) {
  return new Error(`the tokenizer's file is not a whole SentencePiece model (${bytes.length} bytes): ${reason}`);
}

/**
 * @param {Map<number, any>} spec
 * @returns {Normalizer}
 */
function normalizer(spec) {
  const told = (/** @type {number} */ field) => Boolean(spec.get(field) ?? 1);
  return {
    name: decoded(spec.get(1) ?? new Uint8Array()),
    map: spec.get(2) ?? new Uint8Array(),
    addsSpace: told(3), removesSpaces: told(4), marksSpaces: told(5),
  };
}

/** @param {Uint8Array} bytes */
const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

/**
 * The numbered fields of a message in Protocol Buffers' wire format: a whole number as such, else bytes.
 * @param {Uint8Array} bytes
 * @returns {Generator<[number, any]>}
 */
export function* fields(bytes) {
  let place = 0;
  const number = () => {
    for (let found = 0, scale = 1; place < bytes.length; scale *= 128) {
      const byte = bytes[place++];
      found += (byte & 0x7f) * scale;
      if (byte < 0x80) return found;
    }
    throw new Error("it ends within a number");
  };
  while (place < bytes.length) {
    const key = number(), kind = key % 8, field = Math.floor(key / 8);
    if (kind === 0) {
      yield [field, number()];
      continue;
    }
    if (field === 0 || ![1, 2, 5].includes(kind)) throw new Error(`a field of the kind ${kind} stands at byte ${place}`);
    const size = kind === 1 ? 8 : kind === 5 ? 4 : number();
    if (place + size > bytes.length) throw new Error(`it ends within the field ${field}`);
    yield [field, bytes.subarray(place, place + size)];
    place += size;
  }
}
