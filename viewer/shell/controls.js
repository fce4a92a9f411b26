// The header with the views, and the bar in which a trace, an attention, a layer and heads are chosen.

import { button, el, select, tick, write } from "../dom.js";
import { written } from "../data/trace.js";
import { plain, shorten } from "../show/labels.js";
import { nameShort } from "../show/names.js";
import { described, titleOf } from "./described.js";
import { exporting, help } from "./dialogs.js";
import { Find } from "./find.js";
import { headChips } from "./heads.js";
import { keysOf } from "./keys.js";
import { LANGUAGES, spoken, t } from "./language.js";
import { tabs } from "./tabs.js";

export class Controls {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** @type {(() => void)[]} what brings the controls up to date */
    this.synced = [];
    this.find = new Find(app);
    this.tabs = el("nav", { class: "tabs" });
    this.bar = el("div", { class: "bar", role: "group" });
    this.header = el("header", { class: "top" });
    this.head();
  }

  /** Writes the header, in the language that is chosen. */
  head() {
    const { app } = this;
    this.find.name();
    this.title = el("h1");
    this.model = el("p");
    this.own = el("p", { class: "own", dir: "auto" });
    this.describe();
    const about = el("div", { class: "about" }, this.title, this.own, this.model);
    const tools = el("div", { class: "tools" }, this.find.root, this.languages(),
      button(t("Save"), () => exporting(app), { title: t("save or copy (e)") }), button("?", () => help(app, keysOf(app)), { title: t("keys (?)"), "aria-label": t("keys") }));
    this.tabs.setAttribute("aria-label", t("views"));
    this.bar.setAttribute("aria-label", t("what is shown"));
    const skip = button(t("Skip to what is shown"), () => this.app.enterStage(), { class: "skip" });
    this.header.replaceChildren(skip, about, tools, this.tabs);
    this.#name();
  }

  /** Writes the tabs: what a view is called may hang on the model. */
  #name() { this.tabs.replaceChildren(...tabs(this.app)); }

  /** Says which model the page is of, and what computed what it shows. */
  describe() {
    const title = shorten(plain(titleOf(this.app)), 120);
    write(this.title, title);
    write(this.own, plain(String(this.app.live?.about?.note ?? "")));
    this.own.hidden = !this.own.textContent;
    write(this.model, described(this.app));
    document.title = title;
  }

  /** One button a language, each named in its own. */
  languages() {
    const buttons = LANGUAGES.map(([language, name, short]) => write(button("", () => this.app.state.set({ language }), { lang: language, title: name, "aria-pressed": String(language === spoken()) }), short));
    return el("div", { class: "segments languages", role: "group", "aria-label": t("language") }, ...buttons);
  }

  /** Builds the controls of the view that is open. */
  rebuild() {
    const { app } = this, { controls } = app.shown, focused = [this.header, this.bar].find((one) => one.querySelector(":focus-visible"));
    const name = focused && called(/** @type {Element} */ (document.activeElement));
    this.synced = [];
    this.find.root.hidden = Boolean(app.view.alone);
    this.#name();
    const built = controls.map((/** @type {string | Node} */ one) => (typeof one === "string" ? BUILD[one](app, this) : one));
    this.bar.replaceChildren(...built.filter(Boolean));
    this.sync();
    // What the keyboard was on is there no more: what stands for it now gets the focus.
    const again = focused && [...focused.querySelectorAll("button, input, select")].find((one) => called(one) === name);
    if (again) /** @type {HTMLElement} */ (again).focus({ preventScroll: true });
  }

  sync() {
    for (const sync of this.synced) sync();
  }
}

/** @param {Element} control */
function called(control) {
  const label = control.closest("label");
  return control.getAttribute("aria-label") ?? (label?.querySelector("span") ?? label ?? control).textContent;
}

/** @type {Record<string, (app: import("./app.js").App, controls: Controls) => Node | null>} */
const BUILD = {
  trace: (app) => app.traces.length < 2 ? null
    : select(t("Trace"), app.traces.map((trace, i) => [String(i), traceName(app, i)]), String(app.traces.indexOf(app.trace)), (trace) => app.state.set({ trace })),
  attention: (app, controls) => {
    if (app.choices.length < 2) return null;
    const buttons = app.choices.map((one) => button(nameShort(one.name), () => app.state.set({ attention: one.name })));
    controls.synced.push(() => buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(app.choices[i] === app.attention))));
    return el("div", { class: "segments", role: "group", "aria-label": t("attention") }, ...buttons);
  },
  layer: (app, controls) => {
    const last = app.attention.numLayers - 1;
    const slider = el("input", { type: "range", min: 0, max: last, step: 1, "aria-label": t("layer"), oninput: () => app.state.set({ layer: slider.value }) });
    const number = el("b", {});
    controls.synced.push(() => {
      slider.value = String(app.layer);
      slider.setAttribute("aria-valuetext", t("layer {layer} of 0 to {last}", { layer: app.layer, last }));
      write(number, String(app.layer));
    });
    slider.disabled = last === 0;
    return el("label", { class: "field layer", title: t("layer ([ ])") }, el("span", {}, t("Layer")), number, slider);
  },
  head: (app, controls) => headChips(app, controls, false),
  heads: (app, controls) => headChips(app, controls, true),
  scale: (app) => select(t("Scale"), [["linear", t("linear")], ["sqrt", t("square root")], ["log", t("logarithm")], ["row", t("of the row's largest")]],
    app.state.get("scale"), (scale) => app.state.set({ scale })),
  hide: (app) => {
    const special = app.attention.columns.some((token) => token.special), own = app.attention.rows === app.attention.columns;
    return el("div", { class: "ticks" },
      special ? tick(t("hide special tokens"), app.state.flag("special"), (special) => app.state.set({ special }), t("rows and columns of special tokens are left out, the rest of each row is scaled to one")) : null,
      app.attention.columns.length > 1 ? tick(own ? t("hide first token") : t("hide first token read"), app.state.flag("sink"), (sink) => app.state.set({ sink }),
        own ? t("the first token often takes the weight that no other wants; its row and its column are left out") : t("the first token often takes the weight that no other wants; its column is left out, no row is")) : null);
  },
  words: (app) => [...app.attention.rows, ...app.attention.columns].some((token) => token.continues)
    ? tick(t("merge words"), app.state.flag("words"), (words) => app.state.set({ words }), t("the sum over a word's keys, the mean over its queries")) : null,
  pair: (app) => !app.hasPair ? null : select(t("Texts"), [["", t("both")], ["aa", "A → A"], ["ab", "A → B"], ["ba", "B → A"], ["bb", "B → B"]],
    app.state.get("pair"), (pair) => app.state.set({ pair })),
  table: (app, controls) => {
    const toggle = button(t("Table"), () => app.state.set({ table: !app.state.flag("table") }), { title: t("the largest numbers as a table (t)") });
    controls.synced.push(() => toggle.setAttribute("aria-pressed", String(app.state.flag("table"))));
    return toggle;
  },
};

/**
 * @param {import("./app.js").App} app
 * @param {number} number
 */
function traceName(app, number) {
  const first = Object.values(app.traces[number].sequences)[0] ?? [];
  const text = first.filter((token) => !token.special).map((token) => (token.continues ? "" : " ") + written(token)).join("").replace(/\s+/g, " ").trim();
  return `${number + 1} · ${app.nameOf(number)} · ${shorten(plain(text), 40)}`;
}
