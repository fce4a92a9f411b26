// What the colours, bars and marks of a picture mean: as elements in the page, and painted where it is saved.

import { el, write } from "../dom.js";

/**
 * @typedef {Object} Sign
 * @property {string} text what it means
 * @property {number[][]} [ramp] colours from the least to the most
 * @property {string[]} [ends] what the least and the most are
 * @property {string} [colour] of a patch
 * @property {string} [mark] a character in its colour
 * @property {boolean} [hatched]
 */

const LONG = 120, HIGH = 10;

/** @param {Sign[]} signs @param {import("./colours.js").Colours} colours */
export function legend(signs, colours) {
  return signs.map((sign) => {
    const [low, high] = sign.ends ?? [];
    const shown = sign.mark ? write(el("b"), sign.mark) : sample(sign, colours);
    if (sign.mark && sign.colour) shown.style.color = sign.colour;
    return el("span", { class: "sign" }, write(el("span"), low ?? ""), shown, write(el("span"), high ?? ""), write(el("span", { class: "faint" }), sign.text));
  });
}

/** @param {Sign} sign @param {import("./colours.js").Colours} colours */
function sample(sign, colours) {
  const canvas = el("canvas", { width: sign.ramp ? LONG : 18, height: HIGH, "aria-hidden": "true" });
  paint(canvas.getContext("2d"), sign, colours, 0, 0);
  return canvas;
}

/** @param {CanvasRenderingContext2D} ctx @param {Sign} sign @param {import("./colours.js").Colours} colours @param {number} x @param {number} y */
function paint(ctx, sign, colours, x, y) {
  const { ramp } = sign, width = ramp ? LONG : 18;
  for (let at = 0; ramp && at < LONG; at++) {
    ctx.fillStyle = `rgb(${ramp[Math.round((at / (LONG - 1)) * (ramp.length - 1))].join(" ")})`;
    ctx.fillRect(x + at, y, 1, HIGH);
  }
  if (!ramp && sign.colour) {
    ctx.fillStyle = sign.colour;
    ctx.fillRect(x, y, width, HIGH);
  }
  ctx.strokeStyle = sign.hatched ? colours.faint : colours.line;
  for (let at = 3; sign.hatched && at < width + HIGH; at += 4) {
    ctx.beginPath();
    ctx.moveTo(x + Math.max(0, at - HIGH), y + Math.min(HIGH, at));
    ctx.lineTo(x + Math.min(at, width), y + Math.max(0, at - width));
    ctx.stroke();
  }
  ctx.strokeStyle = colours.line;
  ctx.strokeRect(x + 0.5, y + 0.5, width - 1, HIGH - 1);
}

/**
 * Paints all signs below a picture, in as many lines as they need, or only measures them.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Sign[]} signs
 * @param {import("./colours.js").Colours} colours
 * @param {number} x
 * @param {number} y the middle of the first line
 * @param {number} width
 * @param {boolean} really whether it is painted, not only measured
 * @returns {number} the middle of the line below
 */
export function paintLegend(ctx, signs, colours, x, y, width, really) {
  ctx.font = `12px ${colours.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.direction = "ltr";
  let at = x;
  for (const sign of signs) {
    const [low, high] = sign.ends ?? ["", ""], long = (/** @type {string} */ text) => (text ? ctx.measureText(text).width + 6 : 0);
    const middle = sign.mark ? long(sign.mark) : (sign.ramp ? LONG : 18) + 6, whole = long(low) + middle + long(high) + long(sign.text) + 18;
    if (at > x && at + whole > x + width) {
      at = x;
      y += 22;
    }
    if (really) {
      ctx.fillStyle = colours.ink;
      ctx.fillText(low, at, y);
      if (sign.mark) {
        ctx.fillStyle = sign.colour ?? colours.ink;
        ctx.fillText(sign.mark, at + long(low), y);
      } else paint(ctx, sign, colours, at + long(low), y - HIGH / 2);
      ctx.fillStyle = colours.ink;
      ctx.fillText(high, at + long(low) + middle, y);
      ctx.fillStyle = colours.faint;
      ctx.fillText(sign.text, at + long(low) + middle + long(high), y);
    }
    at += whole;
  }
  return y + 22;
}
