"""The judge of pairs: limits, what is beside the usual, one side alone, labels."""

import random
import unicodedata
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data.issues import OF_PAIRS, TITLES
from pellucid.data.pair_checks import Limits, PairChecker
from pellucid.data.parallel import ParallelText
from pellucid.data.profile import HANDFUL, CorpusProfile, profile_corpus
from pellucid.errors import ConfigError
from tests.toy_task import write_pairs

DRAW = random.Random(3)
WORDS = ["".join(DRAW.choices("abcdefghijklmnopqrstuvwxyz", k=DRAW.randint(2, 8))) for _ in range(80)]
PAIRS = [
    (" ".join(words), " ".join(word[::-1] + "et" for word in words))
    for words in (DRAW.choices(WORDS, k=DRAW.randint(5, 12)) for _ in range(400))
]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> CorpusProfile:
    return profile_corpus(
        [ParallelText(*write_pairs(tmp_path_factory.mktemp("texts"), PAIRS))], DataConfig(on_bad_utf8="replace")
    )


def kinds(judge: PairChecker, source: str, target: str) -> list[str]:
    return [flaw.fault for flaw in judge.check_pair(source, target)]


def test_a_pair_like_the_others_has_no_fault(usual: CorpusProfile) -> None:
    judge = PairChecker(DataConfig(), {}, usual)
    assert [judge.check_pair(*pair) for pair in PAIRS] == [[]] * len(PAIRS)


def test_without_the_usual_only_what_a_pair_shows_by_itself() -> None:
    judge = PairChecker(DataConfig(), {})
    assert kinds(judge, "<b>привет</b>", "x " * 40 + "https://a.example") == []
    assert kinds(judge, "a", "a") == ["copy"]


def test_each_fault_says_what_it_saw(usual: CorpusProfile) -> None:
    source, target = PAIRS[0]
    judge = PairChecker(DataConfig(), {"test": ("t.src", ["x", "A dog runs."])}, usual)
    for pair, fault, side, detail in (
        ((source, "привет, мир, и до свидания"), "script", 1, "20 of 20 letters are Cyrillic"),
        ((target, source), "language", 0, "it resembles the other side"),
        ((f"<i>{source}</i>", target), "markup", 0, "<i>"),
        ((source, f"{target} www.a.example"), "address", 1, "www.a.example"),
        ((source, f"{'1 2 3 ' * 9}"), "letters", 1, "0 % of its characters"),
        ((" ".join(["wort"] * 9), target), "repetition", 0, "9 times `wort`"),
        ((f"{source} {'ab' * 21}", f"{target} abc"), "long_word", 0, "42 characters"),
        ((f"{source} 1987", f"{target} 2014"), "numbers", 1, "1987 and 2014"),
        (("a dog runs", target), "test", 0, "it is line 2 of `t.src` except for case and punctuation"),
        ((source, source), "copy", 0, source[:60] + "..." * (len(source) > 60)),
    ):
        found = {flaw.fault: flaw for flaw in judge.check_pair(*pair)}
        assert fault in found, (pair, found)
        assert (found[fault].side, found[fault].detail) == (side, detail)
    (ratio,) = [flaw for flaw in judge.check_pair(" ".join([source] * 5), target) if flaw.fault == "ratio"]
    assert ratio.detail.endswith("times as long as usual")


def test_limits_and_rules_decide(usual: CorpusProfile) -> None:
    source, target = PAIRS[0]

    def found(pair: tuple[str, str], rules: tuple[str, ...] = OF_PAIRS, **limits: object) -> list[str]:
        return kinds(PairChecker(DataConfig(), {}, usual, Limits().but(**limits), frozenset(rules)), *pair)

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
    usual = profile_corpus([ParallelText(*write_pairs(tmp_path, pairs))], DataConfig(on_bad_utf8="replace"))
    judge = PairChecker(DataConfig(), {}, usual)
    assert [kinds(judge, *pair) for pair in pairs] == [[]] * 30


def test_marked_up_text_is_left_alone_where_markup_is_usual(tmp_path: Path) -> None:
    pairs = [(f"<b>{source}</b>", f"<b>{target}</b>") for source, target in PAIRS]
    usual = profile_corpus([ParallelText(*write_pairs(tmp_path, pairs))], DataConfig(on_bad_utf8="replace"))
    assert kinds(PairChecker(DataConfig(), {}, usual), *pairs[0]) == []


def test_labels_and_texts_alone_have_no_faults_of_pairs(usual: CorpusProfile) -> None:
    source, _ = PAIRS[0]
    labelled = PairChecker(DataConfig(), {}, usual, labelled=True)
    assert kinds(labelled, source, "1") == []
    assert kinds(labelled, f"{source} 1987", "2014") == []
    assert kinds(labelled, source, "") == ["empty"]
    alone = PairChecker(DataConfig(), {}, usual, alone=True)
    assert kinds(alone, source, source) == []
    assert kinds(alone, f"{source} &amp;", f"{source} &amp;") == ["markup"]


def test_a_long_line_of_a_script_without_spaces_is_long(usual: CorpusProfile) -> None:
    judge = PairChecker(DataConfig(max_length=16), {}, usual)
    assert "too_long" in kinds(judge, "若い男が走る。" * 50, PAIRS[0][1])


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_other_script": 1.5}, "`max_other_script=1.5` must be from 0 to 1"),
        ({"min_letters": -1.0}, "`min_letters=-1.0` must be from 0 to 1"),
        ({"max_ratio": 1.0}, "`max_ratio=1.0` must be above 1"),
        ({"max_ratio": float("nan")}, "`max_ratio=nan` must be above 1"),
        ({"max_word_length": 0}, "`max_word_length=0` must be at least 1"),
        ({"max_repetitions": 0}, "`max_repetitions=0` must be at least 1"),
        ({"min_words": -1}, "`min_words=-1` must be at least 0"),
        ({"min_words": 9, "max_words": 3}, "`max_words=3` must be at least `min_words=9`"),
        ({"scripts": ("latin", "")}, "unknown script `latin`; did you mean `Latin`?"),
    ],
)
def test_limits_that_cannot_be(limits: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Limits().but(**limits)
    assert str(caught.value) == message


def test_each_fault_of_a_pair_has_a_title() -> None:
    assert set(OF_PAIRS) <= set(TITLES)
    assert len(set(OF_PAIRS)) == len(OF_PAIRS)


MESSAGES = {
    "Hangul": (
        "남자가 개와 함께 달린다",
        "PackageKit 모니터",
        "dpkg-split --help 로 도움말을 보십시오",
        "Use dpkg now 로",
    ),
    "Han": ("男人和狗一起跑过草地", "范围 %d-%d (FIRST_GID - LAST_GID)", "GNOME 面板 (applet)", "Use dpkg now 的"),
    "Kana": ("男の人が犬と一緒に走る。", "PackageKit モニター", "dpkg-split --help を使う", "Use dpkg now の"),
    "Cyrillic": ("Мужчина бежит с собакой", "PackageKit монитор", "См. dpkg-split --help", "Use dpkg now да"),
    "Arabic": ("رجل يركض مع كلبه", "مراقب PackageKit", "استعمل dpkg-split --help", "Use dpkg now من"),
    "Thai": ("ผู้ชายวิ่งกับสุนัข", "ตัวเฝ้า PackageKit", "ใช้ dpkg-split --help", "Use dpkg now ที่"),
}
SOURCES = ("PackageKit monitor", "See dpkg-split --help, FIRST_GID - LAST_GID, GNOME panel (applet)", "A man runs")


@pytest.mark.parametrize("script", MESSAGES)
def test_names_that_stand_in_the_source_are_no_foreign_letters(tmp_path: Path, script: str) -> None:
    own, *good, bad = MESSAGES[script]
    usual = profile_corpus([ParallelText(*write_pairs(tmp_path, [("A man runs", own)] * 30))], DataConfig())
    judge = PairChecker(DataConfig(), {}, usual, rules=frozenset({"script"}))
    source = " ".join(SOURCES)
    assert [kinds(judge, source, text) for text in (own, *good)] == [[]] * 3
    assert kinds(judge, "A man runs", bad) == ["script"], "words that the source does not have"
    assert kinds(judge, source, "See dpkg-split, GNOME panel") == ["script"], "nothing of its own script"


def test_a_name_that_stands_on_both_sides_says_nothing_of_the_language(usual: CorpusProfile) -> None:
    source, target = PAIRS[0]
    name = "Zbigniew Brzezinski Qwxzkjhgf Vvvkkjjxz"
    judge = PairChecker(DataConfig(), {}, usual, rules=frozenset({"language"}))
    assert kinds(judge, f"{source[:24]} {name}", f"{target} {name}") == []
    assert kinds(judge, f"{name} {name}", target) == ["language"]


def test_a_handful_of_pairs_is_no_measure_of_lengths_and_letters(tmp_path: Path) -> None:
    odd = ("a dog " * 30, "ein")
    for count, found in ((HANDFUL - 2, []), (HANDFUL - 1, ["ratio"])):
        usual = profile_corpus([ParallelText(*write_pairs(tmp_path, [*PAIRS[:count], odd]))], DataConfig())
        assert kinds(PairChecker(DataConfig(), {}, usual, rules=frozenset({"ratio", "letters"})), *odd) == found


def test_a_number_alone_has_not_too_few_letters(usual: CorpusProfile) -> None:
    judge = PairChecker(DataConfig(), {}, usual, rules=frozenset({"letters"}))
    assert kinds(judge, "1.", "12)") == []
    assert kinds(judge, "1.-2.-3.", "+++---+++") == ["letters"]


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.05, 0.5, 1.0])
def test_entities_are_named_whatever_their_share_and_on_either_side(tmp_path: Path, part: float) -> None:
    escaped = int(part * len(PAIRS))
    for side in (0, 1):
        texts = [list(pair) for pair in PAIRS]
        for pair in texts[:escaped]:
            pair[side] += " &quot;"
        pairs = [(source, target) for source, target in texts]
        usual = profile_corpus([ParallelText(*write_pairs(tmp_path, pairs))], DataConfig())
        judge = PairChecker(DataConfig(), {}, usual, rules=frozenset({"markup"}))
        assert sum(kinds(judge, *pair) == ["markup"] for pair in pairs) == escaped


@pytest.mark.slow
def test_tags_on_one_side_alone_are_named_whatever_their_share(tmp_path: Path) -> None:
    for pairs in ([(f"<b>{s}</b>", t) for s, t in PAIRS], [(s, f"<b>{t}</b>") for s, t in PAIRS]):
        usual = profile_corpus([ParallelText(*write_pairs(tmp_path, pairs))], DataConfig())
        assert kinds(PairChecker(DataConfig(), {}, usual, rules=frozenset({"markup"})), *pairs[0]) == ["markup"]


def test_lengths_are_of_the_text_as_the_tokenizer_reads_it(tmp_path: Path) -> None:
    """Hangul in its letters takes three times the bytes, and is no longer for it."""
    pairs = [(f"the dog runs over field {n}", f"개가 들판 {n} 위를 달린다") for n in range(80)]
    usual = profile_corpus([ParallelText(*write_pairs(tmp_path, pairs))], DataConfig())
    judge = PairChecker(DataConfig(), {}, usual, limits=Limits(max_ratio=1.5))
    assert kinds(judge, pairs[0][0], unicodedata.normalize("NFD", pairs[0][1])) == []
