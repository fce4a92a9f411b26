// Rows' and columns' names around a matrix.

import { direction, label } from "./labels.js";

/** Below this a row is too low for text. */
export const LEAST_CELL = 9;

/**
 * What stands where around a matrix of square cells.
 * @typedef {Object} Frame
 * @property {number} cell
 * @property {number} left
 * @property {number} top
 * @property {number} font
 * @property {boolean} upright whether columns' names stand upright
 * @property {number} overhang how far slanted names reach beyond the right edge
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {boolean} [flat] whether columns' names lie, since they fit
 * @property {Titles} [titles]
 */

/** @typedef {{rows: string, columns: string}} Titles what rows and columns are */

/** The room that an axis' title takes. */
const TITLE = 18;

/**
 * @param {CanvasRenderingContext2D} ctx to measure with
 * @param {string} family
 * @param {import("../data/trace.js").Token[]} rows
 * @param {import("../data/trace.js").Token[]} columns
 * @param {number} room the width that there is
 * @param {number} zoom a cell's size, 0 for what fits
 * @param {Titles} [titles]
 * @returns {Frame}
 */
export function frame(ctx, family, rows, columns, room, zoom, titles) {
  const names = { rows: rows.map((token) => label(token)), columns: columns.map((token) => label(token)) };
  const width = (/** @type {string[]} */ list, /** @type {number} */ font) => {
    ctx.font = `${font}px ${family}`;
    return widestOf(ctx, list);
  };
  const widest = Math.min(width(names.rows, 13), Math.max(72, 0.3 * room), 200);
  const titled = titles ? TITLE : 0, fit = (room - widest - titled - 24) / names.columns.length;
  const cell = zoom || Math.min(44, Math.max(names.columns.length > 1200 ? 1 : 2, Math.floor(fit)));
  const named = cell >= LEAST_CELL, font = Math.max(9, Math.min(13, Math.round(cell * 0.72)));
  const longest = named ? width(names.columns, font) : 0;
  const flat = named && longest <= cell - 4;
  const upright = named && !flat && cell < 18;
  const rise = flat ? font + 4 : Math.min(150, upright ? longest : longest * SLANT + font);
  return {
    cell, font, upright, ...names, flat, titles,
    left: Math.ceil((named ? Math.min(widest, width(names.rows, font)) : Math.min(widest, 90)) + 10) + titled,
    top: Math.ceil((named ? rise : 20) + 8) + titled,
    overhang: named && !upright && !flat ? Math.ceil(Math.min(150, longest * SLANT)) : 8,
  };
}

/** @type {Map<string, number>} measured once, since a long text has the same words again and again */
const widths = new Map();

/**
 * The width of the widest of the texts, in the font that is set.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string[]} texts
 */
export function widestOf(ctx, texts) {
  const font = ctx.font;
  let most = 0;
  for (const text of texts) {
    const key = font + text;
    let width = widths.get(key);
    if (width === undefined) widths.set(key, (width = ctx.measureText(text).width));
    if (width > most) most = width;
  }
  return most;
}

/** An axis' title is not cut for names that are shorter. */
const LEAST_TITLE = 110;

/**
 * The room that names take at a side, or their title.
 * @param {CanvasRenderingContext2D} ctx to measure with
 * @param {string} family
 * @param {string[]} names
 * @param {number} most that names take
 * @param {string} title
 * @param {number} [beside] how far the title may reach beyond that room
 */
export function gutter(ctx, family, names, most, title, beside = 0) {
  ctx.font = `12px ${family}`;
  const titled = Math.min(Math.ceil(widestOf(ctx, [title])), Math.max(most, LEAST_TITLE)) - beside;
  ctx.font = `13px ${family}`;
  return Math.max(titled, Math.min(most, widestOf(ctx, names)));
}

const SLANT = Math.SQRT1_2;

/**
 * Paints the names of the rows and columns that are seen, over a ground that hides what scrolls beneath.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Frame} frame
 * @param {import("./picture.js").Window} seen
 * @param {import("./colours.js").Colours} colours
 * @param {{row: number, column: number} | null} [only] this cell's names alone, marked
 * @param {string} [ink]
 */
export function paintAxes(ctx, frame, seen, colours, only = null, ink = colours.ink) {
  const { cell, left, top } = frame, named = cell >= LEAST_CELL;
  ctx.font = `${frame.font}px ${colours.font}`;
  ctx.fillStyle = ink;
  ctx.textBaseline = "middle";
  const rows = only ? [only.row] : named ? span(seen.y, seen.height - top, cell, frame.rows.length) : [];
  const columns = only ? [only.column] : named ? span(seen.x, seen.width - left, cell, frame.columns.length) : [];
  for (const i of rows) {
    const y = top + (i + 0.5) * cell - seen.y;
    if (y < top - 1 || y > seen.height) continue;
    const from = frame.titles ? TITLE : 0;
    if (only) ground(ctx, colours, from, y - frame.font * 0.75, left - from, frame.font * 1.5, ink);
    text(ctx, frame.rows[i], left - 8, y, "right", left - 10 - from);
  }
  for (const j of columns) {
    const x = left + (j + 0.5) * cell - seen.x;
    if (x < left - 1 || x > seen.width) continue;
    ctx.save();
    if (only && !named) {
      const width = Math.min(200, ctx.measureText(frame.columns[j]).width + 12);
      ctx.translate(Math.min(Math.max(left, x - width / 2), seen.width - width), 0);
      ground(ctx, colours, 0, 2, width, top - 6, ink);
      text(ctx, frame.columns[j], 6, top / 2 - 1, "left", 188);
    } else {
      ctx.translate(x, top - (frame.flat ? 10 : 6));
      if (frame.flat) text(ctx, frame.columns[j], 0, 0, "center", cell);
      else {
        ctx.rotate(frame.upright ? -Math.PI / 2 : -Math.PI / 4);
        text(ctx, frame.columns[j], frame.upright ? 0 : 2, 0, "left", frame.upright ? top - 8 - (frame.titles ? TITLE : 0) : 200);
      }
    }
    ctx.restore();
  }
  if (!named && !only) ticks(ctx, frame, seen, colours);
  if (frame.titles && !only) paintTitles(ctx, frame, frame.titles, seen, colours);
}

/** @param {CanvasRenderingContext2D} ctx @param {Frame} frame @param {Titles} titles @param {import("./picture.js").Window} seen @param {import("./colours.js").Colours} colours */
function paintTitles(ctx, { cell, left, top, rows }, titles, seen, colours) {
  ctx.font = `12px ${colours.font}`;
  ctx.fillStyle = colours.faint;
  ctx.textBaseline = "middle";
  text(ctx, titles.columns + " →", left, 8, "left", Math.max(60, seen.width - left));
  ctx.save();
  ctx.translate(8, top + Math.min(rows.length * cell, seen.height - top));
  ctx.rotate(-Math.PI / 2);
  text(ctx, "← " + titles.rows, Math.min(rows.length * cell, seen.height - top), 0, "right", Math.max(60, seen.height));
  ctx.restore();
}

/** @param {CanvasRenderingContext2D} ctx @param {import("./colours.js").Colours} colours @param {number} x @param {number} y @param {number} width @param {number} height @param {string} ink */
function ground(ctx, colours, x, y, width, height, ink) {
  ctx.fillStyle = colours.paper;
  ctx.fillRect(x, y, width, height);
  ctx.fillStyle = ink;
}

/**
 * One label, in its own direction, narrowed to `most` pixels.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} label
 * @param {number} x
 * @param {number} y
 * @param {CanvasTextAlign} align
 * @param {number} most
 */
export function text(ctx, label, x, y, align, most) {
  let shown = label;
  while (shown.length > 2 && ctx.measureText(shown).width > most) shown = [...shown.replace("…", "")].slice(0, -1).join("") + "…";
  ctx.direction = direction(shown);
  ctx.textAlign = align;
  ctx.fillText(shown, x, y);
}

/**
 * The places between two scroll positions.
 * @param {number} from
 * @param {number} length
 * @param {number} cell
 * @param {number} count
 */
export function span(from, length, cell, count) {
  const first = Math.max(0, Math.floor(from / cell)), last = Math.min(count, Math.ceil((from + length) / cell));
  return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
}

/** @param {CanvasRenderingContext2D} ctx @param {Frame} frame @param {import("./picture.js").Window} seen @param {import("./colours.js").Colours} colours */
function ticks(ctx, { cell, left, top, rows, columns }, seen, colours) {
  const step = [10, 20, 50, 100, 200, 500].find((one) => one * cell >= 50) ?? 1000;
  ctx.fillStyle = colours.faint;
  ctx.font = `11px ${colours.font}`;
  for (let i = 0; i < rows.length; i += step) {
    const y = top + (i + 0.5) * cell - seen.y;
    if (y >= top) text(ctx, String(i), left - 8, y, "right", left);
  }
  for (let j = 0; j < columns.length; j += step) {
    const x = left + (j + 0.5) * cell - seen.x;
    if (x >= left) text(ctx, String(j), x, top - 11, j ? "center" : "left", 60);
  }
}
