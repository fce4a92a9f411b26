"""Coverage: words of the source that no written word attends to."""

import numpy as np
import pytest

from pellucid.tasks.coverage import find_coverage_flag, find_uncovered
from pellucid.tasks.translator import Translator
from pellucid.tasks.word_alignment import Aligner, PartAlignment, WordAlignment, align_by_position, split_words
from pellucid.weights.aligning_head import AligningHead

LINE = "ein Hund läuft , und eine Frau singt ."


def align(text: str, links: dict[int, int], line: str = LINE) -> WordAlignment:
    """Each word of the translation attends to one word of the line, and a little to all others."""
    sources, targets = split_words(line, (0, len(line))), split_words(text, (0, len(text)))
    weights = np.full((len(targets), len(sources)), 0.005, dtype=np.float32)
    for target, source in links.items():
        weights[target, source] = 0.9
    return WordAlignment([PartAlignment(sources, targets, weights)])


def test_a_clause_that_is_left_out() -> None:
    text = "a dog runs ."
    alignment = align(text, {0: 0, 1: 1, 2: 2, 3: 8})
    assert find_uncovered(LINE, text, alignment) == ["und", "eine", "Frau", "singt"]
    flag = find_coverage_flag(LINE, text, alignment)
    assert flag is not None
    assert (flag.name, flag.evidence) == ("coverage", "no word attends to 4 of 7 words: und, eine, Frau, singt")


def test_a_whole_translation_and_a_single_word() -> None:
    text = "a dog runs and a woman sings ."
    assert find_coverage_flag(LINE, text, align(text, {0: 0, 1: 1, 2: 2, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8})) is None
    assert find_coverage_flag(LINE, text, align(text, {0: 0, 1: 1, 2: 2, 3: 4, 5: 6, 6: 7})) is None


def test_attention_of_marks_does_not_cover_words() -> None:
    text = "a dog . ."
    uncovered = find_uncovered(LINE, text, align(text, {0: 0, 1: 1, 2: 6, 3: 7}))
    assert uncovered == ["läuft", "und", "eine", "Frau", "singt"]


def test_without_attention_nothing_is_flagged(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = align_by_position(LINE, "a", (0, len(LINE)), (0, 1))
    assert find_coverage_flag(LINE, "a", WordAlignment(parts)) is None
    monkeypatch.setattr(translator, "aligning_head", None)
    monkeypatch.setattr(Aligner, "align", lambda *args: pytest.fail("a pass for nothing"))
    assert translator.translate(["a b"], confidence=True)[0].confidence is not None


def test_a_line_of_a_model_is_flagged(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the model's own pass: with a threshold above all attention each word is uncovered, with 0 none is."""
    monkeypatch.setattr(translator, "aligning_head", AligningHead(0, 0, "writes", 1.0, 1))
    monkeypatch.setattr("pellucid.tasks.coverage.LEAST_ATTENTION", 1e3)
    (found,) = translator.translate(["a b c"], confidence=True)
    assert ("coverage", "no word attends to 3 of 3 words: a, b, c") in [(f.name, f.evidence) for f in found.flags]
    assert "coverage" in [each["flag"] for each in found.to_json()["flags"]]
    assert not any(flag.name == "coverage" for flag in translator.translate(["a b c"])[0].flags)
    monkeypatch.setattr("pellucid.tasks.coverage.LEAST_ATTENTION", 0.0)
    (found,) = translator.translate(["a b c"], confidence=True)
    assert not any(flag.name == "coverage" for flag in found.flags)
