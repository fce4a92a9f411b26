// How SentencePiece spells a text before it cuts it: a compiled map of characters, and what it does with spaces.

import { decoded } from "./utf8.js";

export const SPACE_MARK = "\u2581";

/** The characters that a model replaces, as a double array of the UTF-8 bytes of what stands in their place. */
class CharacterMap {
  #units; #written;
  /** @type {Map<number, string>} */
  #known = new Map();

  /** @param {Uint8Array} bytes of SentencePiece's precompiled_charsmap */
  constructor(bytes) {
    const size = bytes.length > 4 ? new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true) : bytes.length;
    if (size >= bytes.length) throw new Error("the map of its normalisation is broken");
    this.#units = new Uint32Array(bytes.slice(4, 4 + size - (size % 4)).buffer);
    this.#written = bytes.subarray(4 + size);
  }

  /**
   * The longest sequence at a place that the map has: what is written for it, and how long it is; null: there is none.
   * @param {string} text
   * @param {number} at
   * @returns {[string, number] | null}
   */
  longest(text, at) { return this.#rule(text, at, false); }

  /**
   * The shortest sequence that a text begins with, and what is written for it.
   * @param {string} text
   */
  shortest(text) { return this.#rule(text, 0, true)?.[0] ?? null; }

  /**
   * @param {string} text
   * @param {number} at
   * @param {boolean} first whether the first that fits is taken
   * @returns {[string, number] | null}
   */
  #rule(text, at, first) {
    const units = this.#units;
    let node = offset(units[0]), value = -1, length = 0;
    for (let place = at; place < text.length;) {
      const code = /** @type {number} */ (text.codePointAt(place));
      place += code > 0xffff ? 2 : 1;
      let unit = 0;
      const last = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      for (let n = last; n >= 0; n--) {
        const bits = code >> (6 * n);
        const byte = last === 0 ? bits : n === last ? bits | LEADS[last] : 0x80 | (bits & 0x3f);
        unit = units[node ^ byte] ?? LEAF;
        if ((unit & LABEL) !== byte) return value < 0 ? null : [this.#at(value), length];
        node ^= byte ^ offset(unit);
      }
      if (unit & HAS_LEAF) {
        value = (units[node] ?? 0) & ~LEAF;
        length = place - at;
        if (first) break;
      }
    }
    return value < 0 ? null : [this.#at(value), length];
  }

  /** @param {number} value */
  #at(value) {
    let text = this.#known.get(value);
    if (text === undefined) {
      const end = this.#written.indexOf(0, value);
      text = decoded(this.#written.subarray(value, end < 0 ? undefined : end));
      this.#known.set(value, text);
    }
    return text;
  }
}

// The bits of a unit of Darts-clone, the double array that SentencePiece uses.
const LEAF = 0x80000000 | 0, LABEL = LEAF | 0xff, HAS_LEAF = 0x100;
const LEADS = [0, 0xc0, 0xe0, 0xf0];

/** @param {number} unit */
const offset = (unit) => (unit >>> 10) << ((unit & 0x200) >> 6);

/**
 * The function that gives what a map writes for the shortest sequence that a text begins with, or null.
 * @param {Uint8Array} bytes
 */
export function shortestRule(bytes) {
  const map = new CharacterMap(bytes);
  return (/** @type {string} */ text) => map.shortest(text);
}

/** The symbols of a model that are neither spelled otherwise nor cut. */
export class Symbols {
  #symbols; #lengths;

  /** @param {string[]} symbols */
  constructor(symbols) {
    this.#symbols = new Set(symbols);
    this.#lengths = [...new Set(symbols.map((symbol) => symbol.length))].sort((a, b) => b - a);
  }

  /**
   * The length of the longest symbol at a place, 0 where there is none.
   * @param {string} text
   * @param {number} at
   */
  at(text, at) {
    return this.#lengths.find((length) => this.#symbols.has(text.slice(at, at + length))) ?? 0;
  }
}

/**
 * The function that spells a text as a model's normalizer has it.
 * @param {import("./sentencepiece_file.js").Normalizer} spec
 * @param {boolean} spaceBehind
 * @param {Symbols} symbols
 * @returns {(text: string) => string}
 */
export function normalizerOf({ map, addsSpace, removesSpaces, marksSpaces }, spaceBehind, symbols) {
  const rules = map.length ? new CharacterMap(map) : null;
  const space = marksSpaces ? SPACE_MARK : " ";

  /** @type {(text: string, at: number) => [string, number]} what is written at a place, and for how much */
  const next = (text, at) => {
    const symbol = symbols.at(text, at);
    if (symbol) return [text.slice(at, at + symbol), symbol];
    const found = rules?.longest(text, at);
    if (found) return found;
    const length = (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    return [text.slice(at, at + length), length];
  };

  return (text) => {
    let place = 0;
    while (removesSpaces && place < text.length) {
      const [written, length] = next(text, place);
      if (written !== " ") break;
      place += length;
    }
    if (place >= text.length) return "";
    let made = addsSpace && !spaceBehind ? space : "", afterSpace = removesSpaces;
    while (place < text.length) {
      let [written, length] = next(text, place);
      place += length;
      if (afterSpace) written = written.replace(/^ +/, "");
      if (!written) continue;
      afterSpace = removesSpaces && written.endsWith(" ");
      made += marksSpaces ? written.replaceAll(" ", SPACE_MARK) : written;
    }
    let end = made.length;
    while (removesSpaces && end && made[end - 1] === space) end--;
    return made.slice(0, end) + (addsSpace && spaceBehind ? space : "");
  };
}
