"""Splits a line into sentences: with sentencex, corrected where it is known to err.

sentencex (Wikimedia, offline) has the punctuation and abbreviations of some 300 languages. The language of a line is
seldom known here, but its script always is: all languages that share the script must agree on a boundary.
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from sentencex import segment

from pellucid.text.normalization import compose, is_composed
from pellucid.text.sentence_words import ABBREVIATIONS, AND_SO_ON, BEGINNINGS, LINKS, NO_ORDINALS, SINGLE

SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Kana": ("\u3040-\u30ff\uff66-\uff9d", ("ja",)),
    "Han": ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff", ("zh",)),
    "Hangul": ("\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3", ("ko",)),
    "Latin": ("A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff", ("en", "de", "fr", "pt", "pl")),
    "Cyrillic": ("\u0400-\u052f", ("ru", "uk", "bg")),
    "Greek": ("\u0370-\u03ff\u1f00-\u1fff", ("el",)),
    "Arabic": ("\u0620-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f", ("ar", "fa", "ur")),
    "Hebrew": ("\u0590-\u05ff", ("he",)),
    "Devanagari": ("\u0900-\u0963\u0970-\u097f", ("hi", "mr")),
    "Bengali": ("\u0980-\u09ff", ("bn",)),
    "Gurmukhi": ("\u0a00-\u0a7f", ("pa",)),
    "Gujarati": ("\u0a80-\u0aff", ("gu",)),
    "Oriya": ("\u0b00-\u0b7f", ("or",)),
    "Tamil": ("\u0b80-\u0bff", ("ta",)),
    "Telugu": ("\u0c00-\u0c7f", ("te",)),
    "Kannada": ("\u0c80-\u0cff", ("kn",)),
    "Malayalam": ("\u0d00-\u0d7f", ("ml",)),
    "Sinhala": ("\u0d80-\u0dff", ("si",)),
    "Armenian": ("\u0530-\u0588", ("hy",)),
    "Georgian": ("\u10a0-\u10ff", ("ka",)),
    "Ethiopic": ("\u1200-\u135f", ("am",)),
    "Burmese": ("\u1000-\u1049\u1050-\u109f", ("my",)),
    "Khmer": ("\u1780-\u17d3\u17d7-\u17ff", ("km",)),
    "Lao": ("\u0e80-\u0eff", ("lo",)),
    "Thai": ("\u0e00-\u0e7f", ("th",)),
}
"""The letters of each script, and the languages whose rules have to agree on the sentence boundaries of a line."""
_SEEN = 2000  # characters of a line that determine its script
_LETTERS = {name: re.compile(f"[{letters}]") for name, (letters, _) in SCRIPTS.items()}

_MARKS = ".!?…。！？｡．։။።॥।۔؟⸮"
_CLOSING = "\"'“”’»›）)］\\]』」】〉》"
_ENDED = re.compile(rf"(?:[{_MARKS}]|፡፡)[{_CLOSING}\s]*$")
_BEHIND_QUOTE = re.compile(r"[\"'“”’»›』」》]\s*$")
_TITLE = re.compile(
    r"(?:^|[\s(\[\"“„«‘])(?:M|MM|Mme|Mmes|Mlle|Mlles|Mgr|Sra|Srta|Ud|Uds|Sig|Dott|Hr"
    r"|डॉ|श्री|प्रो|ডা|ড|ਡਾ|ડૉ|ડો|డా|శ్రీ|ಡಾ|ഡോ)\.\s*$"
)
_INITIAL = re.compile(r"^\s*[^\W\d_]\.\s*$")  # the whole sentence so far is one letter
# Excludes scripts in which a character is a syllable (네. 好.), except characters that number lines.
_ONE_SYLLABLE = re.compile(
    r"^\s*(?![가나다라마바사차카타파一二三四五六七八九十甲乙丙丁アイウエオカキクケコロハニ])[\u3041-\u30ff\u3400-\u9fff가-힣]\.\s*$"
)
_LONE_LETTER = re.compile(r"(?:^|\s)[^\W\d_]\.\s*$")  # scripts without capitals: an abbreviation
_LONE_NUMBER = re.compile(r"(?:^|\s)\d{1,2}\.\s*$")
_CASED = ("Latin", "Cyrillic", "Greek")
_SYLLABIC = ("Hangul", "Kana", "Han")  # one character may be a sentence
_NO_END = re.compile(r"[\u104a\u104f]\s*$")  # Burmese: a comma and the genitive, after which sentencex splits
# Characters that sentencex takes for the middle of a sentence although a sentence-final mark precedes them.
_BEHIND_CJK = re.compile(r"([。！？｡]\s*)[a-z0-9%$]")
_CJK_END = re.compile(rf"[。！？｡．][{_CLOSING}]*\s*$")
# Usage: cp [OPTION]... SOURCE... TARGET
_PLACEHOLDER = re.compile(r"(?:[\])>}]|%[sd]|[^\W\d_a-zß-ÿ]{2,})\s?(?:\.{2,}|…)\s*$")
_MARK_ALONE = re.compile(r"(?:^|[\s\"'`„“«‘「(])[.!?…]+[\"'”“»’」]\s*$")  # `git add .' is a command
_NEVER_ENDS = (_TITLE, _NO_END, _PLACEHOLDER, _MARK_ALONE)
# Replacements for marks that sentencex lacks: Khmer, and the older way to type the Ethiopic full stop.
_KNOWN_MARKS = (("\u17d4", "\u0964"), ("\u1361\u1361", "\u1361\u1362"))

# The word before a full stop, and the word after a boundary.
_STOPPED = re.compile(r"(?:^|(?<=\s))[(\[\"'“„«‘#]*(\S+)\.\s*$")
_NEXT = re.compile(r"[\"'“„«‘(\[¿¡]*([^\W\d_]+)(?![^\W\d_]|\.)(?:\s+(\S+))?")
_CONSONANTS = "bcdfghjklmnpqrstvwxzçćčďđğłńňñřśşšșťţțźžżßбвгджзйклмнпрстфхцчшщβγδζθκλμνξπρστφχψ"
_WITHOUT_VOWEL = re.compile(f"[{_CONSONANTS}{_CONSONANTS.upper()}][{_CONSONANTS}]{{0,4}}")
_SYLLABIC_R = re.compile(f"[{_CONSONANTS}][rlwрл][{_CONSONANTS}]", re.IGNORECASE)  # Czech smrt and vlk, Welsh cwm
_SHORTENED = re.compile(
    r"[^\W\d_a-z]\w+(?:str|pl)"  # Goethestr., Marienpl.
    r"|(?:[^\W\d_]{1,5}\.-)+[^\W\d_]{1,6}"  # Dipl.-Ing., J.-C.
    r"|(?:[^\W\d_]\.)+[^\W\d_]{1,3}"  # u.a., e.V.
)
_LOWERED_ABBREVIATIONS = frozenset(word.lower() for word in ABBREVIATIONS)
_CHAIN = re.compile(r"[^\W\d_]\.\s[^\W\d_]+\.\s*$")
_NUMERAL = re.compile(r"\d{1,3}|[IVXLC]{2,}|%(?:\d+\$)?l{0,2}[dui]|(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])")
_YEAR_OR_TEXT = re.compile(r"\d{4}|%(?:\d+\$)?s")
_UNKNOWN = re.compile(r"\?{3,}\s*$")
_DATE = re.compile(r"\d{1,4}\.\s?(?:\d{1,2}\.\s?)*$")
_NUMBER = re.compile(rf"(?<=[{_MARKS}]\s)\d{{1,3}}[.)]\s+$")
# Matches a line without a mark after which a sentence could begin. The quantifiers are possessive: backtracking over n
# spaces would take time quadratic in n.
_UNPARTED = re.compile(r"[\w ,'’-]*+\W?+ *+")
_LOOKED_AT = 40  # characters before and after a boundary
_NO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_ODD = re.compile(f"[^\\S ]|\\s\\s|{_NO_WIDTH.pattern}")
# A run of spaces, or a character with the marks and Korean vowels and finals that combine with it.
_CLUSTER = re.compile(
    r"\s+|.(?:(?![\s])[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u093c\u1160-\u11ff\u3099\u309a])*", re.S
)
# Continuations of the sentence that contains a quotation: “He said so”, he said; "…" 하고 말했다; 「…」と言った.
_QUOTED_KOREAN = re.compile(
    r"(?:하(?:고|며|면서|는|던|자|더니)|(?:이)?라(?:고|며|면서|는|던)|했다|했습니다|한다|합니다)(?![가-힣])|고(?=\s)"
)
_QUOTED_JAPANESE = re.compile(r"と(?![てこにもきうくなりっ])|って|との|などと|なんて")
_LOWERED = re.compile(rf"([{_MARKS}][{_CLOSING}]*\s+[\"'“‘„«(]*)(\w)")


def split_sentences(text: str, language: str = "") -> list[str]:
    """Returns the sentences of a line, each with its trailing spaces: concatenated they equal the line.

    Args:
        text: one line; a line without letters is one sentence.
        language: a two-letter code, alone or as the prefix of a longer code, as in `de` and `de_DE`. Any other code is
            ignored, and the script of the text decides.
    """
    if _UNPARTED.fullmatch(text):
        return [text]
    plain, places = _plain(text)
    code = re.split(r"[_-]", language)[0].lower()
    script = detect_main_script(plain)
    if not script and not any(map(str.isalpha, plain)):
        return [text]
    languages = (code,) if len(code) == 2 else SCRIPTS[script][1] if script else ("en",)
    readable = _capitalise(plain)
    lowered = plain == plain.lower()
    borders = set.intersection(*(_borders(code, readable) for code in languages))
    parts, start = [], 0
    for border in sorted(borders):
        near = max(start, border - _LOOKED_AT)  # bounds the time for a long line without an end
        number = _NUMBER.search(plain, near, border)  # 1. One thing. 2. Another.
        for place in ([number.start()] if number else []) + [border]:
            following = plain[place : place + _LOOKED_AT]
            if place > start and not _goes_on(plain[near:place], following, script, lowered, code):
                parts.append(plain[start:place])
                start = place
                break
    whole = _merge_wordless([*parts, plain[start:]])
    ends = [places[end] for end in accumulate(map(len, whole))]
    return [text[start:end] for start, end in pairwise([0, *ends])]


def detect_main_script(text: str) -> str:
    """Returns the name of the script of most letters in a text, or "" if no letter belongs to SCRIPTS."""
    seen = text[:_SEEN]
    counts = {name: len(letters.findall(seen)) for name, letters in _LETTERS.items()}
    if counts["Kana"]:  # Japanese: its Chinese characters are not Chinese
        counts["Kana"] += counts.pop("Han")
    most = max(counts, key=lambda name: counts[name])
    return most if counts[most] else ""


def ends_as_sentence(text: str) -> bool:
    """Returns True if a text ends in sentence-final punctuation, inside closing quotes or not."""
    return _ENDED.search(text) is not None


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """Returns the text composed, with single spaces and no zero-width characters, and each character's original index.

    Thus other spellings of the same text are split at the same places. The last index is the end of the text.
    """
    if not _ODD.search(text) and is_composed(text):
        return text, range(len(text) + 1)
    plain, places = [], []
    for cluster in _CLUSTER.finditer(text):
        composed = " " if cluster[0].isspace() else compose(_NO_WIDTH.sub("", cluster[0]))
        plain.append(composed)
        places += [cluster.start()] * len(composed)
    return "".join(plain), [*places, len(text)]


def _capitalise(text: str) -> str:
    """Returns a text of the same length that sentencex can segment.

    sentencex looks for capitals, so in lower-cased text each letter that may begin a sentence is capitalized. It
    rejects unpaired surrogates and lacks some marks, so these are replaced.
    """
    text = re.sub("[\ud800-\udfff]", "?", text)
    for mark, known in _KNOWN_MARKS:
        text = text.replace(mark, known)
    text = _BEHIND_CJK.sub("\\1A", text)
    if text != text.lower():
        return text
    return _LOWERED.sub(lambda match: match[1] + (match[2].upper() if len(match[2].upper()) == 1 else match[2]), text)


def _borders(language: str, text: str) -> set[int]:
    """Returns the indices in a text at which sentencex splits it."""
    place, found = 0, set()
    for part in segment(language, text):
        place += len(part)
        found.add(place)
    return found - {len(text)} if place == len(text) else set()


def _goes_on(before: str, after: str, script: str, lowered: bool, language: str) -> bool:
    """Returns True if the sentence that ends in `before` continues after a boundary of sentencex."""
    if any(pattern.search(before) for pattern in _NEVER_ENDS) or _is_single(before, script):
        return True
    if script in _CASED:
        # a) is a number, and a Latin word may begin a Japanese sentence.
        if after[:1].islower() and not (lowered or after[1:2] == ")" or _CJK_END.search(before)):
            return True
        if _is_inside(before, after, lowered, language):
            return True
    elif script in _SYLLABIC:
        if _DATE.search(before):  # 2021. 5. 3.
            return True
    elif _LONE_NUMBER.search(before) or (script == "Thai" and _STOPPED.search(before)):
        return True  # Thai writes a full stop only after abbreviations
    elif not script and not ends_as_sentence(before):
        return True
    if not _BEHIND_QUOTE.search(before):
        return False
    if script == "Hangul" and re.match(r"[가-힣]", after) and not before[-1:].isspace():
        return True  # a particle directly follows the quotation
    quoted = {"Hangul": _QUOTED_KOREAN, "Kana": _QUOTED_JAPANESE}.get(script)
    return after[:1].islower() if quoted is None else quoted.match(after) is not None


def _is_single(before: str, script: str) -> bool:
    """Returns True if a text ends in a single letter that is an initial, an abbreviation or the number of a line."""
    if script in _CASED or script in _SYLLABIC:
        return _INITIAL.match(before) is not None and _ONE_SYLLABLE.match(before) is None
    return _LONE_LETTER.search(before) is not None


def _is_inside(before: str, after: str, lowered: bool, language: str) -> bool:
    """Returns True if a full stop belongs to an ordinal number or an abbreviation; if unclear, `after` decides."""
    if lowered and _UNKNOWN.search(before):
        return True
    stopped = _STOPPED.search(before)
    if stopped is None:
        return False
    word = stopped[1]
    if re.match(r"[ºª°]|J\.-", after):  # 1.º, av. J.-C.
        return word[-1].isalnum()
    if after[:1].isdigit() and ((len(word) == 1 and word.isalpha()) or word.lower() == "no"):  # z. B. 20, No. 5
        return True
    ordinal = language not in NO_ORDINALS and _may_be_ordinal(word, lowered)
    if not ordinal and not _may_be_abbreviation(word, before, lowered):
        return False
    return not _begins_sentence(after, lowered)


def _may_be_ordinal(word: str, lowered: bool) -> bool:
    return bool(_NUMERAL.fullmatch(word) or (lowered and _YEAR_OR_TEXT.fullmatch(word)))


def _may_be_abbreviation(word: str, before: str, lowered: bool) -> bool:
    if word in ABBREVIATIONS or (lowered and word in _LOWERED_ABBREVIATIONS):
        return True
    if _SHORTENED.fullmatch(word):
        return True
    if word.isalpha() and word.islower() and len(word) <= 4 and _CHAIN.search(before):  # Dr. med., rer. nat.
        return True
    return bool(
        _WITHOUT_VOWEL.fullmatch(word)
        and not _SYLLABIC_R.search(word)
        and word.lower() not in AND_SO_ON
        and (len(word) < 3 or word[-1] != word[-2])  # Hmm, psst
    )


def _begins_sentence(after: str, lowered: bool) -> bool:
    """Returns True if a text begins with a word that occurs only at the beginning of sentences."""
    found = _NEXT.match(after)
    if found is None:
        return False
    word, following = found[1], found[2] or ""
    if lowered:
        return word in BEGINNINGS
    if len(word) == 1:
        return word in SINGLE and following[:1].islower()
    small = word.lower()
    return small in BEGINNINGS or small in LINKS or (word.endswith("en") and following == "Sie")  # Beachten Sie


def _merge_wordless(parts: Sequence[str]) -> list[str]:
    """Returns the parts merged until each has a word: a number (`1. `) joins the next part, marks the previous one."""
    whole: list[str] = []
    waiting = ""
    for part in parts:
        if not any(map(str.isalpha, part)):
            if whole and not any(map(str.isdigit, part)) and not waiting:
                whole[-1] += part
            else:
                waiting += part
            continue
        whole.append(waiting + part)
        waiting = ""
    if not whole:
        return [waiting]
    whole[-1] += waiting
    return whole


_WITHOUT_SPACES = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # Japanese kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]"  # Thai, Lao, Tibetan, Burmese, Khmer
)


def writes_spaces(text: str) -> bool:
    """Returns True if most letters of a text are of scripts that put spaces between words, Korean included."""
    without = len(_WITHOUT_SPACES.findall(text))
    return without == 0 or 2 * without < sum(map(str.isalpha, text))


def space_between(before: str, after: str) -> str:
    """Returns the separator of two sentences: a space if both are of scripts that write spaces, else ""."""
    return " " if writes_spaces(before) and writes_spaces(after) else ""
