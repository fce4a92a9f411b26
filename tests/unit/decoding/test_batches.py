"""Which sequences go together, and as one tensor."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.decoding.batches import batches_by_length, pad


@pytest.mark.parametrize(
    ("rows", "pad_id", "expected"),
    [
        ([[1, 2, 3], [4]], 0, [[1, 2, 3], [4, 0, 0]]),
        ([[], [7, 8]], 9, [[9, 9], [7, 8]]),
        ([(5,)], 0, [[5]]),
        ([[2**40]], 0, [[2**40]]),
    ],
)
def test_rows_are_filled_up_on_the_right(rows: list[list[int]], pad_id: int, expected: list[list[int]]) -> None:
    table = pad(rows, pad_id)
    assert table.dtype == torch.int64
    assert table.tolist() == expected


def test_the_rows_are_copied() -> None:
    rows = [[1, 2]]
    pad(rows, 0)[0, 0] = 5
    assert rows == [[1, 2]]


@pytest.mark.slow
@given(
    shapes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=30),
    budget=st.integers(1, 200),
    padded=st.booleans(),
)
def test_batches(shapes: list[tuple[int, int]], budget: int, padded: bool) -> None:
    batches = list(batches_by_length(shapes, budget, padded))
    assert sorted(place for batch in batches for place in batch) == list(range(len(shapes)))
    for batch in batches:
        longest = max(max(shapes[place]) for place in batch)
        assert len(batch) == 1 or len(batch) * (longest + 1) <= budget
        assert padded or len({shapes[place] for place in batch}) == 1
    sizes = [max(max(shapes[place]) for place in batch) for batch in batches]
    assert sizes == sorted(sizes, reverse=True)
    if padded:  # what comes next would not have fitted
        assert all((len(batch) + 1) * (max(shapes[batch[0]]) + 1) > budget for batch in batches[:-1])
