// Reads safetensors: single precision, half precision, or bytes with a scale a row. All become single precision.

import { HALVES } from "../data/numbers.js";
import { Refusal, shown } from "./refusal.js";

/**
 * @typedef {Object} Tensor
 * @property {number[]} shape
 * @property {Float32Array} data
 */

/**
 * @typedef {Object} Entry what the header says of a tensor
 * @property {string} name
 * @property {"F32" | "F16" | "I8"} dtype
 * @property {number[]} shape
 * @property {number} size the count of its numbers
 * @property {number} begin
 * @property {number} end
 */

/** @type {Record<string, number>} */
const BYTES = { F32: 4, F16: 2, I8: 1 };

/**
 * The tensors by their names. A matrix `x` in bytes is multiplied by its `x.scale`, row by row.
 * @param {Uint8Array} bytes
 * @returns {Map<string, Tensor>}
 */
export function readWeights(bytes) {
  const { entries, start } = readHeader(bytes);
  checkPlaces(entries, bytes.length - start);
  /** @type {Map<string, Tensor>} */
  const tensors = new Map();
  const scales = new Set();
  for (const entry of entries.values()) {
    if (entry.dtype !== "I8") continue;
    const scale = entries.get(entry.name + ".scale");
    if (entry.shape.length !== 2 || scale?.dtype !== "F32" || scale.shape.length !== 1 || scale.size !== entry.shape[0]) {
      throw new Refusal("The model's weights are damaged: the bytes of `{name}` have no scale for each row.", { name: shown(entry.name) });
    }
    tensors.set(entry.name, { shape: entry.shape, data: fromBytes(bytes, start, entry, singles(bytes, start, scale)) });
    scales.add(scale.name);
  }
  for (const entry of entries.values()) {
    if (entry.dtype === "I8" || scales.has(entry.name)) continue;
    const data = entry.dtype === "F32" ? singles(bytes, start, entry) : fromHalves(bytes, start, entry);
    tensors.set(entry.name, { shape: entry.shape, data });
  }
  for (const [name, { data }] of tensors) checkFinite(name, data);
  return tensors;
}

/**
 * The header: 8 bytes of its length, then JSON.
 * @param {Uint8Array} bytes
 */
function readHeader(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = bytes.length < 8 ? Infinity : view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32;
  const start = 8 + length;
  if (start > bytes.length) {
    throw new Refusal("The model's weights are damaged: they end after {length} bytes, within their header.", { length: bytes.length });
  }
  let table;
  try {
    table = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, start)));
  } catch {
    throw new Refusal("The model's weights are damaged: their header cannot be read.");
  }
  if (typeof table !== "object" || table === null || Array.isArray(table)) {
    throw new Refusal("The model's weights are damaged: their header cannot be read.");
  }
  /** @type {Map<string, Entry>} */
  const entries = new Map();
  for (const [name, said] of Object.entries(table)) if (name !== "__metadata__") entries.set(name, entry(name, said));
  return { entries, start };
}

/**
 * @param {string} name
 * @param {any} said
 * @returns {Entry}
 */
function entry(name, said) {
  const { dtype, shape, data_offsets: places } = said ?? {};
  const isCount = (/** @type {unknown} */ number) => Number.isSafeInteger(number) && /** @type {number} */ (number) >= 0;
  if (!Array.isArray(shape) || !shape.every(isCount) || !Array.isArray(places) || places.length !== 2 || !places.every(isCount)) {
    throw new Refusal("The model's weights are damaged: their header does not say what `{name}` is.", { name: shown(name) });
  }
  if (typeof dtype !== "string" || !Object.hasOwn(BYTES, dtype)) {
    throw new Refusal("The weights `{name}` are stored as {dtype}; a page reads F32, F16 and I8.", { name: shown(name), dtype: shown(dtype) });
  }
  const size = shape.reduce((all, one) => all * one, 1);
  const [begin, end] = places;
  if (end - begin !== size * BYTES[dtype]) {
    throw new Refusal("The model's weights are damaged: `{name}` has {found} bytes, its shape needs {needed}.",
      { name: shown(name), found: end - begin, needed: size * BYTES[dtype] });
  }
  return { name, dtype: /** @type {Entry["dtype"]} */ (dtype), shape, size, begin, end };
}

/**
 * One tensor stands behind the other, none over another, and they fill the bytes.
 * @param {Map<string, Entry>} entries
 * @param {number} length of what follows the header
 */
function checkPlaces(entries, length) {
  let end = 0;
  for (const entry of [...entries.values()].sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (entry.begin !== end) {
      throw new Refusal("The model's weights are damaged: `{name}` begins at byte {found} and not at {needed}.",
        { name: shown(entry.name), found: entry.begin, needed: end });
    }
    end = entry.end;
  }
  if (end !== length) {
    throw new Refusal("The model's weights are damaged: there are {found} bytes of numbers, the header needs {needed}.", { found: length, needed: end });
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {number} start of the numbers
 * @param {Entry} entry
 */
function singles(bytes, start, entry) {
  const at = bytes.byteOffset + start + entry.begin;
  // Numbers of four bytes can be looked at where they lie only at a multiple of four.
  return at % 4 === 0 ? new Float32Array(bytes.buffer, at, entry.size)
    : new Float32Array(bytes.slice(start + entry.begin, start + entry.end).buffer);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} start
 * @param {Entry} entry
 */
function fromHalves(bytes, start, entry) {
  const values = new Float32Array(entry.size);
  for (let i = 0, at = start + entry.begin; i < values.length; i++, at += 2) values[i] = HALVES[bytes[at] | (bytes[at + 1] << 8)];
  return values;
}

/**
 * Row r is scale[r] * bytes[r].
 * @param {Uint8Array} bytes
 * @param {number} start
 * @param {Entry} entry (rows, columns)
 * @param {Float32Array} scale (rows,)
 */
function fromBytes(bytes, start, entry, scale) {
  const [rows, columns] = entry.shape;
  const values = new Float32Array(entry.size);
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset + start + entry.begin, entry.size);
  for (let row = 0, i = 0; row < rows; row++) {
    for (const end = i + columns; i < end; i++) values[i] = scale[row] * signed[i];
  }
  return values;
}

/**
 * @param {string} name
 * @param {Float32Array} data
 */
function checkFinite(name, data) {
  let sum = 0;
  // What is not finite stays in a sum of squares of numbers below 1e39: nothing hides in it, nothing overflows.
  for (let i = 0; i < data.length; i++) sum += data[i] * data[i];
  if (!Number.isFinite(sum)) throw new Refusal("The model's weights are damaged: some of `{name}` are no numbers.", { name: shown(name) });
}
