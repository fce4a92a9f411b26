// UTF-8 as Python has it: half of a surrogate pair is `?`, and bytes that spell no character are told apart.

const encoder = new TextEncoder();

/**
 * The text in which half of a surrogate pair, which is no character, is `?`.
 * @param {string} text
 */
export const sound = (text) => text.replace(/\p{Cs}/gu, "?");

/** @param {string} text */
export const utf8 = (text) => encoder.encode(sound(text));

/**
 * The text of bytes. Those that spell no character become U+FFFD, or with `strict` an error.
 * @param {Uint8Array} bytes
 */
export const decoded = (bytes, strict = false) => new TextDecoder("utf-8", { ignoreBOM: true, fatal: strict }).decode(bytes);

/** Two hexadecimal digits. @param {number} byte */
export const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");

/** The piece that stands for a byte in vocabularies with byte fallback. @param {number} byte */
export const byteToken = (byte) => `<0x${hex(byte)}>`;

/**
 * The number of bytes of the character at a place, and its code; -1 where they spell none.
 * @param {ArrayLike<number>} bytes
 * @param {number} at
 * @returns {[number, number]}
 */
export function characterAt(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return [1, first];
  const more = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  let code = first & (0x3f >> more);
  for (let n = 1; n <= more; n++) {
    const least = n > 1 ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
    const most = n > 1 ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
    if (!(bytes[at + n] >= least && bytes[at + n] <= most)) return [n, -1];
    code = (code << 6) | (bytes[at + n] & 0x3f);
  }
  return more ? [more + 1, code] : [1, -1];
}
