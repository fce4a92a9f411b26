// The page's side of its model: asks the worker, hands on words as they come, lets newer requests replace older ones.

import { island, json, packed } from "../data/islands.js";
import { t } from "../shell/language.js";
import { Requests } from "./requests.js";

/** @typedef {{resolve: (value: any) => void, reject: (error: Error) => void, onWord: ((word: any) => void) | null, lane: string | null}} Waiting */

export class Live extends Requests {
  /** @type {Map<number, Waiting>} */
  waiting = new Map();
  count = 0;

  async open() {
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
    const found = await this.sent("open", [carried], {});
    URL.revokeObjectURL(address);
    return { ...about, ...found };
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
   * @param {import("./requests.js").Sending} options
   * @returns {Promise<any>}
   */
  sent(method, args, { onWord, lane, signal }) {
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
}
