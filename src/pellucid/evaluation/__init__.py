"""The quality of a model, in numbers that other people can check: each score with its signature and its interval."""

from pellucid.evaluation.comparison import Comparison, Difference, compare_outputs
from pellucid.evaluation.scores import Scores, score_corpus

__all__ = ["Comparison", "Difference", "Scores", "compare_outputs", "score_corpus"]
