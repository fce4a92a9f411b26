// What the model is: its card, its sizes, and how to make one's own.

import { el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { spoken, t } from "../shell/language.js";
import { languageOf } from "../writing/box.js";
import { parted, rendered, table } from "../writing/markdown.js";
import { ko as shared } from "../shell/ko/overview.js";
import { ko } from "../shell/ko/translating.js";
import { whenOpen } from "../writing/opening.js";

/** @type {import("./view.js").View} */
export const card = {
  name: "card",
  title: "What it is",
  alone: true,
  korean: { ...shared, ...ko },
  open: (app, stage) => whenOpen(app, stage, () => new Card(app, stage)),
};

/** What the model was made for, in a sentence. @type {Record<string, string>} */
const TASKS = {
  translate: "a translator: it reads a sentence and writes it in another language",
  classify: "a classifier: it reads a text and says which class it belongs to",
  generate: "a language model: it goes on writing where a text stops",
  encode: "an encoder: it turns a text into vectors",
};

class Card {
  size = { rows: 0, columns: 0 };
  /** @type {(string | Node)[]} */
  controls = [];

  /** @param {any} app @param {HTMLElement} stage */
  constructor(app, stage) {
    const { about } = app.live, { front, body } = parted(String(about.card ?? ""));
    const shown = rendered(body);
    stage.append(el("div", { class: "card" },
      el("section", {}, el("h2", {}, t("This page")), el("p", {}, about.served ? t("This page asks the model of a server: {what}. What you write goes to this server alone.", { what: t(TASKS[about.task] ?? TASKS.encode) }) : t("This page holds a whole Transformer: {what}. It runs in your browser; nothing that you write leaves the page, and no network is needed.", { what: t(TASKS[about.task] ?? TASKS.encode) })),
        table(["", ""], sizes(about).filter(([, value]) => value).map(([name, value]) => [name, value]))),
      el("section", {}, el("h2", {}, t("How to make your own")), el("p", {}, about.task === "translate" ? t("Two text files whose lines belong together, one a language, are enough. With Pellucid, which is free:") : t("Any model folder that Pellucid opens becomes such a page. With Pellucid, which is free:")),
        el("pre", { tabindex: 0 }, write(el("code"), MADE_BY[about.task] ?? MADE_BY.translate)),
        about.task !== "translate" ? null : el("p", { class: "faint" }, t("The first line trains within a budget of time, also on a laptop; the second makes a page like this one."))),
      ...(shown.length ? [el("section", { class: "prose", dir: "auto" }, el("h2", {}, t("What its makers say")), ...shown)] : []),
      ...(front.length ? [el("section", {}, el("h2", {}, t("Facts of the card")), table(["", ""], front.map(([name, value]) => [plain(name), plain(value)])))] : [])));
  }

  draw() {}
  close() {}
}

/** @type {Record<string, string>} */
const MADE_BY = {
  translate: "pellucid train --src here.txt --tgt there.txt --out run --budget 15m\npellucid convert run page.html --to page",
  classify: "pellucid convert MODEL page.html --to page",
  generate: "pellucid convert MODEL page.html --to page",
  encode: "pellucid convert MODEL page.html --to page",
};

/** The model's sizes by name. @param {any} about @returns {[string, string][]} */
function sizes(about) {
  const { model, tokenizers, parameters, bytes, weights, proof } = about, number = (/** @type {unknown} */ n) => (typeof n === "number" ? n.toLocaleString(spoken()) : "");
  const { source, target } = languageOf(about), layers = [model.num_encoder_layers, model.num_decoder_layers].filter((one) => one !== undefined);
  return [
    [t("Languages"), [source.name, target.name].filter(Boolean).join(" → ")],
    [t("Parameters"), number(parameters)],
    [t("Layers"), layers.length === 2 ? t("{encoder} that read, {decoder} that write", { encoder: layers[0], decoder: layers[1] }) : number(model.num_layers ?? layers[0])],
    [t("Heads in each attention"), number(model.num_heads)],
    [t("Numbers for a token (d_model)"), number(model.d_model)],
    [t("Numbers within the feed-forward (d_ff)"), number(model.d_ff)],
    [t("Vocabulary"), [...new Set([tokenizers?.source, tokenizers?.target].filter(Boolean).map((/** @type {any} */ one) => `${number(one.size)} (${one.kind})`))].join(" / ")],
    [t("Weights in the page"), [weights, bytes ? t("{size} MB", { size: (bytes / 1e6).toFixed(1) }) : ""].filter(Boolean).join(", ")],
    [t("Checked against Pellucid"), proof ? proved(proof) : ""],
  ];
}

/** What a page with rounded weights is worth, by what the conversion found. @type {Record<string, string>} */
const VERDICTS = {
  good: "Good: this page writes what the model writes, but for rounding.",
  look: "Look at it: this page often writes other words than the model, since its weights are rounded.",
};

/** What a proof measured, in sentences' words. @type {Record<string, string>} */
const MEASURES = { logits: "logits", states: "states", "log-probabilities": "log-probabilities" };

/** What the conversion proved, in sentences; what is none of ours, as it says itself. @param {any} proof */
function proved(proof) {
  if (typeof proof !== "object") return plain(String(proof));
  if (proof.compared === false) return t("Not compared with Python: {reason}", { reason: plain(String(proof.reason ?? "")) });
  const { sentences: count, greedy_equal: equal, greedy_near_ties: ties = 0, tokenized_equal: cut, largest_difference: off, measure, engine, rounded_to: rounded, bleu } = proof;
  if (typeof count !== "number") return plain(String(proof.said ?? ""));
  const number = (/** @type {number} */ n) => n.toLocaleString(spoken()), verdict = VERDICTS[proof.verdict];
  const told = [...(verdict ? [t(verdict)] : []), proof.origin ? t("Compared with Python on {count} sentences that it was validated on.", { count: number(count) }) : t("Compared with Python on {count} sentences.", { count: number(count) })];
  if (typeof equal === "number") told.push(equal === count ? t("All are written alike, token by token.") : t("{count} of them are written alike, token by token.", { count: number(equal) }));
  if (typeof equal === "number" && ties > 0) told.push(t("{count} part where two tokens are as likely as each other.", { count: number(ties) }));
  if (typeof cut === "number") told.push(cut === count ? t("All are cut into the same tokens.") : t("{count} of them are cut into the same tokens.", { count: number(cut) }));
  if (off !== undefined) {
    const values = { measure: t(MEASURES[measure] ?? MEASURES.logits), difference: share(off), weights: plain(String(rounded ?? "")) };
    told.push(rounded ? t("The {measure} differ by {difference} of the largest at most, since the weights are rounded to {weights}.", values) : t("The {measure} differ by {difference} of the largest at most.", values));
  }
  if (Array.isArray(bleu) && bleu.every((one) => typeof one === "number")) told.push(t("Their BLEU is {ours} in Python, {page} in the page.", { ours: bleu[0].toFixed(1), page: bleu[1].toFixed(1) }));
  if (engine) told.push(t("The page's model was run by {engine}.", { engine: plain(String(engine)) }));
  return told.join(" ");
}

/** A share as people read it: "1.4 %", or "2.0e-7" where it is next to nothing. @param {unknown} value */
function share(value) {
  if (typeof value !== "number") return String(value);
  return value === 0 ? "0" : value < 0.0005 ? value.toExponential(1) : `${(100 * value).toPrecision(2)}${spoken() === "ko" ? "%" : " %"}`;
}
