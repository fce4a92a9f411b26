"""Our normalisation as rules in a SentencePiece model, so that whoever opens the file reads a text as we do.

SentencePiece rewrites a text from left to right, each time by the rule with the longest left side that fits. Spaces
at the ends and in a row it removes itself. What these rules do to a text is what `normalize` does, but where marks that
no alphabet combines are piled up: composing them is a matter of order, and would take a rule for each pile.
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
from pellucid.text.sentencepiece_file import MALFORMED, fields, message, unreadable

Rules = dict[str, str]

NFC_NAME = "pellucid-nfc/1"
"""The name that the model's file gives these rules."""
_NAME, _CHARSMAP, _DUMMY_PREFIX, _EXTRA_SPACES, _ESCAPE_SPACES = 1, 2, 3, 4, 5  # the fields of a NormalizerSpec
_NORMALIZER = 3  # the field of a ModelProto
_ERRORS_ONLY = 2
_STAND_INS = {NON_JOINER: "\ue00c", JOINER: "\ue00d"}

# Letters that Unicode composes but that came after version 14, which the oldest Python we run on knows: with them the
# file would depend on the Python that wrote it.
_YOUNGER = ((0x105C0, 0x105FF), (0x11380, 0x113FF), (0x16100, 0x1613F), (0x16D40, 0x16D7F))
_COMPOSED = ((0xA0, 0x3400), (0xF900, 0x1F1FF), (0x2F800, 0x2FA20))
"""The ranges of characters that have a canonical decomposition; Hangul, which is computed, apart."""
_LOW_MARKS = "\u031b\u0323\u0324\u0325\u0326\u0327\u0328\u0329\u032d\u032e\u0330\u0331\u0332"
_HIGH_MARKS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u030f\u0311"
"""The marks of alphabets: below the letter or at it, and above."""
_LAST_LETTER = 0x1FFF
"""Behind it no alphabet lies that these marks are for."""
_ARABIC_MARKS = "".join(map(chr, range(0x064B, 0x0656))) + "\u0670"
_HEBREW_MARKS = "".join(map(chr, (*range(0x05B0, 0x05BE), 0x05BF, 0x05C1, 0x05C2, 0x05C7)))
_FIRST_SYLLABLE, _LEADING, _VOWEL, _TRAILING = 0xAC00, 0x1100, 0x1161, 0x11A7


def with_normalizer(proto: bytes, form: str) -> bytes:
    """Returns the SentencePiece model `proto` with the normalisation `form` in the place of its own."""
    if form == "none":
        return proto
    spec = _nfc_spec() if form == "nfc" else _nmt_nfkc_spec()
    return b"".join(message(number, spec if number == _NORMALIZER else value) for number, value in fields(proto))


def normalization_of(proto: bytes) -> str:
    """Returns which of our normalisations a SentencePiece model was given: "none" for that of somebody else.

    Raises CheckpointError for one of ours that this version does not know, and where the file cannot be read.
    """
    name = b""
    try:
        for number, value in fields(proto):
            if number == _NORMALIZER:
                name = bytes(dict(fields(value)).get(_NAME, name))
    except MALFORMED as error:
        raise unreadable() from error
    if name.startswith(b"pellucid-") and name != NFC_NAME.encode():
        raise CheckpointError(
            f"the tokenizer has the unknown normalisation `{name.decode('utf-8', 'replace')[:80]}`",
            "the model may need a newer version of pellucid",
        )
    return {NFC_NAME.encode(): "nfc", b"nmt_nfkc": "nmt_nfkc"}.get(name, "none")


def nfc_rules() -> Rules:
    """Returns what each sequence of characters becomes, where it becomes something else."""
    rules = _compositions()
    _add_order(rules)
    _add_marks_between(rules)
    _add_hangul(rules)
    rules |= dict.fromkeys([*SPACES.replace(" ", ""), SPACE_MARK], " ")
    rules |= dict.fromkeys([*INVISIBLE, NON_JOINER, JOINER], "")
    _add_joiners(rules)
    return rules


def _compositions() -> Rules:
    """Returns each composed letter from its parts, in any order that means the same, composed as far as one likes."""
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
    """Adds a mark below that stands before the one that composes, or behind it and composes instead: ẹ́ as é and ̣."""
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
    """Adds marks in another order than the canonical one: a vowel before the doubling of its consonant, or behind."""
    for marks, most in ((_ARABIC_MARKS, 3), (_HEBREW_MARKS, 3), (_LOW_MARKS + _HIGH_MARKS, 2)):
        for length in range(2, most + 1):
            for sequence in map("".join, product(marks, repeat=length)):
                ordered = unicodedata.normalize("NFC", sequence)
                if ordered != sequence and ordered != rewritten(sequence, rules):
                    rules[sequence] = ordered


def _add_hangul(rules: Rules) -> None:
    """Adds syllables from two or three letters, or from a syllable and a last letter."""
    for number in range(19 * 21):
        open_syllable = chr(_FIRST_SYLLABLE + 28 * number)
        letters = chr(_LEADING + number // 21) + chr(_VOWEL + number % 21)
        rules[letters] = open_syllable
        for last in range(1, 28):
            syllable = chr(_FIRST_SYLLABLE + 28 * number + last)
            rules[letters + chr(_TRAILING + last)] = rules[open_syllable + chr(_TRAILING + last)] = syllable


def _add_joiners(rules: Rules) -> None:
    """Keeps a joiner behind a character that needs it; without one of these rules it goes."""
    before = set(_characters(JOINING_SCRIPTS))
    composed = {source: target for source, target in rules.items() if source[-1] in before and len(source) < 3}
    for joiner in (NON_JOINER, JOINER):
        rules |= {character + joiner: character + joiner for character in before}
        rules |= {source + joiner: target + joiner for source, target in composed.items()}
    rules |= {character + JOINER: character + JOINER for character in _characters(PICTOGRAPHS)}


def rewritten(text: str, rules: Rules) -> str:
    """Returns `text` by the rules, of those that fit the one with the longest left side first."""
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

    It refuses a rule that changes nothing, such as those that keep a joiner. So they are made with a stand-in of as
    many bytes, and what is written in their place stands behind the trie that finds the rules: there it is put right.
    """
    set_min_log_level(_ERRORS_ONLY)  # it tells of each map that it makes
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
    """Returns SentencePiece's own rules as it compiles them."""
    return _charsmap(nmt_nfkc())


def _charsmap(rules: SentencePieceNormalizer) -> bytes:
    charsmap: bytes = dict(fields(rules.serialized_normalizer_spec()))[_CHARSMAP]
    return charsmap


def _spec(name: str, charsmap: bytes) -> bytes:
    flags = ((_DUMMY_PREFIX, 1), (_EXTRA_SPACES, 1), (_ESCAPE_SPACES, 1))
    table: tuple[tuple[int, bytes | int], ...] = ((_NAME, name.encode()), (_CHARSMAP, charsmap), *flags)
    return b"".join(message(number, value) for number, value in table)
