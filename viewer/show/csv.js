// Numbers as CSV (RFC 4180), with the names of their rows and columns.

/** What a spreadsheet takes for the beginning of a formula: a quotation mark before it makes it text. */
const FORMULA = /^[=+\-@\t\r]/;

/** @param {string | number | null} cell */
function written(cell) {
  if (typeof cell === "number") return String(cell);
  if (!cell) return "";
  const text = cell, safe = FORMULA.test(text) ? "'" + text : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** @param {(string | number | null)[][]} lines */
export function csv(lines) { return lines.map((line) => line.map(written).join(",")).join("\n") + "\n"; }

/**
 * A matrix with a name before each row and above each column, or one of its rows.
 * @param {{rows: string[], columns: string[], values: ArrayLike<number>, corner?: string}} matrix
 * @param {number} [row]
 */
export function matrixCsv({ rows, columns, values, corner = "" }, row) {
  const wanted = row === undefined ? rows.map((_, i) => i) : [row], M = columns.length;
  return csv([[corner, ...columns], ...wanted.map((i) => [rows[i] ?? "", ...Array.from({ length: M }, (_, j) => values[i * M + j])])]);
}
