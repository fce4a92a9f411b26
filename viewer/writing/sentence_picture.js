// What was read and what was written, shaded by how sure the model was: as a picture to be saved.

import { plain } from "../show/labels.js";
import { percent, shade } from "./words.js";

const WIDTH = 720, EDGE = 24, SIZE = 20, LINE = 52, SMALL = 34;
/** The room of the figure below a word. */
const FIGURE = 38;

/** @typedef {{text: string, words: import("./words.js").Word[]}} Said */

/**
 * A picture of lines that were read, each above what was written.
 * @param {import("../show/colours.js").Colours} colours
 * @param {string} title
 * @param {Said[]} lines
 * @returns {import("../show/picture.js").Laid}
 */
export function laidSentences(colours, title, lines) {
  const style = getComputedStyle(document.documentElement), colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const shadeOf = (/** @type {number | null} */ chance) => colour(`--sure-${shade(chance)}`), edge = colour("--edge"), on = colour("--on-sure");
  const ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  /** @type {((ctx: CanvasRenderingContext2D) => void)[]} */
  const marks = [];
  const font = `${SIZE}px ${colours.font}`;
  let y = EDGE;
  const put = (/** @type {string} */ text, /** @type {number} */ size, /** @type {string} */ ink, /** @type {number} */ x, /** @type {number} */ at, weight = "") => marks.push((ctx) => {
    ctx.font = `${weight}${size}px ${colours.font}`;
    ctx.fillStyle = ink;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.direction = "ltr";
    ctx.fillText(text, x, at);
  });
  put(title, 14, colours.faint, EDGE, y, "600 ");
  y += SMALL;
  for (const { text, words } of lines) {
    for (const line of wrapped(ruler, `16px ${colours.font}`, plain(text).split(/(?<= )/))) {
      put(line.map(([part]) => part).join(""), 16, colours.ink, EDGE, y);
      y += SMALL - 8;
    }
    y += 14;
    for (const line of wrapped(ruler, font, words.map((word, i) => (i ? word.before : "") + plain(word.text)), FIGURE)) {
      let x = EDGE;
      for (const [part, width, place] of line) {
        const { probability } = words[place], drawn = part.trimStart(), long = measured(ruler, font, drawn), from = x + measured(ruler, font, part) - long, at = y, fill = shadeOf(probability);
        if (fill) marks.push((ctx) => {
          ctx.fillStyle = fill;
          ctx.fillRect(from - 2, at - 15, long + 4, 30);
          ctx.fillStyle = edge;
          ctx.fillRect(from - 2, at + 13, long + 4, 2);
        });
        put(drawn, SIZE, fill ? on : colours.ink, from, y);
        if (probability !== null) put(percent(probability), 10, colours.faint, from, y + 23);
        x += width;
      }
      y += LINE;
    }
  }
  return { width: WIDTH, height: y, title, paint: (ctx) => { for (const mark of marks) mark(ctx); } };
}

/** @param {CanvasRenderingContext2D} ruler @param {string} font @param {string} text */
function measured(ruler, font, text) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

/**
 * Parts of a text in lines that fit: each part with its width and its number.
 * @param {CanvasRenderingContext2D} ruler
 * @param {string} font
 * @param {string[]} parts
 * @param {number} [least] the room that each takes at least
 */
function wrapped(ruler, font, parts, least = 0) {
  /** @type {[string, number, number][][]} */
  const lines = [[]];
  let used = 0;
  parts.forEach((part, place) => {
    const line = lines[lines.length - 1], width = Math.max(least, measured(ruler, font, part));
    if (line.length && used + width > WIDTH - 2 * EDGE) {
      const begun = part.trimStart();
      lines.push([[begun, (used = Math.max(least, measured(ruler, font, begun))), place]]);
      return;
    }
    line.push([part, width, place]);
    used += width;
  });
  return lines;
}
