// Formulas as the paper writes them, in MathML.

// The namespace as the browser knows it, so that no address stands in the source.
const MATH = /** @type {string} */ (new DOMParser().parseFromString("<math></math>", "text/html").querySelector("math")?.namespaceURI);

/** @typedef {string | Element} Piece a string becomes a name, a number or an operator */

/**
 * @param {string} tag
 * @param {...Piece} pieces
 * @returns {Element}
 */
function node(tag, ...pieces) {
  const made = document.createElementNS(MATH, tag);
  made.append(...pieces.map(atom));
  return made;
}

/** @param {Piece} piece */
function atom(piece) {
  if (typeof piece !== "string") return piece;
  const made = document.createElementNS(MATH, /^[\d.,−]+$/.test(piece) ? "mn" : /^[\p{L}]+$/u.test(piece) ? "mi" : "mo");
  made.textContent = piece;
  return made;
}

/** @param {...Piece} pieces */
export const row = (...pieces) => node("mrow", ...pieces);
/** @param {Piece} of @param {Piece} below */
export const sub = (of, below) => node("msub", of, below);
/** @param {Piece} of @param {Piece} above */
export const sup = (of, above) => node("msup", of, above);
/** @param {Piece} of @param {Piece} below @param {Piece} above */
export const both = (of, below, above) => node("msubsup", of, below, above);
/** @param {Piece} over @param {Piece} under */
export const frac = (over, under) => node("mfrac", over, under);
/** @param {Piece} of */
export const root = (of) => node("msqrt", of);
/** A sum over an index. @param {Piece} index @param {...Piece} of */
export const sum = (index, ...of) => row(node("munder", "∑", index), ...of);
/** A word in a formula. @param {string} text */
export const words = (text) => {
  const made = document.createElementNS(MATH, "mtext");
  made.textContent = text;
  return made;
};

/**
 * A formula that stands by itself.
 * @param {...Piece} pieces
 */
export function formula(...pieces) {
  const made = node("math", row(...pieces));
  made.setAttribute("display", "block");
  return made;
}
