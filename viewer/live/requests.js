// The requests that a page sends to its model, whatever carries them: a worker in the page, or a server.

import { forget, keep } from "../data/islands.js";
import { trace } from "../data/trace.js";
import { learn } from "../shell/language.js";
import { ko } from "../shell/ko/refusals.js";

learn(ko);

/** The traces of which the bytes are kept: a view compares two, and somebody may go back. */
const KEPT_TRACES = 8;

/** @typedef {{onWord?: (word: any) => void, lane?: string, signal?: AbortSignal}} Sending */

export class Requests {
  constructor() {
    /** @type {string[][]} the names of the bytes of each trace that is kept */
    this.traced = [];
    /** @type {any} what the model is; known when `ready` is settled */
    this.about = null;
    /** @type {Promise<any>} settles when the model can be asked, with `about` */
    this.ready = Promise.resolve().then(() => this.open()).then((about) => {
      this.about = about;
      performance.mark("model-ready");
      return about;
    });
    this.ready.catch(() => {});
  }

  /** Opens the model, and returns what it is. @returns {Promise<any>} */
  async open() { throw new Error("no model can be opened"); }

  /**
   * Sends a request; a newer one of its lane replaces it.
   * @param {string} method
   * @param {any[]} args
   * @param {Sending} _how
   * @returns {Promise<any>}
   */
  async sent(method, args, _how) { throw new Error(`nothing carries ${method} (${args.length})`); }

  /**
   * @param {string} method
   * @param {any[]} args of which the last is what was asked, and what it wants besides
   */
  async asked(method, args) {
    await this.ready;
    const { onWord, lane, signal, ...asked } = args[args.length - 1] ?? {};
    return this.sent(method, [...args.slice(0, -1), asked], { onWord, lane, signal });
  }

  /** @param {string} text @param {any} [asked] */
  translate(text, asked = {}) { return this.asked("translate", [text, asked]); }

  /** @param {string} text @param {any} [asked] */
  classify(text, asked = {}) { return this.asked("classify", [text, asked]); }

  /** @param {string} text @param {any} [asked] */
  generate(text, asked = {}) { return this.asked("generate", [text, asked]); }

  /** @param {string} text @param {"source" | "target"} [side] */
  encode(text, side = "source") { return this.asked("encode", [text, side, {}]); }

  /** @param {number[]} ids @param {"source" | "target"} [side] */
  decode(ids, side = "target") { return this.asked("decode", [ids, side, {}]); }

  /** @param {number[]} ids @param {"source" | "target"} [side] */
  label(ids, side = "target") { return this.asked("label", [ids, side, {}]); }

  /** @param {string} text @param {number[]} ids @param {any} [asked] */
  score(text, ids, asked = {}) { return this.asked("score", [text, ids, asked]); }

  /** A tensor of the weights by its name in the state dict, or null. @param {string} name @returns {Promise<{shape: number[], data: Float32Array} | null>} */
  tensor(name) { return this.asked("tensor", [name, {}]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  pass(text, ids = null, asked = {}) { return this.asked("pass", [text, ids, asked]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  lens(text, ids = null, asked = {}) { return this.asked("lens", [text, ids, asked]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  contributions(text, ids = null, asked = {}) { return this.asked("contributions", [text, ids, asked]); }

  /** @param {string} text @param {number[] | null} [ids] @param {any} [asked] */
  occlusion(text, ids = null, asked = {}) { return this.asked("occlusion", [text, ids, asked]); }

  /**
   * A trace that all views can show.
   * @param {string} text
   * @param {number[] | null} [ids]
   * @param {any} [asked]
   */
  async trace(text, ids = null, asked = {}) {
    const found = await this.asked("trace", [text, ids, asked]), { off = [], layersOff = [], hidden = [] } = asked;
    keep(found.bytes);
    this.traced.push(Object.keys(found.bytes));
    if (this.traced.length > KEPT_TRACES) forget(/** @type {string[]} */ (this.traced.shift()));
    // What is asked about the trace later is asked of the model as it was then.
    const made = trace(found.trace);
    return { ...made, model: { ...made.model, ...this.about.aligning }, how: { off, layersOff, hidden } };
  }
}
