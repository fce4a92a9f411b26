// Added tokens: whole strings that are found in a text before a model cuts the rest, as text/added_tokens.py has it.

import { SPACES, stripEnd } from "./normalization.js";

const IS_SPACE = new RegExp(`[${SPACES}]`, "u"), IN_WORD = /[\p{L}\p{N}_]/u;

/** @typedef {{content: string, lstrip: boolean, rstrip: boolean, single_word: boolean}} AddedToken */

export class AddedTokens {
  #byContent; #first;
  /** @type {Map<string, number[]>} */
  #sizes = new Map();

  /** @param {AddedToken[]} tokens none of them empty */
  constructor(tokens) {
    this.#byContent = new Map(tokens.map((token) => [token.content, token]));
    for (const { content } of tokens) {
      const first = content[0], sizes = this.#sizes.get(first) ?? [];
      if (!sizes.includes(content.length)) this.#sizes.set(first, [...sizes, content.length].sort((a, b) => b - a));
    }
    this.#first = new Set(this.#sizes.keys());
  }

  /**
   * The parts of a text in their order. Of tokens that begin at one place, the longest counts.
   * @param {string} text
   * @returns {{part: string, added: boolean}[]}
   */
  split(text) {
    const found = [];
    let begin = 0;
    for (let at = 0; at < text.length;) {
      const token = this.#first.has(text[at]) ? this.#at(text, at) : undefined;
      if (!token) {
        at++;
        continue;
      }
      const part = text.slice(begin, at);
      found.push({ part: token.lstrip ? stripEnd(part) : part, added: false });
      found.push({ part: token.content, added: true });
      at += token.content.length;
      while (token.rstrip && at < text.length && IS_SPACE.test(text[at])) at++;
      begin = at;
    }
    return [...found, { part: text.slice(begin), added: false }];
  }

  /**
   * @param {string} text
   * @param {number} at
   */
  #at(text, at) {
    for (const size of this.#sizes.get(text[at]) ?? []) {
      const token = this.#byContent.get(text.slice(at, at + size));
      if (token && !(token.single_word && IN_WORD.test(around(text, at, at + size)))) return token;
    }
    return undefined;
  }
}

/**
 * The characters before and behind a place in a text.
 * @param {string} text
 * @param {number} start
 * @param {number} end
 */
function around(text, start, end) {
  const before = Array.from(text.slice(Math.max(0, start - 2), start)).at(-1) ?? "";
  return before + (Array.from(text.slice(end, end + 2))[0] ?? "");
}
