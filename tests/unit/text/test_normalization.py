"""One spelling for texts that look alike: by our own function, and by the file alone as others read it."""

import random
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceNormalizer, SentencePieceProcessor

from pellucid.errors import CheckpointError, ConfigError
from pellucid.text import normalization
from pellucid.text.normalization import SPACES, compose, is_composed, normalize
from pellucid.text.normalization_rules import NFC_NAME, detect_normalization, nfc_rules, rewritten, set_normalizer
from pellucid.text.sentencepiece_file import fields, message
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer import UNK_ID, Tokenizer
from pellucid.text.tokenizer_training import TOKENIZER_KINDS, train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary

LINES = [
    "Ein Mann läuft über die Straße.",
    "한국어 문장은 띄어 쓴다",
    "犬がボールで遊ぶ",
    "Tiếng Việt rất đẹp",
    "می‌خواهم",
]
WITH_BYTES = ("bpe", "unigram", "characters", "bytes")

LETTERS = [*"aesAοиか하하שक", "\u11ab"]
MARKS = [*"\u0301\u0323\u0329\u0308\u0345\u3099\u0651\u064e\u05bc\u05c1\u093c\u094d"]
INVISIBLES = ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\xad", "👩", "\u200d🚀", "🏽", "❤\ufe0f", "م", "ی"]
ODD = [
    *LETTERS,
    *MARKS,
    *SPACES,
    *INVISIBLES,
    "ﬁ",
    "Ａ",
    "１",
    "▁",
    "▅",
    "\x1b",
    "\0",
    "<s>",
    "<0x41>",
    "\U0010ffff",
    "´",
    "Å",
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(ODD)).map("".join))


@cache
def trained(kind: str, normalization: str) -> Tokenizer:
    return train_tokenizer(
        kind, LINES, vocab_size=340, lowercase=False, min_frequency=1, byte_fallback=True, normalize=normalization
    )


@cache
def file_alone(kind: str, normalization: str) -> SentencePieceProcessor:
    tokenizer = trained(kind, normalization)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return SentencePieceProcessor(model_proto=tokenizer.proto)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("u\u0308ber", "über"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
        ("하\u11ab", "한"),
        ("q\u0307\u0323", "q\u0323\u0307"),
        ("a\xa0b\u2009c\u3000d\te\u2028f  g", "a b c d e f g"),
        (" \t two words\u3000\n", "two words"),
        ("a\u200bb\u2060c\ufeffd\xade", "abcde"),
        ("e\u200b\u0301", "é"),
        ("a\u200db\u200cc", "abc"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("👨\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 👩🏽\u200d🚀", "👨\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 👩🏽\u200d🚀"),
        ("👨\u200cx", "👨x"),
        ("▁a▁b", "a b"),
        ("ﬁ Ａ１ ＇ “quotes” …", "ﬁ Ａ１ ＇ “quotes” …"),
        ("\x07\u200f\u061c", "\x07\u200f\u061c"),
        ("", ""),
    ],
)
def test_what_nfc_makes_of_a_text(text: str, spelled: str) -> None:
    assert normalize(text, "nfc") == spelled


def test_compatibility_forms_are_made_plain_by_nmt_nfkc_and_nothing_by_none() -> None:
    assert normalize(" ﬁ Ａ１\u3000x\u0301 ", "nmt_nfkc") == "fi A1 x\u0301"
    assert normalize(" ﬁ Ａ１\u3000", "none") == " ﬁ Ａ１\u3000"


@pytest.mark.slow
@given(TEXTS)
@example("e\u200d\u0301\u200d")
@example("م\u0301\u200d\u0650\u200c")
def test_nfc_is_nfc_with_single_spaces_and_changes_nothing_twice(text: str) -> None:
    spelled = normalize(text, "nfc")
    assert unicodedata.is_normalized("NFC", spelled)
    assert spelled.split() == spelled.split(" ") if spelled else True
    assert normalize(spelled, "nfc") == spelled


@pytest.mark.slow
@pytest.mark.parametrize("normalization", ["nfc", "nmt_nfkc", "none"])
@pytest.mark.parametrize("kind", WITH_BYTES)
@given(text=TEXTS)
def test_what_comes_back_is_the_normalised_text(kind: str, normalization: str, text: str) -> None:
    tokenizer = trained(kind, normalization)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalize(text, normalization)
    assert not {0, 1, 2, UNK_ID} & set(ids)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
@pytest.mark.parametrize(
    "spelling", ["\xa0", "\u2009", "  ", "\t", "\u3000", " \u200b", "\u2028"], ids=lambda space: ascii(space)
)
def test_texts_that_look_alike_have_the_same_ids(kind: str, spelling: str) -> None:
    tokenizer = trained(kind, "nfc")
    for line in LINES[:4]:
        odd = spelling + unicodedata.normalize("NFD", line).replace(" ", spelling) + spelling
        assert tokenizer.encode(odd) == tokenizer.encode(line)
        assert tokenizer.encode_lines([odd]) == [tokenizer.encode(line)]
    assert tokenizer.encode("\ufeffEin\u200d Mann") == tokenizer.encode("Ein Mann")


def as_the_file_alone(text: str) -> str:
    """What SentencePiece makes of a text with the rules in a file of ours, as any program runs it."""
    spelled: str = file_alone("bpe", "nfc").normalize(text).replace("▁", " ")
    return spelled.removeprefix(" ")


ALL = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
OF_ALPHABETS = [
    *LINES,
    "Tiếng Việt ưỡn ẹo, ệ ǘ ǭ ḯ ᾂ ϔ",
    "ẹ́ ọ̀ ṣ e̩\u0301 ą́ į̃ r̥̄ ń̥ ḉ",
    "שָׁלוֹם בְּרֵאשִׁית",
    "مُحَمَّدٌ قُرْآن می‌خواهم",
    "हिन्दी क़ क्\u200dष க் ക\u0d4d\u200d බ්\u200dර",
    "ガギグゲゴ パピプ",
]


@pytest.mark.slow
def test_the_file_alone_reads_each_character_as_we_do() -> None:
    assert [text for text in ALL if as_the_file_alone(text) != normalize(text, "nfc")] == []
    decomposed = [unicodedata.normalize("NFD", text) for text in ALL]
    assert [text for text in decomposed if as_the_file_alone(text) != normalize(text, "nfc")] == []


@pytest.mark.parametrize("line", OF_ALPHABETS)
def test_the_file_alone_reads_what_alphabets_write_as_we_do_however_it_is_composed(line: str) -> None:
    for text in (line, *(unicodedata.normalize(form, line) for form in ("NFC", "NFD")), f"\ufeff {line}\xa0 "):
        assert as_the_file_alone(text) == normalize(text, "nfc")
        assert file_alone("bpe", "nfc").encode(text) == trained("bpe", "nfc").encode(text)


@pytest.mark.slow
@given(TEXTS.map(lambda text: normalize(text, "nfc")))
def test_the_file_alone_leaves_a_normalised_text_as_it_is(text: str) -> None:
    assert as_the_file_alone(text) == text
    assert file_alone("unigram", "nfc").encode(text) == trained("unigram", "nfc").encode(text)


@pytest.mark.slow
@given(TEXTS)
def test_the_file_alone_does_all_of_nmt_nfkc(text: str) -> None:
    assert file_alone("bpe", "nmt_nfkc").encode(text) == trained("bpe", "nmt_nfkc").encode(text)


def test_the_file_alone_does_not_order_marks_that_no_alphabet_piles_up() -> None:
    """That is why our tokenizer normalises a text before the model's rules see it."""
    pile = "g\u0308\u064e"  # a diaeresis and an Arabic vowel
    assert as_the_file_alone(pile) == pile
    assert normalize(pile, "nfc") == "g\u064e\u0308"


@pytest.mark.slow
@given(st.lists(st.sampled_from(ODD)).map("".join))
def test_the_compiled_rules_are_the_rules(text: str) -> None:
    rules = rules_once()
    assert " ".join(rewritten(text, rules).split(" ")).split() == as_the_file_alone(text).split()


@cache
def rules_once() -> dict[str, str]:
    return nfc_rules()


def test_without_normalisation_the_file_is_sentencepieces() -> None:
    plain = trained("bpe", "none")
    assert isinstance(plain, SentencePieceTokenizer)
    assert detect_normalization(plain.proto) == "none"
    assert set_normalizer(plain.proto, "none") is plain.proto
    assert plain.decode(plain.encode(" a\xa0 u\u0308 ▁")) == " a\xa0 u\u0308 ▁"


def test_equal_pieces_whether_the_training_text_was_normalised_before_or_not() -> None:
    odd = [f" {unicodedata.normalize('NFD', line)}\t".replace(" ", "\xa0") for line in LINES]
    for kind in TOKENIZER_KINDS:
        again = train_tokenizer(
            kind, odd, vocab_size=340, lowercase=False, min_frequency=1, byte_fallback=True, normalize="nfc"
        )
        assert again.tokens(range(again.size)) == trained(kind, "nfc").tokens(range(again.size))


@pytest.mark.parametrize("normalization", ["nfc", "nmt_nfkc", "none"])
@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_the_file_keeps_its_normalisation(kind: str, normalization: str, tmp_path: Path) -> None:
    tokenizer = trained(kind, normalization)
    table = TokenizerPair(tokenizer, tokenizer).save(tmp_path)
    opened = TokenizerPair.load(tmp_path, table).source
    for text in (" a\xa0 u\u0308 ﬁ", *LINES):
        assert opened.encode(text) == tokenizer.encode(text)


def test_a_vocabulary_without_normalisation_is_written_as_before(tmp_path: Path) -> None:
    assert b"normalize" not in Vocabulary("words", ("a",)).save(tmp_path / "x").read_bytes()
    written = Vocabulary("words", ("a",), normalization="nfc").save(tmp_path / "y").read_bytes()
    assert Vocabulary.from_bytes(written, "y").normalization == "nfc"
    with pytest.raises(CheckpointError, match=r"`y` is not a vocabulary of format"):
        Vocabulary.from_bytes(written.replace(b'"nfc"', b'"nfx"'), "y")


def test_a_normalisation_of_a_later_version_is_refused() -> None:
    plain = trained("bpe", "nfc")
    assert isinstance(plain, SentencePieceTokenizer)
    later = plain.proto.replace(NFC_NAME.encode(), b"pellucid-nfc/9")
    with pytest.raises(CheckpointError, match=r"the tokenizer has an unknown normalization `pellucid-nfc/9`") as caught:
        SentencePieceTokenizer(later, "bpe")
    assert caught.value.hint == "the model may require a newer version of pellucid"


def test_a_model_of_ones_own_has_its_own(tmp_path: Path) -> None:
    path = str(trained("bpe", "none").save(tmp_path / "own"))
    options = {"vocab_size": 8000, "lowercase": False, "min_frequency": 1, "byte_fallback": True}
    assert train_tokenizer(path, [], normalize="nfc", **options).encode("u\u0308") == SentencePieceProcessor(  # type: ignore[arg-type]
        model_file=path
    ).encode("u\u0308")
    with pytest.raises(ConfigError, match=r'`normalize = "nmt_nfkc"` has no effect on the SentencePiece model `.*own'):
        train_tokenizer(path, [], normalize="nmt_nfkc", **options)  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 2**20), st.one_of(st.integers(0, 2**60), st.binary())), max_size=5))
def test_what_is_written_as_a_message_is_read_as_one(table: list[tuple[int, int | bytes]]) -> None:
    assert list(fields(b"".join(message(number, value) for number, value in table))) == table


def test_the_builtin_rules_are_sentencepieces_own() -> None:
    theirs = SentencePieceNormalizer(rule_name="nmt_nfkc")
    tokenizer = trained("bpe", "nmt_nfkc")
    assert isinstance(tokenizer, SentencePieceTokenizer)
    spec = next(value for number, value in fields(tokenizer.proto) if number == 3)
    assert dict(fields(spec))[2] == dict(fields(theirs.serialized_normalizer_spec()))[2]


def test_long_runs_of_marks_compose_as_unicodedata_composes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalization, "LONGEST_RUN", 3)
    normalization._long_run.cache_clear()
    draw = random.Random(3)
    marks = "aA\u0301\u0327\u0316\u0345\u0308ǘộ가\u1161\u11a8 "
    try:
        for _ in range(2000):
            text = "".join(draw.choices(marks, k=draw.randint(0, 14)))
            assert compose(text) == unicodedata.normalize("NFC", text)
            assert is_composed(text) == unicodedata.is_normalized("NFC", text)
    finally:
        normalization._long_run.cache_clear()
