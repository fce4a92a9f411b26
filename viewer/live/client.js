// The page's side of its model: asks the worker, hands on words as they come, lets newer requests replace older ones.

import { forget, island, json, keep, packed } from "../data/islands.js";
import { trace } from "../data/trace.js";
import { ko } from "../shell/ko/refusals.js";
import { learn, t } from "../shell/language.js";

learn(ko);

/** The traces of which the bytes are kept: a view compares two, and somebody may go back. */
const KEPT_TRACES = 8;

/** @typedef {{resolve: (value: any) => void, reject: (error: Error) => void, onWord: ((word: any) => void) | null, lane: string | null}} Waiting */

export class Live {
  constructor() {
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    this.count = 0;
    /** @type {string[][]} the names of the bytes of each trace that is kept */
    this.traced = [];
    /** @type {any} what the model is; known when `ready` is settled */
    this.about = null;
    /** @type {Promise<any>} settles when the model can be asked, with `about` */
    this.ready = this.#open();
    this.ready.catch(() => {});
  }

  async #open() {
    const [source, about] = await Promise.all([island("worker"), json("model.about")]);
    const address = URL.createObjectURL(new Blob([/** @type {any} */ (source)], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.worker.onmessage = ({ data }) => this.#told(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      const error = new Error(`the page's model stopped: ${event.message || "its worker could not be started"}`);
      for (const one of this.waiting.values()) one.reject(error);
      this.waiting.clear();
    };
    const files = about.files.map((/** @type {string} */ name) => [name, packed("model.file." + name)]);
    const carried = { description: packed("model.description"), weights: packed("model.weights"), files: Object.fromEntries(files) };
    const found = await this.#sent("open", [carried], {});
    URL.revokeObjectURL(address);
    this.about = { ...about, ...found };
    performance.mark("model-ready");
    return this.about;
  }

  /** @param {{id: number, word?: any, result?: any, error?: {name: string, message: string, text?: string, values?: Record<string, any>}}} data */
  #told({ id, word, result, error }) {
    const waiting = this.waiting.get(id);
    if (!waiting) return;
    if (word) return waiting.onWord?.(word);
    this.waiting.delete(id);
    if (error) waiting.reject(Object.assign(new Error(), error, { message: error.text ? t(error.text, error.values) : error.message }));
    else waiting.resolve(result);
  }

  /**
   * @param {string} method
   * @param {any[]} args
   * @param {{onWord?: (word: any) => void, lane?: string, signal?: AbortSignal}} options
   * @returns {Promise<any>}
   */
  #sent(method, args, { onWord, lane, signal }) {
    const id = ++this.count;
    if (lane) for (const [older, one] of this.waiting) if (one.lane === lane) this.#cancel(older);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, onWord: onWord ?? null, lane: lane ?? null });
      signal?.addEventListener("abort", () => this.#cancel(id), { once: true });
      /** @type {Worker} */ (this.worker).postMessage({ id, method, args });
      if (signal?.aborted) this.#cancel(id);
    });
  }

  /** @param {number} id */
  #cancel(id) {
    const waiting = this.waiting.get(id);
    if (!waiting) return;
    this.waiting.delete(id);
    this.worker?.postMessage({ cancel: id });
    waiting.reject(Object.assign(new Error("the request was cancelled"), { name: "AbortError" }));
  }

  /**
   * @param {string} method
   * @param {any[]} args of which the last is what was asked, and what it wants besides
   */
  async #asked(method, args) {
    await this.ready;
    const { onWord, lane, signal, ...asked } = args[args.length - 1] ?? {};
    return this.#sent(method, [...args.slice(0, -1), asked], { onWord, lane, signal });
  }

  /** @param {string} text @param {any} [asked] */
  translate(text, asked = {}) { return this.#asked("translate", [text, asked]); }

  /** @param {string} text @param {any} [asked] */
  classify(text, asked = {}) { return this.#asked("classify", [text, asked]); }

  /** @param {string} text @param {any} [asked] */
  generate(text, asked = {}) { return this.#asked("generate", [text, asked]); }

  /** @param {string} text @param {"source" | "target"} [side] */
  encode(text, side = "source") { return this.#asked("encode", [text, side, {}]); }

  /** @param {number[]} ids @param {"source" | "target"} [side] */
  decode(ids, side = "target") { return this.#asked("decode", [ids, side, {}]); }

  /** @param {number[]} ids @param {"source" | "target"} [side] */
  label(ids, side = "target") { return this.#asked("label", [ids, side, {}]); }

  /** @param {string} text @param {number[]} ids @param {any} [asked] */
  score(text, ids, asked = {}) { return this.#asked("score", [text, ids, asked]); }

  /** A tensor of the weights by its name in the state dict, or null. @param {string} name @returns {Promise<{shape: number[], data: Float32Array} | null>} */
  tensor(name) { return this.#asked("tensor", [name, {}]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  pass(text, ids = null, asked = {}) { return this.#asked("pass", [text, ids, asked]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  lens(text, ids = null, asked = {}) { return this.#asked("lens", [text, ids, asked]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  contributions(text, ids = null, asked = {}) { return this.#asked("contributions", [text, ids, asked]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  occlusion(text, ids = null, asked = {}) { return this.#asked("occlusion", [text, ids, asked]); }

  /**
   * A trace that all views can show.
   * @param {string} text
   * @param {number[] | null} [ids]
   * @param {any} [asked]
   */
  async trace(text, ids = null, asked = {}) {
    const found = await this.#asked("trace", [text, ids, asked]), { off = [], layersOff = [], hidden = [] } = asked;
    keep(found.bytes);
    this.traced.push(Object.keys(found.bytes));
    if (this.traced.length > KEPT_TRACES) forget(/** @type {string[]} */ (this.traced.shift()));
    // What is asked about the trace later is asked of the model as it was then.
    return { ...trace(found.trace), how: { off, layersOff, hidden } };
  }
}
