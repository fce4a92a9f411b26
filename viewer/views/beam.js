// The tree of a search, step by step: what was weighed, kept and dropped, and where the model looked for each.

import { button, tick } from "../dom.js";
import { layout, path } from "../data/tree.js";
import { text } from "../show/axis.js";
import { figure, label, quoted, shorten, visible } from "../show/labels.js";
import { MatrixPicture } from "../show/matrix.js";
import { aside, named, panels } from "../show/panels.js";
import { Picture } from "../show/picture.js";

/** @typedef {import("../data/tree.js").Node} Node */

const WIDE = 118, HIGH = 30, MARGIN = 8, TOP = 24;
const MARKS = { best: "★", finished: "■", live: "●", pruned: "×" };
const WORDS = { best: "the result", finished: "ended", live: "continued", pruned: "dropped" };
const PACE = 700;

/** @type {import("./view.js").View} */
export const beam = {
  name: "beam",
  title: "Beam",
  shows: (attention) => attention.name === "search.cross",
  open: (app, stage) => new Beam(app, stage),
};

class Beam {
  hint = "Point at a hypothesis; click to see where the model looked. Space plays the search.";

  keys = [["Space", "play, or stop"], ["b n", "step back, step on"]];

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.play = button("▶", () => this.#toggle(), { "aria-label": "play", title: "play the search (Space)" });
    this.controls = [
      "trace", button("◀", () => this.#go(-1), { "aria-label": "step back", title: "step back (b)" }), this.play,
      button("▶|", () => this.#go(1), { "aria-label": "step on", title: "step on (n)" }),
      tick("dropped ones", !app.state.flag("beam.kept"), (shown) => app.state.set({ "beam.kept": !shown, pin: "" })), "layer", "table",
    ];
    [this.tree, this.look] = panels(stage, 2);
    this.tree.root.parentElement?.classList.add("stacked");
    this.picture = new Picture(this.tree.place, {
      paint: (ctx, seen) => this.#paint(ctx, seen), mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(x, y, event), press: (x, y) => this.#press(x, y), resize: () => this.#measure(),
    }, "the search as a tree");
    this.drawing = new MatrixPicture(aside(app), this.look.place, { label: "where the model looked", tip: ({ row, column }) => [figure(this.rowsShown[row * this.sources.length + column]), row < this.attention.numHeads ? `head ${row}` : "mean of the heads", quoted(this.sources[column])] });
  }

  get attention() { return this.app.attention; }

  get search() { return this.app.trace.search; }

  get sources() { return this.attention.columns; }

  /** How many steps are shown. */
  get until() {
    const chosen = this.app.state.get("beam.step"), last = this.steps.length - 1;
    return chosen === "" ? last : Math.max(0, Math.min(last, Number(chosen) || 0));
  }

  async prepare() {
    this.layer = this.search ? await this.attention.load(this.app.layer) : null;
  }

  draw() {
    const { app } = this;
    if (!this.search) throw new Error("the trace has no search");
    Object.assign(this, layout(this.search, !app.state.flag("beam.kept")));
    this.size = { rows: Math.max(...this.steps.slice(0, this.until + 1).map((column) => column.length)), columns: this.until + 1 };
    this.values = Float32Array.from(this.nodes, (node) => node.score);
    this.#measure();
    this.picture.paint();
    this.#looked();
  }

  /** @returns {Node} that of the pin, or the result's last one that is shown */
  get selected() {
    const pin = this.app.pin, pinned = pin && this.#node(pin.row, pin.column);
    return pinned ?? this.nodes.filter((node) => node.chosen && node.step <= this.until).at(-1) ?? this.nodes[0];
  }

  /** @param {number} row @param {number} column @returns {Node | undefined} */
  #node(row, column) { return column <= this.until ? this.steps[column]?.[row] : undefined; }

  /** Where the model looked when it wrote the selected node's token: a row a head, and their mean. */
  #looked() {
    const node = this.selected, { numHeads } = this.attention, S = this.sources.length;
    this.drawn = node.id;
    this.look.root.hidden = node.parent === null;
    if (node.parent === null || !this.layer) return;
    const rows = new Float32Array((numHeads + 1) * S);
    for (let head = 0; head < numHeads; head++) {
      const weights = this.layer.rowsOf(head, node.row, node.row + 1);
      rows.set(weights, head * S);
      for (let j = 0; j < S; j++) rows[numHeads * S + j] += weights[j] / numHeads;
    }
    this.rowsShown = rows;
    this.look.title(`Where layer ${this.app.layer} looked to write ${quoted(node.token)} after “${this.#written(path(this.nodes, node).slice(0, -1))}”`);
    this.drawing.show({ rows: [...Array.from({ length: numHeads }, (_, head) => named(`head ${head}`)), named("mean")], columns: this.sources, values: rows, tallest: 420, zoom: 0 });
  }

  /** @param {Node[]} nodes */
  #written(nodes) {
    const texts = nodes.filter((node) => !node.token.special).map((node) => node.token.text.slice(0, 400));
    return shorten(visible(texts.join("").trim()).replaceAll("␣", " "), 160);
  }

  #measure() {
    if (!this.size) return;
    const height = Math.max(...this.steps.map((column) => column.length));
    this.picture.size(MARGIN * 2 + this.steps.length * WIDE, TOP + MARGIN + height * HIGH, 520);
  }

  /** The left edge and the middle of a node. @param {Node} node @param {import("../show/picture.js").Window} seen @returns {[number, number]} */
  #at(node, seen) { return [MARGIN + node.step * WIDE - seen.x, TOP + (node.rank + 0.5) * HIGH - seen.y]; }

  /** @param {CanvasRenderingContext2D} ctx @param {import("../show/picture.js").Window} seen */
  #paint(ctx, seen) {
    if (!this.size) return;
    const { colours } = this.app, last = this.until;
    ctx.font = `11px ${colours.font}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = colours.faint;
    for (let step = 1; step <= last; step++) text(ctx, String(step), MARGIN + step * WIDE - seen.x + 4, 10 - seen.y, "left", WIDE);
    const shown = this.steps.slice(0, last + 1).flat(), near = (/** @type {number} */ x) => x > -2 * WIDE && x < seen.width + WIDE;
    for (const chosen of [false, true]) {
      ctx.strokeStyle = chosen ? colours.accent : colours.faint;
      ctx.globalAlpha = chosen ? 1 : 0.6;
      ctx.lineWidth = chosen ? 2.5 : 1;
      for (const node of shown) {
        if (node.parent === null || node.chosen !== chosen) continue;
        const [x, y] = this.#at(node, seen), [from, above] = this.#at(this.nodes[node.parent], seen);
        if (!near(x)) continue;
        ctx.setLineDash(node.status === "pruned" ? [3, 3] : []);
        ctx.beginPath();
        ctx.moveTo(from + WIDE - 26, above);
        ctx.bezierCurveTo(from + WIDE - 8, above, x - 16, y, x, y);
        ctx.stroke();
      }
    }
    ctx.setLineDash([]);
    ctx.globalAlpha = ctx.lineWidth = 1;
    for (const node of shown) {
      const [x, y] = this.#at(node, seen);
      if (near(x)) this.#paintNode(ctx, node, x, y);
    }
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Node} node @param {number} x @param {number} y */
  #paintNode(ctx, node, x, y) {
    const { colours } = this.app, dropped = node.status === "pruned";
    ctx.fillStyle = colours.paper;
    ctx.strokeStyle = node.chosen ? colours.accent : colours.line;
    ctx.beginPath();
    ctx.roundRect(x, y - 12, WIDE - 26, 24, 6);
    ctx.fill();
    ctx.stroke();
    ctx.fillStyle = dropped ? colours.faint : node.chosen ? colours.accent : colours.ink;
    ctx.font = `11px ${colours.font}`;
    text(ctx, MARKS[node.status], x + 12, y, "center", 16);
    ctx.font = `${node.chosen ? "600 " : ""}12.5px ${colours.font}`;
    text(ctx, label(node.token, 12), x + 22, y - (node.parent === null ? 0 : 3), "left", WIDE - 54);
    if (node.parent === null) return;
    // A token's probability as a bar: a length, and the number in the readout.
    ctx.fillRect(x + 22, y + 6, (WIDE - 54) * Math.exp(node.log_prob), 2);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {import("../show/picture.js").Window} seen */
  #marks(ctx, seen) {
    const { app } = this, pointed = app.cursor && this.nodes && this.#node(app.cursor.row, app.cursor.column);
    if (!this.nodes) return;
    for (const [node, ink] of /** @type {[Node | null | undefined, string][]} */ ([[this.selected, app.colours.mark], [pointed, app.colours.ink]])) {
      if (!node) continue;
      ctx.strokeStyle = ink;
      ctx.lineWidth = 2;
      for (const one of path(this.nodes, node)) {
        const [x, y] = this.#at(one, seen);
        if (one.rank < 0) continue;
        ctx.globalAlpha = one === node ? 1 : 0.4;
        ctx.beginPath();
        ctx.roundRect(x, y - 12, WIDE - 26, 24, 6);
        ctx.stroke();
      }
    }
  }

  /** @param {number} x @param {number} y @returns {import("../shell/app.js").Cell | null} */
  #cell(x, y) {
    if (!this.size) return null;
    const seen = this.picture.seen, column = Math.floor((x + seen.x - MARGIN) / WIDE), row = Math.floor((y + seen.y - TOP) / HIGH);
    return this.#node(row, column) ? { row, column } : null;
  }

  /** @param {number} x @param {number} y @param {PointerEvent | null} event */
  #point(x, y, event) {
    const cell = event && this.#cell(x, y), node = cell && this.#node(cell.row, cell.column);
    this.app.hover(cell);
    if (event && node) this.app.tip.show(event, [this.#written(path(this.nodes, node)) || label(node.token), ...this.#figures(node).map((pair) => pair.join(" "))]);
    else this.app.tip.hide();
  }

  /** @param {number} x @param {number} y */
  #press(x, y) {
    const cell = this.#cell(x, y);
    if (!cell) return;
    this.app.grid.go(cell.row, cell.column, true);
    this.app.setPin(cell);
  }

  /** @param {Node} node @returns {[string, string][]} */
  #figures(node) {
    const whole = [["score", figure(node.score, 3)], ["ranked by", figure(node.ranked_by, 3)], ["", WORDS[node.status]]];
    return /** @type {[string, string][]} */ (node.parent === null ? [["", "the start"]] : [["log-probability", figure(node.log_prob, 3)], ["probability", figure(Math.exp(node.log_prob), 3)], ...whole]);
  }

  mark() {
    this.picture.mark();
    if (this.nodes && this.selected.id !== this.drawn) this.#looked();
  }

  /** @param {number} row @param {number} column */
  reveal(row, column) { this.picture.reveal(MARGIN + column * WIDE, TOP + row * HIGH, WIDE, HIGH); }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading | null} */
  read(row, column) {
    const node = this.#node(row, column);
    if (!node) return { names: [`step ${column}`], figures: [["", "no hypothesis"]], text: "no hypothesis" };
    const before = this.#written(path(this.nodes, node).slice(0, -1)), figures = this.#figures(node);
    return { names: before ? [`“${before}”`, quoted(node.token)] : [quoted(node.token)], figures, text: `${before} ${quoted(node.token)}, ${figures.map((pair) => pair.join(" ").trim()).join(", ")}` };
  }

  label() { return `search with a beam of ${this.search.beam_size}: ${this.until} steps, ${this.nodes.length} hypotheses`; }

  cells() {
    return {
      row: (/** @type {number} */ row) => `rank ${row + 1}`, column: (/** @type {number} */ column) => `step ${column}`,
      cell: (/** @type {number} */ row, /** @type {number} */ column) => {
        const node = this.#node(row, column);
        return node ? `${quoted(node.token)} ${figure(node.log_prob, 2)}, ${WORDS[node.status]}` : "";
      },
    };
  }

  note() {
    const { beam_size: size, length_penalty: penalty } = this.search;
    return `Beam of ${size}; hypotheses rank by score / length^${penalty}, the score being the sum of their tokens' log-probabilities. ★ the result, ■ ended, ● continued, × dropped; a bar is a token's probability.`;
  }

  table() {
    const rows = this.nodes.filter((node) => node.status === "best" || node.status === "finished").sort((a, b) => b.ranked_by - a.ranked_by)
      .map((node) => [this.#written(path(this.nodes, node)), figure(node.score, 3), figure(node.ranked_by, 3), WORDS[node.status]]);
    return { caption: "Hypotheses that ended", columns: ["text", "score", "ranked by", ""], rows };
  }

  csv() {
    const cell = (/** @type {string} */ given) => `"${given.replaceAll('"', '""')}"`;
    return ["id,parent,step,token,log_prob,score,ranked_by,status", ...this.nodes.map((node) => [node.id, node.parent ?? "", node.step, cell(node.token.text), node.log_prob, node.score, node.ranked_by, node.status].join(","))].join("\n") + "\n";
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === " " && !(/** @type {HTMLElement} */ (event.target).matches("button"))) this.#toggle();
    else if (event.key === "n") this.#go(1);
    else if (event.key === "b") this.#go(-1);
    else return false;
    return true;
  }

  /** @param {number} by */
  #go(by) {
    const step = Math.max(0, Math.min(this.steps.length - 1, this.until + by));
    this.app.state.set({ "beam.step": step === this.steps.length - 1 ? "" : step, pin: "" });
    this.picture.reveal(MARGIN + step * WIDE, 0, WIDE, 1);
    this.app.say(`step ${step}`);
  }

  #toggle() {
    if (this.timer) return this.#stop();
    if (this.until === this.steps.length - 1) this.app.state.set({ "beam.step": 0, pin: "" });
    this.timer = setInterval(() => (this.until < this.steps.length - 1 ? this.#go(1) : this.#stop()), PACE);
    this.play.textContent = "❚❚";
    this.play.setAttribute("aria-label", "stop");
  }

  #stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.play.textContent = "▶";
    this.play.setAttribute("aria-label", "play");
  }

  close() {
    this.#stop();
    this.picture.close();
    this.drawing.close();
    this.app.tip.hide();
  }
}
