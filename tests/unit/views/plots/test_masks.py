import numpy as np
import pytest
import torch

import pellucid
from pellucid.errors import DataError
from pellucid.views.canvas.colours import HUE, rgb
from pellucid.views.canvas.drawing import Drawing
from tests.unit.views.drawn import outside, parsed, rasters, texts


def masks(drawing: Drawing, length: int) -> list[np.ndarray]:
    """The masks drawn, (L, L): a cell is filled or hatched."""
    found = []
    for image in rasters(drawing):
        if image.shape[0] % length == 0 and image.shape[0] == image.shape[1] and image.shape[0] >= length > 1:
            step = image.shape[0] // length
            filled = (image == rgb(HUE)).all(axis=2)
            cells = filled.reshape(length, step, length, step).transpose(0, 2, 1, 3).reshape(length, length, -1)
            assert (cells.all(axis=2) | ~cells.any(axis=2)).all()
            found.append(cells.all(axis=2))
    return found


def test_padding_causal_and_both() -> None:
    drawing = pellucid.plot_masks([5, 3])
    full, causal = np.ones((5, 5), bool), np.tril(np.ones((5, 5), bool))
    padded = np.arange(5) < 3
    expected = [full, causal, causal, full & padded, causal, causal & padded]
    for found, mask in zip(masks(drawing, 5), expected, strict=True):
        np.testing.assert_array_equal(found, mask)


def test_texts_are_the_labels_and_are_padded() -> None:
    drawing = pellucid.plot_masks(texts=["나는 달력 을", "Ein"])
    assert {"나는", "달력", "을", "Ein", "<pad>", "Sentence 2"} <= set(texts(drawing))
    assert outside(drawing) == []
    parsed(drawing.as_svg())


def test_the_mask_of_cross_attention() -> None:
    """The mask that the model itself gives to its cross-attention, target rows over source columns."""
    drawing = pellucid.plot_masks([5, 3], targets=[4, 6])
    source = torch.ones(2, 5, dtype=torch.int64)
    source[1, 3:] = 0
    expected = pellucid.padding_mask(source, 0)
    assert expected is not None
    images = [image for image in rasters(drawing) if image.shape[0] * 5 == image.shape[1] * 6]
    assert len(images) == 2
    for image, mask in zip(images, expected[:, 0], strict=True):
        filled = (image == rgb(HUE)).all(axis=2)
        step = image.shape[1] // 5
        cells = filled.reshape(6, step, 5, step).transpose(0, 2, 1, 3).reshape(6, 5, -1)
        np.testing.assert_array_equal(cells.all(axis=2), mask.expand(6, 5).numpy())
    assert outside(drawing) == []


def test_targets_that_do_not_fit() -> None:
    with pytest.raises(DataError, match=r"`targets` \[4\] must have one value per sentence \(2\)"):
        pellucid.plot_masks([5, 3], targets=[4])
    with pytest.raises(DataError, match=r"`targets` \[4, 0\]: 0 must be at least 1"):
        pellucid.plot_masks([5, 3], targets=[4, 0])


@pytest.mark.parametrize(
    ("lengths", "sentences", "message"),
    [
        ((), (), "require either `lengths` or `texts`"),
        ((1,), ("a",), "require either `lengths` or `texts`"),
        ((3, 0), (), r"`lengths` \[3, 0\]: 0 must be at least 1"),
        ((), ("a", " "), "a text without words has no mask"),
    ],
)
def test_a_batch_that_has_no_masks(lengths: tuple[int, ...], sentences: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        pellucid.plot_masks(lengths, sentences)
