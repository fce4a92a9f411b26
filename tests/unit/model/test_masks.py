"""Masks: True = may attend."""

import pytest
import torch

from pellucid.model.masks import causal_mask, padding_mask


def test_a_padding_mask_lets_words_through() -> None:
    mask = padding_mask(torch.tensor([[5, 0, 7], [0, 0, 0]]), 0)
    assert mask is not None
    assert mask.dtype == torch.bool
    assert mask.shape == (2, 1, 1, 3)
    assert mask.flatten(1).tolist() == [[True, False, True], [False, False, False]]


def test_the_pad_id_is_what_the_model_says() -> None:
    mask = padding_mask(torch.tensor([[5, 0, 7]]), 7)
    assert mask is not None
    assert mask.flatten().tolist() == [True, True, False]


def test_no_pad_id_means_no_mask() -> None:
    assert padding_mask(torch.tensor([[5, 0, 7]]), None) is None


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_position_sees_itself_and_what_came_before(length: int) -> None:
    mask = causal_mask(length)
    assert mask.dtype == torch.bool
    assert mask.shape == (1, 1, length, length)
    assert mask[0, 0].tolist() == [[key <= query for key in range(length)] for query in range(length)]
