// The model at a glance: the sketch of the paper's figure 1 with this model's sizes, and each head as a small picture.

import { looks } from "../data/looks.js";
import { SIDE, thumbnailOf } from "../data/pooled.js";
import { el, write } from "../dom.js";
import { heatmap } from "../show/heatmap.js";
import { nameShort } from "../show/names.js";
import { spoken, t } from "../shell/language.js";

/** Larger matrices are not drawn here; the views of single heads do that. */
const MOST_CELLS = 40_000;
/** How long the page may be busy with pictures before it looks after the reader again, in milliseconds. */
const SLICE = 8;

/**
 * The boxes of figure 1, from below.
 * @param {any} app
 * @param {(attention: string) => void} open
 */
export function sketch(app, open) {
  const config = app.live?.about.model ?? {}, { attentions, model } = app.trace ?? { attentions: new Map(), model: {} };
  const layersOf = (/** @type {string} */ name, /** @type {number | undefined} */ configured) => attentions.get(name)?.numLayers ?? configured ?? 0;
  const encoder = layersOf("encoder.self", config.num_encoder_layers), decoder = layersOf("decoder.self", config.num_decoder_layers);
  const heads = [...attentions.values()][0]?.numHeads ?? config.num_heads, width = config.d_model ?? model.d_model;
  const number = (/** @type {number | undefined} */ n) => (n ? n.toLocaleString(spoken()) : "");
  const box = (/** @type {string} */ kind, /** @type {string} */ name, /** @type {string} */ size, /** @type {string} */ attention = "") =>
    attention && attentions.has(attention) ? el("button", { type: "button", class: `part ${kind}`, onclick: () => open(attention) }, el("span", {}, name), el("small", {}, size))
      : el("div", { class: `part ${kind}` }, el("span", {}, name), el("small", {}, size));
  const manyHeads = heads ? t("{count} heads", { count: heads }) : "";
  const feed = () => box("feed", t("Feed-forward"), config.d_ff ? `${number(width)} → ${number(config.d_ff)} → ${number(width)}` : "");
  const embed = (/** @type {number | undefined} */ vocabulary) => box("embed", t("Embedding + position"), [vocabulary && t("{count} tokens", { count: number(vocabulary) }), number(width)].filter(Boolean).join(" × "));
  const stack = (/** @type {number} */ count, /** @type {(Node | null)[]} */ ...parts) => el("div", { class: "layers" }, el("b", { class: "times" }, `${count} ×`), el("div", { class: "layer" }, ...parts));
  const reads = encoder ? [el("div", { class: "column" },
    stack(encoder, feed(), box("self", t("Self-attention"), manyHeads, "encoder.self")), embed(config.src_vocab_size), el("p", { class: "faint" }, t("what is read")))] : [];
  const writes = decoder ? [el("div", { class: "column" },
    box("out", t("Projection + softmax"), config.tgt_vocab_size ? t("{count} tokens", { count: number(config.tgt_vocab_size) }) : ""),
    stack(decoder, feed(), encoder ? box("cross", t("Cross-attention"), manyHeads, "cross") : null, box("self", t("Masked self-attention"), manyHeads, "decoder.self")),
    embed(config.tgt_vocab_size), el("p", { class: "faint" }, t("what is written so far")))] : [];
  return el("div", { class: "sketch" }, ...reads, ...(reads.length && writes.length ? [el("span", { class: "leads", "aria-hidden": "true" }, "→")] : []), ...writes);
}

/**
 * Pictures of all heads, layer by layer; they come in while nothing waits for them. Says how each head looks.
 * @param {any} app
 * @param {(attention: string, layer: number, head: number) => void} open
 * @param {AbortSignal} signal
 */
export function thumbnails(app, open, signal) {
  const root = el("div", { class: "thumbnails" });
  const ready = (async () => {
    const all = [];
    for (const attention of app.trace?.attentions.values() ?? []) {
      if (attention.name.startsWith("search.") || !(attention.hasWeights || attention.description.thumbnails)) continue;
      const body = el("tbody");
      const head = el("tr", {}, el("td"), ...Array.from({ length: attention.numHeads }, (_, h) => el("th", { scope: "col" }, String(h))));
      root.append(el("div", { class: "sheet" }, el("table", {}, write(el("caption"), nameShort(attention.name)), el("thead", {}, head), body)));
      all.push(...(await rowsOf(app, attention, body, open, signal)));
      if (signal.aborted) return [];
    }
    return all;
  })();
  return { root, ready };
}

/**
 * @param {any} app
 * @param {import("../data/attention.js").Attention} attention
 * @param {HTMLElement} body
 * @param {(attention: string, layer: number, head: number) => void} open
 * @param {AbortSignal} signal
 */
async function rowsOf(app, attention, body, open, signal) {
  const L = attention.rows.length, M = attention.columns.length, small = attention.hasWeights && L * M <= MOST_CELLS;
  const sheet = small ? null : await attention.thumbnails(), found = [];
  const ofRow = attention.rows.map((token, i) => (attention.name === "cross" ? !app.trace.sequences.out?.[i]?.special : !token.special)), ofColumn = attention.columns.map((token) => !token.special);
  let began = performance.now();
  for (let layer = 0; layer < attention.numLayers; layer++) {
    const loaded = small ? await attention.load(layer) : null, row = el("tr", {}, el("th", { scope: "row" }, String(layer)));
    body.append(row);
    for (let head = 0; head < attention.numHeads; head++) {
      if (performance.now() - began > SLICE) {
        await new Promise((resolve) => setTimeout(resolve));
        began = performance.now();
      }
      if (signal.aborted) return [];
      const label = t("{attention}, layer {n}, head {h}", { attention: nameShort(attention.name), n: layer, h: head });
      const press = el("button", { type: "button", class: "thumbnail", "aria-label": label, title: label, onclick: () => open(attention.name, layer, head) });
      row.append(el("td", {}, press));
      if (loaded) {
        const weights = loaded.weights(head);
        found.push({ ...looks(weights, M, ofRow, ofColumn), attention: attention.name, layer, head });
        press.append(heatmap(weights, L, M, app.colours.sequential, "sqrt"));
      } else if (sheet) {
        press.append(heatmap(thumbnailOf(sheet, attention, layer, head), SIDE, SIDE, app.colours.sequential, "sqrt"));
      }
    }
  }
  return found;
}
