"""The sentences of a line: where sentencex parts it, but where that is known to err.

sentencex (Wikimedia, offline) knows the marks and abbreviations of some 300 languages. A line's language is seldom
known here, its script always is: of the languages that share a script, all have to agree.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise

from sentencex import segment

SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Kana": ("\u3040-\u30ff\uff66-\uff9d", ("ja",)),
    "Han": ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff", ("zh",)),
    "Hangul": ("\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3", ("ko",)),
    "Latin": ("A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff", ("en", "de", "fr", "pt", "pl")),
    "Cyrillic": ("\u0400-\u052f", ("ru", "uk", "bg")),
    "Greek": ("\u0370-\u03ff\u1f00-\u1fff", ("el",)),
    "Arabic": ("\u0600-\u06ff\u0750-\u077f", ("ar", "fa", "ur")),
    "Hebrew": ("\u0590-\u05ff", ("he",)),
    "Devanagari": ("\u0900-\u097f", ("hi", "mr")),
    "Bengali": ("\u0980-\u09ff", ("bn",)),
    "Tamil": ("\u0b80-\u0bff", ("ta",)),
    "Armenian": ("\u0530-\u058f", ("hy",)),
    "Georgian": ("\u10a0-\u10ff", ("ka",)),
    "Ethiopic": ("\u1200-\u137f", ("am",)),
    "Burmese": ("\u1000-\u109f", ("my",)),
    "Thai": ("\u0e00-\u0e7f", ("th",)),
}
"""The letters of each script, and the languages whose rules have to agree on where a line of it is parted."""
_SEEN = 2000  # characters of a line that tell its script
_LETTERS = {name: re.compile(f"[{letters}]") for name, (letters, _) in SCRIPTS.items()}

_MARKS = ".!?…。！？｡．։။።॥।۔؟⸮"
_CLOSING = "\"'“”’»›）)］\\]』」】〉》"
_ENDED = re.compile(rf"[{_MARKS}][{_CLOSING}\s]*$")
_BEHIND_QUOTE = re.compile(r"[\"'“”’»›』」》]\s*$")
_TITLE = re.compile(r"(?:^|[\s(\[\"“„«‘])(?:M|MM|Mme|Mmes|Mlle|Mlles|Mgr|Sra|Srta|Ud|Uds|Sig|Dott|Hr|डॉ|श्री|प्रो)\.\s*$")
_INITIAL = re.compile(r"^\s*[^\W\d_]\.\s*$")  # the whole sentence so far is one letter
_LONE_LETTER = re.compile(r"(?:^|\s)[\u0600-\u06ff\u0900-\u097f]\.\s*$")  # scripts without capitals: an abbreviation
_DATE = re.compile(r"\d{1,4}\.\s?(?:\d{1,2}\.\s?)*$")
_NUMBER = re.compile(rf"(?<=[{_MARKS}]\s)\d{{1,3}}[.)]\s+$")
# No mark behind which a sentence could begin. Nothing that was matched is given back: among many spaces that would take
# time with the square of their number.
_UNPARTED = re.compile(r"[\w ,'’-]*+\W?+ *+")
_LOOKED_AT = 40  # characters before and behind a border
_NO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_ODD = re.compile(f"[^\\S ]|\\s\\s|{_NO_WIDTH.pattern}")
# A run of spaces, or a character with the marks and Korean vowels and finals that are written onto it.
_CLUSTER = re.compile(
    r"\s+|.(?:(?![\s])[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u093c\u1160-\u11ff\u3099\u309a])*", re.S
)
# What goes on with the sentence that a quotation stands in: “He said so”, he said; "…" 하고 말했다; 「…」と言った.
_QUOTED_KOREAN = re.compile(
    r"(?:하(?:고|며|면서|는|던|자|더니)|(?:이)?라(?:고|며|면서|는|던)|했다|했습니다|한다|합니다)(?![가-힣])|고(?=\s)"
)
_QUOTED_JAPANESE = re.compile(r"と(?![てこにもきうくなりっ])|って|との|などと|なんて")
_LOWERED = re.compile(rf"([{_MARKS}][{_CLOSING}]*\s+[\"'“‘„«(]*)(\w)")


def sentences(text: str, language: str = "") -> list[str]:
    """Returns the sentences of a line with the spaces behind them: joined they are the line.

    Args:
        text: one line; without any letter it is one sentence.
        language: a code of two letters, alone or in front, as in `de` and `de_DE`; any other says nothing, and the
            script of the text decides.
    """
    if _UNPARTED.fullmatch(text):
        return [text]
    plain, places = _plain(text)
    code = re.split(r"[_-]", language)[0].lower()
    script = script_of(plain)
    languages = (code,) if len(code) == 2 else SCRIPTS[script][1] if script else ()
    if not languages:
        return [text]
    readable = _with_capitals(plain)
    borders = set.intersection(*(_borders(code, readable) for code in languages))
    parts, start = [], 0
    for border in sorted(borders):
        near = max(start, border - _LOOKED_AT)  # so that a long line without an end takes no longer
        if number := _NUMBER.search(plain, near, border):  # 1. One thing. 2. Another.
            border = number.start()
        if border > start and not _goes_on(plain[near:border], plain[border : border + _LOOKED_AT], script):
            parts.append(plain[start:border])
            start = border
    whole = _with_words([*parts, plain[start:]])
    ends = [places[end] for end in accumulate(map(len, whole))]
    return [text[start:end] for start, end in pairwise([0, *ends])]


def script_of(text: str) -> str:
    """Returns the name of the script that most letters of a text are of; "" where none of them is in SCRIPTS."""
    seen = text[:_SEEN]
    counts = {name: len(letters.findall(seen)) for name, letters in _LETTERS.items()}
    if counts["Kana"]:  # Japanese: its Chinese characters are not Chinese
        counts["Kana"] += counts.pop("Han")
    most = max(counts, key=lambda name: counts[name])
    return most if counts[most] else ""


def ends_as_sentence(text: str) -> bool:
    """Tells whether a text ends in a mark that ends sentences, within closing quotes or not."""
    return _ENDED.search(text) is not None


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """Returns a text in composed characters, with single spaces and nothing of no width, and where each character was.

    So text that was typed or pasted otherwise is parted at the same places. The last place is the text's end.
    """
    if not _ODD.search(text) and unicodedata.is_normalized("NFC", text):
        return text, range(len(text) + 1)
    plain, places = [], []
    for cluster in _CLUSTER.finditer(text):
        composed = " " if cluster[0].isspace() else unicodedata.normalize("NFC", _NO_WIDTH.sub("", cluster[0]))
        plain.append(composed)
        places += [cluster.start()] * len(composed)
    return "".join(plain), [*places, len(text)]


def _with_capitals(text: str) -> str:
    """Returns a text of the same length in which sentencex finds its way.

    It looks for capitals: in lower-cased text each letter that may begin a sentence gets one. It takes no half of a
    surrogate pair.
    """
    text = re.sub("[\ud800-\udfff]", "?", text)
    if text != text.lower():
        return text
    return _LOWERED.sub(lambda match: match[1] + (match[2].upper() if len(match[2].upper()) == 1 else match[2]), text)


def _borders(language: str, text: str) -> set[int]:
    """Returns where sentencex parts a text, as places in it."""
    place, found = 0, set()
    for part in segment(language, text):
        place += len(part)
        found.add(place)
    return found - {len(text)} if place == len(text) else set()


def _goes_on(before: str, after: str, script: str) -> bool:
    """Tells whether the sentence that ends in `before` goes on behind a border of sentencex."""
    if _TITLE.search(before) or _INITIAL.match(before) or _LONE_LETTER.search(before):
        return True
    if script in ("Hangul", "Kana", "Han") and _DATE.search(before):  # 2021. 5. 3.
        return True
    if not _BEHIND_QUOTE.search(before):
        return False
    if script == "Hangul" and re.match(r"[가-힣]", after) and not before[-1:].isspace():
        return True  # a particle stands right behind the quotation
    quoted = {"Hangul": _QUOTED_KOREAN, "Kana": _QUOTED_JAPANESE}.get(script)
    return after[:1].islower() if quoted is None else quoted.match(after) is not None


def _with_words(parts: Sequence[str]) -> list[str]:
    """Returns the parts, each with a word in it: a number (`1. `) goes with what follows, marks with what precedes."""
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
    """Returns whether most letters of a text are of scripts that put spaces between words; so does Korean."""
    without = len(_WITHOUT_SPACES.findall(text))
    return without == 0 or 2 * without < sum(map(str.isalpha, text))


def space_between(before: str, after: str) -> str:
    """Returns what a writer puts between two sentences: a space where both are of scripts that write spaces."""
    return " " if writes_spaces(before) and writes_spaces(after) else ""
