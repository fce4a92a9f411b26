// The sentences of a line: where the browser parts it, but where that is known to err, after text/sentences.py.
// Python asks sentencex, which knows the abbreviations of some 300 languages; Intl.Segmenter knows none.

import { SPACES } from "./normalization.js";
import { ABBREVIATIONS, AND_SO_ON, BEGINNINGS, LINKS, NO_ORDINALS, SINGLE } from "./sentence_words.js";
import { sound } from "./utf8.js";

/** The letters of each script, and the language whose rules part a line of it. @type {[string, string, string][]} */
const SCRIPTS = [
  ["Kana", "\\u3040-\\u30ff\\uff66-\\uff9d", "ja"],
  ["Han", "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff", "zh"],
  ["Hangul", "\\u1100-\\u11ff\\u3130-\\u318f\\uac00-\\ud7a3", "ko"],
  ["Latin", "A-Za-z\\xaa\\xba\\xc0-\\u024f\\u1e00-\\u1eff", "en"],
  ["Cyrillic", "\\u0400-\\u052f", "ru"],
  ["Greek", "\\u0370-\\u03ff\\u1f00-\\u1fff", "el"],
  ["Arabic", "\\u0620-\\u06d3\\u06d5-\\u06ef\\u06fa-\\u06ff\\u0750-\\u077f", "ar"],
  ["Hebrew", "\\u0590-\\u05ff", "he"],
  ["Devanagari", "\\u0900-\\u0963\\u0970-\\u097f", "hi"],
  ["Bengali", "\\u0980-\\u09ff", "bn"],
  ["Gurmukhi", "\\u0a00-\\u0a7f", "pa"],
  ["Gujarati", "\\u0a80-\\u0aff", "gu"],
  ["Oriya", "\\u0b00-\\u0b7f", "or"],
  ["Tamil", "\\u0b80-\\u0bff", "ta"],
  ["Telugu", "\\u0c00-\\u0c7f", "te"],
  ["Kannada", "\\u0c80-\\u0cff", "kn"],
  ["Malayalam", "\\u0d00-\\u0d7f", "ml"],
  ["Sinhala", "\\u0d80-\\u0dff", "si"],
  ["Armenian", "\\u0530-\\u0588", "hy"],
  ["Georgian", "\\u10a0-\\u10ff", "ka"],
  ["Ethiopic", "\\u1200-\\u135f", "am"],
  ["Burmese", "\\u1000-\\u1049\\u1050-\\u109f", "my"],
  ["Khmer", "\\u1780-\\u17d3\\u17d7-\\u17ff", "km"],
  ["Lao", "\\u0e80-\\u0eff", "lo"],
  ["Thai", "\\u0e00-\\u0e7f", "th"],
];
const LETTERS = new Map(SCRIPTS.map(([name, letters]) => [name, new RegExp(`[${letters}]`, "gu")]));
const CASED = ["Latin", "Cyrillic", "Greek"];
const SEEN = 2000; // characters of a line that tell its script
const LOOKED_AT = 40; // characters before and behind a border

const S = `[${SPACES}]`, W = "\\p{L}\\p{N}_";
const MARKS = ".!?…。！？｡．։။።፧॥।។៕۔؟⸮", CLOSING = `"'“”’»›）)］\\]』」】〉》`;
const BEHIND_QUOTE = new RegExp(`["'“”’»›』」》]${S}*$`, "u");
const before = (/** @type {string} */ words) => new RegExp(`(?:^|[(\\[“„«‘".${SPACES}])(?:${words})\\.${S}*$`, "u");
const TITLE = before(
  "M|MM|Mme|Mmes|Mlle|Mlles|Mgr|Sra|Srta|Ud|Uds|Sig|Dott|Hr|डॉ|श्री|प्रो|ডা|ড|ਡਾ|ડૉ|ડો|డా|శ్రీ|ಡಾ|ഡോ");
// What sentencex knows and the browser does not: abbreviations that other words follow, in the languages most met.
const ABBREVIATION = before(
  "Dr|Prof|Mr|Mrs|Ms|Messrs|St|Jr|Sr|Hon|Rev|Gen|Col|Capt|Lt|Sgt|vs|cf|eg|ie|al|No|Nos|pp|Vol|Fig|Inc|Ltd|Co|Corp"
  + "|Nr|Str|bzw|vgl|ca|usw|evtl|ggf|inkl|sog|Abs|Art|Bd|Hrsg|Mio|Mrd|Ing|Dipl|Fr|Jan|Feb|Mar|Mär|Apr|Jun|Jul|Aug"
  + "|Sept?|Okt|Oct|Nov|Dez|Dec|проф|акад|ул|им|гг|стр|рис|тыс|млн|млрд|λχ|[\\p{Ll}\\p{Lu}]");
const INITIAL = new RegExp(`^${S}*\\p{L}\\.${S}*$`, "u"); // the whole sentence so far is one letter
// Not so where a character is a syllable (네. 好.), except those by which lines are numbered.
const ONE_SYLLABLE = new RegExp(`^${S}*(?![가나다라마바사차카타파一二三四五六七八九十甲乙丙丁アイウエオカキクケコロハニ])`
  + `[\\u3041-\\u30ff\\u3400-\\u9fff가-힣]\\.${S}*$`, "u");
const LONE_LETTER = new RegExp(`(?:^|${S})\\p{L}\\.${S}*$`, "u"); // scripts without capitals: an abbreviation
const LONE_NUMBER = new RegExp(`(?:^|${S})\\p{Nd}{1,2}\\.${S}*$`, "u");
const NO_END = new RegExp(`[\\u104a\\u104f]${S}*$`, "u"); // Burmese: a comma and the genitive
const CJK_END = new RegExp(`[。！？｡．][${CLOSING}]*${S}*$`, "u");
const ENDED = new RegExp(`(?:[${MARKS}]|፡፡)[${CLOSING}${SPACES}]*$`, "u");
const PLACEHOLDER = new RegExp(`(?:[\\])>}]|%[sd]|(?:(?![a-zß-ÿ])\\p{L}){2,})${S}?(?:\\.{2,}|…)${S}*$`, "u"); // [OPTION]...
const MARK_ALONE = new RegExp(`(?:^|["'\`„“«‘「(${SPACES}])[.!?…]+["'”“»’」]${S}*$`, "u"); // `git add .' is a command
const UNKNOWN = new RegExp(`\\?{3,}${S}*$`, "u");
// The word before a full stop, and the word behind a border.
const STOPPED = new RegExp(`(?:^|(?<=${S}))[(\\["'“„«‘#]*((?:(?!${S}).)+)\\.${S}*$`, "u");
const NEXT = new RegExp(`^["'“„«‘(\\[¿¡]*(\\p{L}+)(?!\\p{L}|\\.)(?:${S}+((?:(?!${S}).)+))?`, "u");
const CONSONANTS = "bcdfghjklmnpqrstvwxzçćčďđğłńňñřśşšșťţțźžżßбвгджзйклмнпрстфхцчшщβγδζθκλμνξπρστφχψ";
const WITHOUT_VOWEL = new RegExp(`^[${CONSONANTS}${CONSONANTS.toUpperCase()}][${CONSONANTS}]{0,4}$`, "u");
const SYLLABIC_R = new RegExp(`[${CONSONANTS}][rlwрл][${CONSONANTS}]`, "iu"); // Czech smrt and vlk, Welsh cwm
const SHORTENED = /^(?:(?![a-z])\p{L}[\p{L}\p{N}_]+(?:str|pl)|(?:\p{L}{1,5}\.-)+\p{L}{1,6}|(?:\p{L}\.)+\p{L}{1,3})$/u;
const CHAIN = new RegExp(`\\p{L}\\.${S}\\p{L}+\\.${S}*$`, "u"); // Dr. med.
const NUMERAL = /^(?:\p{Nd}{1,3}|[IVXLC]{2,}|%(?:\d+\$)?l{0,2}[dui]|(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2]))$/u;
const YEAR_OR_TEXT = /^(?:\p{Nd}{4}|%(?:\d+\$)?s)$/u;
const LOWERED_ABBREVIATIONS = new Set([...ABBREVIATIONS].map((word) => word.toLowerCase()));
const BEHIND_CJK = new RegExp(`([。！？｡]${S}*)[a-z0-9%$]`, "gu");
const SYLLABIC = ["Hangul", "Kana", "Han"]; // one character may be a sentence
const DATE = new RegExp(`\\p{Nd}{1,4}\\.${S}?(?:\\p{Nd}{1,2}\\.${S}?)*$`, "u");
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
  if (!/\p{L}/u.test(plain)) return [text];
  const known = /^[a-z]{2}$/.test(code) ? code : SCRIPTS.find(([name]) => name === script)?.[2] ?? "en";
  /** @type {string[]} */
  const parts = [];
  let start = 0;
  const readable = withCapitals(plain), lowered = plain === plain.toLowerCase();
  for (let border of bordersOf(known, readable)) {
    const near = Math.max(start, border - LOOKED_AT); // so that a long line takes no longer
    border -= OPENED.exec(plain.slice(near, border))?.[0].length ?? 0;
    if (CASED.includes(script) && /[0-9a-z]/.test(readable.charAt(border))) continue;
    const number = NUMBER.exec(plain.slice(near, border)); // 1. One thing. 2. Another.
    for (const place of number ? [near + number.index, border] : [border]) {
      const behind = plain.slice(place, place + LOOKED_AT);
      if (place > start && !goesOn(plain.slice(near, place), behind, script, lowered, code)) {
        parts.push(plain.slice(start, place));
        start = place;
        break;
      }
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
  text = sound(text).replace(BEHIND_CJK, "$1A").replace(/፡፡/gu, "፡።"); // the older way to type the Ethiopic full stop
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
 * @param {boolean} lowered whether the line has no capital
 * @param {string} language
 */
function goesOn(before, after, script, lowered, language) {
  if ([TITLE, ABBREVIATION, NO_END, PLACEHOLDER, MARK_ALONE].some((pattern) => pattern.test(before))) return true;
  if (isSingle(before, script)) return true;
  if (CASED.includes(script)) {
    const small = /^\p{Ll}(?!\))/u.test(after); // a) is a number, and a Latin word may begin a Japanese sentence
    if (small && !lowered && !CJK_END.test(before)) return true;
    if (isInside(before, after, lowered, language)) return true;
  } else if (SYLLABIC.includes(script)) {
    if (DATE.test(before)) return true; // 2021. 5. 3.
  } else if (LONE_NUMBER.test(before) || (script === "Thai" && STOPPED.test(before))) {
    return true; // Thai writes no full stop but behind abbreviations
  } else if (!script && !ENDED.test(before)) return true;
  if (!BEHIND_QUOTE.test(before)) return false;
  if (script === "Hangul") {
    const particle = /^[가-힣]/.test(after) && !/\s$/.test(before); // it stands right behind the quotation
    return particle || QUOTED_KOREAN.test(after);
  }
  return script === "Kana" ? QUOTED_JAPANESE.test(after) : /^\p{Lowercase}/u.test(after);
}

/**
 * Whether a text ends in a single letter that is an initial, an abbreviation or the number of a line.
 * @param {string} before
 * @param {string} script
 */
function isSingle(before, script) {
  if (CASED.includes(script) || SYLLABIC.includes(script)) return INITIAL.test(before) && !ONE_SYLLABLE.test(before);
  return LONE_LETTER.test(before);
}

/**
 * Whether a full stop belongs to an ordinal number or an abbreviation, or may: then what follows decides.
 * @param {string} before
 * @param {string} after
 * @param {boolean} lowered
 * @param {string} language
 */
function isInside(before, after, lowered, language) {
  if (lowered && UNKNOWN.test(before)) return true;
  const word = STOPPED.exec(before)?.[1];
  if (word === undefined) return false;
  if (/^(?:[ºª°]|J\.-)/.test(after)) return /[\p{L}\p{N}]$/u.test(word); // 1.º, av. J.-C.
  if (/^\p{Nd}/u.test(after) && /^(?:\p{L}|no)$/iu.test(word)) return true; // z. B. 20, No. 5
  const ordinal = !NO_ORDINALS.has(language) && (NUMERAL.test(word) || (lowered && YEAR_OR_TEXT.test(word)));
  return (ordinal || mayBeAbbreviation(word, before, lowered)) && !beginsSentence(after, lowered);
}

/**
 * @param {string} word
 * @param {string} before
 * @param {boolean} lowered
 */
function mayBeAbbreviation(word, before, lowered) {
  if (ABBREVIATIONS.has(word) || (lowered && LOWERED_ABBREVIATIONS.has(word)) || SHORTENED.test(word)) return true;
  if (/^\p{Ll}{1,4}$/u.test(word) && CHAIN.test(before)) return true;
  return WITHOUT_VOWEL.test(word) && !SYLLABIC_R.test(word) && !AND_SO_ON.has(word.toLowerCase())
    && (word.length < 3 || word.at(-1) !== word.at(-2)); // Hmm, psst
}

/**
 * Whether a text begins with a word that only sentences begin with.
 * @param {string} after
 * @param {boolean} lowered
 */
function beginsSentence(after, lowered) {
  const [, word, following = ""] = NEXT.exec(after) ?? [];
  if (word === undefined) return false;
  if (lowered) return BEGINNINGS.has(word);
  if (word.length === 1) return SINGLE.has(word) && /^\p{Ll}/u.test(following);
  const small = word.toLowerCase();
  return BEGINNINGS.has(small) || LINKS.has(small) || (word.endsWith("en") && following === "Sie"); // Beachten Sie
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
