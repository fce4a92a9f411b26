"""Encodings of text that is not UTF-8, and the detection of the encodings that fit some bytes.

Bytes do not name their encoding: nearly all encodings decode the same bytes to some text. Therefore each encoding has
the frequent letters of its languages, and the encodings with the most usual text are returned with that text.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MOST = 1 << 14
"""Bytes that are examined, at most."""
MOST_NAMED = 3
LEAST = 0.5
"""The lowest score of an encoding that is returned; it must also be within NEAR of the best score."""
NEAR = 0.25
RARE = 0.75
"""The factor on the score of a rare encoding."""


@dataclass(frozen=True)
class Encoding:
    """An encoding, by its name in both `iconv` and Python, with the usual letters of its text."""

    name: str
    language: str
    usual: tuple[str, ...]
    """Letters, one string per language: all letters of an alphabet beyond ASCII, or the most frequent characters of a
    script that has thousands."""
    part: float = 1.0
    """The fraction of usual letters among a text's letters beyond ASCII."""
    is_rare: bool = False
    """True if few files have it today: if a few letters are ambiguous, another encoding is likelier."""


_KOREAN = (
    "이다의는에을를가고은하한로지사으어기도자나라대서인해시리일아그수있것들과게만부정장보스전주원제상니여면자동들성"
)
_CHINESE = (
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者"
    "多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从权利任由保或及应力等制全法本各平女男工动社"
)
_TRADITIONAL = (
    "的一是不了人我在有他這為之大來以個中上們到說國和地也子時道出而要於就下得可你年生自會那後能對著事其里所去行過家十用發天如然作方成者"
    "多日都三小軍二無同麼經法當起與好看學進種將還分此心前面又定見只主沒公從權利任由保或及應力等制全本各平女男工動社"
)
_JAPANESE = "".join(map(chr, range(0x3041, 0x3094))) + "".join(map(chr, range(0x30A1, 0x30FD)))
_RUSSIAN = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
_UKRAINIAN = "оаинівретсклудмпзяьбгйхчїцжюшєщфґ"
_SERBIAN = "аиоенрсјтукдвлмпгзбчшцњжћхљђџф"
_BELARUSIAN = "аінеоярлсткдвумыпбцзёьгйўхчжшюэф"
_WESTERN = (
    "äöüß", "éèêëàâçîïôùûüœæ", "áéíóúñü", "ãõáâàçéêíóôúü", "àèéìòù", "åäöéü", "æøåéèöäü", "áéíóúýþæöð", "ëïéèöüáó",
    "àèéíïòóúüç",
)  # fmt: skip
_CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ", "äöüß")
_BALTIC = ("ąčęėįšųūž", "āčēģīķļņšūž", "äöõüšž")
_TURKISH = ("çğıöşüâîû",)
_GREEK = ("αοιετσνηυρπκμλωόίάέήύώςγδθχφβξζψϊΐϋΰ",)
_HEBREW = ("יוהלאמרתבשנעםדקחפטכגזסןצךףץ",)
_ARABIC = ("الينمروتبدعسفقهحكشذخصضطجزةىءغئؤآأإظ", "ایندرهتومبسشکزگقفخعپلآجچحژطصضغثظذ")
_THAI = ("านรอกเงมยลวดทสตะปบคหแจพชขใไโผธซณฐภศษญฎฏฉถ่้ัิีึืุู็์ำๆ",)

ENCODINGS: tuple[Encoding, ...] = (
    Encoding("cp949", "Korean", (_KOREAN,), 0.5),
    Encoding("gb18030", "Chinese", (_CHINESE,), 0.35),
    Encoding("cp932", "Japanese", (_JAPANESE,), 0.5),
    Encoding("euc-jp", "Japanese", (_JAPANESE,), 0.5),
    Encoding("big5-hkscs", "Chinese, traditional", (_TRADITIONAL,), 0.35),
    Encoding("cp1252", "Western European", _WESTERN),
    Encoding("cp1251", "Cyrillic", (_RUSSIAN, _UKRAINIAN, _SERBIAN, _BELARUSIAN)),
    Encoding("cp1250", "Central European", _CENTRAL),
    Encoding("iso-8859-2", "Central European", _CENTRAL),
    Encoding("koi8-r", "Russian", (_RUSSIAN,)),
    Encoding("koi8-u", "Ukrainian", (_UKRAINIAN,), is_rare=True),
    Encoding("iso-8859-5", "Cyrillic", (_RUSSIAN, _UKRAINIAN, _SERBIAN, _BELARUSIAN), is_rare=True),
    Encoding("cp866", "Russian, of DOS", (_RUSSIAN,), is_rare=True),
    Encoding("macintosh", "Western European, of old Macintosh", _WESTERN, is_rare=True),
    Encoding("cp850", "Western European, of DOS", _WESTERN, is_rare=True),
    Encoding("cp1254", "Turkish", _TURKISH),
    Encoding("cp1253", "Greek", _GREEK),
    Encoding("iso-8859-7", "Greek", _GREEK, is_rare=True),
    Encoding("cp1255", "Hebrew", _HEBREW),
    Encoding("iso-8859-8", "Hebrew", _HEBREW, is_rare=True),
    Encoding("cp1256", "Arabic and Persian", _ARABIC),
    Encoding("iso-8859-6", "Arabic", _ARABIC[:1], is_rare=True),
    Encoding("cp1257", "Baltic", _BALTIC),
    Encoding("iso-8859-13", "Baltic", _BALTIC, is_rare=True),
    Encoding("iso-8859-4", "Baltic", _BALTIC, is_rare=True),
    Encoding("iso-8859-15", "Western European", _WESTERN, is_rare=True),
    Encoding("iso-8859-16", "Romanian", ("ăâîșț",), is_rare=True),
    Encoding("cp874", "Thai", _THAI),
    Encoding("cp1258", "Vietnamese", ("àảãáạâăđèéêìíòóôơùúưýỵ̀̀̉̃́",), is_rare=True),
)  # fmt: skip
"""The encodings, by frequency: of two encodings that give the same text, the first is returned."""

FEW_LETTERS, MANY_LETTERS = 20, 80
FREQUENT = 0.55
"""The fraction of a text that the ten most frequent letters of its alphabet make up, at least."""
_SPACES = "\t\n\r\u00a0\u3000"
_MARKS = "“”„‘’‚«»‹›–—…•·°§€£©®™¿¡、。，！？：；「」『』（）《》・"
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Likely:
    """An encoding that fits, and the decoded text."""

    encoding: Encoding
    score: float
    text: str


def likely_encodings(raw: bytes) -> list[Likely]:
    """Returns the encodings that fit bytes that are not UTF-8, likeliest first: at most three, none if it is no text.

    Of encodings that give the same text, only the most frequent is returned. Only the first 16 KiB are examined.
    """
    raw = _truncate(raw)
    if _is_nearly_utf_8(raw):
        return []
    found: dict[str, Likely] = {}
    for encoding in ENCODINGS:
        try:
            text = raw.decode(encoding.name)
        except UnicodeDecodeError:
            continue
        score = _score(text, encoding)
        if text not in found and score >= LEAST:
            found[text] = Likely(encoding, score, text)
    likely = sorted(found.values(), key=lambda each: -each.score)  # stable: of equal scores the more frequent first
    sure = likely and likely[0].score > 1 - NEAR
    near = [each for each in likely if each.score >= likely[0].score - NEAR and not (sure and each.encoding.is_rare)]
    return near[:MOST_NAMED] or likely[:1]


def _is_nearly_utf_8(raw: bytes) -> bool:
    """Returns True if bytes are UTF-8 except for lone surrogates, which programs write that count in UTF-16."""
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _truncate(raw: bytes) -> bytes:
    """Returns the beginning, cut at ASCII white space: with an incomplete last character, no encoding would fit."""
    if len(raw) <= MOST:
        return raw
    end = next((place for place in range(MOST, MOST // 2, -1) if raw[place] in b" \t\n\r"), MOST)
    return raw[:end]


def _score(text: str, encoding: Encoding) -> float:
    """Returns the likelihood of a text in the languages of an encoding, from 0 to 1."""
    beyond = [character for character in text if character > "\x7f" and character not in _SPACES]
    letters = [character for character in beyond if unicodedata.category(character)[0] == "L"]
    if any(map(_is_odd, text)):
        return 0.0
    if not letters:
        return 0.0 if encoding.is_rare or not all(character in _MARKS for character in beyond) else 1 - NEAR
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    usual = max(_usual_part(letters, usual) for usual in encoding.usual)
    fitting = sum(map(_is_word, words)) / max(1, len(words))
    # Marks beyond ASCII occur between letters, and are fewer: a wrongly decoded text is full of them.
    strange = sum(unicodedata.category(each)[0] not in "LM" and each not in _MARKS for each in beyond) / len(beyond)
    return min(1.0, usual / encoding.part) * fitting * (1 - strange) * (RARE if encoding.is_rare else 1)


def _is_odd(character: str) -> bool:
    """Returns True if a character occurs in no text: controls, unassigned characters, lines and boxes."""
    return (
        unicodedata.category(character) in ("Cc", "Co", "Cn", "Cs") and character not in _SPACES
    ) or "\u2500" <= character <= "\u259f"


def _usual_part(letters: Sequence[str], usual: str) -> float:
    """Returns the fraction of the letters that are usual."""
    if usual is _KOREAN and all("\uac00" <= letter <= "\ud7a3" for letter in letters):
        # Hangul of the old standard alone is Korean: no wrong decoding gives it.
        return float(len("".join(letters).encode("euc_kr", "replace")) == 2 * len(letters))
    part = _part(letters, usual)
    if FEW_LETTERS < len(usual) < MANY_LETTERS:  # a whole alphabet, which any bytes give: check the frequent ones
        part *= 0.5 + 0.5 * min(1.0, _part(letters, usual[:10]) / FREQUENT)
    return part


def _part(letters: Sequence[str], usual: str) -> float:
    return sum(letter in usual or letter.lower() in usual for letter in letters) / len(letters)


def _is_word(word: str) -> bool:
    """Returns True if a non-ASCII word is plausible: one script, mostly plain letters if Latin, and no capital after a
    small letter.
    """
    if len(word) == 1 and not unicodedata.name(word, "").startswith(("CJK", "HANGUL", "HIRAGANA", "KATAKANA")):
        return unicodedata.name(word, "").startswith("LATIN")
    plain = sum(letter.isascii() for letter in word)
    latin = sum("LATIN" in unicodedata.name(letter, "") for letter in word)
    if latin not in (0, len(word)):
        return False
    if any(one.islower() and other.isupper() for one, other in pairwise(word)):
        return False
    return latin == 0 or plain >= len(word) / 3 or len(word) < 3
