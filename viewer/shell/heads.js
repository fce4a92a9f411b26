// One small picture a head: pointing at it shows the head for a while, a click chooses it.

import { SIDE, thumbnailOf } from "../data/pooled.js";
import { button, el, write } from "../dom.js";
import { heatmap } from "../show/heatmap.js";
import { t } from "./language.js";

/** Above so many cells a head's picture is made of some of its rows, so that it takes no time. */
const FEW_CELLS = 160 * 160;
/** Pointing must rest so long, in milliseconds, before other views are drawn for it. */
const REST = 120;

/**
 * @param {import("./app.js").App} app
 * @param {import("./controls.js").Controls} controls
 * @param {boolean} many whether several can be chosen
 */
export function headChips(app, controls, many) {
  const numbers = Array.from({ length: app.attention.numHeads }, (_, head) => head);
  const pictures = numbers.map(() => el("canvas", { width: SIDE, height: SIDE, "aria-hidden": "true" }));
  const chips = numbers.map((head) => {
    const chip = button("", () => choose(app, head, many), { class: "chip pictured", "aria-label": t("head {head}", { head }) });
    chip.append(pictures[head], write(el("span"), String(head)));
    if (many) {
      chip.addEventListener("dblclick", () => app.state.set({ heads: String(head), head }));
      chip.style.setProperty("--head", app.colours.head(head));
    }
    previewed(app, chip, head);
    return chip;
  });
  /** @type {string | undefined} */
  let painted;
  controls.synced.push(() => {
    const chosen = new Set(many ? app.chosenHeads : [app.chosenHead]);
    chips.forEach((chip, head) => chip.setAttribute("aria-pressed", String(chosen.has(head))));
    const key = [app.state.get("trace"), app.attention.name, app.layer].join(" ");
    if (painted !== key) void paint(app, pictures, () => painted === key);
    painted = key;
  });
  const title = many ? t("point to look, click to add or remove a head, double-click for it alone (, .)") : t("point to look, click to choose (, .)");
  const all = many && chips.length > 1 ? [button(t("all"), () => app.state.set({ heads: "all" }), { class: "chip all" }), button(t("none"), () => app.state.set({ heads: "" }), { class: "chip all" })] : [];
  return el("div", { class: many ? "chips many" : "chips", role: "group", "aria-label": many ? t("heads") : t("head"), title }, el("span", {}, many ? t("Heads") : t("Head")), ...chips, ...all);
}

/**
 * Shows a head while the pointer rests on its chip, or the keyboard's focus is there.
 * @param {import("./app.js").App} app
 * @param {HTMLElement} chip
 * @param {number} head
 */
function previewed(app, chip, head) {
  let resting = 0;
  const look = () => app.preview(head), leave = () => {
    clearTimeout(resting);
    app.preview(null);
  };
  chip.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") resting = setTimeout(look, REST); });
  chip.addEventListener("pointerleave", leave);
  chip.addEventListener("focus", () => { if (chip.matches(":focus-visible")) look(); });
  chip.addEventListener("blur", leave);
}

/**
 * Paints what each head of the layer looks at, a head at a time while nothing else is to do.
 * @param {import("./app.js").App} app
 * @param {HTMLCanvasElement[]} pictures
 * @param {() => boolean} wanted whether they still are
 */
async function paint(app, pictures, wanted) {
  const { attention, layer: number, colours } = app;
  const stored = await attention.thumbnails(), layer = stored ? null : attention.hasWeights ? await attention.load(number) : null;
  if (!stored && !layer) return;
  for (const [head, picture] of pictures.entries()) {
    await new Promise((resolve) => requestIdleCallback(resolve, { timeout: 500 }));
    if (!wanted()) return;
    const values = layer ? thumbnail(layer, head) : thumbnailOf(/** @type {Uint8Array} */ (stored), attention, number, head);
    const side = layer ? Math.min(SIDE, attention.rows.length) : SIDE, across = layer ? Math.min(SIDE, attention.columns.length) : SIDE;
    picture.width = across;
    picture.height = side;
    /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d")).drawImage(heatmap(values, side, across, colours.sequential, "sqrt"), 0, 0);
  }
}

/**
 * A head's weights on at most 32 by 32 pixels, each the largest of the weights that it stands for.
 * @param {import("../data/attention.js").Layer} layer
 * @param {number} head
 */
function thumbnail(layer, head) {
  const L = layer.attention.rows.length, M = layer.attention.columns.length;
  const height = Math.min(SIDE, L), width = Math.min(SIDE, M), out = new Float32Array(height * width);
  const some = L * M > FEW_CELLS;
  for (let y = 0; y < height; y++) {
    const from = Math.floor((y * L) / height), to = some ? from + 1 : Math.floor(((y + 1) * L) / height);
    const rows = layer.rowsOf(head, from, to);
    for (let at = 0; at < rows.length; at++) {
      const x = y * width + Math.floor(((at % M) * width) / M);
      if (rows[at] > out[x]) out[x] = rows[at];
    }
  }
  return out;
}

/**
 * @param {import("./app.js").App} app
 * @param {number} head
 * @param {boolean} many
 */
function choose(app, head, many) {
  app.preview(null);
  if (!many) return app.state.set({ head });
  const chosen = new Set(app.chosenHeads);
  if (!chosen.delete(head)) chosen.add(head);
  const heads = chosen.size === app.attention.numHeads ? "all" : [...chosen].sort((a, b) => a - b).join(",");
  app.state.set({ heads, head });
}
