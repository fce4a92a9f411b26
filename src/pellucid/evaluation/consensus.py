"""Minimum Bayes risk decoding: chooses the sampled translation that is on average most similar to all samples.

The probability of a translation is estimated by its frequency among the samples, and its utility is its chrF against
each sample (Kumar and Byrne 2004; Eikema and Aziz 2020).
"""

from collections import Counter
from collections.abc import Sequence

from sacrebleu.metrics.chrf import CHRF


def select_by_mbr(texts: Sequence[str]) -> int:
    """Returns the index of the text with the highest mean chrF against all texts, itself included.

    Of equal texts, and of equal means, the first is chosen.
    """
    sampled = Counter(texts)
    if len(sampled) == 1:
        return 0
    metric = CHRF()
    worth = {
        text: sum(count * metric.sentence_score(text, [other]).score for other, count in sampled.items())
        for text in sampled
    }
    return texts.index(max(worth, key=lambda text: worth[text]))
