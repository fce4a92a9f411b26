"""Approximate randomization and paired bootstrap: sacreBLEU's numbers, exact ones, and what is said of them."""

import itertools
import json
import random
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.comparison import Comparison, Difference, compare_outputs, describe_comparison, randomization_p
from pellucid.evaluation.scores import score_corpus

SENTENCE = "A dog runs over the green field while Two men in red shirts watch it ."


def spoilt(references: list[str], seed: int, kept: float) -> list[str]:
    """The references with some words wrong."""
    draw = random.Random(seed)
    return [" ".join(w if draw.random() < kept else "the" for w in line.split()) for line in references]


_DRAW = random.Random(0)
REFERENCES = [" ".join(_DRAW.choices(SENTENCE.split(), k=_DRAW.randint(6, 14))) for _ in range(60)]
A, B = spoilt(REFERENCES, 1, 0.82), spoilt(REFERENCES, 2, 0.78)
RESAMPLES, TRIALS = 200, 300


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_outputs(A, B, REFERENCES, resamples=RESAMPLES, trials=TRIALS)


@pytest.mark.parametrize("seed", [12345, 7])
@pytest.mark.parametrize("kept", [0.81, 0.72])
def test_scores_intervals_and_p_are_those_of_sacrebleu(monkeypatch: pytest.MonkeyPatch, seed: int, kept: float) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    other, metrics = spoilt(REFERENCES, 3, kept), {"BLEU": BLEU(force=True), "chrF2": CHRF()}
    test = PairedTest(
        [("B", other), ("A", A)], metrics, [REFERENCES], "ar", n_samples=TRIALS, n_ar_confidence=RESAMPLES
    )
    signatures, results = test()
    ours = compare_outputs(A, other, REFERENCES, resamples=RESAMPLES, trials=TRIALS, seed=seed)
    # The intervals that go with --paired-ar are drawn after the trials; those of --paired-bs are ours.
    _, drawn = PairedTest([("B", other), ("A", A)], metrics, [REFERENCES], "bs", n_samples=RESAMPLES)()
    for found, name in ((ours.bleu, "BLEU"), (ours.chrf, "chrF2")):
        b, a = results[name]
        assert (found.a, found.b) == pytest.approx((a.score, b.score))
        for (low, high), theirs in zip((found.b_interval, found.a_interval), drawn[name], strict=True):
            assert (high - low) / 2 == pytest.approx(theirs.ci, abs=1e-3)
        heads = np.random.default_rng(seed).integers(2, size=(TRIALS, len(A)), dtype=bool)
        counts = [np.array(metrics[name]._extract_corpus_statistics(side, [REFERENCES])) for side in (A, other)]
        sizes = [
            abs(np.subtract(*(metrics[name]._compute_score_from_stats(side).score for side in sides)))
            for sides in zip(
                ~heads @ counts[0] + heads @ counts[1], heads @ counts[0] + ~heads @ counts[1], strict=True
            )
        ]
        more, as_large = (np.sum(compare(sizes, abs(a.score - b.score))) for compare in (np.greater, np.greater_equal))
        assert a.p_value == pytest.approx((more + 1) / (TRIALS + 1)), "sacreBLEU counts what is larger"
        assert found.p_value == pytest.approx((as_large + 1) / (TRIALS + 1)), "we count what is as large, too"
        assert more or kept == 0.72, "a p that cannot be told from the least one"
        assert found.signature == str(signatures[name])


@pytest.mark.slow
def test_p_is_the_part_of_all_exchanges_that_differ_as_much() -> None:
    """Against every one of the 2^8 exchanges; the trials estimate it within 5 of their own deviations."""
    references = REFERENCES[:8]
    a, b, trials = spoilt(references, 1, 0.9), spoilt(references, 2, 0.7), 4000
    for metric, name in ((BLEU(force=True), "bleu"), (CHRF(), "chrf")):

        def distance(ours: list[str], theirs: list[str], metric: BLEU | CHRF = metric) -> float:
            scores = [metric.corpus_score(lines, [references]).score for lines in (ours, theirs)]
            return abs(scores[0] - scores[1])

        exchanges = [
            distance(*zip(*((y, x) if swap else (x, y) for x, y, swap in zip(a, b, swaps, strict=True)), strict=True))
            for swaps in itertools.product((False, True), repeat=8)
        ]
        # What comes to the same difference by another way of rounding is as large.
        exact = np.mean(np.array(exchanges) >= distance(a, b) - 1e-9)
        found = getattr(compare_outputs(a, b, references, resamples=40, trials=trials), name).p_value
        deviation = np.sqrt(exact * (1 - exact) / trials)
        assert 0 < exact < 1
        assert abs(found - exact) < 5 * deviation + 1 / trials


def test_p_counts_trials_that_are_as_large() -> None:
    """One sentence: each exchange is as large as what was measured, and sacreBLEU would count none of them."""
    comparison = compare_outputs(A[:1], REFERENCES[:1], REFERENCES[:1], resamples=40, trials=50)
    assert comparison.bleu.difference < 0
    assert comparison.bleu.p_value == comparison.chrf.p_value == 1


@pytest.mark.slow
def test_p_is_fair_where_nothing_differs() -> None:
    """Sides exchanged at random beforehand: p is at most 0.2 about so often (5 deviations of 200 tosses)."""
    metric, draw, trials, tests, level = BLEU(force=True), np.random.default_rng(5), 199, 200, 0.2
    counts = [np.array(metric._extract_corpus_statistics(side, [REFERENCES]), float) for side in (A, B)]
    small = 0
    for seed in range(tests):
        heads = draw.integers(2, size=(len(A), 1), dtype=bool)
        sides = np.where(heads, counts[0], counts[1]), np.where(heads, counts[1], counts[0])
        small += randomization_p(metric, *sides, trials=trials, seed=seed) <= level
    assert abs(small - level * tests) < 5 * np.sqrt(level * (1 - level) * tests)


@pytest.mark.parametrize("streams", [1, 2])
def test_tokens_and_references_are_those_of_the_scores(streams: int) -> None:
    a, b = ["一只黑狗在街上走路", "两个女人在看比赛"], ["一只黑狗在街上", "两个人在看足球比赛"]
    references = [["一只黑狗在街上跑步", "两个男人在看足球比赛"], ["一条黑狗在路上跑", "两人看足球赛"]][:streams]
    comparison = compare_outputs(a, b, references, resamples=40, trials=10)
    assert comparison.bleu.a == score_corpus(a, references, resamples=40).bleu > 10
    assert f"nrefs:{streams}|" in comparison.bleu.signature
    assert "|tok:zh|" in comparison.bleu.signature
    assert "|tok:char|" in compare_outputs(a, b, references, tokenize="char", trials=1).bleu.signature


@pytest.mark.slow
def test_the_interval_of_the_difference_is_of_the_same_sentences_drawn_from_both(comparison: Comparison) -> None:
    ours = compare_outputs(A, B, REFERENCES, resamples=40, seed=3)
    generator, differences = np.random.default_rng(3), []
    for _ in range(40):
        drawn = generator.choice(len(REFERENCES), size=len(REFERENCES))
        a, b, references = ([lines[i] for i in drawn] for lines in (A, B, REFERENCES))
        scores = [BLEU(force=True).corpus_score(lines, [references]).score for lines in (a, b)]
        differences.append(scores[0] - scores[1])
    differences.sort()
    assert ours.bleu.difference_interval == pytest.approx((differences[1], differences[-2]))
    low, high = comparison.bleu.difference_interval
    assert low < comparison.bleu.difference < high


def test_the_other_way_round_it_is_the_negative(comparison: Comparison) -> None:
    other = compare_outputs(B, A, REFERENCES, resamples=RESAMPLES, trials=TRIALS)
    for ours, theirs in ((comparison.bleu, other.bleu), (comparison.chrf, other.chrf)):
        low, high = theirs.difference_interval
        assert ours.difference_interval == (-high, -low)
        assert (ours.a, ours.b, ours.difference) == (theirs.b, theirs.a, -theirs.difference)
        assert ours.p_value == theirs.p_value


@pytest.mark.slow
def test_equal_outputs_are_not_called_different() -> None:
    comparison = compare_outputs(A, list(A), REFERENCES, resamples=40)
    for found in (comparison.bleu, comparison.chrf):
        assert (found.difference, found.difference_interval, found.p_value) == (0, (0, 0), 1)
    assert comparison.equal_sentences == 60
    assert describe_comparison(comparison) == "A and B have the same BLEU."


def difference(value: float, interval: tuple[float, float], p: float) -> Difference:
    ends = (30.0, 50.0)
    return Difference(
        a=40 + value, a_interval=ends, b=40.0, b_interval=ends, difference=value, difference_interval=interval,
        p_value=p, signature="nrefs:1",
    )  # fmt: skip


MODELS = "This compares the two systems"


@pytest.mark.parametrize(
    ("value", "interval", "p", "said", "more"),
    [
        (0.8, (0.1, 1.5), 0.0312, "A has 0.80 BLEU more on these sentences: {} in 3 of 100 cases.\n", MODELS),
        (-0.06, (-0.09, -0.03), 0.0001, "B has 0.06 BLEU more on these sentences: {} in at most 1 of 1,000", MODELS),
        (-1.234, (-2, -0.4), 0.004, "B is better by 1.23 BLEU: {} in 4 of 1,000 cases.\n", MODELS),
        (3, (2, 4), 0.001, "A is better by 3.00 BLEU: {} in at most 1 of 1,000 cases.\n", MODELS),
        (0.8, (0.0, 1.5), 0.0499, "A has 0.80 BLEU more, which may be chance: {} in 5 of 100 cases.", ""),
        (2.0, (0.1, 4.0), 0.051, "A has 2.00 BLEU more, which may be chance: {} in 5 of 100 cases.", ""),
        (-0.1, (-0.5, 0.3), 0.38, "B has 0.10 BLEU more, which may be chance: {} in 38 of 100 cases.", ""),
        (0.004, (-0.5, 0.3), 0.42, "A and B have the same BLEU.", ""),
    ],
)
def test_what_is_said(
    comparison: Comparison, value: float, interval: tuple[float, float], p: float, said: str, more: str
) -> None:
    agreeing = difference(value, interval, p)
    words = describe_comparison(replace(comparison, bleu=agreeing, chrf=agreeing))
    assert words.startswith(said.format("a difference as large appears by chance"))
    assert (MODELS in words) == bool(more)
    assert ("is better" in words) == (abs(value) >= 1 and bool(more))
    assert ("differs by about 1 BLEU" in words) == bool(more)


@pytest.mark.parametrize(
    ("value", "other", "said"), [(1.0, -0.1, True), (-1.0, 0.1, True), (1.0, 0.1, False), (1.0, -0.004, False)]
)
def test_chrf_that_points_the_other_way_is_said(comparison: Comparison, value: float, other: float, said: bool) -> None:
    bleu, chrf = difference(value, (-2, 2), 0.2), difference(other, (-2, 2), 0.2)
    sentence = describe_comparison(replace(comparison, bleu=bleu, chrf=chrf))
    assert sentence.endswith("20 of 100 cases." + " chrF contradicts BLEU." * said)


def test_the_report_has_a_table_and_a_sentence(comparison: Comparison) -> None:
    lines = comparison.report("runs/first", "runs/second").splitlines()
    assert lines[:2] == ["A  runs/first", "B  runs/second"]
    header, bleu, chrf = lines[3:6]
    for row, name, found in ((bleu, "BLEU", comparison.bleu), (chrf, "chrF", comparison.chrf)):
        assert row.startswith(name)
        for column, score, (low, high), sign in (
            ("A ", found.a, found.a_interval, ""),
            ("B ", found.b, found.b_interval, ""),
            ("A - B", found.difference, found.difference_interval, "+"),
        ):
            start = header.index(column)
            assert row[start - 1 :].startswith(f" {score:{sign}.2f}  [{low:{sign}6.2f}, {high:{sign}6.2f}]")
        assert row[header.index("p") :] == f"{found.p_value:.4f}"
    assert describe_comparison(comparison) in comparison.report("runs/first", "runs/second")
    assert lines[-2:] == [f"BLEU  {comparison.bleu.signature}", f"chrF  {comparison.chrf.signature}"]
    assert f"{comparison.equal_sentences} of 60 sentences have the same translation" in lines
    assert (
        "p from 300 trials of approximate randomization, two-sided; 95 % intervals from 200 paired bootstrap resamples"
    ) in lines


def test_json_goes_there_and_back(comparison: Comparison) -> None:
    table = json.loads(json.dumps(comparison.to_json()))
    assert table["bleu"]["p_value"] == comparison.bleu.p_value
    assert table["chrf"]["difference_interval"] == list(comparison.chrf.difference_interval)
    assert (table["sentences"], table["resamples"]) == (60, RESAMPLES)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(DataError, match="59 translations cannot be scored against 60 references"):
        compare_outputs(A, B[1:], REFERENCES)
    with pytest.raises(DataError, match="nothing to score"):
        compare_outputs([], [], [])
    with pytest.raises(ConfigError, match=r"`resamples` \(39\) must be at least 40"):
        compare_outputs(A, B, REFERENCES, resamples=39)
    with pytest.raises(ConfigError, match=r"`trials` \(0\) must be at least 1"):
        compare_outputs(A, B, REFERENCES, trials=0)
