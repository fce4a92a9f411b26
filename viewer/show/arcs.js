// Arcs between two columns of tokens: which are worth drawing, and drawing them.

/** More arcs than this nobody can tell apart. */
export const MOST_ARCS = 800;

/**
 * The least weight of the strongest arcs, at most `most` of them, from a histogram of the weights' roots.
 * @param {Float32Array[]} parts weights
 * @param {number} least none below this counts
 * @param {number} most
 */
export function cutoff(parts, least, most = MOST_ARCS) {
  const counts = new Uint32Array(1024);
  for (const weights of parts) for (let i = 0; i < weights.length; i++) counts[Math.min(1023, Math.floor(1024 * Math.sqrt(weights[i])))]++;
  let total = 0, bin = 1024;
  while (bin > 1 && total + counts[bin - 1] <= most) total += counts[--bin];
  return Math.max(least, (bin / 1024) ** 2);
}

/**
 * Strokes the arcs of one head, each by itself, which Chromium fills faster than one path of them all.
 * @param {CanvasRenderingContext2D} ctx
 * @param {[number, number, number][]} arcs weight, height at the left, height at the right
 * @param {number} left
 * @param {number} right
 * @param {string} colour
 * @param {number} [shift] how far down, so that arcs of several heads lie beside each other
 */
export function strokeArcs(ctx, arcs, left, right, colour, shift = 0) {
  const bend = (right - left) * 0.45;
  ctx.strokeStyle = colour;
  for (const [weight, from, to] of arcs) {
    ctx.globalAlpha = 0.08 + 0.85 * weight;
    ctx.lineWidth = 0.8 + 2.2 * weight;
    ctx.beginPath();
    ctx.moveTo(left, from + shift);
    ctx.bezierCurveTo(left + bend, from + shift, right - bend, to + shift, right, to + shift);
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
}
