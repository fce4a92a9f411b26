"""Sequences of different lengths as one tensor."""

import pytest
import torch

from pellucid.decoding.padding import pad


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
