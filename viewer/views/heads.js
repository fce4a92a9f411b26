// Several heads at once: queries at the left, keys at the right, an arc for each weight.

import { el } from "../dom.js";
import { largest } from "../data/numbers.js";
import { cutoff, MOST_ARCS, strokeArcs } from "../show/arcs.js";
import { gutter, span, text } from "../show/axis.js";
import { csv } from "../show/csv.js";
import { cellNames } from "../show/grid.js";
import { details, label, quoted } from "../show/labels.js";
import { Picture } from "../show/picture.js";
import { axes, note, shown, titles } from "../show/shown.js";
import { t } from "../shell/language.js";

/** @typedef {import("../show/picture.js").Window} Window */

/** Above this many weights a layer's rows are computed as they come into sight. */
const MANY = 400_000;
const MINIMAP = 28;
/** The room above the first tokens, in which it stands what they are. */
const ABOVE = 26;
/** Nobody sees an arc of less weight. */
const FAINTEST = 0.008;

/** @type {import("./view.js").View} */
export const heads = { name: "heads", title: "Heads", open: (app, stage) => new Heads(app, stage) };

class Heads {
  /** @type {import("../data/attention.js").Layer} */ layer;
  /** @type {{rows: import("../show/shown.js").Axis, columns: import("../show/shown.js").Axis, hidden: string[]}} */ axes;
  /** @type {{rows: number, columns: number}} */ size;
  /** @type {Float32Array[]} */ matrices;
  /** @type {{rows: string[], columns: string[]}} */ names;
  // The heads that are shown, and the share that is hidden; lengths in pixels.
  heads = /** @type {number[]} */ ([]); share = 0; widest = 0; step = 0; map = 0; bar = 0; strip = 0; left = 0; right = 0; arcs = 0; outside = 0; away = 0;

  hint = t(matchMedia("(pointer: coarse)").matches ? "Touch a token: at the left to see what it attends to, at the right to see what attends to it."
    : "Point at a token: at the left to see what it attends to, at the right to see what attends to it. Click to pin, with Shift a second one.");
  /** @type {"row" | "column"} which side is followed */
  #side = "row";
  #least = 0;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    const slider = el("input", { type: "range", min: 0, max: 0.5, step: 0.01, oninput: () => app.state.set({ least: slider.value }) });
    slider.value = app.state.get("least") || "0";
    this.controls = ["trace", "attention", "layer", "heads", el("label", { class: "field", title: t("weaker arcs are not drawn") }, el("span", {}, t("Least weight")), slider), "pair", "hide", "words", "table"];
    this.picture = new Picture(stage, {
      paint: (ctx, seen) => this.#paint(ctx, seen),
      mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(x, y, event),
      press: (x, y, event) => this.#press(x, y, event),
      resize: () => this.axes && this.#measure(),
    }, t("attention of several heads"));
  }

  get attention() { return this.app.attention; }

  get side() { return this.app.cursor ? this.#side : this.app.state.get("side") === "column" ? "column" : "row"; }

  /** @param {number} column */
  bestRow(column) { return this.#best(this.#column(column)); }

  async prepare() {
    this.layer = await this.attention.load(this.app.layer);
  }

  draw() {
    const { app, attention } = this, options = app.options;
    this.axes = axes(attention, options);
    this.heads = app.heads;
    this.size = { rows: this.axes.rows.tokens.length, columns: this.axes.columns.tokens.length };
    const plain = this.size.rows === attention.rows.length && this.size.columns === attention.columns.length;
    this.lazy = plain && attention.rows.length * attention.columns.length * this.heads.length > MANY;
    this.share = 0;
    this.matrices = this.lazy ? [] : this.heads.map((head) => {
      const { values, share } = shown(this.layer.weights(head), attention, this.axes, options);
      this.share += share / this.heads.length;
      return values;
    });
    this.#measure();
    this.picture.paint();
  }

  #measure() {
    const ctx = this.picture.base.getContext("2d"), { app } = this, room = this.picture.room;
    this.names = { rows: this.axes.rows.tokens.map((token) => label(token)), columns: this.axes.columns.tokens.map((token) => label(token)) };
    this.widest = Math.min((room < 480 ? 0.22 : 0.3) * room, 200);
    const called = titles(this.attention), before = gutter(ctx, app.colours.font, this.names.rows, this.widest, called.rows);
    const behind = gutter(ctx, app.colours.font, this.names.columns, this.widest, called.columns, 44);
    const longest = Math.max(this.size.rows, this.size.columns);
    this.step = longest > 40 ? 20 : 24;
    const height = longest * this.step + ABOVE + 8;
    this.map = height > 1.5 * innerHeight ? MINIMAP : 0;
    // The bars beside the names give way where arcs would have less than 120 pixels.
    const many = Math.min(this.heads.length, 16), spare = room - this.map - before - behind - 192;
    this.bar = Math.max(1, Math.min(5, Math.floor(spare / (2 * many))));
    const strip = this.bar * many;
    this.strip = strip;
    this.left = Math.ceil(before + 14 + strip);
    this.right = Math.floor(Math.min(room - this.map, this.left + 560 + behind) - behind - 14 - strip - 44);
    this.picture.size(Math.min(room, this.right + strip + behind + 64 + (this.map && this.map + 24)), height);
  }

  /** Computes what a layer beside this one would show. @param {import("../data/attention.js").Layer} layer */
  warm(layer) {
    if (this.lazy) for (const row of this.#rowsIn(this.picture.seen)) for (const head of this.heads) layer.row(head, row);
    else for (const head of this.heads) layer.weights(head);
  }

  /** Each chosen head's weights of a row. @param {number} row @returns {Float32Array[]} */
  #row(row) {
    const width = this.size.columns;
    if (this.lazy) return this.heads.map((head) => this.layer.row(head, row));
    return this.matrices.map((values) => values.subarray(row * width, (row + 1) * width));
  }

  /** Each chosen head's weights on a column; of long texts, those of the rows in sight. @param {number} column @returns {Float32Array[]} */
  #column(column) {
    const out = this.heads.map(() => new Float32Array(this.size.rows));
    for (const row of this.lazy ? this.#rowsIn(this.picture.seen) : span(0, this.size.rows, 1, this.size.rows)) this.#row(row).forEach((weights, h) => { out[h][row] = weights[column]; });
    return out;
  }

  /** @param {Window} seen */
  #rowsIn(seen) { return span(seen.y - ABOVE, seen.height, this.step, this.size.rows); }

  /** @param {number} place @param {Window} seen */
  #y(place, seen) { return ABOVE + (place + 0.5) * this.step - seen.y; }

  /**
   * The weights worth an arc with the heights at which they end. With `whole` those of tokens out of sight end together
   * at the edge: one row's are told apart from its others, those of all rows would outshine what is in sight.
   * @param {Float32Array} weights @param {Window} seen @param {number} least @param {boolean} whole
   */
  #ends(weights, seen, least, whole) {
    const [first, last] = [Math.floor((seen.y - ABOVE) / this.step), Math.ceil((seen.y + seen.height - ABOVE) / this.step)];
    /** @type {[number, number][]} */
    const found = [];
    let above = 0, below = 0;
    weights.forEach((weight, place) => {
      if (place < first) above += weight;
      else if (place >= last) below += weight;
      else if (weight >= least) found.push([weight, this.#y(place, seen)]);
    });
    this.outside += above + below;
    if (whole && above >= least) found.push([above / 4, -8]);
    if (whole && below >= least) found.push([below / 4, seen.height + 8]);
    return found;
  }

  /** How far a head's arcs lie from the middle of a line. @param {number} h */
  #shift(h) { return (h - (this.heads.length - 1) / 2) * Math.min(2.5, (this.step - 10) / this.heads.length); }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #paint(ctx, seen) {
    if (!this.axes) return;
    const { colours } = this.app, rows = this.#rowsIn(seen), weights = rows.map((row) => this.#row(row));
    this.arcs = this.outside = 0;
    this.#least = cutoff(weights.flat(), Math.max(FAINTEST, Number(this.app.state.get("least")) || 0));
    this.heads.forEach((head, h) => {
      /** @type {[number, number, number][]} */
      const arcs = [];
      rows.forEach((row, r) => {
        const y = this.#y(row, seen);
        for (const [weight, to] of this.#ends(weights[r][h], seen, this.#least, false)) arcs.push([weight, y, to]);
      });
      this.arcs += arcs.length;
      strokeArcs(ctx, arcs, this.left, this.right, colours.head(head), this.#shift(h));
    });
    this.away = rows.length && this.heads.length ? this.outside / (rows.length * this.heads.length) : 0;
    this.#labels(ctx, seen, "rows", null);
    this.#labels(ctx, seen, "columns", null);
    this.#titles(ctx, seen);
    if (this.map) this.#minimap(ctx, seen, weights);
  }

  /**
   * The names of one side; with `weights`, each head's share beside each name.
   * @param {CanvasRenderingContext2D} ctx @param {Window} seen @param {"rows" | "columns"} side @param {Float32Array[] | null} weights
   */
  #labels(ctx, seen, side, weights) {
    const { colours } = this.app, atLeft = side === "rows", names = this.names[side], tokens = this.axes[side].tokens;
    const { strip, bar } = this, x = atLeft ? this.left - strip - 8 : this.right + strip + 8;
    ctx.textBaseline = "middle";
    for (const place of span(seen.y - ABOVE, seen.height, this.step, names.length)) {
      const y = this.#y(place, seen), mean = weights ? weights.reduce((sum, row) => sum + row[place], 0) / weights.length : 0;
      ctx.font = `${mean >= 0.1 ? 600 : 400} 13px ${colours.font}`;
      ctx.fillStyle = weights && mean < 0.01 ? colours.faint : tokens[place].special ? colours.faint : colours.ink;
      text(ctx, names[place], x, y, atLeft ? "right" : "left", this.widest + 1);
      if (place && tokens[place].segment !== tokens[place - 1].segment) this.#divide(ctx, y - this.step / 2, atLeft ? 0 : this.right, atLeft ? this.left : this.right + strip + 200);
      if (!weights) continue;
      weights.slice(0, 16).forEach((row, h) => {
        ctx.globalAlpha = Math.min(1, row[place]);
        ctx.fillStyle = colours.head(this.heads[h]);
        ctx.fillRect((atLeft ? this.left - strip - 2 : this.right + 2) + bar * h, y - this.step / 2 + 2, Math.max(1, bar - 1), this.step - 4);
      });
      ctx.globalAlpha = 1;
      if (mean < 0.005 || atLeft) continue;
      const width = ctx.measureText(names[place]).width;
      ctx.font = `11px ${colours.font}`;
      ctx.fillStyle = colours.faint;
      text(ctx, mean.toFixed(2).replace(/^0/, ""), x + Math.min(width, this.widest) + 8, y, "left", 60);
    }
  }

  /** What stands at the left and at the right. @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #titles(ctx, seen) {
    const { rows, columns } = titles(this.attention), { colours } = this.app;
    ctx.fillStyle = colours.paper;
    ctx.fillRect(0, 0, seen.width - (this.map && this.map + 4), ABOVE - 4);
    ctx.font = `12px ${colours.font}`;
    ctx.fillStyle = colours.faint;
    text(ctx, rows, this.left - this.strip - 8, 9, "right", this.widest + 60);
    text(ctx, columns, this.right + this.strip + 8, 9, "left", this.widest + 60);
  }

  /** Between two texts. @param {CanvasRenderingContext2D} ctx @param {number} y @param {number} from @param {number} to */
  #divide(ctx, y, from, to) {
    ctx.fillStyle = this.app.colours.line;
    ctx.fillRect(from, Math.round(y), to - from, 1);
  }

  /**
   * Where in a long text the keys are that the rows in sight look at.
   * @param {CanvasRenderingContext2D} ctx @param {Window} seen @param {Float32Array[][]} weights
   */
  #minimap(ctx, seen, weights) {
    const { colours } = this.app, x = seen.width - MINIMAP, scale = seen.height / this.picture.height;
    ctx.fillStyle = colours.sequential[0] ? colours.of(0) : colours.paper;
    ctx.fillRect(x, 0, MINIMAP, seen.height);
    for (let column = 0; column < this.size.columns; column++) {
      let most = 0;
      for (const row of weights) for (const head of row) if (head[column] > most) most = head[column];
      ctx.fillStyle = colours.of(most);
      ctx.fillRect(x, column * this.step * scale, MINIMAP, Math.max(1, this.step * scale));
    }
    ctx.strokeStyle = colours.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(x + 1, seen.y * scale + 1, MINIMAP - 2, seen.height * scale - 2);
  }

  /** What is followed: pins and cursor. @returns {["row" | "column", number][]} */
  #followed() {
    const { app } = this, [side, place] = app.state.get("pin2").split(":");
    /** @type {["row" | "column", number][]} */
    const out = [];
    if (app.cursor) out.push([this.#side, app.cursor[this.#side]]);
    else {
      if (app.pin) out.push([app.state.get("side") === "column" ? "column" : "row", app.pin[app.state.get("side") === "column" ? "column" : "row"]]);
      if (place && Number(place) < this.size[side === "column" ? "columns" : "rows"]) out.push([side === "column" ? "column" : "row", Number(place)]);
    }
    return out;
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #marks(ctx, seen) {
    if (!this.axes) return;
    const followed = this.#followed(), { colours } = this.app;
    if (!followed.length) return;
    ctx.fillStyle = colours.paper;
    ctx.globalAlpha = 0.9;
    ctx.fillRect(this.left, 0, this.right - this.left, seen.height);
    ctx.globalAlpha = 1;
    ctx.fillRect(0, 0, this.left, seen.height);
    ctx.fillRect(this.right, 0, seen.width - this.right - this.map, seen.height);
    const sums = { row: this.heads.map(() => new Float32Array(this.size.columns)), column: this.heads.map(() => new Float32Array(this.size.rows)) };
    for (const [side, place] of followed) {
      const weights = side === "row" ? this.#row(place) : this.#column(place), least = cutoff(weights, 0.002, 300);
      this.heads.forEach((head, h) => {
        const here = this.#y(place, seen), arcs = this.#ends(weights[h], seen, least, true).map(([weight, other]) => /** @type {[number, number, number]} */ (
          side === "row" ? [weight, here, other] : [weight, other, here]));
        strokeArcs(ctx, arcs, this.left, this.right, colours.head(head), this.#shift(h));
        weights[h].forEach((weight, other) => { sums[side][h][other] = Math.max(sums[side][h][other], weight); });
      });
    }
    const sides = new Set(followed.map(([side]) => side));
    this.#labels(ctx, seen, "rows", sides.has("column") ? sums.column : null);
    this.#labels(ctx, seen, "columns", sides.has("row") ? sums.row : null);
    this.#titles(ctx, seen);
    ctx.fillStyle = colours.accent;
    for (const [side, place] of followed) ctx.fillRect(side === "row" ? this.left - 2 : this.right - 1, this.#y(place, seen) - this.step / 2 + 2, 3, this.step - 4);
  }

  /** @param {number} x @param {number} y @returns {["row" | "column", number] | null} */
  #at(x, y) {
    const place = Math.floor((y + this.picture.seen.y - ABOVE) / this.step);
    if (place >= 0 && x >= 0 && x <= this.left && place < this.size.rows) return ["row", place];
    return place >= 0 && x >= this.right && x < this.picture.seen.width - this.map && place < this.size.columns ? ["column", place] : null;
  }

  /** @param {"row" | "column"} side @param {number} place */
  #cell(side, place) {
    const other = this.#best(side === "row" ? this.#row(place) : this.#column(place));
    return side === "row" ? { row: place, column: other } : { row: other, column: place };
  }

  /** @param {Float32Array[]} weights */
  #best(weights) { return weights.length ? largest(this.#mean(weights), 1)[0] : 0; }

  /** @param {Float32Array[]} weights */
  #mean(weights) {
    const out = new Float32Array(weights[0]?.length ?? this.size.columns);
    for (const row of weights) row.forEach((weight, i) => { out[i] += weight / weights.length; });
    return out;
  }

  /** @param {number} x @param {number} y @param {PointerEvent | null} event */
  #point(x, y, event) {
    const found = event && this.axes ? this.#at(x, y) : null;
    if (found) this.#side = found[0];
    this.app.hover(found && this.#cell(...found));
    if (!found || !event) return this.app.tip.hide();
    this.app.tip.show(event, [details(this.axes[found[0] === "row" ? "rows" : "columns"].tokens[found[1]]), found[0] === "row" ? t("as a query") : t("as a key")]);
  }

  /** @param {number} x @param {number} y @param {PointerEvent} event */
  #press(x, y, event) {
    if (this.map && x >= this.picture.seen.width - MINIMAP) {
      this.picture.root.scrollTop = (y / this.picture.seen.height) * this.picture.height - this.picture.seen.height / 2;
      return;
    }
    const found = this.#at(x, y);
    if (!found) return;
    if (event.shiftKey && this.app.pin) return this.app.state.set({ pin2: this.app.state.get("pin2") === found.join(":") ? "" : found.join(":") });
    this.app.state.set({ side: found[0] === "column" ? "column" : "" });
    this.app.setPin(this.#cell(...found));
    if (!this.app.pin) this.app.state.set({ pin2: "" });
  }

  mark() { this.picture.mark(); }

  /** @param {number} row */
  reveal(row) {
    this.#side = "row";
    this.picture.reveal(0, ABOVE + row * this.step, 1, this.step, 0, ABOVE);
  }

  /** @param {number} row */
  best(row) { return this.#best(this.#row(row)); }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const query = quoted(this.axes.rows.tokens[row]), key = quoted(this.axes.columns.tokens[column]), weights = this.#row(row).map((one) => one[column]);
    const order = largest(weights, 4), mean = weights.reduce((sum, one) => sum + one / weights.length, 0), { attention } = this;
    const of = order.map((h) => /** @type {[string, string]} */ ([t("head {head}", { head: this.heads[h] }), attention.figure(weights[h])]));
    const figures = weights.length === 1 ? of : [/** @type {[string, string]} */ ([t("mean of {count}", { count: weights.length }), attention.figure(mean)]), ...of];
    return { names: [query, key], figures, text: t("query {query}, key {key}, {figures}", { query, key, figures: figures.map((pair) => pair.join(" ")).join(", ") }) };
  }

  label() {
    return t("{attention}, layer {layer}, {heads}: {rows} queries by {columns} keys", { attention: this.attention.name, layer: this.app.layer, heads: t("heads {heads}", { heads: this.heads.join(", ") }), ...this.size });
  }

  /** @returns {import("../show/legend.js").Sign[]} */
  legend() {
    const { colours } = this.app, few = this.heads.slice(0, 16);
    return [...few.map((head) => ({ colour: colours.head(head), text: t("head {head}", { head }) })), ...(few.length ? [{ mark: "━", text: t("an arc: the wider and darker, the more weight") }] : [])];
  }

  cells() {
    const { rows, columns } = this.axes;
    return {
      ...cellNames(rows.tokens, columns.tokens),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.#row(row).map((weights, h) => t("head {head}", { head: this.heads[h] }) + " " + this.attention.figure(weights[column])).join(", "),
    };
  }

  note() {
    const rest = note(this.attention, this.axes.hidden, this.share, this.app.options), cut = this.#least > FAINTEST && !Number(this.app.state.get("least"));
    const away = this.map && this.away > 0.005 ? t("{share} % of the weight of the rows in sight goes to tokens out of sight: the strip at the right shows where", { share: Math.round(100 * this.away) }) : "";
    return [away, cut ? t("the {count} strongest of the arcs in sight, weights from {least}", { count: MOST_ARCS.toLocaleString("en"), least: this.#least.toFixed(3) }) : "", rest].filter(Boolean).join("; ");
  }

  table() {
    const { rows, columns } = this.axes, only = this.app.cell?.row;
    const wanted = only === undefined ? this.#rowsIn(this.picture.seen) : [only];
    const found = wanted.flatMap((row) => this.#row(row).flatMap((weights, h) => largest(weights, 8).map((column) => ({ row, column, head: this.heads[h], weight: weights[column] }))));
    const strongest = found.sort((a, b) => b.weight - a.weight).slice(0, 50);
    return {
      caption: only === undefined ? t("The largest weights in sight") : t("What {query} attends to", { query: quoted(rows.tokens[only]) }),
      columns: [t("head"), t("query"), t("key"), t("weight")],
      rows: strongest.map(({ row, column, head, weight }) => [String(head), quoted(rows.tokens[row]), quoted(columns.tokens[column]), this.attention.figure(weight)]),
    };
  }

  /** @param {number} [row] one row alone */
  csv(row) {
    const { rows, columns } = this.axes, wanted = row === undefined ? rows.tokens.map((_, i) => i) : [row];
    return csv([["head", "", ...columns.tokens.map((token) => token.text)], ...wanted.flatMap((i) => this.#row(i).map((weights, h) => [this.heads[h], rows.tokens[i].text, ...weights]))]);
  }

  close() {
    this.picture.close();
    this.app.tip.hide();
  }
}
