"""Texts that a program hands over: which rows are understood, what is refused, what is noticed when it changes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DataConfig
from pellucid.data.continuous_text import ContinuousText
from pellucid.data.in_memory import load_in_memory_texts
from pellucid.data.prepare import Corpus, open_corpus
from pellucid.errors import ConfigError, DataError
from tests.toy_task import reversed_letters, write_pairs

PAIRS = reversed_letters(50)


@dataclass(frozen=True)
class ClassLabel:
    """As Hugging Face's `datasets` names the classes of a column of numbers."""

    names: list[str]


@dataclass(frozen=True)
class Dataset:
    """Rows that are tables, with what `datasets` knows of their columns."""

    rows: list[dict[str, Any]]
    features: Mapping[str, Any]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def corpus_of(data: Any, task: str = "translate", *, languages: tuple[str, ...] = (), **settings: Any) -> Corpus:
    config = DataConfig(**{"tokenizer": "spaces", "valid_size": 5, **settings})  # type: ignore[arg-type]
    corpus = open_corpus(config, task, load_in_memory_texts(data, config, task, languages))  # type: ignore[arg-type]
    assert isinstance(corpus, Corpus)
    return corpus


def test_pairs_are_those_of_files_with_the_same_lines(tmp_path: Path) -> None:
    """The same are held out, and the digests are the files': so a run may go on with either."""
    src, tgt = write_pairs(tmp_path, PAIRS)
    of_files = open_corpus(DataConfig(src=src, tgt=tgt, tokenizer="spaces", valid_size=5))
    assert isinstance(of_files, Corpus)
    given = corpus_of(PAIRS)
    assert list(given.train()) == list(of_files.train())
    assert given.valid == of_files.valid
    assert given.digests == of_files.digests
    assert given.digests["src"] == [sha256(Path(src).read_bytes()).hexdigest()]
    assert given.report().startswith(
        "texts: 50 pairs in `data`\n  target equal to source: 15 pairs, kept; first in line 2 of `data`: c\n"
    )


TRANSLATIONS = [{"id": str(n), "translation": {"de": source, "en": target}} for n, (source, target) in enumerate(PAIRS)]


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        ([list(pair) for pair in PAIRS], {}),
        ([{"src": source, "tgt": target} for source, target in PAIRS], {}),
        ([{"target": target, "source": source} for source, target in PAIRS], {}),
        (TRANSLATIONS, {}),
        ([{"translation": {"en": t, "de": s}} for s, t in PAIRS], {"languages": ("de", "en")}),
        ([{"translation": {"en": t, "de": s}} for s, t in PAIRS], {"jsonl_keys": ("translation.de", "translation.en")}),
        ([{"question": s, "answer": t} for s, t in PAIRS], {"jsonl_keys": ("question", "answer")}),
        (Dataset(TRANSLATIONS, {"translation": object()}), {}),
    ],
)
def test_rows_of_each_kind(data: Any, settings: dict[str, Any]) -> None:
    found = corpus_of(data, **settings)
    assert list(found.train()) == list(corpus_of(PAIRS).train())


@pytest.mark.parametrize(
    "data",
    [
        [("good", "yes"), ("bad", "no")] * 10,
        [{"sentence": "good", "label": "yes"}, {"sentence": "bad", "label": "no"}] * 10,
        Dataset([{"text": "good", "label": 1}, {"text": "bad", "label": 0}] * 10, {"label": ClassLabel(["no", "yes"])}),
    ],
)
def test_texts_and_labels(data: Any) -> None:
    found = corpus_of({"train": data, "validation": [("good", "yes")]}, "classify")
    assert list(found.train()) == [("good", "yes"), ("bad", "no")] * 10


def test_labels_that_are_numbers_without_names() -> None:
    found = corpus_of({"train": [("good", 1), ("bad", 0)], "validation": [("good", 1)]}, "classify")
    assert list(found.train()) == [("good", "1"), ("bad", "0")]


@pytest.mark.parametrize("data", [["a b", "c"] * 10, [{"text": "a b"}, {"text": "c"}] * 10, [["a b"], ["c"]] * 10])
def test_texts_alone(data: Any) -> None:
    found = corpus_of({"train": data, "validation": ["a b"]}, "generate")
    assert list(found.train()) == [("a b", "a b"), ("c", "c")] * (len(data) // 2)
    assert set(found.digests) == {"src", "valid_src"}


def test_a_running_text() -> None:
    lines = [f"line {number}\n" for number in range(40)]
    config = DataConfig(tokenizer="characters", text="continuous", max_length=8)
    for data in (lines, [line.strip() for line in lines], ["".join(lines)]):
        corpus = open_corpus(config, "generate", load_in_memory_texts(data, config, "generate"))
        assert isinstance(corpus, ContinuousText)
        chunks = [chunk for chunk, _ in (*corpus.train(), *corpus.valid)]
        assert "".join(chunks) == "".join(lines)


@pytest.mark.parametrize("name", ["validation", "valid", "dev"])
def test_a_mapping_brings_its_own_validation(name: str) -> None:
    found = corpus_of({"train": PAIRS, name: PAIRS[:3], "test": PAIRS[3:5]})
    assert found.valid == PAIRS[:3]
    assert list(found.train()) == PAIRS
    assert set(found.digests) == {"src", "tgt", "valid_src", "valid_tgt"}
    leaked = {finding.fault: finding for finding in found.findings}
    assert "it is line 1 of `data[valid]`" in str(leaked["valid"])
    assert "`data[test]`" in str(leaked["test"])


def test_an_end_of_a_line_becomes_a_space_and_is_told() -> None:
    found = corpus_of([*PAIRS, ("a\nb", "c\r\nd")], valid_size=1)
    assert ("a b", "c d") in {*found.train(), *found.valid}
    assert "line break within" in found.report()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            (pair for pair in PAIRS),
            ConfigError,
            "`data` is a generator, which can be read only once, and training reads",
        ),
        (zip(*zip(*PAIRS, strict=True), strict=True), ConfigError, "`data` is a zip, which can be read only once"),
        ("train.de", ConfigError, "`data` is train.de, which is not an iterable of rows"),
        (7, ConfigError, "`data` is 7, which is not an iterable of rows"),
        ({"dev": PAIRS}, ConfigError, "`data` is a mapping of `dev`, without a `train`"),
        ([*PAIRS, "a b"], DataError, "row 51 of `data` is a b, not a pair (source, target)"),
        ([*PAIRS, ("a", "b", "c")], DataError, "row 51 of `data` is ('a', 'b', 'c'), not a pair"),
        ([*PAIRS, ("a", None)], DataError, "row 51 of `data` holds None, which is not a string"),
        (
            [{"q": "a", "a": "b"}],
            DataError,
            "row 1 of `data` has the columns `q`, `a`, and it is not clear which of them hold a pair",
        ),
        ([*PAIRS, ("a", "\ud800")], DataError, "line 51 of `data` is no"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        corpus_of(data)
    assert str(caught.value).startswith(message.split(" is no")[0])


def test_rows_that_change_from_one_reading_to_the_next_are_refused() -> None:
    class Shuffled:
        def __init__(self) -> None:
            self.times = 0

        def __iter__(self) -> Iterator[tuple[str, str]]:
            self.times += 1
            return iter(PAIRS if self.times < 3 else PAIRS[::-1])

    found = corpus_of({"train": Shuffled(), "validation": PAIRS[:1]})
    with pytest.raises(DataError, match=r"^`data` returned different rows when it was read again"):
        [*found.train(), *found.train(), *found.train()]


def test_fewer_rows_than_before_are_refused() -> None:
    rows = list(PAIRS)
    found = corpus_of({"train": rows, "validation": PAIRS[:1]})
    rows.pop()
    with pytest.raises(DataError, match="returned different rows"):
        list(found.train())


def test_weights_are_of_corpora() -> None:
    with pytest.raises(
        ConfigError, match=r"^`data.corpus_weights` \(\[1.0, 2.0\]\) must have one value per corpus \(1\)$"
    ):
        corpus_of(PAIRS, corpus_weights=(1.0, 2.0))
