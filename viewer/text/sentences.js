// The sentences of a line: where the browser parts it, but where that is known to err, after text/sentences.py.
// Python asks sentencex, which knows the abbreviations of some 300 languages; Intl.Segmenter knows none.

import { SPACES } from "./normalization.js";
import { sound } from "./utf8.js";

/** The letters of each script, and the language whose rules part a line of it. @type {[string, string, string][]} */
const SCRIPTS = [
  ["Kana", "\\u3040-\\u30ff\\uff66-\\uff9d", "ja"],
  ["Han", "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff", "zh"],
  ["Hangul", "\\u1100-\\u11ff\\u3130-\\u318f\\uac00-\\ud7a3", "ko"],
  ["Latin", "A-Za-z\\xaa\\xba\\xc0-\\u024f\\u1e00-\\u1eff", "en"],
  ["Cyrillic", "\\u0400-\\u052f", "ru"],
  ["Greek", "\\u0370-\\u03ff\\u1f00-\\u1fff", "el"],
  ["Arabic", "\\u0600-\\u06ff\\u0750-\\u077f", "ar"],
  ["Hebrew", "\\u0590-\\u05ff", "he"],
  ["Devanagari", "\\u0900-\\u097f", "hi"],
  ["Bengali", "\\u0980-\\u09ff", "bn"],
  ["Tamil", "\\u0b80-\\u0bff", "ta"],
  ["Armenian", "\\u0530-\\u058f", "hy"],
  ["Georgian", "\\u10a0-\\u10ff", "ka"],
  ["Ethiopic", "\\u1200-\\u137f", "am"],
  ["Burmese", "\\u1000-\\u109f", "my"],
  ["Thai", "\\u0e00-\\u0e7f", "th"],
];
const LETTERS = new Map(SCRIPTS.map(([name, letters]) => [name, new RegExp(`[${letters}]`, "gu")]));
const CASED = ["Latin", "Cyrillic", "Greek"];
const SEEN = 2000; // characters of a line that tell its script
const LOOKED_AT = 40; // characters before and behind a border

const S = `[${SPACES}]`, W = "\\p{L}\\p{N}_";
const MARKS = ".!?…。！？｡．։။።॥।۔؟⸮", CLOSING = `"'“”’»›）)］\\]』」】〉》`;
const BEHIND_QUOTE = new RegExp(`["'“”’»›』」》]${S}*$`, "u");
const before = (/** @type {string} */ words) => new RegExp(`(?:^|[(\\[“„«‘".${SPACES}])(?:${words})\\.${S}*$`, "u");
const TITLE = before("M|MM|Mme|Mmes|Mlle|Mlles|Mgr|Sra|Srta|Ud|Uds|Sig|Dott|Hr|डॉ|श्री|प्रो");
// What sentencex knows and the browser does not: abbreviations that other words follow, in the languages most met.
const ABBREVIATION = before(
  "Dr|Prof|Mr|Mrs|Ms|Messrs|St|Jr|Sr|Hon|Rev|Gen|Col|Capt|Lt|Sgt|vs|cf|eg|ie|al|No|Nos|pp|Vol|Fig|Inc|Ltd|Co|Corp"
  + "|Nr|Str|bzw|vgl|ca|usw|evtl|ggf|inkl|sog|Abs|Art|Bd|Hrsg|Mio|Mrd|Ing|Dipl|Fr|Jan|Feb|Mar|Mär|Apr|Jun|Jul|Aug"
  + "|Sept?|Okt|Oct|Nov|Dez|Dec|проф|акад|ул|им|гг|стр|рис|тыс|млн|млрд|λχ|\\p{L}");
const INITIAL = new RegExp(`^${S}*\\p{L}\\.${S}*$`, "u"); // the whole sentence so far is one letter
const DATE = new RegExp(`\\p{Nd}{1,4}\\.${S}?(?:\\p{Nd}{1,2}\\.${S}?)*$`, "u");
const ORDINAL = new RegExp(`(?:^|${S})\\p{Nd}{1,2}\\.${S}*$`, "u");
const MONTH = /^(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jän)/u;
const OPENED = /(?<=[。！？…][」』）]*)[「『（“‘〈《【]+$/u; // what opens behind a mark belongs to the next sentence
const NUMBER = new RegExp(`(?<=[${MARKS}]${S})\\p{Nd}{1,3}[.)]${S}+$`, "u");
const NO_WIDTH = "\\xad\\u200b-\\u200f\\u2060\\ufeff";
const ODD = new RegExp(`(?! )${S}|${S}${S}|[${NO_WIDTH}]`, "u");
// A run of spaces, or a character with the marks and Korean vowels and finals that are written onto it.
const CLUSTER = new RegExp(
  `${S}+|[^][\\u0300-\\u036f\\u0483-\\u0489\\u0591-\\u05bd\\u064b-\\u065f\\u093c\\u1160-\\u11ff\\u3099\\u309a]*`, "gu");
// What goes on with the sentence that a quotation stands in: “He said so”, he said; "…" 하고 말했다; 「…」と言った.
const QUOTED_KOREAN = new RegExp(
  `^(?:(?:하(?:고|며|면서|는|던|자|더니)|(?:이)?라(?:고|며|면서|는|던)|했다|했습니다|한다|합니다)(?![가-힣])|고(?=${S}))`, "u");
const QUOTED_JAPANESE = /^(?:と(?![てこにもきうくなりっ])|って|との|などと|なんて)/u;
const LOWERED = new RegExp(`([${MARKS}][${CLOSING}]*${S}+["'“‘„«(]*)([${W}])`, "gu");

/** @type {Map<string, Intl.Segmenter>} */
const segmenters = new Map();

/**
 * The sentences of a line with the spaces behind them: joined they are the line.
 * @param {string} text without any letter it is one sentence
 * @param {string} [language] a code of two letters, alone or in front, as in `de` and `de_DE`; else the script decides
 * @returns {string[]}
 */
export function sentences(text, language = "") {
  const { plain, places } = plainly(text);
  const code = language.split(/[_-]/)[0].toLowerCase(), script = scriptOf(plain);
  const known = /^[a-z]{2}$/.test(code) ? code : SCRIPTS.find(([name]) => name === script)?.[2];
  if (!known) return [text];
  /** @type {string[]} */
  const parts = [];
  let start = 0;
  const readable = withCapitals(plain);
  for (let border of bordersOf(known, readable)) {
    const near = Math.max(start, border - LOOKED_AT); // so that a long line takes no longer
    border -= OPENED.exec(plain.slice(near, border))?.[0].length ?? 0;
    if (CASED.includes(script) && /[0-9a-z]/.test(readable.charAt(border))) continue;
    const number = NUMBER.exec(plain.slice(near, border)); // 1. One thing. 2. Another.
    if (number) border = near + number.index;
    if (border > start && !goesOn(plain.slice(near, border), plain.slice(border, border + LOOKED_AT), script)) {
      parts.push(plain.slice(start, border));
      start = border;
    }
  }
  let end = 0, from = 0;
  return withWords([...parts, plain.slice(start)]).map((part) => {
    end += part.length;
    const found = text.slice(from, places?.[end] ?? (places ? text.length : end));
    from += found.length;
    return found;
  });
}

/**
 * The name of the script that most letters of a text are of; "" where none of them is known.
 * @param {string} text
 */
export function scriptOf(text) {
  const seen = text.slice(0, SEEN);
  const counts = new Map([...LETTERS].map(([name, letters]) => [name, seen.match(letters)?.length ?? 0]));
  if (counts.get("Kana")) { // Japanese: its Chinese characters are not Chinese
    counts.set("Kana", (counts.get("Kana") ?? 0) + (counts.get("Han") ?? 0));
    counts.delete("Han");
  }
  let most = "", count = 0;
  for (const [name, number] of counts) if (number > count) [most, count] = [name, number];
  return most;
}

/**
 * A text in composed characters, with single spaces and nothing of no width, and where each character was; null: as is.
 * @param {string} text
 */
function plainly(text) {
  if (!ODD.test(text) && text === text.normalize("NFC")) return { plain: text, places: null };
  let plain = "";
  /** @type {number[]} */
  const places = [];
  for (const cluster of text.matchAll(CLUSTER)) {
    const composed = SPACE.test(cluster[0]) ? " " : cluster[0].replace(NO_WIDTHS, "").normalize("NFC");
    plain += composed;
    for (let i = 0; i < composed.length; i++) places.push(cluster.index);
  }
  return { plain, places };
}

const SPACE = new RegExp(`^${S}`, "u"), NO_WIDTHS = new RegExp(`[${NO_WIDTH}]`, "gu");

/**
 * A text of the same length for the browser, which looks for capitals: in lower-cased text each letter that may begin a
 * sentence gets one.
 * @param {string} text
 */
function withCapitals(text) {
  text = sound(text);
  if (text !== text.toLowerCase()) return text;
  return text.replace(LOWERED, (all, before, letter) => {
    const capital = letter.toUpperCase();
    return capital.length === letter.length ? before + capital : all;
  });
}

/**
 * Where the browser parts a text.
 * @param {string} language
 * @param {string} text
 */
function bordersOf(language, text) {
  const segmenter = segmenters.get(language) ?? new Intl.Segmenter(language, { granularity: "sentence" });
  segmenters.set(language, segmenter);
  return Array.from(segmenter.segment(text), ({ index }) => index).slice(1);
}

/**
 * Whether the sentence that ends in `before` goes on behind a border.
 * @param {string} before
 * @param {string} after
 * @param {string} script
 */
function goesOn(before, after, script) {
  if (TITLE.test(before) || INITIAL.test(before) || ABBREVIATION.test(before)) return true;
  if (ORDINAL.test(before) && MONTH.test(after)) return true;
  if (["Hangul", "Kana", "Han"].includes(script) && DATE.test(before)) return true; // 2021. 5. 3.
  if (!BEHIND_QUOTE.test(before)) return false;
  if (script === "Hangul") {
    const particle = /^[가-힣]/.test(after) && !/\s$/.test(before); // it stands right behind the quotation
    return particle || QUOTED_KOREAN.test(after);
  }
  return script === "Kana" ? QUOTED_JAPANESE.test(after) : /^\p{Lowercase}/u.test(after);
}

/**
 * The parts, each with a word in it: a number (`1. `) goes with what follows, marks with what precedes.
 * @param {string[]} parts
 */
function withWords(parts) {
  /** @type {string[]} */
  const whole = [];
  let waiting = "";
  for (const part of parts) {
    if (/\p{L}/u.test(part)) {
      whole.push(waiting + part);
      waiting = "";
    } else if (whole.length && !waiting && !/\p{N}/u.test(part)) whole[whole.length - 1] += part;
    else waiting += part;
  }
  if (!whole.length) return [waiting];
  whole[whole.length - 1] += waiting;
  return whole;
}

// Kana, Chinese characters, Thai, Lao, Tibetan, Burmese, Khmer.
const WITHOUT_SPACES = new RegExp("[\\u3040-\\u30ff\\u31f0-\\u31ff\\uff66-\\uff9d\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff"
  + "\\u{20000}-\\u{3ffff}\\u0e00-\\u0eff\\u0f00-\\u0fff\\u1000-\\u109f\\u1780-\\u17ff]", "gu");

/**
 * Whether most letters of a text are of scripts that put spaces between words; so does Korean.
 * @param {string} text
 */
export function writesSpaces(text) {
  const without = text.match(WITHOUT_SPACES)?.length ?? 0;
  return without === 0 || 2 * without < (text.match(/\p{L}/gu)?.length ?? 0);
}

/**
 * What a writer puts between two sentences: a space where both are of scripts that write spaces.
 * @param {string} before
 * @param {string} after
 */
export const spaceBetween = (before, after) => (writesSpaces(before) && writesSpaces(after) ? " " : "");
