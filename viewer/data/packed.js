// Deflated bytes as text: in base64 or, where there are many, in base 85.

/** @typedef {{name: string, text: string, dense: boolean}} Packed */

/**
 * The bytes of an island.
 * @param {Packed} packed
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function unpacked({ name, text, dense }) {
  try {
    const stream = new Blob([dense ? fromBase85(text) : fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new Error(`the page's data \`${name}\` is damaged`);
  }
}

/**
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
function fromBase64(text) {
  const builtIn = /** @type {any} */ (Uint8Array).fromBase64;
  if (builtIn) return builtIn.call(Uint8Array, text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;.=,?@^_`{|}~";

/**
 * Four bytes for each five digits, the highest first; of the last digits one fewer byte than there are.
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
function fromBase85(text) {
  const values = new Uint8Array(128).fill(84), groups = Math.ceil(text.length / 5), bytes = new DataView(new ArrayBuffer(4 * groups));
  for (let i = 0; i < DIGITS.length; i++) values[DIGITS.charCodeAt(i)] = i;
  for (let group = 0, i = 0; group < groups; group++) {
    let number = 0;
    for (const end = i + 5; i < end; i++) number = number * 85 + (i < text.length ? values[text.charCodeAt(i)] : 84);
    bytes.setUint32(4 * group, number);
  }
  return new Uint8Array(bytes.buffer, 0, Math.floor(text.length * 4 / 5));
}
