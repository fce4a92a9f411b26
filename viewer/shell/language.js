// The language of the page's own texts: English as it stands in the source, Korean by a dictionary.

import { ko } from "./ko/viewing.js";

/** @typedef {"en" | "ko"} Language */

/** @type {Record<Language, Record<string, string>>} */
const DICTIONARIES = { en: {}, ko: { ...ko } };

/** Each language, its name in itself, and how a narrow button names it. @type {[Language, string, string][]} */
export const LANGUAGES = [["en", "English", "EN"], ["ko", "한국어", "한국어"]];

/** What the reader's browser asks for. @returns {Language} */
export function preferred() {
  return navigator.languages?.map((one) => one.slice(0, 2)).find((one) => one in DICTIONARIES) === "ko" ? "ko" : "en";
}

/** @type {Language} */
let chosen = "en";

/**
 * Adds a view's own texts in Korean, by the English ones.
 * @param {Record<string, string>} korean
 */
export function learn(korean) { Object.assign(DICTIONARIES.ko, korean); }

/** @param {Language} language */
export function speak(language) {
  chosen = language in DICTIONARIES ? language : "en";
}

/** @returns {Language} */
export function spoken() { return chosen; }

/**
 * A text in the language that is chosen. The English text is its name; `{name}` in it is filled from `values`.
 * @param {string} english
 * @param {Record<string, string | number>} [values]
 */
export function t(english, values = {}) {
  const text = DICTIONARIES[chosen][english] ?? english;
  // A per cent sign never begins a line.
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole)).replaceAll(" %", "\u00a0%");
}

/** What a language is called in the page's language; empty for what is no code of one. @param {string} code */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([chosen], { type: "language", fallback: "none" }).of(code) ?? "";
  } catch {
    return "";
  }
}
