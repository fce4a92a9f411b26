"""A translation memory in a search: equal lines are reused, similar ones shown, and what agrees becomes terms."""

from pathlib import Path

import numpy as np
import pytest

from pellucid.config import DecodeConfig
from pellucid.data.memory_file import remember_pairs
from pellucid.errors import ConfigError, DataError
from pellucid.tasks import memory as memory_module
from pellucid.tasks.flag_report import FlagCounts
from pellucid.tasks.memory import TranslationMemory, find_agreeing, find_changed
from pellucid.tasks.translation import MemoryMatch
from pellucid.tasks.translator import Translator
from pellucid.tasks.word_alignment import PartAlignment, WordAlignment, split_words
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_model

pytest.importorskip("rapidfuzz")

LETTERS = Vocabulary("characters", tuple(" abcdefgh."))
UNITS = [("bad cab", "first"), ("a b c d e f g a", "a b c d e f g b"), ("bad  cab", "head bed")]
LINES = ["bad cab", "", "faded", "a b c d e f g h"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(
        random_model(1, LETTERS.size, sharpness=2.0),
        TokenizerPair(LETTERS, LETTERS),
        DecodeConfig(beam_size=4, max_length=40),
        text=TrainingTextStats(source_length=30, source_longest=30, sentence_ends=0.9, several_sentences=0.0),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    remember_pairs(tmp_path / "memory.sqlite", UNITS)
    return tmp_path / "memory.sqlite"


def align(source: str, target: str, links: dict[int, int]) -> WordAlignment:
    """The alignment of the words of two texts; a target word without a link has that of its position."""
    sources, targets = (split_words(text, (0, len(text))) for text in (source, target))
    weights = np.zeros((len(targets), len(sources)), dtype=np.float32)
    for row in range(len(targets)):
        weights[row, links.get(row, min(row, len(sources) - 1))] = 1
    return WordAlignment([PartAlignment(sources, targets, weights)])


def test_an_equal_line_is_reused(translator: Translator, path: Path) -> None:
    free = translator.translate(LINES)
    found = translator.translate(LINES, memory=path)
    assert found[0].text == "head bed"  # the last translation of the source, equal after normalization
    assert found[0].matches == (MemoryMatch("bad  cab", "head bed", 1.0, "whole"),)
    assert found[0].score == pytest.approx(translator.score(["bad cab"], ["head bed"])[0], abs=1e-4)
    assert found[0].tokens == LETTERS.tokens(LETTERS.encode("head bed"))
    assert [one.text for one in found[1:3]] == [one.text for one in free[1:3]]
    assert [one.matches for one in found[1:3]] == [(), ()]
    assert found[0].to_json()["memory"] == [
        {"source": "bad  cab", "target": "head bed", "similarity": 1.0, "use": "whole"}
    ]
    assert "memory" not in found[2].to_json()
    counts = FlagCounts()
    counts.add(found)
    assert (counts.lines, counts.reused) == (4, 1)


def test_a_similar_line_is_shown_and_gives_terms(translator: Translator, path: Path) -> None:
    (found,) = translator.translate(["a b c d e f g h"], memory=path)
    (match,) = found.matches
    assert (match.target, match.similarity) == ("a b c d e f g b", 0.875)
    (free,) = translator.translate(["a b c d e f g h"])
    if match.use == "":  # the model's alignment or the translation with its terms was not good enough
        assert found.text == free.text


def test_the_terms_are_in_the_translation(translator: Translator, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "find_agreeing", lambda *_: ["a b c", "e f"])
    monkeypatch.setattr("pellucid.tasks.guards.find_flags", lambda *_, **__: [])
    (found,) = translator.translate(["a b c d e f g h"], memory=path)
    assert found.matches[0].use == "terms"
    assert "a b c" in found.text
    assert "e f" in found.text
    (below,) = translator.translate(["a b c d e h h h"], memory=path)
    assert below.matches == ()


def test_what_was_remembered_is_used_at_once(translator: Translator, path: Path) -> None:
    translator.translate(["faded"], memory=path)
    remember_pairs(path, [("faded", "gag")])
    assert translator.translate(["faded"], memory=str(path))[0].text == "gag"


def test_each_line_is_as_alone(translator: Translator, path: Path) -> None:
    together = translator.translate(LINES, memory=path)
    alone = [translator.translate([line], memory=path)[0] for line in LINES]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.matches for one in together] == [one.matches for one in alone]
    assert [one.text for one in translator.stream(iter(LINES), memory=path)] == [one.text for one in alone]


def test_options_of_a_line_go_before_the_memory(translator: Translator, path: Path) -> None:
    begun = translator.translate(["bad cab"] * 2, memory=path, prefixes=["ab", "head"])
    assert begun[0].text.startswith("ab")
    assert (begun[0].matches[0].use, begun[1].matches[0].use) == ("", "whole")
    (held,) = translator.translate(["bad cab"], memory=path, constraints=[["gg"]])
    assert "gg" in held.text


def test_what_cannot_be(translator: Translator, path: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        translator.translate(["a"], memory=tmp_path / "missing.tmx")
    with pytest.raises(ConfigError, match="`memory=` selects one translation"):
        translator.translate(["a"], memory=path, next_token_alternatives=2)
    with pytest.raises(ConfigError, match="`memory=` is an option of `translate`"):
        translator.trace("a", memory=path)


def test_similarity_is_that_of_words() -> None:
    memory = TranslationMemory(
        [("one two three four", "x"), ("一二三四五六", "y"), ("one two three four five", "z")], LETTERS
    )
    assert len(memory) == 3
    found = memory.find("one two three five")
    assert [(one.target, round(one.similarity, 4)) for one in found] == [("z", 0.8), ("x", 0.75)]
    assert [(one.target, round(one.similarity, 4)) for one in memory.find("一二三四五七")] == [("y", 0.8333)]
    assert memory.find("eight nine") == memory.find(" ") == []
    assert memory.find("one two, three four")[0].similarity == 0.8
    assert TranslationMemory([("a b.", "x")], LETTERS).find("a b .") == [MemoryMatch("a b.", "x", 0.99)]


def test_words_beyond_the_last_character_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "_LAST", memory_module._FIRST + 3)
    memory = TranslationMemory([("one two three four", "x"), ("one two three five", "y")], LETTERS)
    assert [one.target for one in memory.find("one two three six")] == ["x", "y"]
    assert {one.similarity for one in memory.find("one two three six")} == {0.75}


@pytest.mark.parametrize(
    ("source", "line", "changed"),
    [
        ("a red car", "a blue car", ["red"]),
        ("a red car", "a car", ["red"]),
        ("a car", "a red car", []),
        ("a red car", "a very blue car", ["red"]),
        ("a red car here", "a blue car there now", ["red", "here"]),
        ("a red car", "a red car now", []),
        ("一二三", "一四三", ["二"]),
    ],
)
def test_the_changed_words(source: str, line: str, changed: list[str]) -> None:
    assert [source[start:end] for start, end in find_changed(source, line)] == changed


def test_the_words_that_agree() -> None:
    source, target = "Der rote Wagen fährt hier", "The red car drives here"
    changed = [(4, 8)]
    assert find_agreeing(target, align(source, target, {}), changed) == ["car drives here"]
    # "car" is also a translation of the changed word
    assert find_agreeing(target, align(source, target, {2: 1}), changed) == ["drives here"]
    # no word of the translation belongs to the changed one
    assert find_agreeing(target, align(source, target, {1: 0}), changed) == []
    unknown = WordAlignment([PartAlignment([], [], np.zeros((0, 0), dtype=np.float32), known=False)])
    assert find_agreeing(target, unknown, changed) == []
