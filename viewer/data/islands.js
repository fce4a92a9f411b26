// The page's data: packed bytes in script elements that no browser runs.

import { unpacked } from "./packed.js";

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
const inflate = async (name) => unpacked(packed(name));

/**
 * An island as the page carries it, for whoever unpacks it: the worker unpacks the model, so that nobody waits for that.
 * @param {string} name
 * @returns {import("./packed.js").Packed}
 */
export function packed(name) {
  const element = /** @type {HTMLScriptElement | null} */ (document.getElementById("data-" + name));
  if (!element) throw new Error(`the page has no data \`${name}\``);
  return { name, text: element.textContent ?? "", dense: element.type.endsWith("base85") };
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
