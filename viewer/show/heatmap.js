// A matrix of numbers as pixels, one a cell.

import { el } from "../dom.js";

/** How a weight becomes a place on the scale of colours. @type {Record<string, (weight: number, most: number) => number>} */
export const SCALES = {
  linear: (weight) => weight,
  sqrt: (weight) => Math.sqrt(weight),
  log: (weight) => (weight > 1e-4 ? 1 + Math.log10(weight) / 4 : 0),
  row: (weight, most) => (most > 0 ? weight / most : 0),
};

/**
 * @param {ArrayLike<number>} values (rows, columns)
 * @param {number} rows
 * @param {number} columns
 * @param {number[][]} ramp 256 [r, g, b]
 * @param {string} scale a name in SCALES
 * @returns {HTMLCanvasElement}
 */
export function heatmap(values, rows, columns, ramp, scale = "linear") {
  const canvas = el("canvas", { width: columns, height: rows });
  const ctx = canvas.getContext("2d");
  const image = ctx.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  const packed = Uint32Array.from(ramp, ([r, g, b]) => 0xff000000 | (b << 16) | (g << 8) | r);
  const of = SCALES[scale] ?? SCALES.linear;
  for (let i = 0; i < rows; i++) {
    const start = i * columns;
    let most = 0;
    if (scale === "row") for (let j = start; j < start + columns; j++) if (values[j] > most) most = values[j];
    for (let j = start; j < start + columns; j++) {
      pixels[j] = packed[Math.min(255, Math.max(0, Math.round(255 * of(values[j], most))))];
    }
  }
  ctx.putImageData(image, 0, 0);
  return canvas;
}

/**
 * A fine hatching, for what may not be attended to.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} colour
 * @param {number} scale device pixels a pixel
 */
export function hatching(ctx, colour, scale) {
  const size = Math.round(6 * scale), tile = el("canvas", { width: size, height: size });
  const on = tile.getContext("2d");
  on.strokeStyle = colour;
  on.lineWidth = Math.max(1, scale * 0.8);
  on.beginPath();
  for (const shift of [-size, 0, size]) {
    on.moveTo(shift, size);
    on.lineTo(shift + size, 0);
  }
  on.stroke();
  const pattern = /** @type {CanvasPattern} */ (ctx.createPattern(tile, "repeat"));
  pattern.setTransform(new DOMMatrix().scale(1 / scale));
  return pattern;
}
