// What is typed into a box: the model is asked once nobody types any more, and the page's address keeps the text.

/** How long the model waits for the next key, in milliseconds. */
const PAUSE = 60;
/** How long while an input method puts a character together. */
const COMPOSING = 450;
/** How long until the page's address has the text. */
const NOTED = 600;
/** Characters that the address keeps. */
const MOST_NOTED = 2000;

/**
 * What the box of a page holds at first: what its address says, else what it opens with.
 * @param {any} app
 * @returns {string}
 */
export const initial = (app) => app.state.get("text") || app.live.about.examples?.[0] || "";

export class Typing {
  /** @param {any} app */
  constructor(app) {
    this.app = app;
    this.live = /** @type {any} */ (app.live);
    this.text = initial(app);
    /** Whether an input method is putting a character together. */
    this.composing = false;
    /** @type {Promise<any>} settles when nothing is under way */
    this.settled = Promise.resolve();
  }

  /**
   * Takes over what is in the box, and asks the model once nobody types any more.
   * @param {string} text
   * @param {number} [pause] in milliseconds
   */
  write(text, pause = this.composing ? COMPOSING : PAUSE) {
    this.takeOver(text);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => { this.settled = this.run(); }, pause);
  }

  /** Takes over what is in the box, and asks nobody. @param {string} text */
  takeOver(text) {
    this.text = text;
    clearTimeout(this.noting);
    this.noting = setTimeout(() => this.app.state.set({ text: text.slice(0, MOST_NOTED), hidden: "" }), NOTED);
  }

  /** Asks the model. @returns {Promise<any>} */
  async run() {}

  /** Cancels what is under way, and what was about to begin. */
  cancel() {
    clearTimeout(this.waiting);
    this.controller?.abort();
  }

  /** Cancels what is older; returns the signal by which what begins now will be cancelled. */
  begin() {
    this.cancel();
    this.controller = new AbortController();
    return this.controller.signal;
  }
}
