"""Masks: True = may attend; what is none is refused by what it is and what it might have been."""

import re

import pytest
import torch

from pellucid.errors import DataError
from pellucid.model.attention import MultiHeadAttention, attention
from pellucid.model.checks import check_mask
from pellucid.model.masks import causal_mask, padding_mask
from tests.tiny_model import tiny_model


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


@pytest.mark.parametrize("shape", [(), (7,), (1, 7), (5, 1), (5, 7), (2, 5, 7), (1, 5, 7), (3, 1, 1, 7), (3, 2, 5, 7)])
def test_what_is_broadcastable_is_a_mask(shape: tuple[int, ...]) -> None:
    check_mask(torch.ones(shape, dtype=torch.bool), 3, 2, 5, 7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_numbers_are_no_mask(dtype: torch.dtype) -> None:
    x = torch.randn(1, 4, 12)
    with pytest.raises(DataError, match=f"a mask has dtype {str(dtype)[6:]}; it must be bool, True = may") as caught:
        MultiHeadAttention(12, 3)(x, mask=torch.tril(torch.ones(4, 4)).to(dtype))
    assert "of 1 and 0, as torch.tril gives them: mask.bool(); of 0 and -inf" in caught.value.hint


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((3, 7), "for one mask per sentence write mask[:, None, None, :]; padding_mask(ids, pad_id) has that shape"),
        ((3, 5, 7), "for one mask per sentence write mask[:, None]; padding_mask(ids, pad_id) has that shape"),
        ((3, 1, 7), "for one mask per sentence write mask[:, None]; padding_mask(ids, pad_id) has that shape"),
        ((7, 5), "padding_mask(ids, pad_id) and causal_mask(length) make the usual ones"),
        ((1, 3, 2, 5, 7), "padding_mask(ids, pad_id) and causal_mask(length) make the usual ones"),
    ],
    ids=str,
)
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...], hint: str) -> None:
    with pytest.raises(DataError, match=r"it must be broadcastable to \(B, H, L, M\), here \(3, 2, 5, 7\)") as caught:
        check_mask(torch.ones(shape, dtype=torch.bool), 3, 2, 5, 7)
    assert f"a mask has shape {shape};" in str(caught.value)
    assert caught.value.hint == hint


def test_a_padding_mask_that_passes_for_one_of_queries_is_told() -> None:
    q = torch.randn(4, 2, 4, 3)
    message = r"^a mask of shape \(4, 4\) is read as \(L, M\), the same for all 4 sentences; for one mask per "
    with pytest.warns(
        UserWarning, match=message + r"sentence, write mask\[:, None, None, :\], else mask\[None, None\]$"
    ) as caught:
        attention(q, q, q, torch.ones(4, 4, dtype=torch.bool))
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match=r"shape \(2, 4, 4\) is read as \(H, L, M\), the .* else mask\[None\]$"):
        attention(q[:2], q[:2], q[:2], torch.ones(2, 4, 4, dtype=torch.bool))
    attention(q, q, q, torch.ones(4, 4, dtype=torch.bool).tril())  # causal: for all


def test_a_model_takes_no_other_masks() -> None:
    model, src, tgt = tiny_model(), torch.full((2, 5), 4), torch.full((2, 3), 4)
    with pytest.raises(DataError, match=r"a mask has shape \(2, 5\); .* here \(2, 3, 5, 5\)"):
        model(src, tgt, src != 0)
    with pytest.raises(DataError, match="a mask has dtype float32"):
        model(src, tgt, None, torch.ones(3, 3).tril())


def test_queries_keys_and_values_are_not_asked_for() -> None:
    block, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
    with pytest.raises(TypeError, match="takes from 2 to 3 positional arguments but 4 were given"):
        block(x, x, x)


@pytest.mark.parametrize("shape", [(2, 1, 1, 6), (3, 1, 1, 5), (2, 3, 1, 5), (2, 1, 3, 5)])
def test_a_mask_of_four_dimensions_that_does_not_fit(shape: tuple[int, ...]) -> None:
    x = torch.randn(2, 4, 4, 8)
    with pytest.raises(DataError, match=re.escape(f"a mask has shape {shape}; it must be broadcastable")):
        attention(x, x[:, :, :1].expand(-1, -1, 5, -1), x[:, :, :1].expand(-1, -1, 5, -1), torch.ones(shape) > 0)
