"""Evaluation of models: reproducible scores, each with its signature and its confidence interval."""

from pellucid.evaluation.comparison import Comparison, Difference, compare_outputs
from pellucid.evaluation.scores import Scores, score_corpus

__all__ = ["Comparison", "Difference", "Scores", "compare_outputs", "score_corpus"]
