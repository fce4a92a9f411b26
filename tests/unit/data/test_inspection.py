"""A corpus looked at: each fault is counted and its first place named, and what is left out is what was said."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pellucid.config import DataConfig
from pellucid.config.data import Normalization
from pellucid.data.inspection import Inspection
from pellucid.data.issues import ADVICE, TITLES, Issue
from pellucid.data.pair_checks import HeldOut
from pellucid.data.parallel import ParallelText
from pellucid.data.streamed_inspection import inspect_corpus
from pellucid.errors import DataError
from tests.toy_task import reversed_letters

CLEAN = [(f"source {i}", f"target {i}") for i in range(20)]


def look(
    folder: Path, *corpora: Sequence[tuple[object, object]], held_out: HeldOut | None = None, **fields: object
) -> Inspection:
    """The corpora, text or bytes, written to a0.src, a0.tgt, a1.src and so on, and inspected."""
    texts = []
    for number, pairs in enumerate(corpora):
        paths = []
        for side, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
            paths.append(folder / f"a{number}.{side}")
            raw = (line if isinstance(line, bytes) else str(line).encode() for line in lines)
            paths[-1].write_bytes(b"".join(line + b"\n" for line in raw))
        texts.append(ParallelText(*map(str, paths)))
    return inspect_corpus(texts, DataConfig(**fields), held_out or {})  # type: ignore[arg-type]


def said(seen: Inspection, folder: Path) -> list[str]:
    return [str(finding).replace(f"{folder}/", "") for finding in seen.findings]


def kept(seen: Inspection, **fields: object) -> list[tuple[str, str]]:
    return list(seen.pairs(seen.used, DataConfig(**fields).on_bad_utf8))  # type: ignore[arg-type]


def test_a_clean_corpus(tmp_path: Path) -> None:
    seen = look(tmp_path, CLEAN)
    assert seen.findings == ()
    assert (seen.counts, kept(seen)) == ((20,), CLEAN)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("a", ""), ("", "b"), ("\u3000\t", "x")], "empty side: 3 pairs, left out; first in line 21 of `a0.tgt`"),
        ([("x y z", "b")], "too long: 1 line, left out; first in line 21 of `a0.src`: at least 3 tokens"),
        ([("x", "x"), (" ü ", "ü")], "target equal to source: 2 pairs, kept; first in line 21 of `a0.src`: x"),
        ([CLEAN[3], CLEAN[1]], "duplicate pair: 2 pairs, kept; first in line 21 of `a0.src`: as line 4"),
        ([("ok", "fÃ¼r")], "UTF-8 encoded twice, as Ã¼ for ü: 1 line, kept; first in line 21 of `a0.tgt`: fÃ¼r"),
        ([("a\ufffd", "b")], "U+FFFD, where a character was lost: 1 line, kept; first in line 21 of `a0.src`: a\ufffd"),
        ([("a\0", "b"), ("a", "\x1bb")], "control characters: 2 lines, kept; first in line 21 of `a0.src`: U+0000"),
    ],
)  # fmt: skip
def test_each_fault_by_itself(tmp_path: Path, rows: list[tuple[str, str]], sentence: str) -> None:
    seen = look(tmp_path, [*CLEAN, *rows], max_length=2)
    assert said(seen, tmp_path) == [sentence]
    left_out = "empty" in sentence
    assert kept(seen) == ([*CLEAN] if left_out else [*CLEAN, *rows])


SPELLINGS = ("Männer", "Ma\u0308nner", "Män\u200bner", "\ufeffMänner ", "Män\xadner")
"""One word to a tokenizer with "nfc", however it is typed."""


@pytest.mark.parametrize("form", ["nfc", "none"])
def test_what_is_equal_to_the_tokenizer_is_equal(tmp_path: Path, form: Normalization) -> None:
    """Repeats, copies, leaks and empty sides: all of them by the run's normalisation."""
    pairs = [(f"{word} da", "men there") for word in SPELLINGS]
    pairs += [(SPELLINGS[1], SPELLINGS[0]), ("\u200b", "x")]
    seen = look(tmp_path, pairs, held_out={"test": ("t", [f"{SPELLINGS[0]} da"])}, normalize=form, on_duplicate="skip")
    counts = {finding.fault: finding.count for finding in seen.findings}
    alike = {"duplicate": 4, "copy": 1, "test": 1, "empty": 1}
    assert counts == (alike if form == "nfc" else {"test": 1})
    assert int(seen.used.sum()) == (2 if form == "nfc" else 7)
    texts = seen.texts
    split = inspect_corpus(texts, DataConfig(normalize=form), {}, choose=lambda *_: np.array([0]))
    assert split.held_out.tolist() == [True, *[False] * 6]
    assert split.valid == (pairs[0],)
    assert split.trained[:5].tolist() == [False, *[form == "none"] * 4]


def test_bad_utf8_by_the_policy(tmp_path: Path) -> None:
    rows = [*CLEAN, (b"b\xe4d", b"c"), ("e", b"\xff"), (b"\xfe", b"\xff")]
    with pytest.raises(DataError, match=r"a0\.src` is not UTF-8: line 21, byte 2 is 0xe4$"):
        look(tmp_path, rows)
    first = "first in line 21 of `a0.src`: byte 2 is 0xe4; it could be cp1252 (Western European)"
    seen = look(tmp_path, rows, on_bad_utf8="replace")
    assert said(seen, tmp_path)[0] == f"not UTF-8: 4 lines, replaced by U+FFFD; {first}"
    assert [finding.fault for finding in seen.findings] == ["utf8", "copy"], (
        "what was replaced here was not lost before"
    )
    assert kept(seen, on_bad_utf8="replace")[20:] == [("b\ufffdd", "c"), ("e", "\ufffd"), ("\ufffd", "\ufffd")]
    seen = look(tmp_path, rows, on_bad_utf8="skip")
    assert said(seen, tmp_path) == [f"not UTF-8: 4 lines, left out; {first}"]
    assert kept(seen, on_bad_utf8="skip") == CLEAN


def test_copies_and_repeated_pairs_may_be_left_out(tmp_path: Path) -> None:
    one, other = [*CLEAN, ("x", "x"), CLEAN[3]], [("x", "x"), CLEAN[3], ("new", "neu"), ("new", "neu")]
    both = look(tmp_path, one, other)
    assert said(both, tmp_path) == [
        "target equal to source: 2 pairs, kept; first in line 21 of `a0.src`: x",
        "duplicate pair: 4 pairs, kept; first in line 22 of `a0.src`: as line 4",
    ]
    assert kept(both) == [*one, *other]
    assert kept(look(tmp_path, one, other, on_copy="skip")) == [*CLEAN, CLEAN[3], *other[1:]]
    seen = look(tmp_path, one, other, on_duplicate="skip")
    assert kept(seen) == [*one[:21], ("new", "neu")]
    assert "left out" in said(seen, tmp_path)[1]
    assert kept(look(tmp_path, one, other, on_copy="skip", on_duplicate="skip")) == [*CLEAN, ("new", "neu")]


def test_a_pair_that_occurred_in_another_corpus(tmp_path: Path) -> None:
    seen = look(tmp_path, CLEAN, [("a", "b"), CLEAN[7]])
    as_line_8 = f"as line 8 of `{tmp_path / 'a0.src'}`"
    finding = Issue("duplicate", 1, str(tmp_path / "a1.src"), 2, as_line_8, "pairs", "kept")
    assert seen.findings == (finding,)
    assert seen.place(21) == (str(tmp_path / "a1.src"), 2)


def test_only_used_pairs_are_repeated_ones(tmp_path: Path) -> None:
    rows = [*CLEAN, ("", "b"), ("", "b"), ("x", "x"), ("x", "x")]
    assert look(tmp_path, rows, on_copy="skip").get_finding("duplicate") is None


def test_sentences_of_the_test_in_the_training_text(tmp_path: Path) -> None:
    held_out: HeldOut = {"test": ("test.de", ["no", "source 7 ", "", "source 2"]), "valid": ("valid.de", ["no"])}
    seen = look(tmp_path, [*CLEAN, ("source 2", "again"), ("", "x")], held_out=held_out)
    assert said(seen, tmp_path)[1:] == [
        "test sentences in the training text: 2 of 4 sentences, kept; first in line 3 of `a0.src`: "
        "it is line 4 of `test.de`"
    ]
    assert len(kept(seen)) == 21


def test_all_faults_have_words() -> None:
    assert set(TITLES) == set(ADVICE)


def sentences(count: int) -> list[tuple[str, str]]:
    return reversed_letters(count, longest=40)


def test_unequal_files_are_shown_where_they_part(tmp_path: Path) -> None:
    pairs = sentences(800)
    sources, targets = map(list, zip(*pairs, strict=True))
    del sources[499]
    (tmp_path / "a.src").write_text("\n".join(sources) + "\n")
    (tmp_path / "a.tgt").write_text("\n".join(targets) + "\n")
    seen = inspect_corpus([ParallelText(str(tmp_path / "a.src"), str(tmp_path / "a.tgt"))], DataConfig(), {})
    with pytest.raises(DataError) as error:
        seen.check()
    first, second, *shown = str(error.value).replace(f"{tmp_path}/", "").splitlines()
    assert first == "`a.src` and `a.tgt` must have the same number of lines, but `a.src` has 799 and `a.tgt` 800"
    assert second.startswith("judging by the lengths of the lines, from line 500 on")
    assert second.endswith(
        "line n of `a.src` belongs to line n + 1 of `a.tgt`: there a line is missing in `a.src`, "
        "or one is too many in `a.tgt`"
    )
    marked = next(line for line in shown if line.startswith(">"))
    assert marked.split()[:2] == [">", "500"]
    assert f"  {sources[499][:40]}" in marked
    assert f"| {targets[499][:40]}" in marked
    assert len(shown) >= 5


def test_a_shift_between_equal_files_is_a_finding(tmp_path: Path) -> None:
    pairs = sentences(800)
    sources, targets = map(list, zip(*pairs, strict=True))
    targets.insert(600, targets[600])
    del targets[300]
    seen = look(tmp_path, list(zip(sources, targets, strict=True)))
    shift = seen.get_finding("shift")
    assert shift is not None
    assert abs(shift.line - 301) <= 5
    assert "line n of `" in shift.detail
    assert "up to about line" in shift.detail
    assert "a line is missing in" in shift.detail
    seen.check()
    assert len(kept(seen)) == 800, "a warning only"


def test_nothing_but_empty_files(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    path = str(tmp_path / "a")
    with pytest.raises(DataError, match=r"^`.*a` and `.*a` are empty$"):
        inspect_corpus([ParallelText(path, path)], DataConfig(), {}).check()
    (tmp_path / "a.tsv").touch()
    with pytest.raises(DataError, match=r"^`.*a\.tsv` is empty$"):
        inspect_corpus([ParallelText(f"{path}.tsv", "")], DataConfig(), {}).check()


@pytest.mark.parametrize(("tokenizer", "tokens"), [("bpe", 2), ("characters", 5), ("bytes", 6)])
def test_the_fewest_tokens_of_a_line(tmp_path: Path, tokenizer: str, tokens: int) -> None:
    row = [("a", "bc üd")]
    assert look(tmp_path, row, tokenizer=tokenizer, max_length=tokens).get_finding("too_long") is None
    finding = look(tmp_path, row, tokenizer=tokenizer, max_length=tokens - 1).get_finding("too_long")
    assert finding is not None
    assert (finding.path, finding.detail) == (str(tmp_path / "a0.tgt"), f"at least {tokens} tokens")
    assert replace(finding, count=3).to_json()["count"] == 3
