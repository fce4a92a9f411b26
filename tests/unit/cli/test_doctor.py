"""`pellucid doctor`: faults planted in a corpus, each found and named with its place, alone and all together."""

import gzip
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pellucid.data.doctor import CorpusCheck
from tests.unit.cli.command_line import CommandLine

Lines = list[bytes]
Plant = Callable[[Lines, Lines], object]


def sentences(count: int, seed: int = 1) -> tuple[Lines, Lines]:
    """Made-up words, and for each of them another one of about its length."""
    generator = random.Random(seed)

    def word(length: int) -> str:
        return "".join(generator.choices("abcdefghijklmnopqrstuvwxyzäöüß", k=max(2, length)))

    lexicon = [(word(length), word(length + generator.randint(-1, 2))) for length in range(2, 12) for _ in range(30)]
    rows = [generator.sample(lexicon, generator.randint(4, 25)) for _ in range(count)]
    src, tgt = ([" ".join(pair[side] for pair in row).encode() for row in rows] for side in (0, 1))
    return src, tgt


TEST = sentences(50, seed=2)
VALID = sentences(50, seed=3)


def replace_line(side: int, line: int, text: bytes) -> Plant:
    return lambda *sides: sides[side].__setitem__(line - 1, text)


def long_line(src: Lines, tgt: Lines) -> None:
    src[299] = b" ".join([b"wort"] * 257)


def bad_byte(src: Lines, tgt: Lines) -> None:
    tgt[99] = b"caf\xe9"


def copied(src: Lines, tgt: Lines) -> None:
    tgt[399] = src[399]


def repeated(src: Lines, tgt: Lines) -> None:
    src[449], tgt[449] = src[3], tgt[3]


def leaked_test(src: Lines, tgt: Lines) -> None:
    src[499] = TEST[0][6]


def leaked_valid(src: Lines, tgt: Lines) -> None:
    src[509], tgt[509] = VALID[0][8], VALID[1][8]


def lost(src: Lines, tgt: Lines) -> None:
    del tgt[799]


ALONE: dict[str, tuple[Plant, str]] = {
    "bad UTF-8": (bad_byte, "not UTF-8: 1 line, training stops there; first in line 100 of `a.tgt`: byte 4 is 0xe9"),
    "encoded twice": (
        replace_line(0, 150, "für".encode().decode("latin-1").encode()),
        "UTF-8 encoded twice, as Ã¼ for ü: 1 line, kept; first in line 150 of `a.src`: fÃ¼r",
    ),
    "lost character": (
        replace_line(1, 160, "caf\ufffd".encode()),
        "U+FFFD, where a character was lost: 1 line, kept; first in line 160 of `a.tgt`: caf\ufffd",
    ),
    "NUL": (replace_line(0, 170, b"a\0b"), "control characters: 1 line, kept; first in line 170 of `a.src`: U+0000"),
    "empty": (replace_line(1, 200, b""), "empty side: 1 pair, left out; first in line 200 of `a.tgt`"),
    "long": (long_line, "too long: 1 line, left out; first in line 300 of `a.src`: at least 257 tokens"),
    "copy": (copied, "target equal to source: 1 pair, kept; first in line 400 of `a.src`: "),
    "repeated": (repeated, "duplicate pair: 1 pair, kept; first in line 450 of `a.src`: as line 4"),
    "test": (
        leaked_test,
        "test sentences in the training text: 1 of 50 sentences, kept; first in line 500 of `a.src`: "
        "it is line 7 of `test.src`",
    ),
    "validation": (
        leaked_valid,
        "validation sentences in the training text: 1 of 50 sentences, kept; first in line 510 of `a.src`: "
        "it is line 9 of `valid.src`",
    ),
    "lost line": (
        lost,
        "different numbers of lines: `a.src` and `a.tgt` must have the same number of lines, but `a.tgt` has 999 and "
        "`a.src` 1,000",
    ),
    "white space": (
        replace_line(0, 210, " \u3000\t".encode()),
        "empty side: 1 pair, left out; first in line 210 of `a.src`",
    ),
}  # fmt: skip


def plant(folder: Path, *faults: Plant) -> list[str]:
    """A corpus with these faults in a folder; the arguments that name it."""
    src, tgt = sentences(1000)
    for fault in faults:
        fault(src, tgt)
    for name, sides in (("a", (src, tgt)), ("test", TEST), ("valid", VALID)):
        for side, lines in zip(("src", "tgt"), sides, strict=True):
            (folder / f"{name}.{side}").write_bytes(b"".join(line + b"\n" for line in lines))
    return [
        "doctor", "--src", "a.src", "--tgt", "a.tgt", "--test-src", "test.src", "--test-tgt", "test.tgt",
        "--valid-src", "valid.src", "--valid-tgt", "valid.tgt",
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)


BY_THE_WAY = ("unusual ratio of lengths", "another language than", "repetition")
"""What a planted line has besides, beside a long one that it does not translate. Here it is about what was planted."""


def reds(out: str) -> list[str]:
    """The first line of each check that found something, however bad, but for what follows from how it was planted."""
    found = [line[5:] for line in out.splitlines() if line.startswith(("BAD  ", "note "))]
    return [line for line in found if not line.startswith(BY_THE_WAY)]


BAD = {"bad UTF-8", "test", "validation", "lost line"}
"""One of a thousand pairs spoils no training; bytes that stop it do, and a fiftieth of the sentences held out."""


def test_a_healthy_corpus(pellucid: CommandLine, tmp_path: Path) -> None:
    outcome = pellucid(*plant(tmp_path))
    assert (outcome.status, outcome.err) == (0, "")
    assert {line[:5] for line in outcome.out.splitlines()} == {"ok   "}
    assert outcome.out.startswith("ok   1,000 pairs in `a.src` and `a.tgt`\nok   different numbers of lines: none\n")
    assert "ok   50 pairs in `valid.src` and `valid.tgt`\n" in outcome.out
    assert "\x1b" not in outcome.out


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_each_fault_alone(pellucid: CommandLine, tmp_path: Path, name: str) -> None:
    fault, sentence = ALONE[name]
    outcome = pellucid(*plant(tmp_path, fault))
    assert (outcome.status, outcome.err) == (int(name in BAD), "")
    (red,) = [line for line in reds(outcome.out) if not line.startswith("spaces other")]
    assert red.startswith(sentence)
    assert ("\nBAD  " in outcome.out) is (name in BAD)
    assert "\n     -> " in outcome.out
    if name == "lost line":
        assert "in `a.tgt`, or one is too many in `a.src`" in outcome.out
        marked = int(next(line for line in outcome.out.splitlines() if line.startswith("     >")).split()[1])
        assert abs(marked - 800) <= 5


@pytest.mark.slow
def test_all_faults_together(pellucid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = pellucid(*plant(tmp_path, *(fault for fault, _ in ALONE.values())))
    out = outcome.out
    assert (outcome.status, outcome.err) == (1, "")
    expected = [sentence for name, (_, sentence) in ALONE.items() if "empty side" not in sentence]
    expected.append("empty side: 2 pairs, left out; first in line 200 of `a.tgt`")
    found = [line for line in reds(out) if not line.startswith("spaces other")]
    assert len(found) == len(expected) == 11
    for sentence in expected:
        assert any(line.startswith(sentence) for line in found), (sentence, out)
    assert "ok   50 pairs in `valid.src` and `valid.tgt`" in out


def decomposed(src: Lines, tgt: Lines) -> None:
    for line in (4, 9, 14):
        src[line] = unicodedata.normalize("NFD", src[line].decode() + " ü").encode()


def invisible(src: Lines, tgt: Lines) -> None:
    src[34], tgt[35] = "\u200bauf".encode(), "a\xad".encode()


def quoted(src: Lines, tgt: Lines) -> None:
    src[39:42] = b'"a" b', b'"c" d', "„e“ f".encode()


SPELLED: dict[str, tuple[Plant, str, dict[str, str]]] = {
    "decomposed": (
        decomposed,
        "decomposed letters and accents (not NFC): 3 lines, EFFECT; first in line 5 of `a.src`",
        {"nfc": "composed", "nmt_nfkc": "composed", "none": "kept"},
    ),
    "no-break space": (
        replace_line(1, 33, "auf\xa0ein Wort".encode()),
        "spaces other than a single plain space: 1 line, EFFECT; first in line 33 of `a.tgt`: U+00A0",
        {"nfc": "read as one space", "nmt_nfkc": "read as one space", "none": "kept"},
    ),
    "two spaces": (
        replace_line(1, 33, b"auf  ein Wort"),
        "spaces other than a single plain space: 1 line, EFFECT; first in line 33 of `a.tgt`: two spaces",
        {"nfc": "read as one space", "none": "kept"},
    ),
    "space at an end": (
        replace_line(0, 34, b"auf ein Wort "),
        "spaces other than a single plain space: 1 line, EFFECT; first in line 34 of `a.src`: at an end",
        {"nfc": "read as one space", "none": "kept"},
    ),
    "invisible, on both sides": (
        invisible,
        "zero-width characters and soft hyphens: 2 lines (1 in `a.src` and 1 in `a.tgt`), EFFECT; first in line 35 of "
        "`a.src`: U+200B",
        {"nfc": "removed if they have no effect", "nmt_nfkc": "removed or read as spaces", "none": "kept"},
    ),
    "full width": (
        replace_line(0, 37, "Ａ １".encode()),
        "full-width letters and marks: 1 line, EFFECT; first in line 37 of `a.src`: Ａ",
        {"nfc": "kept", "nmt_nfkc": "read as plain letters and marks", "none": "kept"},
    ),
    "quotation marks": (
        quoted,
        "straight and typographic quotation marks: 1 line, EFFECT; first in line 42 of `a.src`: „",
        {"nfc": "kept", "none": "kept"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "normalize"), [(name, way) for name, (*_, ways) in SPELLED.items() for way in ways])
@pytest.mark.slow
def test_how_a_text_is_typed_is_told_and_is_no_fault(
    pellucid: CommandLine, tmp_path: Path, name: str, normalize: str
) -> None:
    fault, sentence, effects = SPELLED[name]
    outcome = pellucid(*plant(tmp_path, fault), "--set", f"data.normalize={normalize}")
    assert (outcome.status, outcome.err) == (0, "")
    assert reds(outcome.out) == [sentence.replace("EFFECT", effects[normalize])]
    assert f"note {sentence[:20]}" in outcome.out
    assert "\n     -> " in outcome.out


@pytest.mark.slow
def test_a_part_that_spoils_a_training_is_bad(pellucid: CommandLine, tmp_path: Path) -> None:
    """A fiftieth of the lines without another side are worth a word, a tenth and one more are not to be trained on."""

    def empty(lines: int) -> Plant:
        return lambda src, tgt: tgt.__setitem__(slice(lines), [b""] * lines)

    assert pellucid(*plant(tmp_path, empty(100))).status == 0
    outcome = pellucid(*plant(tmp_path, empty(101)))
    assert outcome.status == 1
    assert "\nBAD  empty side: 101 pairs, left out; " in outcome.out


@pytest.mark.slow
def test_one_validation_sentence_of_many_spoils_nothing(pellucid: CommandLine, tmp_path: Path) -> None:
    many = sentences(200, seed=5)

    def one(src: Lines, tgt: Lines) -> None:
        src[20], tgt[20] = many[0][0], many[1][0]

    arguments = plant(tmp_path, one)
    for side, lines in zip(("src", "tgt"), many, strict=True):
        (tmp_path / f"valid.{side}").write_bytes(b"\n".join(lines) + b"\n")
    outcome = pellucid(*arguments)
    assert outcome.status == 0
    assert "note validation sentences in the training text: 1 of 200 sentences, kept" in outcome.out


@pytest.mark.slow
def test_each_of_several_validation_texts_is_looked_for(pellucid: CommandLine, tmp_path: Path) -> None:
    other = sentences(9, seed=6)

    def several(src: Lines, tgt: Lines) -> None:
        src[30], tgt[30] = other[0][0], other[1][0]

    arguments = plant(tmp_path, several)
    for side, lines in zip(("src", "tgt"), other, strict=True):
        (tmp_path / f"other.{side}").write_bytes(b"\n".join(lines) + b"\n")
    more = ["--valid-src", tmp_path / "other.src", "--valid-tgt", tmp_path / "other.tgt"]
    outcome = pellucid(*arguments, *more)
    assert outcome.status == 1
    assert "BAD  validation sentences in the training text: 1 of 59 sentences" in outcome.out


def test_on_a_terminal_no_line_is_wider_than_it_and_levels_have_colours() -> None:
    long = CorpusCheck("BAD", f"sentences: {'word ' * 30}\n> 12  a | {'b ' * 50}", "mend " * 30)
    lines = long.to_text(colour=False, width=80).splitlines()
    table = [line for line in lines if " | " in line]
    assert all(len(line) <= 80 for line in lines if line not in table)
    assert table == [f"     > 12  a | {'b ' * 50}"]
    assert lines[0].startswith("BAD  sentences: word")
    assert all(line.startswith("     ") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(f"{long.to_text(colour=False)}".split())
    assert {CorpusCheck(level, "x").to_text(colour=True) for level in ("ok", "note", "BAD")} == {
        "\x1b[32mok  \x1b[0m x", "\x1b[33mnote\x1b[0m x", "\x1b[31mBAD \x1b[0m x",
    }  # fmt: skip


@pytest.mark.slow
def test_a_shift_between_files_of_equal_length(pellucid: CommandLine, tmp_path: Path) -> None:
    def shift(src: Lines, tgt: Lines) -> None:
        tgt.insert(700, tgt[700])
        del tgt[299]

    outcome = pellucid(*plant(tmp_path, shift))
    assert outcome.status == 1
    (red,) = [line for line in reds(outcome.out) if line.startswith("lines that do not belong together: ")]
    assert "there a line is missing in `a.tgt`, or one is too many in `a.src`" in red
    marked = int(next(line for line in outcome.out.splitlines() if line.startswith("     >")).split()[1])
    assert abs(marked - 300) <= 5


def test_what_cannot_be_read_is_red(pellucid: CommandLine, tmp_path: Path) -> None:
    Path("a.tsv").write_bytes(b"a\tb\nalone\n")
    Path("b.jsonl.gz").write_bytes(gzip.compress(b'{"src": "a", "tgt": "b"}\n{"src": "a"}\n'))
    Path("c.tsv").write_bytes("a\tb\n".encode("utf-16"))
    Path("d.tsv").touch()
    for name, sentence in (
        ("a.tsv", "line 2 of `a.tsv` has 1 column, but source and target are columns 1 and 2"),
        ("b.jsonl.gz", "line 2 of `b.jsonl.gz` has no `tgt`; its keys: `src`"),
        ("c.tsv", "`c.tsv` is UTF-16, not UTF-8"),
        ("d.tsv", "`d.tsv`: no pair in it"),
    ):
        outcome = pellucid("doctor", "--src", name)
        assert (outcome.status, outcome.err, reds(outcome.out)) == (1, "", [sentence])
        assert "\n     -> " in outcome.out


def test_json_lines(pellucid: CommandLine) -> None:
    Path("a.jsonl").write_bytes(b'{"de": "a\\nb", "en": "b"}\n')
    outcome = pellucid("doctor", "--src", "a.jsonl", "--set", 'data.jsonl_keys=["de", "en"]')
    assert reds(outcome.out) == [
        "line break within a JSON string: 1 line, read as a space; first in line 1 of `a.jsonl`: in `de`"
    ]
    assert "different numbers of lines" not in outcome.out, "one file cannot differ from itself"


@pytest.mark.slow
def test_settings_say_what_becomes_of_a_fault(pellucid: CommandLine, tmp_path: Path) -> None:
    arguments = plant(tmp_path, bad_byte, copied, repeated, long_line)
    Path("mine.toml").write_text('[data]\non_bad_utf8 = "skip"\non_copy = "skip"\non_too_long = "cut"\n')
    found = reds(pellucid(*arguments, "--recipe", "mine.toml", "--set", "data.on_duplicate=skip").out)
    assert [line.partition(";")[0] for line in found] == [
        "not UTF-8: 1 line, left out", "too long: 1 line, cut", "target equal to source: 1 pair, left out",
        "duplicate pair: 1 pair, left out",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "`--src` is not given"),
        (["--src", "a.src"], "`--tgt` is not given"),
        (["--src", "no", "--tgt", "a.tgt"], "no file `no`; looked for `no`"),
        (["--sorce", "a"], "pellucid doctor has no option `--sorce`; did you mean `--src`?"),
    ],
)
def test_a_command_that_cannot_be_given(
    pellucid: CommandLine, tmp_path: Path, arguments: list[str], error: str
) -> None:
    plant(tmp_path)
    outcome = pellucid("doctor", *arguments)
    assert (outcome.status, outcome.error, outcome.out) == (2, error, "")


@pytest.mark.slow
def test_colours_on_a_terminal_alone(pellucid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = pellucid(*plant(tmp_path, bad_byte)).out
    assert coloured.startswith("\x1b[32mok  \x1b[0m ")
    assert "\x1b[31mBAD \x1b[0m not UTF-8" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in pellucid(*plant(tmp_path, bad_byte)).out


@pytest.mark.slow
def test_a_model_is_examined_a_line_for_each_check(pellucid: CommandLine, finished_run: Path) -> None:
    outcome = pellucid("doctor", finished_run)
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert [line[5:].partition(":")[0] for line in lines] == [
        "numbers", "repeatable", "tied", "saved", "causal", "context", "padding", "batch", "positions", "cache",
        "hypotheses", "greedy", "neighbours", "accumulation", "faithfulness", "conversions",
    ]  # fmt: skip
    assert {line[:4] for line in lines[:-1]} == {"ok  "}
    assert lines[-1] == "n/a  conversions: the folder was not converted, and has no stored conversion"


@pytest.mark.slow
def test_a_model_with_a_fault_is_bad_and_ends_in_status_1(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaking(length: int, device: torch.device) -> torch.Tensor:
        return torch.ones(1, 1, length, length, dtype=torch.bool, device=device)

    monkeypatch.setattr("pellucid.model.transformer.make_marked_causal_mask", leaking)
    outcome = pellucid("doctor", finished_run)
    assert outcome.status == 1
    assert "BAD  causal: later positions change earlier logits by " in outcome.out
    assert (
        "\n     -> a position sees the token that it must predict: pass the causal mask to attention\n" in outcome.out
    )
    assert "\n     -> it may follow from `causal`: fix that first\n" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("run", "--src", "a"), "--src has no effect when checking a model"),
        (("run", "--set", "train.steps=2"), "--set has no effect when checking a model"),
        (("run", "--num-kills", "2"), "--num-kills has no effect when checking a model"),
        (("run", "--verify-resume", "dates"), "a model (`run`) and --verify-resume cannot be checked together"),
        (("--src", "a", "--tgt", "b", "--max-minutes", "2"), "--max-minutes has no effect when checking a corpus"),
        (("--src", "a", "--tgt", "b", "--dtype", "float32"), "--dtype has no effect when checking a corpus"),
        (
            ("--verify-resume", "dates", "--recipe", "dates2"),
            "--recipe has no effect when checking a recipe with --verify-resume",
        ),
        (("--verify-resume", "dates", "--num-kills", "0"), "`--num-kills 0` must be above 0"),
        (("a.de",), "`a.de` is a file, but a model is a folder"),
        (("nowhere",), "`nowhere` is not a model folder: it does not exist"),
    ],
)
def test_what_does_not_go_together_is_refused(
    pellucid: CommandLine, arguments: tuple[str, ...], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.de").write_text("Ein Hund\n", encoding="utf-8")
    outcome = pellucid("doctor", *arguments)
    assert (outcome.status, outcome.error) == (2, error)
