// A canvas as large as the window on a picture of any size: it scrolls, and only what is seen is painted.

import { el } from "../dom.js";
import { text } from "./axis.js";
import { paintLegend } from "./legend.js";

/**
 * @typedef {Object} Window what is seen of the picture, in its own pixels
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} height
 */

/**
 * @typedef {Object} Painter
 * @property {(ctx: CanvasRenderingContext2D, seen: Window) => void} paint the picture; (0, 0) is the window's corner
 * @property {(ctx: CanvasRenderingContext2D, seen: Window) => void} [mark] what follows the pointer, on a layer above
 * @property {(x: number, y: number, event: PointerEvent | null) => void} [point] the pointer is there, in the window's pixels; null event: it left
 * @property {(x: number, y: number, event: PointerEvent) => void} [press]
 * @property {() => void} [resize] there is more or less room: say the size again
 */

/** Of a saved picture: the room around it, and the height of a line of text. */
const EDGE = 16, LINE = 20;
/** More device pixels than this are not needed to read, and cost time. */
export const MOST_PIXELS = 16e6;

/**
 * @typedef {Object} Laid a picture that is to be saved, on a canvas or as SVG
 * @property {number} width
 * @property {number} height
 * @property {string} title
 * @property {(ctx: CanvasRenderingContext2D) => void} paint
 */

export class Picture {
  /**
   * @param {HTMLElement} parent
   * @param {Painter} painter
   * @param {string} label what a screen reader calls it
   */
  constructor(parent, painter, label) {
    this.painter = painter;
    this.base = el("canvas", { role: "img", "aria-label": label });
    this.above = el("canvas", { "aria-hidden": "true" });
    this.pane = el("div", { class: "pane" }, this.base, this.above);
    this.sizer = el("div", { class: "sizer" }, this.pane);
    this.root = el("div", { class: "picture", tabindex: "-1" }, this.sizer);
    parent.append(this.root);
    this.width = this.height = 1;
    this.root.addEventListener("scroll", () => this.paint(), { passive: true });
    this.pane.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.point(event));
    this.pane.addEventListener("pointerleave", () => painter.point?.(-1, -1, null));
    this.pane.addEventListener("click", (/** @type {PointerEvent} */ event) => this.press(event));
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.root);
  }

  /** The width that there is for it. */
  get room() { return this.root.clientWidth || 320; }

  /**
   * How large the whole picture is. `tallest`: how much of the height is shown at once; by default what the window has.
   * @param {number} width
   * @param {number} height
   * @param {number} [tallest]
   */
  size(width, height, tallest = Math.max(320, innerHeight - 190)) {
    this.width = Math.ceil(width);
    this.height = Math.ceil(height);
    this.sizer.style.width = this.width + "px";
    this.sizer.style.height = this.height + "px";
    const bar = this.width > this.root.clientWidth ? 16 : 0;
    this.root.style.height = Math.min(this.height + bar, tallest) + "px";
    this.fit();
  }

  fit() {
    const width = Math.max(1, Math.min(this.root.clientWidth, this.width));
    const height = Math.max(1, Math.min(this.root.clientHeight, this.height));
    const scale = Math.min(devicePixelRatio || 1, Math.sqrt(MOST_PIXELS / (width * height)));
    if (this.fitted === `${width} ${height} ${scale}`) return;
    this.fitted = `${width} ${height} ${scale}`;
    this.scale = scale;
    this.pane.style.width = width + "px";
    this.pane.style.height = height + "px";
    for (const canvas of [this.base, this.above]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
  }

  resized() {
    if (this.lastRoom !== this.room) {
      this.lastRoom = this.room;
      this.painter.resize?.();
    }
    this.fit();
    this.paint();
  }

  /** @returns {Window} */
  get seen() {
    return { x: this.root.scrollLeft, y: this.root.scrollTop, width: this.pane.clientWidth, height: this.pane.clientHeight };
  }

  paint() {
    this.on(this.base, this.painter.paint);
    this.mark();
  }

  /** Paints the layer above alone: it follows the pointer. */
  mark() {
    if (this.painter.mark) this.on(this.above, this.painter.mark);
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Painter["paint"]} paint
   */
  on(canvas, paint) {
    const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, canvas.width, canvas.height);
    ctx.setTransform(this.scale ?? 1, 0, 0, this.scale ?? 1, 0, 0);
    ctx.save();
    paint(ctx, this.seen);
    ctx.restore();
  }

  /** @param {PointerEvent} event */
  point(event) { this.painter.point?.(...this.place(event), event); }

  /** @param {PointerEvent} event */
  press(event) {
    this.point(event);
    this.painter.press?.(...this.place(event), event);
  }

  /**
   * @param {PointerEvent} event
   * @returns {[number, number]} in the window's pixels
   */
  place(event) {
    const box = this.pane.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /**
   * Scrolls as little as needed for a rectangle of the picture to be seen.
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   * @param {number} [left] what stands still at the left
   * @param {number} [top] what stands still at the top
   */
  reveal(x, y, width, height, left = 0, top = 0) {
    const { root } = this, seen = this.seen;
    if (x < seen.x + left) root.scrollLeft = x - left;
    else if (x + width > seen.x + seen.width) root.scrollLeft = x + width - seen.width;
    if (y < seen.y + top) root.scrollTop = y - top;
    else if (y + height > seen.y + seen.height) root.scrollTop = y + height - seen.height;
  }

  /**
   * All of the picture, what is out of sight included, with its marks, under some lines of text and above its legend.
   * @param {import("./colours.js").Colours} colours
   * @param {string[]} lines the first is the title
   * @param {import("./legend.js").Sign[]} signs
   * @returns {Laid}
   */
  laid(colours, lines, signs) {
    const ruler = /** @type {CanvasRenderingContext2D} */ (el("canvas").getContext("2d"));
    const width = Math.max(this.width, 420) + 2 * EDGE, head = EDGE + lines.length * LINE + 6;
    const foot = signs.length ? paintLegend(ruler, signs, colours, EDGE, 14, width - 2 * EDGE, false) : 0, height = head + this.height + foot + EDGE;
    const paint = (/** @type {CanvasRenderingContext2D} */ ctx) => {
      ctx.textBaseline = "middle";
      lines.forEach((line, i) => {
        ctx.font = `${i ? "" : "600 "}${i ? 12 : 14}px ${colours.font}`;
        ctx.fillStyle = i ? colours.faint : colours.ink;
        text(ctx, line, EDGE, EDGE + (i + 0.5) * LINE, "left", width - 2 * EDGE);
      });
      const seen = { x: 0, y: 0, width: this.width, height: this.height };
      for (const part of [this.painter.paint, this.painter.mark]) {
        if (!part) continue;
        ctx.save();
        ctx.translate(EDGE, head);
        part(ctx, seen);
        ctx.restore();
      }
      if (signs.length) paintLegend(ctx, signs, colours, EDGE, head + this.height + 14, width - 2 * EDGE, true);
    };
    return { width, height, title: lines.join(", "), paint };
  }

  close() {
    this.observer.disconnect();
    this.root.remove();
  }
}
