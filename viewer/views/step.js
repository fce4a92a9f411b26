// The walk through the equations: a pass of the page's model, step by step, with the numbers of this sentence.

import { explained } from "../data/explained.js";
import { given } from "../data/given.js";
import { largest } from "../data/numbers.js";
import { button, el, tick, write } from "../dom.js";
import { heatmap } from "../show/heatmap.js";
import { bare, label } from "../show/labels.js";
import { named } from "../show/names.js";
import { ko } from "../shell/ko/steps.js";
import { t } from "../shell/language.js";
import { TOP_WORDS } from "../steps/around.js";
import { Kit } from "../steps/kit.js";
import { SHOWN } from "../steps/shown.js";
import { SOURCES } from "../steps/sources.js";
import { stepMap } from "../steps/map.js";
import { inLayer, walkOf } from "../steps/walk.js";

/** @typedef {import("../steps/walk.js").Step} Step */

/** Up to so many cells of an attention all that the model told is fetched at once, beyond it layer by layer. */
const FEW_CELLS = 100 * 100;
/** A matrix of more numbers is not fetched from the worker for the sake of one sum. */
const MOST_NUMBERS = 24_000_000;

/** @type {import("./view.js").View} */
export const step = {
  name: "step",
  title: "Step by step",
  alone: true,
  steady: true,
  open: (app, stage) => new Walk(app, stage),
  korean: ko,
};

class Walk {
  /** @type {Step[]} */
  #steps = [];
  /** What is shown; it stays until the next is ready, and keys work meanwhile. @type {any} */
  #scene = null;
  #asked = 0;
  /** @type {Map<string, Promise<any>>} of a long text the layers that were fetched last */
  #layers = new Map();
  /** Whose layers they are: the view stays open when another trace comes. @type {import("../data/trace.js").Trace | null} */
  #trace = null;
  /** @type {Map<string, Promise<{shape: number[], data: Float32Array} | null>>} */
  #tensors = new Map();
  size = { rows: 0, columns: 0 };

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.kit = new Kit(app);
    this.hint = matchMedia("(pointer: coarse)").matches ? t("Tap a strip to look at another number of the vectors.") : t("← and → go from step to step, ↑ and ↓ from word to word, [ and ] from layer to layer. Click a strip to look at another number.");
    this.controls = ["trace", tick(t("write numbers out"), app.state.flag("step.numbers"), (numbers) => app.state.set({ "step.numbers": numbers }))];
    this.back = button("←", () => this.#go(-1), { "aria-label": t("step back"), class: "pace" });
    this.forward = button("→", () => this.#go(1), { "aria-label": t("step forward"), class: "pace forward" });
    this.up = button(t("same step, layer before"), () => this.#jump(-1), { title: "[" });
    this.down = button(t("same step, next layer"), () => this.#jump(1), { title: "]" });
    this.count = el("span", { class: "count" });
    this.map = el("div", { class: "course" });
    this.card = el("div", { class: "lesson" });
    this.sentence = el("div", { class: "reading" });
    this.paces = el("div", { class: "paces" }, this.back, this.count, this.forward, el("span", { class: "jumps" }, this.up, this.down));
    stage.append(el("div", { class: "steps" }, this.map, el("div", { class: "step" }, this.sentence, this.paces, this.card)));
  }

  get #at() {
    const found = this.#steps.findIndex((one) => one.id === this.app.state.get("step.at"));
    return Math.max(0, found);
  }

  async prepare() {
    const { app } = this, live = /** @type {any} */ (app.live);
    await live.ready;
    const asked = ++this.#asked, config = live.about.model, { trace } = app, { src, tgt } = trace.sequences;
    if (!src && !tgt) return void (this.#scene = null);
    const few = Math.max(src?.length ?? 0, tgt?.length ?? 0) ** 2 <= FEW_CELLS;
    const first = await explained(app, "pass", few ? {} : { places: [] });
    this.#steps = walkOf(new Set(first.told), config, Boolean(trace.how?.hidden.length));
    const step = this.#steps[this.#at], records = few ? first.records : await this.#layer(step);
    const record = records.get(step.place), tokens = trace.sequences;
    const place = this.#place(step, tokens), own = tokens[step.stack === "encoder" ? "src" : "tgt"];
    const embedding = ["output_projection.weight", "tgt_embedding.tokens.weight", "src_embedding.tokens.weight"];
    const tied = config.tie_embeddings !== "none", outputName = tied ? (config.tie_embeddings === "all" && config.num_encoder_layers ? embedding[2] : embedding[1]) : embedding[0];
    const scene = { app, kit: this.kit, step, record, config, tokens, place, token: own[place], head: this.#head(), D: config.d_model,
      tensors: new Map(), words: await this.#words(step, record, place, config), outputName, tied, triangle: (/** @type {any} */ record, /** @type {number} */ place) => triangle(app, record, place) };
    for (const name of SHOWN[step.kind].needs?.(scene) ?? []) {
      const found = await this.#tensor(name, config);
      if (found) scene.tensors.set(name, found);
    }
    if (asked === this.#asked) this.#scene = scene; // else somebody has gone on meanwhile
  }

  /** What the model told of the layer of a step. @param {Step} step */
  async #layer(step) {
    const { app } = this, start = step.layer === null ? step.place : `${step.stack}.layers.${step.layer}.`;
    if (this.#trace !== app.trace) this.#layers.clear();
    this.#trace = app.trace;
    const asked = this.#layers.get(start) ?? /** @type {any} */ (app.live).pass(given(app.trace), null, { ...app.trace.how, places: [start] });
    this.#layers.delete(start);
    this.#layers.set(start, asked);
    if (this.#layers.size > 2) this.#layers.delete(/** @type {string} */ (this.#layers.keys().next().value));
    return (await asked).records;
  }

  /** A tensor of the model, where it is not too large to be handed over. @param {string} name @param {any} config */
  #tensor(name, config) {
    const size = /embedding|projection/.test(name) ? config.d_model * Math.max(config.src_vocab_size, config.tgt_vocab_size) : 0;
    const asked = this.#tensors.get(name) ?? (size > MOST_NUMBERS ? Promise.resolve(null) : /** @type {any} */ (this.app.live).tensor(name));
    this.#tensors.set(name, asked);
    return asked;
  }

  /** The head that is looked at. @param {number} [by] or one so far from it */
  #head(by = 0) {
    const last = /** @type {any} */ (this.app.live).about.model.num_heads - 1, here = Math.min(last, this.app.state.number("head"));
    return Math.max(0, Math.min(last, here + by));
  }

  /** The row that is looked at. @param {Step} step @param {Record<string, any[]>} [tokens] */
  #place(step, tokens = this.app.trace.sequences) {
    const encoder = step.stack === "encoder", own = tokens[encoder ? "src" : "tgt"], asked = this.app.state.get(encoder ? "step.read" : "step.write");
    if (step.kind === "pooled" || step.kind === "classes") return 0;
    // The second word rather than the first: at place 0 positions and the mask show little.
    const whole = own.flatMap((token, i) => (token.special ? [] : [i])), first = whole[1] ?? whole[0] ?? 0;
    return Math.max(0, Math.min(asked === "" ? first : Number(asked) || 0, own.length - 1));
  }

  /** The likeliest words, or the classes, where the step shows them. @param {Step} step @param {any} record @param {number} place @param {any} config */
  async #words(step, record, place, config) {
    const live = /** @type {any} */ (this.app.live), none = { ids: [], names: [], written: 0, width: config.tgt_vocab_size };
    if (step.kind === "classes") {
      const ids = largest(record.logits, config.num_classes);
      return { ids, names: ids.map((id) => bare(live.about.labels[id] ?? String(id))), written: ids[0], width: config.num_classes };
    }
    if (step.kind !== "logits" && step.kind !== "probabilities") return none;
    const width = config.tgt_vocab_size, ids = largest(record.logits.subarray(place * width, (place + 1) * width), TOP_WORDS);
    const written = this.app.trace.sequences.out?.[place]?.id ?? ids[0];
    if (!ids.includes(written)) ids.push(written);
    const named = await Promise.all(ids.map((id) => live.label([id], "target")));
    return { ids, names: named.map(([token]) => bare(token.text)), written, width };
  }

  draw() {
    const { app } = this, scene = this.#scene;
    this.map.hidden = this.paces.hidden = this.sentence.hidden = !scene;
    if (!scene) return this.card.replaceChildren(el("p", { class: "says" }, t("There is no sentence yet: write one in the first view.")));
    const { step } = scene, shown = SHOWN[step.kind], at = this.#at;
    const focused = focus(app.stage);
    const source = SOURCES[step.kind === "positions" && scene.config.positions === "learned" ? "learned" : step.kind];
    const section = source.section ? `“Attention Is All You Need”, ${t("section {number}", { number: source.section })}${source.equation ? `, ${t("equation {number}", { number: source.equation })}` : ""}` : t("not in the paper");
    const attends = ["self_attn", "cross_attn"].includes(step.sublayer) && !["norm", "add", "join"].includes(step.kind);
    this.card.replaceChildren(...[
      el("p", { class: "where" }, whereIs(step)), el("h2", {}, t(source.title)), shown.formula(scene),
      el("p", { class: "says" }, shown.says(scene)), at === 0 ? el("p", { class: "note" }, this.hint) : null, attends ? this.#heads(scene) : null, ...shown.shows(scene),
      el("p", { class: "source" }, section, " · ", el("code", { title: "src/pellucid/" + source.code.split("::")[0] }, source.code.replace("::", " · "))),
    ].filter((one) => one !== null));
    write(this.count, t("{at} of {count}", { at: at + 1, count: this.#steps.length }));
    this.back.disabled = at === 0;
    this.forward.disabled = at === this.#steps.length - 1;
    this.up.disabled = !inLayer(this.#steps, step, -1);
    this.down.disabled = !inLayer(this.#steps, step, 1);
    this.#sentence(scene);
    this.map.replaceChildren(stepMap(this.#steps, step, (to) => app.state.set({ "step.at": to.id })));
    refocus(app.stage, focused);
    const here = /** @type {HTMLElement | null} */ (this.map.querySelector("[aria-current]"));
    if (here && (here.offsetTop < this.map.scrollTop || here.offsetTop + 40 > this.map.scrollTop + this.map.clientHeight)) this.map.scrollTop = here.offsetTop - this.map.clientHeight / 2;
    if (this.told !== step.id) app.say(`${t(source.title)}. ${shown.says(scene)}`);
    this.told = step.id;
  }

  /** The words of which one is looked at. @param {any} scene */
  #sentence({ step, tokens, place }) {
    const encoder = step.stack === "encoder", own = tokens[encoder ? "src" : "tgt"], key = encoder ? "step.read" : "step.write";
    const all = own.length > 120, shown = own.slice(all ? Math.max(0, place - 40) : 0, all ? place + 40 : own.length), from = own.indexOf(shown[0]);
    const chips = shown.map((/** @type {any} */ token, /** @type {number} */ i) => write(button("", () => this.app.state.set({ [key]: from + i, "step.key": "", "step.word": "" }), { class: !encoder && from + i > place ? "token later" : "token", "aria-pressed": String(from + i === place) }), label(token, 16)));
    const writes = !encoder && tokens.out?.[place] ? el("span", { class: "writes" }, t("writes"), " → ", write(el("bdi"), label(tokens.out[place], 16))) : null;
    this.sentence.replaceChildren(el("span", { class: "what" }, encoder ? t("The encoder reads") : t("The decoder has read")), ...(from ? ["…"] : []), ...chips, ...(from + shown.length < own.length ? ["…"] : []), ...(writes ? [writes] : []));
  }

  /** One small picture for each head of the attention. @param {any} scene */
  #heads({ record, head, app }) {
    const { H, L, M } = record;
    if (H < 2) return null;
    const chips = Array.from({ length: H }, (_, h) => {
      const picture = heatmap(record.weights.subarray(h * L * M, (h + 1) * L * M), L, M, app.colours.sequential, "sqrt");
      picture.setAttribute("aria-hidden", "true");
      return el("button", { type: "button", class: "chip pictured", "aria-pressed": String(h === head), "aria-label": t("head {head}", { head: h }), onclick: () => app.state.set({ head: h, "step.key": "" }) }, picture, el("span", {}, String(h)));
    });
    return el("div", { class: "chips", role: "group", "aria-label": t("head") }, el("span", {}, t("Head")), ...chips);
  }

  /** @param {number} by */
  #go(by) {
    const to = this.#steps[Math.max(0, Math.min(this.#steps.length - 1, this.#at + by))];
    this.app.state.set({ "step.at": to.id, "step.key": "", "step.word": "" });
  }

  /** @param {number} by */
  #jump(by) {
    const to = inLayer(this.#steps, this.#steps[this.#at], by);
    if (to) this.app.state.set({ "step.at": to.id, "step.key": "" });
  }

  /** Another word. @param {number} by */
  #move(by) {
    const step = this.#steps[this.#at], encoder = step.stack === "encoder", last = this.app.trace.sequences[encoder ? "src" : "tgt"].length - 1;
    this.app.state.set({ [encoder ? "step.read" : "step.write"]: Math.max(0, Math.min(last, this.#place(step) + by)), "step.key": "", "step.word": "" });
  }

  keys = [["← →", t("a step back, a step forward")], ["↑ ↓", t("another word")], ["[ ]", t("the same step of another layer")], ["b n", t("another number of the vectors")]];

  /** @param {KeyboardEvent} event */
  key({ key }) {
    if (!this.#scene) return false;
    const toHead = (/** @type {number} */ by) => this.app.state.set({ head: this.#head(by), "step.key": "" });
    const does = /** @type {Record<string, () => void>} */ ({
      ArrowRight: () => this.#go(1), ArrowLeft: () => this.#go(-1), ArrowDown: () => this.#move(1), ArrowUp: () => this.#move(-1),
      "]": () => this.#jump(1), "[": () => this.#jump(-1), Home: () => this.#go(-Infinity), End: () => this.#go(Infinity),
      ",": () => toHead(-1), ".": () => toHead(1),
      n: () => this.#number(1), b: () => this.#number(-1),
    })[key];
    does?.();
    return Boolean(does);
  }

  /** Another number of all vectors. @param {number} by */
  #number(by) {
    const { state } = this.app;
    state.set(Object.fromEntries(["model", "head", "inner", "joined"].map((space) => [`step.${space}`, Math.max(0, state.number(`step.${space}`) + by)])));
  }

  label() { return t("the walk through the equations"); }

  close() { this.app.tip.hide(); }
}

/** Where in the model a step is. @param {Step} step */
function whereIs({ stack, layer, sublayer, kind }) {
  const of = stack === "encoder" ? t("Encoder") : t("Decoder");
  if (layer === null) return sublayer === "embedding" ? t("{stack}, before its layers", { stack: of }) : kind === "memory" ? of : t("{stack}, behind its layers", { stack: of });
  const name = sublayer === "self_attn" && stack === "decoder" ? t("masked self-attention") : named(sublayer);
  return t("{stack}, layer {layer}: {sublayer}", { stack: of, layer, sublayer: name });
}

/** Who may look at whom. @param {import("../shell/app.js").App} app @param {any} record @param {number} place */
function triangle(app, { mask, L, M }, place) {
  const picture = heatmap(Array.from(/** @type {Uint8Array} */ (mask), (one) => 0.55 * one), L, M, app.colours.sequential), here = el("i", {});
  here.style.top = `${(100 * place) / L}%`;
  here.style.height = `${100 / L}%`;
  return el("div", { class: "triangle", role: "img", "aria-label": t("{rows} by {columns}: coloured where a word may look", { rows: L, columns: M }) }, picture, here);
}

/** Which control the focus is on, so that it can be found again. @param {HTMLElement} stage */
function focus(stage) {
  const on = document.activeElement;
  if (!on || !stage.contains(on)) return null;
  const same = [...stage.querySelectorAll("button, summary")].filter((one) => one.textContent === on.textContent);
  return { text: on.textContent, at: same.indexOf(on) };
}

/** @param {HTMLElement} stage @param {{text: string | null, at: number} | null} focused */
function refocus(stage, focused) {
  if (!focused || stage.contains(document.activeElement)) return;
  const same = [...stage.querySelectorAll("button, summary")].filter((one) => one.textContent === focused.text);
  /** @type {HTMLElement | undefined} */ (same[Math.min(focused.at, same.length - 1)])?.focus({ preventScroll: true });
}
