"""Translators that write together: lines in, lines out, scores, and what cannot be one ensemble."""

from pathlib import Path

import pytest

import pellucid
from pellucid.config import DecodeConfig
from pellucid.errors import ConfigError
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from tests.rounding import NETWORK
from tests.unit.decoding.models import random_model

LETTERS = Vocabulary("characters", tuple(" abcdefgh."))
TURNED = Vocabulary("characters", tuple(" .hgfedcbaxyz"))
LINES = ["a", "bad cab", "", "faded", "abcdefgh", "head. bed."]


def member(seed: int, source: Vocabulary = LETTERS, **fields: object) -> Translator:
    model = random_model(seed, LETTERS.size, sharpness=2.0, src_vocab_size=source.size, **fields)
    return Translator(model, TokenizerPair(source, LETTERS), DecodeConfig(beam_size=3, max_length=9))


def texts(translator: Translator, lines: list[str] = LINES) -> list[str]:
    return [found.text for found in translator.translate(lines)]


def members() -> list[Translator]:
    return [member(1), member(2, TURNED)]


@pytest.fixture(scope="module")
def both() -> Translator:
    """Two models that read by different vocabularies."""
    return Translator.ensemble(members())


@pytest.mark.slow
def test_each_line_gives_one_whatever_stands_beside_it(both: Translator) -> None:
    found = texts(both)
    assert [bool(text) for text in found] == [bool(line) for line in LINES]
    assert found == [texts(both, [line])[0] for line in LINES]
    assert found not in [texts(one) for one in members()]


def test_a_score_is_the_mean_of_the_models_scores(both: Translator) -> None:
    targets = [found.text for found in both.translate(LINES)]
    wanted = [sum(pair) / 2 for pair in zip(*(one.score(LINES, targets) for one in members()), strict=True)]
    assert both.score(LINES, targets) == pytest.approx(wanted, rel=NETWORK)
    assert [one.score for one in both.score_sequences(LINES, targets)] == pytest.approx(wanted, rel=NETWORK)
    found = both.translate(["bad cab", "faded"])
    assert [t.score for t in found] == pytest.approx(
        both.score(["bad cab", "faded"], [t.text for t in found]), rel=1e-4
    )


def test_pieces_of_a_long_line_are_read_by_each_model(both: Translator) -> None:
    with pytest.warns(UserWarning, match="translated in 3 pieces"):
        (found,) = both.translate(["abcdefgha"], max_source_length=4)
    alone = Translator.ensemble([members()[0]] * 2)
    with pytest.warns(UserWarning, match="translated in 3 pieces"):
        wanted, without = alone.translate(["abcdefgha"], max_source_length=4), members()[0]
    with pytest.warns(UserWarning, match="translated in 3 pieces"):
        assert wanted == without.translate(["abcdefgha"], max_source_length=4)
    assert found != wanted[0]


def test_drawn_lines_do_not_depend_on_neighbours(both: Translator) -> None:
    drawn = [found.text for found in both.sample(LINES, seed=5)]
    assert both.sample(LINES[:2], seed=5)[1].text == drawn[1]
    assert drawn != [found.text for found in both.sample(LINES, seed=6)]


@pytest.mark.slow
def test_folders_are_opened_together(finished_run: Path) -> None:
    alone = Translator.load(finished_run, "cpu")
    found = pellucid.Translator.load(finished_run, "cpu", ensemble=[finished_run])
    assert isinstance(found, Translator)
    lines = ["a b c", "h g f", ""]
    assert texts(found, lines) == texts(alone, lines)
    assert repr(found).startswith("Translator(ensemble of 2: Transformer of 1 + 1 layers")
    assert found.evaluate(lines[:2], ["c b a", "f g h"]) == alone.evaluate(lines[:2], ["c b a", "f g h"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ensemble": "b"}, '`ensemble="b"` is a single name'),
        ({"ensemble": ["b"], "engine": "ctranslate2"}, '`engine="ctranslate2"` cannot be combined with `ensemble=`'),
        ({"ensemble": ["b"], "parts": pellucid.Parts()}, "`parts=` cannot be combined with `ensemble=`"),
    ],
)
def test_what_cannot_be_opened_together(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Translator.load("a", **options)  # type: ignore[arg-type]


def test_models_that_cannot_write_together_are_refused() -> None:
    first, other = member(1), Vocabulary("characters", tuple(" abcdefhg."))
    with pytest.raises(ConfigError, match="and this one has 1"):
        Translator.ensemble([first])
    of_others = Translator(random_model(1, LETTERS.size), TokenizerPair(LETTERS, other))
    with pytest.raises(
        ConfigError, match=r"`a` and `b` have different target vocabularies: the id .* is `g` .* `h` in"
    ):
        Translator.ensemble([first, of_others], ["a", "b"])
    larger = Translator(random_model(1, TURNED.size), TokenizerPair(TURNED, TURNED))
    sizes = f"{LETTERS.size} and {TURNED.size} ids"
    with pytest.raises(ConfigError, match=f"`model 1` and `model 2` have different target vocabularies: {sizes}"):
        Translator.ensemble([first, larger])
    begun = Translator(first.model, first.tokenizers, DecodeConfig(target_prefix=(5,)))
    with pytest.raises(ConfigError, match=r"begins every output with \[\], but `model 2` with \[5\]"):
        Translator.ensemble([first, begun])
    speaking = Translator(first.model, first.tokenizers, languages={"de": 5})
    with pytest.raises(ConfigError, match="different languages: no codes, and 1 codes"):
        Translator.ensemble([first, speaking])
    with pytest.raises(ConfigError, match="not a translator with a single PyTorch model"):
        Translator.ensemble([first, Translator.ensemble([first, first])])


def test_what_needs_one_model_says_so(both: Translator, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be traced"):
        both.trace("a")
    with pytest.raises(ConfigError, match="cannot be saved"):
        both.save(tmp_path / "x")
    with pytest.raises(ConfigError, match="an ensemble consists of several models"):
        both.model  # noqa: B018
