"""What is usual in a corpus, found in a first pass."""

import math
import random
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data import profile as module
from pellucid.data.parallel import ParallelText
from pellucid.data.profile import CharacterTrigrams, profile_corpus
from tests.toy_task import write_pairs


def texts(folder: Path, pairs: list[tuple[str, str]]) -> list[ParallelText]:
    return [ParallelText(*write_pairs(folder, pairs, "a"))]


def test_scripts_lengths_and_letters_of_each_side(tmp_path: Path) -> None:
    pairs = [(f"A man has {n} dogs.", f"남자에게 개가 {n} 마리 있다.") for n in range(100)]
    pairs[10] = "Привет, мир", "Hello, world"
    usual = profile_corpus(texts(tmp_path, pairs), DataConfig(on_bad_utf8="replace"))
    assert usual.pairs == 100
    assert usual.scripts == (frozenset({"Latin"}), frozenset({"Hangul"}))
    target, source = (len(side.encode()) for side in ("남자에게 개가 50 마리 있다.", "A man has 50 dogs."))
    assert usual.ratio == pytest.approx(math.log((target + 10) / (source + 10)))
    assert usual.letters[0] == pytest.approx(11 / 14)
    assert usual.languages is None, "a hundred pairs say little of a language"
    assert not usual.markup
    assert usual.kana == (False, False)


def test_japanese_is_written_in_both(tmp_path: Path) -> None:
    usual = profile_corpus(
        texts(tmp_path, [("若い男が走る。", "A young man runs.")] * 30), DataConfig(on_bad_utf8="replace")
    )
    assert usual.scripts[0] == {"Han", "Kana"}
    assert usual.kana == (True, False)


def test_the_sample_is_bounded_and_of_the_whole_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the text in another script, the last: a sample of the beginning would not see it."""
    monkeypatch.setattr(module, "SAMPLE", 50)
    seen: list[int] = []

    def first_letters(lines: list[str]) -> frozenset[str]:
        seen.append(len(lines))
        return frozenset(line[0] for line in lines)

    monkeypatch.setattr(module, "_find_main_scripts", first_letters)
    usual = profile_corpus(
        texts(tmp_path, [("a b", "x")] * 500 + [("б в", "x")] * 500), DataConfig(on_bad_utf8="replace")
    )
    assert all(20 <= count <= 51 for count in seen)
    assert usual.scripts[0] == {"a", "б"}


def test_repeated_pairs_are_known_by_their_hashes(tmp_path: Path) -> None:
    usual = profile_corpus(
        texts(tmp_path, [("A dog.", "B"), ("a dog!", "b"), ("A dog.", "B"), ("!", "?"), (".", ".")]), DataConfig()
    )
    for number in range(5):
        usual.same.meet(number)
        usual.nearly.meet(number)
    assert [usual.same.first_occurrence(number) for number in (2, 1, 3)] == [0, -1, -1]
    assert [usual.nearly.first_occurrence(number) for number in (1, 3, 4)] == [0, -1, -1], (
        "punctuation alone is like nothing"
    )


def test_a_few_lines_of_another_language_are_not_learnt() -> None:
    draw = random.Random(2)

    def line(letters: str) -> str:
        return " ".join("".join(draw.choices(letters, k=draw.randint(2, 4))) for _ in range(8))

    lines = [line("abcde") if draw.random() > 0.03 else line("vwxyz") for _ in range(600)]
    language = CharacterTrigrams(lines)
    foreign = line("vwxyz")
    assert language.deviations_below(language.score(foreign)) > 6
    assert language.known(foreign) < 0.2
    own = line("abcde")
    assert language.deviations_below(language.score(own)) < 3
