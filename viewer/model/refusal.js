// What is wrong with a model or its input, in a sentence that a page can show in its own language.

/** A text and the values in it, `{name}` by name: `t(error.text, error.values)` says it in the page's language. */
export class Refusal extends Error {
  /**
   * @param {string} text
   * @param {Record<string, string | number>} [values]
   */
  constructor(text, values = {}) {
    super(text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole)));
    this.name = "Refusal";
    this.text = text;
    this.values = values;
  }
}

/**
 * Something of somebody else's, short enough for a sentence.
 * @param {unknown} found
 */
export function shown(found) {
  const text = typeof found === "string" ? found : JSON.stringify(found) ?? String(found);
  return text.length > 80 ? text.slice(0, 79) + "…" : text;
}
