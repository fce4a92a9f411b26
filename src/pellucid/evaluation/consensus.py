"""Minimum Bayes risk: of several drawn translations the one that is on average most like all of them.

The probability of a translation is taken to be how often it is drawn, and its worth its chrF against each draw
(Kumar and Byrne 2004; Eikema and Aziz 2020).
"""

from collections import Counter
from collections.abc import Sequence

from sacrebleu.metrics.chrf import CHRF


def most_like_all(texts: Sequence[str]) -> int:
    """Returns the place of the text with the highest mean chrF against all of them, itself included.

    Of equal texts, and of equal means, it is the first.
    """
    drawn = Counter(texts)
    if len(drawn) == 1:
        return 0
    metric = CHRF()
    worth = {
        text: sum(count * metric.sentence_score(text, [other]).score for other, count in drawn.items())
        for text in drawn
    }
    return texts.index(max(worth, key=lambda text: worth[text]))
