"""The judge of pairs: limits, what is beside the usual, one side alone, labels."""

import random
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data.faults import OF_PAIRS, TITLES
from pellucid.data.judging import Judge, Limits
from pellucid.data.parallel import ParallelText
from pellucid.data.survey import Usual, survey
from pellucid.errors import ConfigError
from tests.toy_task import write_pairs

DRAW = random.Random(3)
WORDS = ["".join(DRAW.choices("abcdefghijklmnopqrstuvwxyz", k=DRAW.randint(2, 8))) for _ in range(80)]
PAIRS = [
    (" ".join(words), " ".join(word[::-1] + "et" for word in words))
    for words in (DRAW.choices(WORDS, k=DRAW.randint(5, 12)) for _ in range(400))
]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Usual:
    return survey([ParallelText(*write_pairs(tmp_path_factory.mktemp("texts"), PAIRS))], "replace")


def kinds(judge: Judge, source: str, target: str) -> list[str]:
    return [flaw.fault for flaw in judge.flaws(source, target)]


def test_a_pair_like_the_others_has_no_fault(usual: Usual) -> None:
    judge = Judge(DataConfig(), {}, usual)
    assert [judge.flaws(*pair) for pair in PAIRS] == [[]] * len(PAIRS)


def test_without_the_usual_only_what_a_pair_shows_by_itself() -> None:
    judge = Judge(DataConfig(), {})
    assert kinds(judge, "<b>привет</b>", "x " * 40 + "https://a.example") == []
    assert kinds(judge, "a", "a") == ["copy"]


def test_each_fault_says_what_it_saw(usual: Usual) -> None:
    source, target = PAIRS[0]
    judge = Judge(DataConfig(), {"test": ("t.src", ["x", "A dog runs."])}, usual)
    for pair, fault, side, detail in (
        ((source, "привет, мир, и до свидания"), "script", 1, "20 of 20 letters are Cyrillic"),
        ((target, source), "language", 0, "it reads like the other side"),
        ((f"<i>{source}</i>", target), "markup", 0, "<i>"),
        ((source, f"{target} www.a.example"), "address", 1, "www.a.example"),
        ((source, f"{'1 2 3 ' * 9}"), "letters", 1, "0 % of its characters"),
        ((" ".join(["wort"] * 9), target), "repetition", 0, "9 times `wort`"),
        ((f"{source} {'ab' * 21}", f"{target} abc"), "long_word", 0, "42 characters"),
        ((f"{source} 1987", f"{target} 2014"), "numbers", 1, "1987 and 2014"),
        (("a dog runs", target), "test", 0, "it is line 2 of `t.src` but for case and punctuation"),
        ((source, source), "copy", 0, source[:60] + "..." * (len(source) > 60)),
    ):
        found = {flaw.fault: flaw for flaw in judge.flaws(*pair)}
        assert fault in found, (pair, found)
        assert (found[fault].side, found[fault].detail) == (side, detail)
    (ratio,) = [flaw for flaw in judge.flaws(" ".join([source] * 5), target) if flaw.fault == "ratio"]
    assert ratio.detail.endswith("times as long as usual")


def test_limits_and_rules_decide(usual: Usual) -> None:
    source, target = PAIRS[0]

    def found(pair: tuple[str, str], rules: tuple[str, ...] = OF_PAIRS, **limits: object) -> list[str]:
        return kinds(Judge(DataConfig(), {}, usual, Limits().but(**limits), frozenset(rules)), *pair)

    words = len(source.split())
    assert found((source, target), max_words=words) == []
    assert found((source, target), max_words=words - 1) == ["too_long"] * 2
    assert found((source, target), max_words=len(target) - 1, length_unit="characters")[-1] == "too_long"
    assert found((source, target), min_words=words + 1) == ["too_short"]
    assert found((source, target), max_ratio=1.01, ratio_unit="characters") == ["ratio"]
    assert found((source, target), max_ratio=1.01, ratio_unit="words") == []
    assert found((source, target), scripts=("Greek", "")) == ["script"]
    assert found((f"{source} <b>", target)) == ["markup"]
    assert found((f"{source} <b>", target), rules=("copy",)) == []
    assert found((source, f"{target} {'12 ' * 20}"), min_letters=0.2) == []
    assert found((f"{source} 12 34", f"{target} 12 35"), min_agreement=0.6) == ["numbers"]
    assert found((f"{source} 12 34", f"{target} 12 35"), min_agreement=0.5) == []


def test_where_letters_are_few_no_line_has_too_few(tmp_path: Path) -> None:
    pairs = [(f"the {n}th of may {1900 + n}", f"{1900 + n}-05-{n:02}") for n in range(1, 31)]
    usual = survey([ParallelText(*write_pairs(tmp_path, pairs))], "replace")
    judge = Judge(DataConfig(), {}, usual)
    assert [kinds(judge, *pair) for pair in pairs] == [[]] * 30


def test_marked_up_text_is_left_alone_where_markup_is_usual(tmp_path: Path) -> None:
    pairs = [(f"<b>{source}</b>", f"<b>{target}</b>") for source, target in PAIRS]
    usual = survey([ParallelText(*write_pairs(tmp_path, pairs))], "replace")
    assert kinds(Judge(DataConfig(), {}, usual), *pairs[0]) == []


def test_labels_and_texts_alone_have_no_faults_of_pairs(usual: Usual) -> None:
    source, _ = PAIRS[0]
    labelled = Judge(DataConfig(), {}, usual, labelled=True)
    assert kinds(labelled, source, "1") == []
    assert kinds(labelled, f"{source} 1987", "2014") == []
    assert kinds(labelled, source, "") == ["empty"]
    alone = Judge(DataConfig(), {}, usual, alone=True)
    assert kinds(alone, source, source) == []
    assert kinds(alone, f"{source} &amp;", f"{source} &amp;") == ["markup"]


def test_a_long_line_of_a_script_without_spaces_is_long(usual: Usual) -> None:
    judge = Judge(DataConfig(max_length=16), {}, usual)
    assert "too_long" in kinds(judge, "若い男が走る。" * 50, PAIRS[0][1])


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_foreign": 1.5}, "`max_foreign=1.5` must be from 0 to 1"),
        ({"min_letters": -1.0}, "`min_letters=-1.0` must be from 0 to 1"),
        ({"max_ratio": 1.0}, "`max_ratio=1.0` must be above 1"),
        ({"max_ratio": float("nan")}, "`max_ratio=nan` must be above 1"),
        ({"max_word_length": 0}, "`max_word_length=0` must be at least 1"),
        ({"max_repetitions": 0}, "`max_repetitions=0` must be at least 1"),
        ({"min_words": -1}, "`min_words=-1` must be at least 0"),
        ({"min_words": 9, "max_words": 3}, "`max_words=3` must be at least `min_words=9`"),
        ({"scripts": ("latin", "")}, "no script `latin` is known; did you mean `Latin`?"),
    ],
)
def test_limits_that_cannot_be(limits: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Limits().but(**limits)
    assert str(caught.value) == message


def test_each_fault_of_a_pair_has_a_title() -> None:
    assert set(OF_PAIRS) <= set(TITLES)
    assert len(set(OF_PAIRS)) == len(OF_PAIRS)
