"""Repairs: translations that repeat themselves, and of sentences that are too long, translated again or in parts."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from pellucid.config import DecodeConfig
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.engines.engine import PyTorchEngine
from pellucid.errors import ConfigError
from pellucid.tasks.quality_flags import find_loop
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_model

pytestmark = pytest.mark.filterwarnings("ignore::pellucid.tasks.segmenter.LongTextWarning")
WORDS = Vocabulary("spaces", ("a", "b", "c", "d", "e", "f", "g", "h"))
SENTENCES = TrainingTextStats(sentence_ends=1.0, several_sentences=0.0, source_length=6, source_longest=9)


class Engine(PyTorchEngine):
    """Copies a source, with a probability of its own for each pair of neighbours; `h` makes it repeat itself.

    A pair in alphabetical order is probable, so "a b c a b c" is best cut before the second a. Where repetitions are
    forbidden it writes `h` once, unless `h` stands before `g`: then it writes something else without end.
    """

    def __init__(self) -> None:
        super().__init__(random_model(0, WORDS.size))
        self.asked: list[list[str]] = []

    def search(
        self, sources: list[list[int]], config: DecodeConfig, by: object, constraints: Constraints | None
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        self.asked.append([WORDS.decode(source) for source in sources])
        for place, source in enumerate(sources):
            words = WORDS.decode(source).split()
            score = -0.1 * (len(words) + 1) - sum(5.0 for a, b in pairwise(words) if a >= b)
            if "h" in words and not (constraints and constraints.max_repeats):
                words += ["h"] * 5
            elif "h g" in " ".join(words):
                words += ["a b", "c d"] * 40
            (limit, ids) = config.limit(len(source)), WORDS.encode(" ".join(words))
            yield place, [Hypothesis(ids[:limit], score)]


@pytest.fixture
def translator() -> Translator:
    return Translator(Engine(), TokenizerPair(WORDS, WORDS), DecodeConfig(max_length=20), text=SENTENCES)


def flags(translator: Translator, line: str, **options: object) -> tuple[str, list[tuple[str, str]]]:
    (found,) = translator.translate([line], **options)  # type: ignore[arg-type]
    names = [(flag.name, flag.evidence) for flag in found.flags if flag.name in ("loop", "parts")]
    return found.text, names


def test_a_loop_is_searched_again_without_the_repetition(translator: Translator) -> None:
    text, said = flags(translator, "a b h")
    assert text == "a b h"
    assert said == [("loop", '"h" 6 times in a row: searched again without it')]
    assert flags(translator, "a b c") == ("a b c", [])


def test_a_loop_without_end_is_cut_where_the_halves_are_most_probable(translator: Translator) -> None:
    text, said = flags(translator, "c d h g h")
    assert said[0][1].endswith(" times in a row: searched again without it")  # too short for two parts
    text, said = flags(translator, "b c h g d e")
    assert (text, [evidence.rpartition(": ")[2] for _, evidence in said]) == ("b c h g d e", ["translated in 2 parts"])


def test_a_long_sentence_is_translated_in_parts_where_that_is_more_probable(translator: Translator) -> None:
    text, said = flags(translator, "c d e a b c d")
    assert text == "c d e a b c d"
    assert said == [("parts", "7 tokens, more than nearly all training lines have: translated in 2 parts")]
    (found,) = translator.translate(["c d e a b c d"])
    assert [WORDS.decode(ids) for ids, _ in found.sentences[0].pieces] == ["c d e", "a b c d"]
    assert found.score == pytest.approx(-0.1 * (4 + 5))
    assert found.tokens == list("cdeabcd")
    assert flags(translator, "a b c d e f g") == ("a b c d e f g", [])


def test_parts_that_are_too_long_are_cut_again(translator: Translator) -> None:
    line = "a b c d e a b c d e a b c d e a b c d e"
    (found,) = translator.translate([line])
    pieces = [WORDS.decode(ids) for ids, _ in found.sentences[0].pieces]
    assert (found.text, " ".join(pieces)) == (line, line)
    assert max(len(piece.split()) for piece in pieces) <= 6


def test_a_line_depends_on_itself_alone(translator: Translator) -> None:
    lines = ["a b h", "a b c", "c d e a b c d", "", "b c h g d e", "a h"]
    together = translator.translate(lines)
    assert [one.text for one in together] == [translator.translate([line])[0].text for line in lines]
    for line, one in zip(lines, together, strict=True):
        assert find_loop(line, one.text) is None


def test_sentences_of_a_line_are_repaired_where_they_stand(translator: Translator) -> None:
    text, said = flags(translator, "a b h\n\na c")
    assert (text, [name for name, _ in said]) == ("a b h\n\na c", ["loop"])


@pytest.mark.parametrize(
    "options", [{"repair": "off"}, {"n_best": 2}, {"prefixes": ["a"]}, {"constraints": [["a"]]}, {"segment": "off"}]
)
def test_what_is_not_repaired(translator: Translator, options: dict[str, object]) -> None:
    text, said = flags(translator, "a b h", **options)
    assert (text, said) == ("a b h h h h h h", [("loop", '"h" 6 times in a row')])


def test_models_of_other_texts_are_not_repaired() -> None:
    for text in (None, TrainingTextStats(source_length=6, sentence_ends=0.1)):
        found = Translator(Engine(), TokenizerPair(WORDS, WORDS), text=text).translate(["a b h"])
        assert found[0].text == "a b h h h h h h"


def test_an_unknown_mode_is_refused(translator: Translator) -> None:
    with pytest.raises(ConfigError, match='`repair="on"` must be auto or off'):
        translator.translate(["a"], repair="on")  # type: ignore[arg-type]


@pytest.mark.slow
def test_no_run_of_tokens_occurs_more_often_than_allowed() -> None:
    """By a real search: the constraint forbids each repetition, whatever its length."""
    from pellucid.decoding.batched_search import search

    def repeats(ids: Sequence[int], times: int) -> bool:
        return any(
            list(ids[start : start + size]) * (times + 1) == list(ids[start : start + size * (times + 1)])
            for size in range(1, len(ids) // (times + 1) + 1)
            for start in range(len(ids) - size * (times + 1) + 1)
        )

    sources, config = [[3, 4, 5], [6], [4, 4, 3, 7]], DecodeConfig(beam_size=3, max_length=14)
    seen = 0
    for seed in range(8):
        model = random_model(seed, 8, sharpness=6.0)
        free = [best.ids for best, *_ in search(model, sources, config)]
        for times in (1, 2):
            found = search(model, sources, config, constraints=Constraints(max_repeats=times))
            for before, (best, *_) in zip(free, found, strict=True):
                assert not repeats(best.ids, times)
                seen += repeats(before, times)
                if not repeats(before, times) and best.ids != before:
                    assert best.score <= 0
    assert seen >= 4
