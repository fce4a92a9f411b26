// The box to write in: any number of lines, any script, any input method.

import { button, el, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { spoken, t } from "../shell/language.js";

/** What a language is called in the page's language. @param {string} code */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([spoken()], { type: "language" }).of(code) ?? "";
  } catch {
    return ""; // Not a code, but whatever the card says.
  }
}

/**
 * The languages that a model reads and writes, as far as they are known.
 * @param {any} about
 */
export function languageOf(about) {
  const { languages } = about, pair = Array.isArray(languages) ? languages : [languages?.source, languages?.target];
  const [source, target] = pair.map((/** @type {unknown} */ code) => (typeof code === "string" ? { code, name: languageName(code) } : { code: null, name: "" }));
  return { source: source ?? { code: null, name: "" }, target: target ?? source ?? { code: null, name: "" } };
}

export class Box {
  /**
   * @param {any} session what is told of every change: `text`, `write(text)`, `composing`
   * @param {{label: string, lang?: string | null, most?: number, placeholder?: string}} how
   */
  constructor(session, { label, lang = null, most = 20_000, placeholder = "" }) {
    this.session = session;
    this.area = el("textarea", {
      "aria-label": label, lang, dir: "auto", rows: 3, maxlength: most, spellcheck: "false", autocapitalize: "off", autocomplete: "off",
      placeholder: placeholder || t("Write here; a line is a sentence."), oninput: () => this.#typed(),
      oncompositionstart: () => { session.composing = true; }, oncompositionend: () => { session.composing = false; this.#typed(); },
      // The page's own keys are for when nobody writes; Escape leaves the box.
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape" && !event.isComposing) this.area.blur(); },
    });
    this.area.value = session.text;
    const examples = (session.live.about.examples ?? []).filter((/** @type {unknown} */ one) => typeof one === "string").slice(0, 4);
    this.root = el("div", { class: "box" }, this.area, el("div", { class: "row" },
      examples.length ? el("span", { class: "faint" }, t("For example")) : null,
      ...examples.map((/** @type {string} */ example) => write(button("", () => this.put(example), { class: "example", dir: "auto", title: plain(example) }), shorten(plain(example), 42))),
      el("span", { class: "push" }), button(t("Clear"), () => { this.put(""); this.area.focus(); }, { class: "quiet" })));
  }

  #typed() { this.session.write(this.area.value); }

  /** @param {string} text */
  put(text) {
    this.area.value = text;
    this.session.write(text, 0);
  }

  close() {
    this.session.composing = false;
  }
}
