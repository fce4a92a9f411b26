"""How good a model is, in numbers that other people can check: each score with its signature and its interval."""

from pellucid.evaluation.scores import Scores, score_corpus

__all__ = ["Scores", "score_corpus"]
