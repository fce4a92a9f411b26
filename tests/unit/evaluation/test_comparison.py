"""Paired bootstrap resampling: sacreBLEU's numbers, the interval that it lacks, and what is said of them."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.comparison import Comparison, Difference, compare_outputs, in_words, p_value

SENTENCE = "A dog runs over the green field while Two men in red shirts watch it ."


def spoilt(references: list[str], seed: int, kept: float) -> list[str]:
    """The references with some words wrong."""
    draw = random.Random(seed)
    return [" ".join(w if draw.random() < kept else "the" for w in line.split()) for line in references]


_DRAW = random.Random(0)
REFERENCES = [" ".join(_DRAW.choices(SENTENCE.split(), k=_DRAW.randint(6, 14))) for _ in range(60)]
A, B = spoilt(REFERENCES, 1, 0.82), spoilt(REFERENCES, 2, 0.78)
RESAMPLES = 200


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_outputs(A, B, REFERENCES, resamples=RESAMPLES)


@pytest.mark.parametrize("seed", [12345, 7])
@pytest.mark.parametrize("kept", [0.81, 0.72])
def test_scores_intervals_and_p_are_those_of_sacrebleu(monkeypatch: pytest.MonkeyPatch, seed: int, kept: float) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    other = spoilt(REFERENCES, 3, kept)
    test = PairedTest(
        [("B", other), ("A", A)], {"BLEU": BLEU(force=True), "chrF2": CHRF()}, [REFERENCES], "bs", n_samples=RESAMPLES
    )
    signatures, results = test()
    ours = compare_outputs(A, other, REFERENCES, resamples=RESAMPLES, seed=seed)
    for found, name in ((ours.bleu, "BLEU"), (ours.chrf, "chrF2")):
        b, a = results[name]
        assert (found.a, found.b) == pytest.approx((a.score, b.score))
        for (low, high), theirs in ((found.a_interval, a), (found.b_interval, b)):
            assert (high - low) / 2 == pytest.approx(theirs.ci, abs=1e-3)
        assert found.p_value == pytest.approx(a.p_value)
        assert found.p_value > 1 / (RESAMPLES + 1) or kept == 0.72, "a p that cannot be told from the least one"
        assert found.signature == str(signatures[name])


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
    other = compare_outputs(B, A, REFERENCES, resamples=RESAMPLES)
    for ours, theirs in ((comparison.bleu, other.bleu), (comparison.chrf, other.chrf)):
        low, high = theirs.difference_interval
        assert ours.difference_interval == (-high, -low)
        assert (ours.a, ours.b, ours.difference) == (theirs.b, theirs.a, -theirs.difference)
        assert ours.p_value == theirs.p_value


def test_p_counts_what_is_farther_from_the_mean() -> None:
    drawn = np.array([1.0, 2.0, -3.0, 2.0])  # sizes 1, 2, 3, 2: mean 2, and one that is more than 0.5 above it
    assert p_value(0.5, drawn) == p_value(-0.5, drawn) == pytest.approx(2 / 5)
    assert p_value(1.0, drawn) == pytest.approx(1 / 5)


def test_equal_outputs_are_not_called_different() -> None:
    comparison = compare_outputs(A, list(A), REFERENCES, resamples=40)
    for found in (comparison.bleu, comparison.chrf):
        assert (found.difference, found.difference_interval, found.p_value) == (0, (0, 0), 1)
    assert comparison.equal_sentences == 60
    assert in_words(comparison) == "A and B have the same BLEU."


def difference(value: float, interval: tuple[float, float], p: float) -> Difference:
    ends = (30.0, 50.0)
    return Difference(
        a=40 + value, a_interval=ends, b=40.0, b_interval=ends, difference=value, difference_interval=interval,
        p_value=p, signature="nrefs:1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "interval", "p", "sentence"),
    [
        (0.8, (0.1, 1.5), 0.0312, "A is better by 0.80 BLEU: {} in 3 of 100 cases."),
        (-1.234, (-2, -0.4), 0.004, "B is better by 1.23 BLEU: {} in 4 of 1,000 cases."),
        (3, (2, 4), 0.001, "A is better by 3.00 BLEU: {} in at most 1 of 1,000 cases."),
        (0.8, (0.0, 1.5), 0.0499, "A has 0.80 BLEU more, which may be chance: {} in 5 of 100 cases."),
        (-0.1, (-0.5, 0.3), 0.38, "B has 0.10 BLEU more, which may be chance: {} in 38 of 100 cases."),
        (0.004, (-0.5, 0.3), 0.42, "A and B have the same BLEU."),
    ],
)
def test_what_is_said(
    comparison: Comparison, value: float, interval: tuple[float, float], p: float, sentence: str
) -> None:
    agreeing = difference(value, interval, p)
    chance = "an advantage as large would appear by chance"
    said = in_words(replace(comparison, bleu=agreeing, chrf=agreeing))
    assert said == sentence.format(chance)


@pytest.mark.parametrize(
    ("value", "other", "said"), [(1.0, -0.1, True), (-1.0, 0.1, True), (1.0, 0.1, False), (1.0, -0.004, False)]
)
def test_chrf_that_points_the_other_way_is_said(comparison: Comparison, value: float, other: float, said: bool) -> None:
    bleu, chrf = difference(value, (-2, 2), 0.2), difference(other, (-2, 2), 0.2)
    sentence = in_words(replace(comparison, bleu=bleu, chrf=chrf))
    assert sentence.endswith("20 of 100 cases." + " chrF points the other way." * said)


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
        assert row[header.index("p") :] == f"{found.p_value:.3f}"
    assert in_words(comparison) in lines
    assert lines[-2:] == [f"BLEU  {comparison.bleu.signature}", f"chrF  {comparison.chrf.signature}"]
    assert f"{comparison.equal_sentences} of 60 sentences are translated to the same text" in lines
    assert "95 % intervals and p from 200 paired bootstrap resamples" in lines


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
