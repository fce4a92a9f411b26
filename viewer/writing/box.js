// The box to write in: any number of lines, any script, any input method.

import { button, el, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { languageName, t } from "../shell/language.js";
import { parted } from "./markdown.js";

/**
 * The languages that a model reads and writes, as far as its card says.
 * @param {any} about
 */
export function languageOf(about) {
  const said = parted(String(about.card ?? "")).front.find(([name]) => name === "language")?.[1] ?? "";
  const [source, target] = (about.served ?? said.split(", ")).map((/** @type {string} */ code) => ({ code: languageName(code) ? code : null, name: languageName(code) }));
  // The header names the page by the pair.
  if (about.task === "translate" && source?.code && target?.code) about.pair = [source.code, target.code];
  return about.task === "translate" ? { source: source ?? NONE, target: target ?? NONE } : { source: source ?? NONE, target: source ?? NONE };
}

const NONE = { code: null, name: "" };

export class Box {
  /**
   * @param {any} session what is told of every change: `text`, `write(text)`, `composing`
   * @param {{label: string, lang?: string | null, most?: number, placeholder?: string}} how
   */
  constructor(session, { label, lang = null, most = 20_000, placeholder = "" }) {
    this.session = session;
    this.area = el("textarea", {
      "aria-label": label, lang, dir: "auto", rows: 3, maxlength: most, spellcheck: "false", autocapitalize: "off", autocomplete: "off",
      placeholder: placeholder || t("Write here. Each line is translated by itself."), oninput: () => this.#typed(),
      oncompositionstart: () => { session.composing = true; }, oncompositionend: () => { session.composing = false; this.#typed(); },
      // The page's own keys are for when nobody writes; Escape leaves the box.
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape" && !event.isComposing) this.area.blur(); },
    });
    this.area.value = session.text;
    const examples = (session.live.about.examples ?? []).filter((/** @type {unknown} */ one) => typeof one === "string").slice(0, 4);
    const chips = examples.map((/** @type {string} */ example) => write(button("", () => this.put(example), { class: "example", dir: "auto", title: plain(example) }), shorten(plain(example), 42)));
    this.clear = button(t("Clear"), () => { this.put(""); this.area.focus(); }, { class: "quiet clear" });
    this.root = el("div", { class: "box" }, this.area, chips.length ? el("div", { class: "row examples" }, el("span", { class: "faint" }, t("For example")), ...chips) : null);
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
