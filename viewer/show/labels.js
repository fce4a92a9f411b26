// Tokens as labels: nothing that cannot be seen, nothing that reorders its neighbours, nothing too long.

const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
/** More marks than this on one letter are not shown: they would cover what stands above and below. */
const STACKED = /(\p{M}{6})\p{M}+/gu;
const SPACES = /[\u0020\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/g;
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/**
 * The text with what cannot be seen written out: "↵" and "⇥", "␣" for spaces, "⟨202E⟩" for other controls.
 * @param {string} text
 */
export function visible(text) {
  return text
    .replace(CONTROLS, (c) => (c === "\n" ? "↵" : c === "\t" ? "⇥" : "⟨" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩"))
    .replace(SPACES, "␣")
    .replace(STACKED, "$1…");
}

/** The same for running text, in which a space is a space. @param {string} text */
export const plain = (text) => visible(text).replaceAll("␣", " ");

/** A word by itself, without the space around it. @param {string} text @param {number} [most] */
export const bare = (text, most = 20) => shorten(plain(text.trim() || text) || "∅", most);

/**
 * At most `most` characters as a reader counts them, "…" for the rest.
 * @param {string} text
 * @param {number} most
 */
export function shorten(text, most) {
  if (text.length <= most) return text;
  const parts = [...graphemes.segment(text.slice(0, 40 * most))].map((part) => part.segment);
  return parts.length <= most && text.length <= 40 * most ? text : parts.slice(0, most - 1).join("") + "…";
}

/**
 * A token as an axis shows it. "·" begins a piece that continues the word before it; a space before a word is not
 * shown, since that is what every other piece has.
 * @param {import("../data/trace.js").Token} token
 * @param {number} [most]
 */
export function label(token, most = 24) {
  if (token.plain) return shorten(token.text, most);
  const text = token.text.slice(0, 40 * most);
  const trimmed = text.trimStart();
  const shown = visible(trimmed === "" || token.special ? text : trimmed.replace(/^/, text.startsWith("\n") ? "\n" : ""));
  return shorten((token.continues ? "·" : "") + (shown || "∅"), most);
}

/**
 * A token in a sentence that is read out or copied.
 * @param {import("../data/trace.js").Token} token
 */
export function quoted(token) {
  return `“${shorten(visible(token.text.trim() || token.text), 40) || "∅"}”`;
}

/**
 * All there is to know of a token, for a tooltip.
 * @param {import("../data/trace.js").Token} token
 */
export function details(token) {
  const parts = [quoted(token)];
  if (token.piece !== token.text) parts.push("piece " + shorten(visible(token.piece), 40));
  if (token.id !== null) parts.push("id " + token.id);
  return parts.join(" · ");
}

const RIGHT_TO_LEFT = /^[^A-Za-z\u00c0-\u024f\u0370-\u052f\u3040-\u9fff\uac00-\ud7af]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/**
 * The direction in which a label runs by itself.
 * @param {string} text
 * @returns {"rtl" | "ltr"}
 */
export function direction(text) {
  return RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr";
}

/**
 * An error as people read it: its largest digit, rounded up.
 * @param {number} error
 */
export function bound(error) {
  if (error <= 0) return "0";
  const unit = 10 ** Math.floor(Math.log10(error)), digit = Math.ceil(error / unit - 1e-9);
  return Number((digit * unit).toPrecision(1)).toString().replace("e-", "e−");
}

/**
 * A weight as people read it: four digits after the point, and never "0.0000" for what is not zero.
 * @param {number} value
 * @param {number} [digits]
 */
export function figure(value, digits = 4) {
  if (!Number.isFinite(value)) return value === -Infinity ? "−∞" : String(value);
  const small = value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits;
  return (small ? value.toExponential(1) : value.toFixed(digits)).replaceAll("-", "−");
}
