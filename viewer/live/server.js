// The page's side of a model that a server has: each request is one POST to the server's own interface.

import { json } from "../data/islands.js";
import { unpacked } from "../data/packed.js";
import { t } from "../shell/language.js";
import { plain } from "../show/labels.js";
import { Requests } from "./requests.js";
import { askForKey, tools, watchDrops } from "./tools.js";

/** An answer that is no success, with its status. */
class Refused extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Live extends Requests {
  /** The requests under way, by lane. @type {Map<string, AbortController>} */
  lanes = new Map();
  /** The documents that were dropped or chosen. @type {import("./tools.js").Sent[]} */
  documents = [];
  /** The API key, if the server has keys; kept in this page alone. */
  key = "";
  /** @type {any} the pair of this page, and all pairs of the server */
  served = null;
  /** @type {Set<() => void>} called when a document has come further */
  listeners = new Set();

  async open() {
    this.served = await json("model.server");
    for (let said = ""; this.served.key_required;) {
      this.key = await askForKey(said);
      try {
        return await this.#opened();
      } catch (error) {
        if (/** @type {any} */ (error).status !== 403) throw error;
        said = /** @type {Error} */ (error).message;
      }
    }
    return this.#opened();
  }

  async #opened() {
    const about = await this.sent("about", [], {});
    watchDrops(this);
    return about;
  }

  /**
   * @param {string} method
   * @param {any[]} args
   * @param {import("./requests.js").Sending} how
   */
  async sent(method, args, { lane, signal }) {
    const controller = new AbortController(), stop = () => controller.abort();
    if (lane) {
      this.lanes.get(lane)?.abort();
      this.lanes.set(lane, controller);
    }
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    const { source, target } = this.served;
    try {
      const { result } = await this.post("api/model", JSON.stringify({ source, target, method, args }), controller.signal);
      return method === "trace" ? { trace: result.trace, bytes: await bytesOf(result.bytes) } : result;
    } finally {
      signal?.removeEventListener("abort", stop);
      if (lane && this.lanes.get(lane) === controller) this.lanes.delete(lane);
    }
  }

  /**
   * The answer to a POST, addressed relative to the page.
   * @param {string} path
   * @param {string | FormData} body
   * @param {AbortSignal} [signal]
   */
  async post(path, body, signal) {
    /** @type {Record<string, string>} */
    const headers = typeof body === "string" ? { "Content-Type": "application/json" } : {};
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    let answer;
    try {
      answer = await fetch(path, { method: "POST", headers, body, signal, cache: "no-store", credentials: "omit", referrerPolicy: "same-origin" });
    } catch (error) {
      if (/** @type {Error} */ (error).name === "AbortError") throw error;
      throw new Error(t("The server does not answer."));
    }
    const found = await answer.json().catch(() => null);
    if (answer.ok && found) return found;
    throw new Refused(answer.status, plain(String(found?.error ?? t("The server answered with status {status}.", { status: answer.status }))));
  }

  /** What the page of a server has below the translation: the choice of languages, and documents. */
  tools() { return tools(this); }
}

/** The bytes of a trace, which come deflated, in base64. @param {Record<string, string>} packed */
async function bytesOf(packed) {
  const all = Object.entries(packed).map(async ([name, text]) => [name, await unpacked({ name, text, dense: false })]);
  return Object.fromEntries(await Promise.all(all));
}
