"""Seven factors in eight runs: the fractional factorial 2^(7-4), and the main effects that it tells.

Box, Hunter and Hunter, Statistics for Experimenters, chapter 6. Each factor stands at its second level in four runs and
at its first in four, and with any other factor in all four combinations twice. Main effects are not mixed with each
other, but each with the interactions of three pairs of others (resolution III): it is for finding what matters, and
what it finds is to be tried by itself.
"""

from collections.abc import Sequence
from math import prod

RUNS, MOST_FACTORS = 8, 7
FREE_FACTORS = 3
"""So many are tried in all combinations; with more each main effect is mixed with interactions of others."""
# The three factors of a full factorial in eight runs, then their products.
_PRODUCTS = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))


def fractional_factorial(factors: int) -> list[tuple[int, ...]]:
    """Returns the eight runs of 3 to 7 factors, or the two or four of fewer: 0 for a first level, 1 for a second."""
    rows = []
    for run in range(min(RUNS, 2**factors)):
        signs = [1 if run >> bit & 1 else -1 for bit in range(3)]
        rows.append(tuple(int(prod(signs[factor] for factor in product) > 0) for product in _PRODUCTS[:factors]))
    return rows


def main_effects(levels: Sequence[Sequence[int]], responses: Sequence[float]) -> list[float]:
    """Returns for each factor the mean response at its second level less that at its first."""
    half = len(responses) / 2
    return [
        sum(response if row[factor] else -response for row, response in zip(levels, responses, strict=True)) / half
        for factor in range(len(levels[0]))
    ]
