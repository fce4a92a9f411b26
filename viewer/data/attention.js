// One kind of attention in all layers of a stack, decoded layer by layer when it is looked at.

import { island } from "./islands.js";
import { figure } from "../show/labels.js";
import { fromHalves, fromSingles, products, softmax } from "./numbers.js";

/** @typedef {import("./trace.js").Token} Token */

/** How many matrices of weights are kept: at 512 tokens one takes a megabyte. */
const KEPT_MATRICES = 48;
/** How many layers stay decoded: at 512 tokens one takes two megabytes. */
const KEPT_LAYERS = 6;
/** How many rows are computed at a time where they come into sight one by one. */
const BLOCK = 8;

export class Attention {
  /**
   * @param {any} description as payload.py writes it
   * @param {Token[]} rows the tokens of the queries
   * @param {Token[]} columns the tokens of the keys
   */
  constructor(description, rows, columns) {
    this.name = description.name;
    this.rows = rows;
    this.columns = columns;
    this.numLayers = description.layers;
    this.numHeads = description.heads;
    this.numKvHeads = description.kv_heads;
    /** K, the width of a head; 0 for ready-made weights. */
    this.width = description.width;
    /** @type {number | null} */
    this.rotaryBase = description.rotary_base;
    /** @type {Record<string, number[][]>} of each head, (N, H) */
    this.statistics = description.statistics ?? {};
    this.description = description;
    /** @type {[number, number] | null} the layer and the head that it opens with, where that is known */
    this.opening = null;
    /** @type {Map<string, Float32Array>} */
    this.matrices = new Map();
    /** @type {Map<number, Layer>} */
    this.layers = new Map();
  }

  /** Whether the page carries weights, in whatever form; a page of thumbnails alone does not. */
  get hasWeights() { return this.description.store !== null; }

  /** Whether queries and keys are here. */
  get hasVectors() { return this.description.store === "vectors"; }

  /** Whether the model divides its scores by √K; T5 does not. */
  get divided() { return this.description.divided !== false; }

  /** By how much a weight of the page is off at most, against that which was recorded. */
  get error() { return /** @type {number} */ (this.description.error ?? 0); }

  /**
   * A weight as far as the page knows it: the error is at most half a unit of its last digit.
   * @param {number} weight
   */
  figure(weight) {
    const digits = this.error ? Math.max(2, Math.min(4, Math.floor(-Math.log10(2 * this.error)))) : 4;
    return Math.abs(weight) < this.error ? weight.toFixed(digits) : figure(weight, digits);
  }

  /**
   * A layer's data, after which everything about it can be asked without waiting.
   * @param {number} layer
   */
  async load(layer) {
    const { stored, mask, bias, store } = this.description;
    const known = this.layers.get(layer);
    if (known) return known;
    if (store === null) throw new Error(`the page carries no weights of \`${this.name}\``);
    const none = Promise.resolve(null);
    const [bytes, masked, biased] = await Promise.all([
      island(stored[layer].island),
      mask ? island(mask) : none,
      bias && store === "vectors" ? island(bias.islands[layer % bias.islands.length]) : none,
    ]);
    const loaded = new Layer(this, layer, bytes, masked, biased);
    this.layers.set(layer, loaded);
    if (this.layers.size > KEPT_LAYERS) this.layers.delete(/** @type {number} */ (this.layers.keys().next().value));
    return loaded;
  }

  /**
   * Max-pooled pictures of all heads, (N, H, 32, 32), 255 = weight 1; null where the page has none.
   */
  async thumbnails() {
    return this.description.thumbnails ? island(this.description.thumbnails) : null;
  }
}

export class Layer {
  /**
   * @param {Attention} attention
   * @param {number} layer
   * @param {Uint8Array} bytes
   * @param {Uint8Array | null} mask one bit a cell, 1 = may attend, rows end to end
   * @param {Uint8Array | null} bias
   */
  constructor(attention, layer, bytes, mask, bias) {
    this.attention = attention;
    this.layer = layer;
    this.bytes = bytes;
    this.mask = mask;
    this.bias = bias;
    this.digits = attention.description.stored[layer].digits;
    /** @type {Map<string, Float32Array>} */
    this.vectors = new Map();
    /** @type {Map<string, Float32Array>} */
    this.blocks = new Map();
  }

  /**
   * Whether the query of a row may attend to the key of a column.
   * @param {number} row
   * @param {number} column
   */
  allowed(row, column) {
    if (!this.mask) return true;
    const cell = row * this.attention.columns.length + column;
    return (this.mask[cell >> 3] & (128 >> (cell & 7))) !== 0;
  }

  /**
   * The weights of a head, (L, M), row after row.
   * @param {number} head
   * @returns {Float32Array}
   */
  weights(head) {
    const { matrices } = this.attention;
    const key = this.layer + "." + head;
    const found = matrices.get(key) ?? this.rowsOf(head, 0, this.attention.rows.length);
    matrices.delete(key);
    matrices.set(key, found);
    if (matrices.size > KEPT_MATRICES) matrices.delete(/** @type {string} */ (matrices.keys().next().value));
    return found;
  }

  /**
   * The weights of one row, computed with its neighbours, which are mostly wanted next.
   * @param {number} head
   * @param {number} row
   */
  row(head, row) {
    const M = this.attention.columns.length, first = row - (row % BLOCK), key = head + "." + first;
    const found = this.blocks.get(key) ?? this.rowsOf(head, first, Math.min(first + BLOCK, this.attention.rows.length));
    this.blocks.set(key, found);
    return found.subarray((row - first) * M, (row - first + 1) * M);
  }

  /**
   * The weights of the rows `from` up to, not including, `to`.
   * @param {number} head
   * @param {number} from
   * @param {number} to
   * @returns {Float32Array}
   */
  rowsOf(head, from, to) {
    const M = this.attention.columns.length, L = this.attention.rows.length;
    const ready = this.attention.matrices.get(this.layer + "." + head);
    if (ready) return ready.subarray(from * M, to * M);
    if (this.attention.hasVectors) return softmax(this.scores(head, from, to), M);
    const start = (head * L + from) * M, out = new Float32Array((to - from) * M), { bytes } = this;
    if (this.digits === "u8") for (let i = 0; i < out.length; i++) out[i] = SQUARES[bytes[start + i]];
    else for (let i = 0, low = start + this.attention.numHeads * L * M; i < out.length; i++) out[i] = ((bytes[start + i] * 256 + bytes[low + i]) / 65535) ** 2;
    return out;
  }

  /**
   * What the softmax is taken of, minus infinity where masked.
   * @param {number} head
   * @param {number} [from]
   * @param {number} [to]
   */
  scores(head, from = 0, to = this.attention.rows.length) {
    const { width, columns } = this.attention, M = columns.length;
    const scores = products(this.#queries(head, from, to), this.k(head), width, width ** -0.5);
    const bias = this.biasOf(head);
    if (bias) for (let i = 0; i < scores.length; i++) scores[i] += bias[from * M + i];
    if (this.mask) {
      for (let i = 0; i < scores.length; i++) if (!this.allowed(from + Math.floor(i / M), i % M)) scores[i] = -Infinity;
    }
    return scores;
  }

  /**
   * The queries of a head, (L, K).
   * @param {number} head
   */
  q(head) {
    return this.#kept("q" + head, () => this.#queries(head, 0, this.attention.rows.length));
  }

  /** @param {number} head @param {number} from @param {number} to */
  #queries(head, from, to) {
    const { rows, numHeads, width } = this.attention;
    return this.#decoded(0, head, numHeads, rows.length * width, from * width, (to - from) * width);
  }

  /**
   * The keys that a head reads, (M, K): those of the key head that it shares with its neighbours.
   * @param {number} head
   */
  k(head) {
    return this.#kept("k" + this.kvHead(head), () => this.#keys(this.kvHead(head)));
  }

  /**
   * @param {string} name
   * @param {() => Float32Array} make
   */
  #kept(name, make) {
    const found = this.vectors.get(name) ?? make();
    this.vectors.set(name, found);
    return found;
  }

  /** @param {number} shared the key head */
  #keys(shared) {
    const { rows, columns, numHeads, numKvHeads, width } = this.attention;
    const before = numHeads * rows.length * width * (this.digits === "f16" ? 2 : 4);
    const size = columns.length * width;
    const keys = this.#decoded(before, shared, numKvHeads, size);
    // Stored as differences from their mean, which half precision tells apart more finely.
    const means = before + numKvHeads * size * (this.digits === "f16" ? 2 : 4);
    const mean = fromSingles(this.bytes, means + 4 * shared * width, width);
    for (let i = 0; i < keys.length; i++) keys[i] += mean[i % width];
    return keys;
  }

  /** @param {number} head */
  kvHead(head) {
    return Math.floor(head / (this.attention.numHeads / this.attention.numKvHeads));
  }

  /**
   * What is added to a head's scores, (L, M), or null.
   * @param {number} head
   */
  biasOf(head) {
    if (!this.bias) return null;
    const cells = this.attention.rows.length * this.attention.columns.length;
    return fromSingles(this.bias, 4 * cells * (head % this.attention.description.bias.heads), cells);
  }

  /**
   * @param {number} start where the tensor begins
   * @param {number} head
   * @param {number} heads
   * @param {number} size of one head
   * @param {number} [from] the first number wanted
   * @param {number} [count] how many
   */
  #decoded(start, head, heads, size, from = 0, count = size) {
    if (this.digits !== "f16") return fromSingles(this.bytes, start + 4 * (head * size + from), count);
    return fromHalves(this.bytes, start + head * size + from, start + (heads + head) * size + from, count);
  }
}

const SQUARES = Float32Array.from({ length: 256 }, (_, u) => (u / 255) ** 2);
