// Where one writes: a translator translates, a classifier judges, a language model goes on.

import { Alternatives } from "../writing/alternatives.js";
import { Box, languageOf } from "../writing/box.js";
import { Classes } from "../writing/classes.js";
import { Continuing } from "../writing/continuing.js";
import { legend, Output } from "../writing/output.js";
import { laidSentences } from "../writing/sentence_picture.js";
import { chosenIn, follow, MOST_CHARACTERS, MOST_LINES, session } from "../writing/session.js";
import { changes, leastSure, percent, sureness } from "../writing/words.js";
import { button, el, select, tick, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { copy, download } from "../shell/dialogs.js";
import { t } from "../shell/language.js";
import { ko as shared } from "../shell/ko/overview.js";
import { ko } from "../shell/ko/translating.js";
import { whenOpen } from "../writing/opening.js";

/** What the view is called, by what the model does. @type {Record<string, string>} */
const TITLES = { translate: "Translate", classify: "Classify", generate: "Write on", encode: "Write" };

/**
 * What the model of a page does; until it can be asked, as far as the page says.
 * @param {any} app
 * @returns {string}
 */
function taskOf({ live, extras, traces: [{ model, classes }] }) {
  return live?.about?.task ?? extras.task ?? (model.family === "decoder" ? "generate" : model.family === "encoder" ? (classes ? "classify" : "encode") : "translate");
}

/** @type {import("./view.js").View} */
export const translate = {
  name: "translate",
  title: "Translate",
  alone: true,
  steady: true,
  korean: { ...shared, ...ko },
  begin: (app) => app.live?.ready.then(() => {
    languageOf(app.live.about);
    app.controls.head();
    follow(app);
  }, () => {}),
  titled: (app) => TITLES[taskOf(app)] ?? TITLES.translate,
  open: (app, stage) => whenOpen(app, stage, () => {
    const { task } = /** @type {import("../live/requests.js").Requests} */ (app.live).about;
    return task === "translate" ? new Translate(app, stage) : task === "generate" ? new Continuing(app, stage) : new Classes(app, stage);
  }, true),
};

/** From how long on one may want to stop, in milliseconds: what comes at once needs no button. */
const LONG = 600;

/** A text's words, as they stand between spaces. @param {string} text */
const partsOf = (text) => text.split(/\s+/).filter(Boolean);

class Translate {
  keys = [["← → ↑ ↓", "from word to word of what is written"], ["Enter", "what the model could have written instead of a word"]];

  size = { rows: 0, columns: 0 };
  /** How the search was when its choices were shown. */
  searched = "";
  /** What was said last. */
  said = "";
  /** @type {any} whose other translations are shown */
  shownOf = null;
  /** @type {number | undefined} */
  frameAsked = undefined;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.session = session(app);
    const { about } = this.session.live, { source, target } = languageOf(about);
    this.alternatives = new Alternatives(app);
    this.output = new Output(app, t("the translation"), {
      press: (line, word, element) => this.#ask(line, word, element), mark: (word, line) => (chosenIn(this.session.lines[line], word) ? "chosen" : ""),
    });
    if (target.code) this.output.root.lang = target.code;
    this.box = new Box(this.session, { label: source.name ? t("Text in {language}", { language: source.name }) : t("Text"), lang: source.code, most: MOST_CHARACTERS });
    this.sure = el("p", { class: "sure" });
    this.undo = button(t("As the model would"), () => this.#undo(), { hidden: true, title: t("lets go of the words that you chose") });
    this.progress = el("span", { class: "progress", "aria-hidden": "true" });
    this.done = el("span", { class: "faint" });
    this.halt = button(t("Stop"), () => this.session.stop(), { class: "quiet clear", hidden: true });
    this.cut = el("p", { class: "faint", hidden: true }, t("Only the first {count} lines are translated.", { count: MOST_LINES }));
    this.heading = el("h2", {}, t("Translations found"));
    this.ranking = el("p", { class: "faint" });
    const tools = el("div", { class: "row" }, button(t("Copy"), () => copy(app, this.session.written, t("the translation"))),
      button(t("Save as text"), () => download(new Blob([this.session.written + "\n"], { type: "text/plain;charset=utf-8" }), "translation.txt")), this.#numbers(), el("span", { class: "push" }), legend());
    this.best = el("ol", { class: "best" });
    this.single = el("p", { class: "faint" }, t("With a beam of 2 or more the search comes to several."));
    this.searching = el("div", { class: "row" });
    this.others = el("section", { class: "others" }, el("div", { class: "row" }, this.heading, el("span", { class: "push" }), this.searching), this.best, this.ranking, this.single);
    this.frame = el("div", { class: "writing" },
      el("section", { class: "side" }, el("h2", {}, source.name || t("Text"), this.box.clear), this.box.root, this.cut),
      el("section", { class: "side" }, el("h2", {}, target.name || t("Translation"), this.progress, this.done, this.halt), el("div", { class: "paper" }, this.output.root, el("div", { class: "row" }, this.sure, el("span", { class: "push" }), this.undo)), tools, this.alternatives.root));
    stage.append(this.frame, this.others, ...(this.session.live.tools ? [this.session.live.tools()] : []));
    this.changed = () => this.#soon();
    this.session.listeners.add(this.changed);
    if (!this.session.lines.length) this.session.again();
  }

  /** @type {(string | Node)[]} */
  controls = [];

  /** How the model searches. */
  #search() {
    const { app } = this, { decode } = this.session.live.about, { beamSize, nBest } = this.session.options;
    const set = (/** @type {string} */ key) => (/** @type {string} */ value) => { app.state.set({ [key]: value }); this.session.again(); };
    const sizes = [...new Set([1, 2, 3, 5, 8, decode?.beam_size ?? 1])].sort((a, b) => a - b);
    const numbers = Array.from({ length: Math.min(beamSize, 8) }, (_, i) => /** @type {[string, string]} */ ([String(i + 1), String(i + 1)]));
    return [
      select(t("Beam size"), sizes.map((size) => [String(size), size === 1 ? t("1 (greedy)") : String(size)]), String(beamSize), set("beam")),
      ...(beamSize > 1 ? [select(t("How many translations"), numbers, String(nBest), set("nbest"))] : []),
    ];
  }

  #numbers() {
    const { state } = this.app;
    return tick(t("numbers"), state.flag("numbers"), (numbers) => state.set({ numbers }), t("how sure the model was of each word"));
  }

  draw() {
    this.output.root.classList.toggle("numbered", this.app.state.flag("numbers"));
    const asked = JSON.stringify(this.session.options);
    if (asked !== this.searched) this.searching.replaceChildren(...this.#search());
    this.searched = asked;
    const penalty = this.session.options.lengthPenalty ?? 1;
    write(this.ranking, penalty === 1 ? t("Ranked by the probability a token, the first figure, so that short ones have no advantage; the second is that of the whole.")
      : t("Ranked by log-probability / length^{penalty}, the first figure as a probability; the second is that of the whole.", { penalty }));
    this.#paint();
  }

  /** Paints once a frame, however many words have come. */
  #soon() { this.frameAsked ??= requestAnimationFrame(() => { this.frameAsked = undefined; this.#paint(); }); }

  #paint() {
    const { lines, busy } = this.session;
    this.output.show(lines.map((line) => ({ words: line.words, fresh: line.state === "done" ? undefined : line.fresh ?? 0, failure: line.failure })));
    this.output.root.setAttribute("aria-busy", String(busy));
    this.progress.classList.toggle("busy", busy);
    this.cut.hidden = !this.session.cut;
    this.#far(busy);
    const told = busy ? null : this.#told();
    if (!busy) {
      write(this.sure, told ?? "");
      this.#others();
    }
    this.sure.classList.toggle("stale", busy);
    this.others.classList.toggle("stale", busy);
    this.undo.hidden = !lines.some((line) => line.prefix.length);
    // Somebody who types wants to type: the sentence is said once it has stood for a while.
    clearTimeout(this.saying);
    if (!busy && lines.some((line) => line.words.length)) this.saying = setTimeout(() => this.#say(), 900);
  }

  /** How far it is, and a way to stop, where it takes long. @param {boolean} busy */
  #far(busy) {
    this.since = busy ? this.since ?? performance.now() : undefined;
    const long = this.since !== undefined && performance.now() - this.since > LONG;
    this.halt.hidden = !long;
    const all = this.session.lines.filter((line) => line.text.trim()), done = all.filter((line) => line.state !== "waiting" && line.state !== "working").length;
    write(this.done, long && all.length > 1 ? t("{done} of {all} lines", { done, all: all.length }) : "");
  }

  #say() {
    const written = this.session.written;
    if (written === this.said) return;
    this.said = written;
    this.app.say(shorten(plain(written), 300));
  }

  /** One sentence on how sure the model was. */
  #told() {
    // The model is not asked to account for words that a person chose.
    const done = this.session.lines.filter((line) => line.result?.probabilities?.length), all = done.flatMap((line) => line.words.filter((word) => !chosenIn(line, word))), least = leastSure(all);
    if (!least || least.probability === null) return this.session.text.trim() ? "" : t("The translation appears here, word by word, as you write.");
    const chosen = done.some((line) => line.own.length) ? t("From the word that you chose on, the model went on by itself.") + " " : "";
    const token = percent(sureness(done.flatMap((line) => line.result.probabilities.filter((/** @type {number} */ _, /** @type {number} */ place) => !line.own.includes(place)))).token);
    const hint = " " + t("Click a word to choose another.");
    if (least.probability >= 0.9) return chosen + t("The model was sure of every word: {least} for the least sure of them.", { least: percent(least.probability) }) + hint;
    return chosen + t("Least sure of “{word}”: {chance}. On average {token} a token.", { word: plain(least.text), chance: percent(least.probability), token }) + hint;
  }

  /** Writes anew, without anything that a person chose. */
  #undo() {
    for (const line of this.session.lines) if (line.prefix.length) Object.assign(line, { prefix: [], own: [] });
    this.session.again();
  }

  /** All translations that the search came to, of the line that one is at: the first is the one above. */
  #others() {
    const { line } = this.session, all = line?.result?.alternatives ?? [];
    const { lines } = this.session, several = line && lines.filter((one) => one.text.trim()).length > 1;
    write(this.heading, several ? t("Translations of line {n}: “{text}”", { n: lines.indexOf(line) + 1, text: shorten(plain(line.text.trim()), 60) }) : t("Translations found"));
    this.best.hidden = this.ranking.hidden = this.session.options.nBest < 2;
    this.single.hidden = !this.best.hidden;
    if (this.shownOf === line?.result) return;
    this.shownOf = line?.result;
    const best = partsOf(line?.result?.text ?? "");
    this.best.replaceChildren(...all.slice(0, 8).map((/** @type {any} */ one, /** @type {number} */ place) => {
      const parts = partsOf(one.text), { after } = changes(best, parts);
      const text = parts.flatMap((part, i) => [write(el(after[i] ? "mark" : "span"), plain(part)), " "]);
      // Of a line of several sentences the search says which words are others, not where each sentence of them ends.
      const choose = !place || line.result.parts?.length > 1 ? el("div", { class: "other", "aria-current": place ? null : "true" })
        : button("", () => this.session.choose(line, [one.ids]), { class: "other", title: t("take this one") });
      choose.append(el("span", { dir: "auto" }, ...text), write(el("span", { class: "chance" }), t("{rank} a token", { rank: percent(Math.exp(one.rank)) })), write(el("span", { class: "chance" }), percent(Math.exp(one.score))));
      return el("li", {}, choose);
    }));
  }

  /** @param {number} number @param {number} place @param {HTMLElement} beside */
  #ask(number, place, beside) {
    const line = this.session.lines[number], word = line.words[place];
    this.session.point(number);
    if (!line.result || !word?.pieces.length) return;
    this.alternatives.open({
      line, word, beside, choose: (prefix, at) => this.session.choose(line, prefix, at), closed: () => this.#soon(),
    });
  }

  /** What was written, shaded, as a picture. */
  laid() { return laidSentences(this.app.colours, document.title, this.session.lines.filter((line) => line.words.length)); }

  note() { return this.session.live.about.served ? t("The server's model knows what it was trained on, and will be wrong elsewhere: see “What it is”.") : t("This model runs in the page itself: nothing that you write leaves it. It knows what it was trained on, and will be wrong elsewhere: see “What it is”."); }

  close() {
    cancelAnimationFrame(this.frameAsked ?? 0);
    clearTimeout(this.saying);
    this.session.listeners.delete(this.changed);
    this.box.close();
    this.alternatives.remove();
    this.app.tip.hide();
    setTimeout(() => follow(this.app));
  }
}
