// For a moment: a line is one segment; replaced by the module of the same name.

/** @param {string[]} lines @param {any} tokenizer @param {number} limit @param {any} text */
export function segmentsOf(lines, tokenizer, limit, text) {
  return lines.map((line) => (line.trim() ? [{ source: line, pieces: [tokenizer.encode(line).slice(0, limit)], behind: "" }] : []));
}

/** @param {string[]} texts @param {any[]} segments */
export function joined(texts, segments) { return segments.length < 2 ? texts[0] : texts.join(" "); }

/** @param {number[][]} ranks @param {number} count */
export function rankedTogether(ranks, count) { return Array.from({ length: count }, (_, i) => ranks.map((one) => Math.min(i, one.length - 1))); }
