"""Arithmetic for the tests of what a model computes."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def double_precision() -> Iterator[None]:
    """What holds here holds in any precision; in this one rounding is far below any fault."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
