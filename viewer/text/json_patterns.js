// The patterns of a tokenizer.json: regular expressions as Oniguruma has them, and texts parted by them.

const WHITE = "\\p{White_Space}", WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
/** @type {Record<string, [string, string]>} what a class means inside brackets, and outside */
const CLASSES = {
  s: [WHITE, WHITE], S: ["\\P{White_Space}", "\\P{White_Space}"], d: ["\\p{Nd}", "\\p{Nd}"], D: ["\\P{Nd}", "\\P{Nd}"],
  w: [WORD, `[${WORD}]`], W: ["", `[^${WORD}]`],
};

/**
 * A pattern of a tokenizer.json, `{String: ...}` or `{Regex: ...}`. Throws Error where JavaScript cannot express it.
 * @param {any} pattern
 */
export function patternOf(pattern) {
  if (typeof pattern?.String === "string") return new RegExp(escaped(pattern.String), "gu");
  const source = pattern?.Regex;
  try {
    return new RegExp(inJavaScript(source), "gu");
  } catch {
    throw new Error(`the tokenizer cuts by the regular expression \`${source}\`, which this page does not run`);
  }
}

/**
 * A regular expression of a text itself.
 * @param {string} text
 */
export const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** @param {string} source */
function inJavaScript(source) {
  let made = "", inClass = false;
  // For each group that is open, whether it tells capitals from small letters.
  const exact = [true];
  for (let place = 0; place < source.length; place++) {
    const character = source[place], told = exact[exact.length - 1];
    if (character === "\\") {
      const next = source[++place], name = /^\{(\^?)([A-Za-z_]+)\}/.exec(source.slice(place + 1));
      if ((next === "p" || next === "P") && name) {
        place += name[0].length;
        made += `\\${(next === "P") !== (name[1] === "^") ? "P" : "p"}{${isScript(name[2]) ? "Script=" : ""}${name[2]}}`;
      } else if (CLASSES[next]) {
        if (inClass && next === "W") throw new Error(next);
        made += CLASSES[next][inClass ? 0 : 1];
      } else made += /[!"#%&',:;<=>@_`~ ]/.test(next) || (next === "-" && !inClass) ? next : `\\${next}`;
    } else if (inClass) {
      if (character === "]") inClass = false;
      if (character === "[" || (character === "&" && source[place + 1] === "&")) throw new Error("a class in a class");
      made += told ? character : bothCases(character);
    } else if (character === "[") {
      inClass = true;
      const open = /^\[\^?\]?/.exec(source.slice(place))?.[0] ?? "[";
      place += open.length - 1;
      made += open.replace("]", "\\]");
    } else if (character === "(") {
      const flag = source.startsWith("(?i:", place);
      made += flag ? "(?:" : "(";
      if (flag) place += 3;
      exact.push(told && !flag);
    } else if (character === ")") {
      exact.pop();
      made += ")";
    } else if (character === "+" && /(?:^|[^\\])(?:[+*?]|\{\d*,?\d*\})$/.test(source.slice(Math.max(0, place - 12), place))) {
      continue; // possessive: in what is published, what follows begins otherwise
    } else if (character === "^") made += "(?<![^\\n])";
    else if (character === "$") made += "(?![^\\n])";
    else made += told ? character : /[a-z]/i.test(character) ? `[${bothCases(character)}]` : character;
  }
  return made;
}

/** @param {string} name */
const isScript = (name) => !/^(?:[A-Z][a-z]?|Letter|Number|Mark|Punctuation|Symbol|Separator|Other|Alphabetic)$/.test(name);

/** @param {string} letter */
const bothCases = (letter) => (/[a-z]/i.test(letter) ? letter.toLowerCase() + letter.toUpperCase() : letter);

/**
 * The parts of a text, each with whether the pattern matches it; together they are the text.
 * @param {string} text
 * @param {RegExp} pattern
 * @returns {[string, boolean][]}
 */
function parted(text, pattern) {
  /** @type {[string, boolean][]} */
  const parts = [];
  let start = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > start) parts.push([text.slice(start, match.index), false]);
    if (match[0]) parts.push([match[0], true]);
    start = match.index + match[0].length;
  }
  if (start < text.length) parts.push([text.slice(start), false]);
  return parts;
}

/**
 * A text split as the library `tokenizers` does it.
 * @param {string} text
 * @param {RegExp} pattern
 * @param {string} behavior what becomes of the matches: Removed, Isolated, Contiguous, MergedWithPrevious, MergedWithNext
 * @param {boolean} [invert] what lies between the matches counts as matched
 * @returns {string[]}
 */
export function split(text, pattern, behavior, invert = false) {
  const parts = parted(text, pattern).map(([part, matched]) => /** @type {[string, boolean]} */ ([part, matched !== invert]));
  if (behavior === "Isolated") return parts.map(([part]) => part);
  if (behavior === "Removed") return parts.flatMap(([part, matched]) => (matched ? [] : part));
  /** @type {string[]} */
  const found = [];
  const backwards = behavior === "MergedWithNext";
  let before = /** @type {boolean | null} */ (null);
  for (const [part, matched] of backwards ? parts.reverse() : parts) {
    const joins = behavior === "Contiguous" ? matched === before : matched && before === false;
    if (joins) found[found.length - 1] = backwards ? part + found[found.length - 1] : found[found.length - 1] + part;
    else found.push(part);
    before = matched;
  }
  return backwards ? found.reverse() : found;
}
