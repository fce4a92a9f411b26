// The tree of a search, step by step: what was weighed, kept and dropped, and where the model looked for each.

import { button, tick } from "../dom.js";
import { layout, path } from "../data/tree.js";
import { text } from "../show/axis.js";
import { csv } from "../show/csv.js";
import { figure, label, plain, quoted, shorten } from "../show/labels.js";
import { MatrixPicture } from "../show/matrix.js";
import { aside, named, panels } from "../show/panels.js";
import { Picture } from "../show/picture.js";
import { t } from "../shell/language.js";

/** @typedef {import("../data/tree.js").Node} Node */

const WIDEST = 118, NARROWEST = 96, HIGH = 30, MARGIN = 8, TOP = 24;
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
  /** @type {{rows: number, columns: number}} */ size;
  /** @type {Node[]} */ nodes;
  /** @type {Node[][]} */ steps;
  /** @type {Float32Array} */ rowsShown;
  /** @type {Float32Array} */ values;

  hint = t("Point at a hypothesis; click to see where the model looked. Space plays the search.");

  keys = [["Space", t("play, or stop")], ["b n", t("step back, step on")]];

  /** The room of a step: narrower where there are many. */
  wide = WIDEST;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.play = button("▶", () => this.#toggle(), { "aria-label": t("play"), title: t("play the search (Space)") });
    this.controls = [
      "trace", button("◀", () => this.#go(-1), { "aria-label": t("step back"), title: t("step back (b)") }), this.play,
      button("▶|", () => this.#go(1), { "aria-label": t("step on"), title: t("step on (n)") }),
      tick(t("dropped ones"), !app.state.flag("beam.kept"), (shown) => app.state.set({ "beam.kept": !shown, pin: "" })), "layer", "table",
    ];
    const [tree, look] = panels(stage, 2);
    this.tree = tree;
    this.look = look;
    this.tree.root.parentElement?.classList.add("stacked");
    this.picture = new Picture(this.tree.place, {
      paint: (ctx, seen) => this.#paint(ctx, seen), mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(x, y, event), press: (x, y) => this.#press(x, y), resize: () => this.#measure(),
    }, t("the search as a tree"));
    this.drawing = new MatrixPicture(aside(app), this.look.place, { label: t("where the model looked"), tip: ({ row, column }) => [figure(this.rowsShown[row * this.sources.length + column]), row < this.attention.numHeads ? t("head {head}", { head: row }) : t("mean of the heads"), quoted(this.sources[column])] });
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
    if (!this.search) throw new Error(t("the trace has no search"));
    Object.assign(this, layout(this.search, !app.state.flag("beam.kept")));
    this.size = { rows: Math.max(...this.steps.slice(0, this.until + 1).map((column) => column.length)), columns: this.until + 1 };
    this.values = Float32Array.from(this.nodes, (node) => node.score);
    this.#measure();
    // A tree that is wider than the window opens at its end, where the result stands.
    if (!this.shownOnce) this.picture.reveal(MARGIN + this.until * this.wide, 0, this.wide, 1);
    this.shownOnce = true;
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
    this.look.title(t("Where layer {layer} looked to write {token} after “{before}”", { layer: this.app.layer, token: quoted(node.token), before: this.#written(path(this.nodes, node).slice(0, -1)) }));
    this.drawing.show({ rows: [...Array.from({ length: numHeads }, (_, head) => named(t("head {head}", { head }))), named(t("mean"))], columns: this.sources, values: rows, tallest: 420, zoom: 0, titles: { rows: t("head"), columns: t("read") } });
  }

  /** @param {Node[]} nodes */
  #written(nodes) {
    const texts = nodes.filter((node) => !node.token.special).map((node) => node.token.text.slice(0, 400));
    return shorten(plain(texts.join("").trim()), 160);
  }

  #measure() {
    if (!this.size) return;
    const height = Math.max(...this.steps.map((column) => column.length)), fit = Math.floor((this.picture.room - 2 * MARGIN) / this.steps.length);
    // Where not all fit, a whole number of steps does: at its end none is cut off.
    const room = this.picture.room - 2 * MARGIN;
    this.wide = fit >= NARROWEST ? Math.min(WIDEST, fit) : Math.floor(room / Math.max(1, Math.floor(room / NARROWEST)));
    this.picture.size(MARGIN * 2 + this.steps.length * this.wide, TOP + MARGIN + height * HIGH, 520);
  }

  /** The left edge and the middle of a node. @param {Node} node @param {import("../show/picture.js").Window} seen @returns {[number, number]} */
  #at(node, seen) { return [MARGIN + node.step * this.wide - seen.x, TOP + (node.rank + 0.5) * HIGH - seen.y]; }

  /** @param {CanvasRenderingContext2D} ctx @param {import("../show/picture.js").Window} seen */
  #paint(ctx, seen) {
    if (!this.size) return;
    const { colours } = this.app, last = this.until;
    ctx.font = `11px ${colours.font}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = colours.faint;
    for (let step = 1; step <= last; step++) text(ctx, String(step), MARGIN + step * this.wide - seen.x + 4, 10 - seen.y, "left", this.wide);
    const shown = this.steps.slice(0, last + 1).flat(), near = (/** @type {number} */ x) => x > -2 * this.wide && x < seen.width + this.wide;
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
        ctx.moveTo(from + this.wide - 26, above);
        ctx.bezierCurveTo(from + this.wide - 8, above, x - 16, y, x, y);
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
    ctx.roundRect(x, y - 12, this.wide - 26, 24, 6);
    ctx.fill();
    ctx.stroke();
    ctx.fillStyle = dropped ? colours.faint : node.chosen ? colours.accent : colours.ink;
    ctx.font = `11px ${colours.font}`;
    text(ctx, MARKS[node.status], x + 12, y, "center", 16);
    ctx.font = `${node.chosen ? "600 " : ""}12.5px ${colours.font}`;
    text(ctx, label(node.token, 12), x + 22, y - (node.parent === null ? 0 : 3), "left", this.wide - 54);
    if (node.parent === null) return;
    // A token's probability as a bar: a length, and the number in the readout.
    ctx.fillRect(x + 22, y + 6, (this.wide - 54) * Math.exp(node.log_prob), 2);
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
        ctx.roundRect(x, y - 12, this.wide - 26, 24, 6);
        ctx.stroke();
      }
    }
  }

  /** @param {number} x @param {number} y @returns {import("../shell/app.js").Cell | null} */
  #cell(x, y) {
    if (!this.size) return null;
    const seen = this.picture.seen, column = Math.floor((x + seen.x - MARGIN) / this.wide), row = Math.floor((y + seen.y - TOP) / HIGH);
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
    const whole = [[t("score"), figure(node.score, 3)], [t("ranked by"), figure(node.ranked_by, 3)], ["", t(WORDS[node.status])]];
    return /** @type {[string, string][]} */ (node.parent === null ? [["", t("the start")]] : [[t("log-probability"), figure(node.log_prob, 3)], [t("probability"), figure(Math.exp(node.log_prob), 3)], ...whole]);
  }

  mark() {
    this.picture.mark();
    if (this.nodes && this.selected.id !== this.drawn) this.#looked();
  }

  /** @param {number} row @param {number} column */
  reveal(row, column) { this.picture.reveal(MARGIN + column * this.wide, TOP + row * HIGH, this.wide, HIGH); }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading | null} */
  read(row, column) {
    const node = this.#node(row, column);
    if (!node) return { names: [t("step {step}", { step: column })], figures: [["", t("no hypothesis")]], text: t("no hypothesis") };
    const before = this.#written(path(this.nodes, node).slice(0, -1)), figures = this.#figures(node);
    return { names: before ? [`“${before}”`, quoted(node.token)] : [quoted(node.token)], figures, text: `${before} ${quoted(node.token)}, ${figures.map((pair) => pair.join(" ").trim()).join(", ")}` };
  }

  label() { return t("search with a beam of {size}: {steps} steps, {count} hypotheses", { size: this.search.beam_size, steps: this.until, count: this.nodes.length }); }

  get pictures() { return [{ picture: this.picture, title: "" }, ...(this.look.root.hidden ? [] : [{ picture: this.drawing.picture, title: this.look.named }])]; }

  /** @returns {import("../show/legend.js").Sign[]} */
  legend() {
    const { colours } = this.app, marks = /** @type {(keyof typeof MARKS)[]} */ (["best", "finished", "live", "pruned"]);
    return [...marks.map((status) => ({ mark: MARKS[status], colour: status === "best" ? colours.accent : status === "pruned" ? colours.faint : colours.ink, text: t(WORDS[status]) })),
      { mark: "▁", text: t("a bar: the token's probability") }, ...(this.look.root.hidden ? [] : this.drawing.legend())];
  }

  cells() {
    return {
      row: (/** @type {number} */ row) => t("rank {rank}", { rank: row + 1 }), column: (/** @type {number} */ column) => t("step {step}", { step: column }),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => {
        const node = this.#node(row, column);
        return node ? `${quoted(node.token)} ${figure(node.log_prob, 2)}, ${t(WORDS[node.status])}` : "";
      },
    };
  }

  note() {
    const { beam_size: size, length_penalty: penalty } = this.search;
    return t("Beam of {size}; hypotheses rank by score / length^{penalty}, the score being the sum of their tokens' log-probabilities.", { size, penalty });
  }

  table() {
    const rows = this.nodes.filter((node) => node.status === "best" || node.status === "finished").sort((a, b) => b.ranked_by - a.ranked_by)
      .map((node) => [this.#written(path(this.nodes, node)), figure(node.score, 3), figure(node.ranked_by, 3), t(WORDS[node.status])]);
    return { caption: t("Hypotheses that ended"), columns: [t("text"), t("score"), t("ranked by"), t("end")], rows };
  }

  /** @param {number} [row] the hypotheses of one rank alone */
  csv(row) {
    const names = ["id", "parent", "step", "token", "log_prob", "score", "ranked_by", "status"];
    const nodes = row === undefined ? this.nodes : this.steps.flatMap((column) => column[row] ?? []);
    return csv([names, ...nodes.map((node) => [node.id, node.parent, node.step, node.token.text, node.log_prob, node.score, node.ranked_by, node.status])]);
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
    this.picture.reveal(MARGIN + step * this.wide, 0, this.wide, 1);
    this.app.say(t("step {step}", { step }));
  }

  #toggle() {
    if (this.timer) return this.#stop();
    if (this.until === this.steps.length - 1) this.app.state.set({ "beam.step": 0, pin: "" });
    this.timer = setInterval(() => (this.until < this.steps.length - 1 ? this.#go(1) : this.#stop()), PACE);
    this.play.textContent = "❚❚";
    this.play.setAttribute("aria-label", t("stop"));
  }

  #stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.play.textContent = "▶";
    this.play.setAttribute("aria-label", t("play"));
  }

  close() {
    this.#stop();
    this.picture.close();
    this.drawing.close();
    this.app.tip.hide();
  }
}
