// What is written in the page, and what the model makes of it: line by line, the newest wish alone.

import { initial, Typing } from "./typing.js";
import { words } from "./words.js";

/** @typedef {import("./words.js").Word} Word */

/**
 * @typedef {Object} Line
 * @property {string} text
 * @property {"waiting" | "working" | "done" | "failed" | "empty"} state
 * @property {Word[]} words as far as they are chosen
 * @property {number} [fresh] how many of the words are new; the rest is what stood there before
 * @property {any} result what the client gave, once it is whole
 * @property {string} failure
 * @property {number[][]} prefix the tokens that a person has chosen, of each part of the line; empty: none
 * @property {number[]} own the places among the tokens at which a person chose another one
 */

/** Results that are kept, so that a line that did not change costs nothing. */
const KEPT = 200;
/** More characters than this are no longer translated while typing. */
export const MOST_CHARACTERS = 20_000;
/** More lines than this are not translated: each is a sentence for the model, and a paragraph for the page. */
export const MOST_LINES = 500;
/** @type {(text: string) => string[]} */
const linesOf = (text) => text.split(/\r\n|\r|\n/);

/** Written without spaces: each token is a word of its own. */
const UNSPACED = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** @type {WeakMap<object, Session>} */
const sessions = new WeakMap();

/** The session of a page: views come and go, what was written stays. @param {import("../shell/app.js").App} app */
export function session(app) {
  const found = sessions.get(app) ?? new Session(app);
  sessions.set(app, found);
  return found;
}

export class Session extends Typing {
  /** @param {any} app */
  constructor(app) {
    super(app);
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Set<() => void>} who wants to know when a word or more has come */
    this.listeners = new Set();
    /** @type {Map<string, any>} */
    this.known = new Map();
    /** Whether more lines are written than are translated. */
    this.cut = false;
  }

  get busy() { return this.lines.some((line) => line.state === "waiting" || line.state === "working"); }

  /** The line that other views look at: the one that was pointed at last, else the first that says something. */
  get line() {
    const at = this.lines[Math.min(this.app.state.number("line"), this.lines.length - 1)];
    return at?.text.trim() ? at : this.lines.find((line) => line.text.trim()) ?? at;
  }

  /** Somebody points at a line: the other views look at it from now on. @param {number} number */
  point(number) {
    this.app.state.set({ line: number || "" });
    this.handOn();
  }

  /** How the model searches, from the page's state. */
  get options() {
    const { state } = this.app, { decode } = this.live.about;
    const beamSize = state.number("beam") || decode?.beam_size || 1;
    return {
      beamSize, nBest: Math.min(beamSize, state.number("nbest") || Math.min(beamSize, 3)),
      lengthPenalty: state.get("penalty") === "" ? decode?.length_penalty : Number(state.get("penalty")), top: 6,
    };
  }

  changed() { for (const listener of this.listeners) listener(); }

  /** Everything anew, as after another choice of how to search. */
  again() {
    this.settled = this.run();
    return this.settled;
  }

  /** Translates the lines that are new; what was under way is cancelled. */
  async run() {
    const signal = this.begin();
    const before = this.lines, all = linesOf(this.text.slice(0, MOST_CHARACTERS)), texts = all.slice(0, MOST_LINES);
    this.cut = all.length > MOST_LINES;
    // A line that has moved takes along what was chosen in it, to one place.
    /** @type {Map<string, Line[]>} */
    const moved = new Map();
    before.forEach((line, i) => {
      if (line.text !== texts[i]) moved.set(line.text, [...(moved.get(line.text) ?? []), line]);
    });
    this.lines = texts.map((text, i) => {
      const same = before[i]?.text === text ? before[i] : moved.get(text)?.shift();
      const { words: shown = [], prefix = [], own = [] } = same ?? { words: before[i]?.words };
      return { text, state: /** @type {Line["state"]} */ (text.trim() ? "waiting" : "empty"), words: text.trim() ? shown : [], result: null, failure: "", prefix: same ? prefix : [], own: same ? own : [] };
    });
    for (const line of this.lines) {
      if (line.state === "waiting" && !(await this.translate(line, signal))) return;
    }
    this.handOn();
    this.changed();
  }

  /**
   * @param {Line} line
   * @param {AbortSignal} signal
   * @returns {Promise<boolean>} false where something newer has taken its place
   */
  async translate(line, signal) {
    const how = { ...this.options, prefix: line.prefix }, key = JSON.stringify([line.text, how]);
    const stale = line.words, written = /** @type {Word[]} */ ([]);
    let before = "";
    line.state = "working";
    this.changed();
    const onWord = (/** @type {any} */ word) => {
      if (signal.aborted) return;
      add(written, before, word);
      before = word.text;
      // What the model had written before stays, faint, until the new words have come: nothing jumps.
      line.words = [...written, ...stale.slice(written.length)];
      line.fresh = written.length;
      this.changed();
    };
    try {
      const result = this.known.get(key) ?? (await this.live.translate(line.text, { ...how, lane: "write", signal, onWord }));
      if (signal.aborted) return false;
      this.keep(key, result);
      this.take(line, result);
    } catch (error) {
      if (signal.aborted || /** @type {Error} */ (error).name === "AbortError") return false;
      line.state = "failed";
      line.words = [];
      line.failure = /** @type {Error} */ (error).message;
    }
    this.changed();
    return true;
  }

  /** Tells the other views which line they look at; where the box is empty, that there is none. */
  handOn() {
    const { line } = this;
    if (line) remember(this.app, line.text, line.result, line.prefix.length ? null : this.options);
  }

  /** @param {Line} line @param {any} result */
  take(line, result) {
    line.state = "done";
    line.result = result;
    line.words = words(result.labels, result.probabilities, result.top, result.text);
    line.fresh = line.words.length;
  }

  /** @param {string} key @param {any} result */
  keep(key, result) {
    this.known.delete(key);
    this.known.set(key, result);
    if (this.known.size > KEPT) this.known.delete(/** @type {string} */ (this.known.keys().next().value));
  }

  /**
   * Writes a line anew from tokens that a person has chosen; without any, as the model would.
   * @param {Line} line
   * @param {number[][]} prefix
   * @param {number | null} [place] of the token that was chosen now; those before it stay chosen. null: a whole translation was
   */
  choose(line, prefix, place = null) {
    line.own = place === null ? [] : [...line.own.filter((one) => one < place), place];
    line.prefix = prefix;
    return this.again();
  }

  /** Stops whatever the model does. */
  stop() {
    this.cancel();
    for (const line of this.lines) {
      if (line.state !== "waiting" && line.state !== "working") continue;
      line.words = line.words.slice(0, line.fresh ?? 0); // the rest stood there before
      line.state = line.words.length ? "done" : "empty";
    }
    this.handOn();
    this.changed();
  }

  /** All that was written. */
  get written() { return this.lines.map((line) => line.result?.text ?? line.words.map((word) => word.before + word.text).join("").trim()).join("\n"); }
}

/**
 * Adds what a word brought: the text so far tells what is new. Where a search has changed its mind, all begins anew.
 * @param {Word[]} written
 * @param {string} before the text until now
 * @param {{text: string, probability: number | null, top?: any}} word
 */
export function add(written, before, word) {
  const goesOn = word.text.startsWith(before);
  if (!goesOn) written.length = 0;
  const added = goesOn ? word.text.slice(before.length) : word.text, probability = goesOn ? word.probability : null;
  if (!added) return;
  const last = written.at(-1);
  if (last && /[\p{L}\p{N}]$/u.test(last.text) && /^[\p{L}\p{N}\p{M}]/u.test(added) && !UNSPACED.test(added)) {
    last.text += added;
    last.probability = last.probability === null || probability === null ? null : last.probability * probability;
    return;
  }
  for (const part of goesOn ? [added] : added.match(/\s*\S+/gu) ?? []) {
    const text = part.trimStart();
    if (text) written.push({ before: part.slice(0, part.length - text.length), text, pieces: [], probability });
  }
}

/** Whether a person chose a word. @param {Line | undefined} line @param {Word} word */
export const chosenIn = (line, word) => Boolean(line?.own.length) && word.pieces.some((piece) => line?.own.includes(piece.place));

/** What was written last in a page, what the model made of it, and how it searched. @type {WeakMap<object, {text: string, result: any, how: any}>} */
const latest = new WeakMap();
/** What the trace of a page was made of. @type {WeakMap<object, string>} */
const followed = new WeakMap();

/**
 * Remembers what the other views of the page are to look at.
 * @param {any} app
 * @param {string} text
 * @param {any} result
 * @param {any} [how] the search that wrote it, where nobody chose words; null where somebody did
 */
export function remember(app, text, result, how = null) { latest.set(app, { text, result, how }); }

/**
 * The one text that the views beside the box ask about: what was written or pointed at last, else what the page opens with.
 * @param {any} app
 * @returns {string}
 */
export function asked(app) {
  const last = latest.get(app)?.text;
  if (last !== undefined) return said(last);
  const text = initial(app), at = linesOf(text)[app.state.number("line")];
  return at?.trim() ? at : said(text);
}

/** The first line that says something. @param {string} text */
const said = (text) => linesOf(text).find((line) => line.trim()) ?? "";

/** Whether there is no text to ask about: the box was emptied, or nothing was ever in it. @param {any} app */
export const blank = (app) => !asked(app) && (latest.has(app) || !app.page.traces.length);

/**
 * Whether a page still shows what Python recorded, and nobody has written or chosen anything else.
 * @param {any} app
 * @param {string} text
 * @param {any} result
 * @param {any} how
 */
function recorded(app, text, result, how) {
  const { about } = app.live;
  if (!app.page.traces.length || followed.has(app) || text !== said(about.examples?.[0] ?? "")) return false;
  return about.task === "translate" ? Boolean(how) && !app.state.get("beam") && !app.state.get("penalty") : !result;
}

/**
 * Lets all views look at what was written last.
 * @param {any} app
 */
export async function follow(app) {
  const text = asked(app), { result = null, how = null } = latest.get(app) ?? { how: session(app).options };
  if (!text) {
    followed.set(app, "");
    return app.clear();
  }
  if (recorded(app, text, result, how)) return;
  // A line of several sentences was written in parts; its trace is of the whole line, as the model takes it.
  const ids = how || !result?.ids || (result.parts && result.parts.length !== 1) ? null : result.ids;
  const searched = app.live.about.task === "translate" && how ? { search: true, beamSize: how.beamSize, lengthPenalty: how.lengthPenalty } : {};
  const key = JSON.stringify([text, ids, searched]);
  if (followed.get(app) === key) return;
  followed.set(app, key);
  app.tell("The model reads the text …");
  try {
    const trace = await app.live.trace(text, ids, { ...searched, lane: "follow" });
    await app.show(trace);
    app.controls.describe();
  } catch (error) {
    followed.delete(app);
    if (/** @type {Error} */ (error).name !== "AbortError") app.fail(error);
  }
}
