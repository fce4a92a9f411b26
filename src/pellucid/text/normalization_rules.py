"""Pellucid's normalization as rules in a SentencePiece model, so that every program normalizes a text as Pellucid does.

SentencePiece rewrites a text from left to right, each time by the rule with the longest matching left side. It removes
leading, trailing and repeated spaces itself. The rules have the same effect as `normalize`, except on stacked marks
that no alphabet combines: their composition depends on their order, and would need a rule for each combination.
"""

import unicodedata
from functools import cache
from itertools import permutations, product

from sentencepiece import SentencePieceNormalizer, set_min_log_level

from pellucid.errors import CheckpointError
from pellucid.text.normalization import (
    INVISIBLE,
    JOINER,
    JOINING_SCRIPTS,
    NON_JOINER,
    PICTOGRAPHS,
    SPACE_MARK,
    SPACES,
    nmt_nfkc,
)
from pellucid.text.sentencepiece_file import MALFORMED, fields, make_damaged_error, message

Rules = dict[str, str]

NFC_NAME = "pellucid-nfc/1"
"""The name of these rules in the model's file."""
_NAME, _CHARSMAP, _DUMMY_PREFIX, _EXTRA_SPACES, _ESCAPE_SPACES = 1, 2, 3, 4, 5  # the fields of a NormalizerSpec
_NORMALIZER = 3  # the field of a ModelProto
_ERRORS_ONLY = 2
_STAND_INS = {NON_JOINER: "\ue00c", JOINER: "\ue00d"}

# Composed letters that Unicode added after version 14, that of the oldest supported Python: with them the file would
# depend on the Python version that wrote it.
_YOUNGER = ((0x105C0, 0x105FF), (0x11380, 0x113FF), (0x16100, 0x1613F), (0x16D40, 0x16D7F))
_COMPOSED = ((0xA0, 0x3400), (0xF900, 0x1F1FF), (0x2F800, 0x2FA20))
"""The ranges of characters that have a canonical decomposition, except Hangul, which is computed."""
_LOW_MARKS = "\u031b\u0323\u0324\u0325\u0326\u0327\u0328\u0329\u032d\u032e\u0330\u0331\u0332"
_HIGH_MARKS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u030f\u0311"
"""The combining marks of alphabets: below the letter or attached to it, and above it."""
_LAST_LETTER = 0x1FFF
"""The last code point of the alphabets that use these marks."""
_ARABIC_MARKS = "".join(map(chr, range(0x064B, 0x0656))) + "\u0670"
_HEBREW_MARKS = "".join(map(chr, (*range(0x05B0, 0x05BE), 0x05BF, 0x05C1, 0x05C2, 0x05C7)))
_FIRST_SYLLABLE, _LEADING, _VOWEL, _TRAILING = 0xAC00, 0x1100, 0x1161, 0x11A7


def set_normalizer(proto: bytes, form: str) -> bytes:
    """Returns the SentencePiece model `proto` with its normalization replaced by `form`."""
    if form == "none":
        return proto
    spec = _nfc_spec() if form == "nfc" else _nmt_nfkc_spec()
    return b"".join(message(number, spec if number == _NORMALIZER else value) for number, value in fields(proto))


def detect_normalization(proto: bytes) -> str:
    """Returns the name of the Pellucid normalization in a SentencePiece model, or "none" if it has another one.

    Raises CheckpointError if it is a Pellucid normalization of an unknown version, or if the file cannot be read.
    """
    name = b""
    try:
        for number, value in fields(proto):
            if number == _NORMALIZER:
                name = bytes(dict(fields(value)).get(_NAME, name))
    except MALFORMED as error:
        raise make_damaged_error() from error
    if name.startswith(b"pellucid-") and name != NFC_NAME.encode():
        raise CheckpointError(
            f"the tokenizer has an unknown normalization `{name.decode('utf-8', 'replace')[:80]}`",
            "the model may require a newer version of pellucid",
        )
    return {NFC_NAME.encode(): "nfc", b"nmt_nfkc": "nmt_nfkc"}.get(name, "none")


def nfc_rules() -> Rules:
    """Returns the replacement of each character sequence that normalization changes."""
    rules = _compositions()
    _add_order(rules)
    _add_marks_between(rules)
    _add_hangul(rules)
    rules |= dict.fromkeys([*SPACES.replace(" ", ""), SPACE_MARK], " ")
    rules |= dict.fromkeys([*INVISIBLE, NON_JOINER, JOINER], "")
    _add_joiners(rules)
    return rules


def _compositions() -> Rules:
    """Returns rules for each composed letter, from each equivalent order and partial composition of its parts."""
    rules: Rules = {}
    for character in _characters(_COMPOSED):
        decomposed = unicodedata.normalize("NFD", character)
        composed = unicodedata.normalize("NFC", character)
        if composed != character:
            rules[character] = composed
        elif decomposed != character:
            for marks in set(permutations(decomposed[1:])):
                spelled = decomposed[0] + "".join(marks)
                if unicodedata.normalize("NFC", spelled) == character:
                    partly = (unicodedata.normalize("NFC", spelled[:n]) + spelled[n:] for n in range(1, len(spelled)))
                    rules |= dict.fromkeys(partly, character)
    return rules


def _add_marks_between(rules: Rules) -> None:
    """Adds rules for a mark below next to a mark above, in either order and partly composed: ẹ́ as é and ̣."""
    composed = {target for target in rules.values() if len(target) == 1}
    letters = sorted({unicodedata.normalize("NFD", target)[0] for target in composed})
    for letter, low, high in product(letters, _LOW_MARKS, _HIGH_MARKS):
        with_high = unicodedata.normalize("NFC", letter + high)
        if ord(letter) > _LAST_LETTER or len(with_high) > 1:
            continue
        for text in (letter + low + high, letter + high + low, with_high + low):
            composition = unicodedata.normalize("NFC", text)
            if composition != rewritten(text, rules):
                rules[text] = composition


def _add_order(rules: Rules) -> None:
    """Adds rules that put marks in canonical order, for example a vowel mark and the doubling of its consonant."""
    for marks, most in ((_ARABIC_MARKS, 3), (_HEBREW_MARKS, 3), (_LOW_MARKS + _HIGH_MARKS, 2)):
        for length in range(2, most + 1):
            for sequence in map("".join, product(marks, repeat=length)):
                ordered = unicodedata.normalize("NFC", sequence)
                if ordered != sequence and ordered != rewritten(sequence, rules):
                    rules[sequence] = ordered


def _add_hangul(rules: Rules) -> None:
    """Adds rules for syllables from two or three letters, or from an open syllable and a final letter."""
    for number in range(19 * 21):
        open_syllable = chr(_FIRST_SYLLABLE + 28 * number)
        letters = chr(_LEADING + number // 21) + chr(_VOWEL + number % 21)
        rules[letters] = open_syllable
        for last in range(1, 28):
            syllable = chr(_FIRST_SYLLABLE + 28 * number + last)
            rules[letters + chr(_TRAILING + last)] = rules[open_syllable + chr(_TRAILING + last)] = syllable


def _add_joiners(rules: Rules) -> None:
    """Adds rules that keep a joiner after a character that needs it; other joiners are removed."""
    before = set(_characters(JOINING_SCRIPTS))
    composed = {source: target for source, target in rules.items() if source[-1] in before and len(source) < 3}
    for joiner in (NON_JOINER, JOINER):
        rules |= {character + joiner: character + joiner for character in before}
        rules |= {source + joiner: target + joiner for source, target in composed.items()}
    rules |= {character + JOINER: character + JOINER for character in _characters(PICTOGRAPHS)}


def rewritten(text: str, rules: Rules) -> str:
    """Returns `text` rewritten by the rules; of several matching rules the one with the longest left side is used."""
    longest, done, place = 4, list[str](), 0
    while place < len(text):
        ends = (end for end in range(min(len(text), place + longest), place, -1) if text[place:end] in rules)
        end = next(ends, 0)
        done.append(rules[text[place:end]] if end else text[place])
        place = end or place + 1
    return "".join(done)


def _characters(ranges: tuple[tuple[int, int], ...]) -> list[str]:
    younger = {code for first, last in _YOUNGER for code in range(first, last + 1)}
    return [chr(code) for first, last in ranges for code in range(first, last + 1) if code not in younger]


@cache
def _nfc_spec() -> bytes:
    """Returns the rules as SentencePiece compiles them.

    SentencePiece rejects a rule that changes nothing, such as the rules that keep a joiner. So these are compiled with
    a placeholder of the same number of bytes, which is then replaced in the table of outputs that follows the trie.
    """
    set_min_log_level(_ERRORS_ONLY)  # SentencePiece logs each map that it compiles
    rules = {
        source: target if source != target else target.replace(target[-1], _STAND_INS[target[-1]])
        for source, target in nfc_rules().items()
    }
    charsmap = _charsmap(SentencePieceNormalizer(norm_map=sorted(rules.items())))
    start = 4 + int.from_bytes(charsmap[:4], "little")
    trie, written = charsmap[:start], charsmap[start:]
    for joiner, stand_in in _STAND_INS.items():
        written = written.replace(stand_in.encode(), joiner.encode())
    return _spec(NFC_NAME, trie + written)


@cache
def _nmt_nfkc_spec() -> bytes:
    return _spec("nmt_nfkc", nmt_nfkc_map())


def nmt_nfkc_map() -> bytes:
    """Returns SentencePiece's `nmt_nfkc` rules in compiled form."""
    return _charsmap(nmt_nfkc())


def _charsmap(rules: SentencePieceNormalizer) -> bytes:
    charsmap: bytes = dict(fields(rules.serialized_normalizer_spec()))[_CHARSMAP]
    return charsmap


def _spec(name: str, charsmap: bytes) -> bytes:
    flags = ((_DUMMY_PREFIX, 1), (_EXTRA_SPACES, 1), (_ESCAPE_SPACES, 1))
    table: tuple[tuple[int, bytes | int], ...] = ((_NAME, name.encode()), (_CHARSMAP, charsmap), *flags)
    return b"".join(message(number, value) for number, value in table)
