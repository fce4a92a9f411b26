// The page's data: deflated bytes in script elements that no browser runs, in base64 or, where there are many, in base 85.

/** @type {Map<string, Promise<Uint8Array>>} */
const inflated = new Map();

/** What was computed in the page, by the same names. @type {Map<string, Uint8Array>} */
const computed = new Map();

/** Adds what was computed in the page. @param {Record<string, Uint8Array>} named */
export function keep(named) {
  for (const [name, bytes] of Object.entries(named)) computed.set(name, bytes);
}

/** Lets go of what was computed in the page. @param {string[]} names */
export function forget(names) {
  for (const name of names) computed.delete(name);
}

/**
 * The bytes of an island, inflated when first asked for. At most `KEPT` stay, the latest used.
 * @param {string} name
 * @returns {Promise<Uint8Array>}
 */
export function island(name) {
  const ready = computed.get(name);
  if (ready) return Promise.resolve(ready);
  const found = inflated.get(name) ?? inflate(name);
  inflated.delete(name);
  inflated.set(name, found);
  if (inflated.size > KEPT) inflated.delete(/** @type {string} */ (inflated.keys().next().value));
  return found;
}

const KEPT = 16;

/** @param {string} name */
async function inflate(name) {
  const element = document.getElementById("data-" + name);
  if (!element) throw new Error(`the page has no data \`${name}\``);
  const text = element.textContent ?? "", dense = /** @type {HTMLScriptElement} */ (element).type.endsWith("base85");
  const stream = new Blob([dense ? fromBase85(text) : fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  try {
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

/**
 * An island of JSON.
 * @param {string} name
 */
export async function json(name) {
  return JSON.parse(new TextDecoder().decode(await island(name)));
}

const KINDS = { float32: Float32Array, uint8: Uint8Array, int32: Int32Array };

/**
 * A numpy array that Python put among the `extras`, as a typed array; its `shape` stands in the handle.
 * @param {{array: string, dtype: keyof typeof KINDS, shape: number[]}} handle
 */
export async function array(handle) {
  const bytes = await island(handle.array);
  return new KINDS[handle.dtype](/** @type {ArrayBuffer} */ (bytes.buffer), bytes.byteOffset, handle.shape.reduce((all, one) => all * one, 1));
}
