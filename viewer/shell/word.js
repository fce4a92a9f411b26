// The word that is looked at, which all views follow: "src:3" is the fourth token of the sequence "src".

/** @typedef {import("./app.js").Cell} Cell */

/**
 * The word of a cell: the token that looks, or in a view that follows keys the one that is looked at.
 * @param {import("./app.js").App} app
 * @param {Cell} cell
 */
export function wordOf(app, cell) {
  const { axes } = app.shown, { description } = app.attention ?? {};
  if (!axes || !description) return "";
  const keys = app.shown.side === "column", axis = keys ? axes.columns : axes.rows, at = keys ? cell.column : cell.row;
  const place = axis.places ? axis.places[at]?.[0] : axis.tokens[at] && at;
  return place === undefined ? "" : `${keys ? description.keys : description.queries}:${place}`;
}

/**
 * The cell of a word in the view that is open, where it has that word: with what it looks at most.
 * @param {import("./app.js").App} app
 * @param {string} word
 * @returns {Cell | null}
 */
export function cellOf(app, word) {
  const { axes, size } = app.shown, { description } = app.attention ?? {};
  if (!word || !axes || !description || !size.rows || !size.columns) return null;
  const [sequence, number] = word.split(":"), place = Number(number);
  const row = placeIn(axes.rows, description.queries, sequence, place);
  if (row >= 0) return { row, column: app.shown.best?.(row) ?? 0 };
  const column = placeIn(axes.columns, description.keys, sequence, place);
  return column < 0 ? null : { row: app.shown.bestRow?.(column) ?? 0, column };
}

/**
 * Where an axis has a token. What a decoder reads ("tgt") is what it wrote ("out"), a place later.
 * @param {{tokens: any[], places?: number[][]}} axis
 * @param {string} of the axis' sequence
 * @param {string} sequence
 * @param {number} place
 */
function placeIn(axis, of, sequence, place) {
  const moved = of === sequence ? 0 : of === "tgt" && sequence === "out" ? 1 : of === "out" && sequence === "tgt" ? -1 : NaN;
  const wanted = place + moved;
  if (Number.isNaN(wanted)) return -1;
  return axis.places ? axis.places.findIndex((group) => group.includes(wanted)) : wanted >= 0 && wanted < axis.tokens.length ? wanted : -1;
}
