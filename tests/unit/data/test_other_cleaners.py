"""Settings of OpusFilter and OpusCleaner: what becomes a rule, what is told, what is refused by its name."""

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.data.judging import Limits
from pellucid.data.other_cleaners import read_opuscleaner, read_opusfilter
from pellucid.errors import ConfigError


def pipeline(folder: Path, *filters: tuple[str, dict[str, Any]]) -> Path:
    path = folder / "a.filters.json"
    table = {"version": 1, "filters": [{"filter": name, "parameters": values} for name, values in filters]}
    path.write_text(json.dumps(table))
    return path


def configuration(folder: Path, text: str) -> Path:
    path = folder / "a.yaml"
    path.write_text(text)
    return path


OPUSFILTER = """
common: {output_directory: out}
steps:
  - type: opus_read
    parameters: {corpus_name: !varstr "{corpus}"}
  - type: remove_duplicates
    parameters: {inputs: [a.de, a.en], outputs: [b.de, b.en], lowercase: true}
  - type: filter
    parameters:
      inputs: [b.de, b.en]
      outputs: [c.de, c.en]
      filters:
        - LengthFilter: {unit: [word, word], min_length: 2, max_length: 80}
        - LengthRatioFilter: {threshold: 2.5, unit: char}
        - LongWordFilter: {threshold: 30}
        - HtmlTagFilter: {}
        - RepetitionFilter:
        - AlphabetRatioFilter: {threshold: 0.6}
        - NonZeroNumeralsFilter: {threshold: 0.4}
        - CharacterScoreFilter: {scripts: [Latin, Katakana], thresholds: [0.9, 0.9]}
"""


@pytest.mark.foreign
def test_opusfilter(tmp_path: Path) -> None:
    said: list[str] = []
    limits, rules = read_opusfilter(configuration(tmp_path, OPUSFILTER), said.append)
    assert limits == Limits(
        min_words=2, max_words=80, max_ratio=2.5, ratio_unit="characters", max_word_length=29, max_repetitions=2,
        min_letters=0.6, letters_of="characters", min_agreement=0.4, scripts=("Latin", "Kana"), max_foreign=1 - 0.9,
    )  # fmt: skip
    assert rules == {
        "duplicate", "near_duplicate", "empty", "too_long", "too_short", "ratio", "long_word", "markup", "repetition",
        "letters", "numbers", "script",
    }  # fmt: skip
    assert any("step opus_read is not done here: it moves files" in each for each in said)
    assert any("AlphabetRatioFilter: spaces are not counted" in each for each in said)


@pytest.mark.foreign
def test_opusfilter_is_refused_by_name(tmp_path: Path) -> None:
    path = configuration(
        tmp_path,
        """
steps:
  - type: train_ngram
  - type: filter
    parameters:
      filters:
        - WordAlignFilter: {model: 3}
        - LengthFilter: {unit: [word, char], max_length: ten, most: 3}
        - HtmlTagFilter: {}
""",
    )
    with pytest.raises(ConfigError) as caught:
        read_opusfilter(path, print)
    assert str(caught.value) == (
        f"`{path}` asks for what is not known here: step train_ngram, WordAlignFilter, LengthFilter.most, "
        "LengthFilter.max_length = 'ten', LengthFilter.unit = ['word', 'char']"
    )


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML"), ("a: 1", "has no list of `steps`"), ("steps: [1]", "has no list of `steps`"),
        ("steps: []", "has no filter"), ("steps: [{type: filter, parameters: {filters: [5]}}]", "has a filter 5"),
        ("steps: !!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)  # fmt: skip
def test_files_that_are_no_opusfilter(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_opusfilter(configuration(tmp_path, text), print)


def test_opuscleaner(tmp_path: Path) -> None:
    path = pipeline(
        tmp_path,
        ("fix_quotes", {}),
        ("max_length", {"MAXLENGTH": 100, "MINLENGTH": 1}),
        ("src_trg_ratio", {"RATIO": 0.5, "LOG": False, "DEBUG": False}),
        ("remove_empty_lines", {}),
        ("url_mismatch", {}),
        ("opusfilter/HtmlTagFilter", {}),
    )
    said: list[str] = []
    limits, rules = read_opuscleaner(path, said.append)
    assert said == [f"`{path}`: fix_quotes is not done here: it rewrites text"]
    assert limits == Limits(max_words=100, max_ratio=2.0, ratio_unit="words")
    assert rules == {"empty", "too_long", "too_short", "ratio", "address", "markup"}


def test_opuscleaner_is_refused_by_name(tmp_path: Path) -> None:
    path = pipeline(tmp_path, ("laser_similarity", {}), ("src_trg_ratio", {"RATIO": 0.5, "LOG": True}),
                    ("max_length", {"MAXLENGTH": 9}), ("max_length", {"MAXLENGTH": 8}))  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        read_opuscleaner(path, print)
    assert "laser_similarity, src_trg_ratio with {'RATIO': 0.5, 'LOG': True}, max_words = 8 beside 9" in str(
        caught.value
    )


def test_files_that_are_no_opuscleaner(tmp_path: Path) -> None:
    for text, message in (
        ("{", "is not JSON"),
        ("[]", "has no list of `filters`"),
        ('{"filters": [1]}', "has no list"),
    ):
        path = tmp_path / "a.json"
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_opuscleaner(path, print)
