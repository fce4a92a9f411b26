"""The factors that are found are those that choose best."""

import numpy as np
import pytest

from pellucid.errors import DataError
from pellucid.evaluation.reranking import RerankingWeights, fit_factors
from pellucid.evaluation.scores import corpus_scores

REFERENCES = [f"the number {word} stands here today" for word in ("one", "two", "three", "four", "five", "six")]


def lists(right_by: int) -> tuple[list[np.ndarray], list[list[str]]]:
    """Three hypotheses a line: the search's best is wrong, and one feature knows which is right."""
    features, texts = [], []
    for number, reference in enumerate(REFERENCES):
        right = 1 + number // 2 % 2
        rows = np.array([[-1.0, -3.0, -3.0, 1.0], [-1.1, -3.0, -3.0, 1.0], [-1.2, -3.0, -3.0, 1.0]])
        rows[right, right_by] += 1.0
        features.append(rows)
        texts.append([reference if place == right else "a number is here now" for place in range(3)])
    return features, texts


@pytest.mark.parametrize(("name", "column"), [("reverse", 1), ("lm", 2), ("length", 3)])
def test_the_feature_that_knows_is_found(name: str, column: int) -> None:
    features, texts = lists(column)
    fit = fit_factors(features, texts, REFERENCES, ("reverse", "lm", "length"))
    assert getattr(fit.factors, name) > 0
    assert sum(value != 0 for value in (fit.factors.reverse, fit.factors.lm, fit.factors.length)) == 1
    chosen = [of_line[int(fit.factors.totals(rows).argmax())] for rows, of_line in zip(features, texts, strict=True)]
    assert chosen == REFERENCES
    before = corpus_scores([of_line[0] for of_line in texts], REFERENCES)[0]
    assert (fit.bleu, fit.bleu_before) == (100, round(before, 2))
    assert fit.bleu_crossed == fit.bleu_possible == 100


def test_what_says_nothing_counts_nothing() -> None:
    features, texts = lists(1)
    same = [np.tile(rows[:1], (3, 1)) - np.array([[0.0], [0.1], [0.2]]) * np.array([1, 0, 0, 0]) for rows in features]
    assert fit_factors(same, texts, REFERENCES, ("reverse", "length")).factors == RerankingWeights()


def test_lists_of_several_lengths() -> None:
    features, texts = lists(1)
    fit = fit_factors([features[0][:2], *features[1:]], [texts[0][:2], *texts[1:]], REFERENCES, ("reverse",))
    assert fit.bleu == 100


def test_too_few_lines() -> None:
    with pytest.raises(DataError, match="1 lines are too few to fit the factors"):
        fit_factors([np.zeros((1, 4))], [["a"]], ["a"], ("length",))
