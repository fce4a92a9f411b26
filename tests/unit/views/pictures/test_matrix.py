import numpy as np
import pytest

from pellucid.views.canvas.colours import EMPTY, HATCH, HUE, hatch_masked, rgb, sequential
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Label, Raster
from pellucid.views.pictures.matrix import draw_matrix
from tests.unit.views.drawn import rasters, texts, tokens

ROWS, COLUMNS = tokens("a", "dog", "<e>"), tokens("ein", "Hund")


def attention(*shape: int) -> np.ndarray:
    """Random weights whose rows sum to 1."""
    drawn = np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.3), size=shape[:-1])
    return drawn.astype(np.float32)


def draw(weights: np.ndarray, **options: object) -> Drawing:
    names = [f"head {n}" for n in range(len(weights))] if len(weights) > 1 else [""]
    return draw_matrix(weights, ROWS, COLUMNS, "T", names, note="N", **options)  # type: ignore[arg-type]


def test_a_cell_is_a_pixel_whose_colour_is_the_weight() -> None:
    weights = np.array([[[0, 1], [0.5, 0.5], [1, 0]]], np.float32)
    cells = rasters(draw(weights))[0]
    assert cells.shape == (3, 2, 3)
    np.testing.assert_array_equal(cells[0, 0], rgb(EMPTY))
    np.testing.assert_array_equal(cells[0, 1], rgb(HUE))
    np.testing.assert_allclose(cells[1, 0], (rgb(EMPTY) + rgb(HUE)) / 2, atol=1)


def test_larger_weights_are_darker() -> None:
    lightness = sequential(np.linspace(0, 1, 101)).astype(int).sum(axis=1)
    assert (np.diff(lightness) <= 0).all()
    assert len(set(lightness)) > 90


def test_labels_stand_beside_their_cells() -> None:
    drawing = draw(attention(1, 3, 2))
    cells = next(shape for shape in drawing.shapes if isinstance(shape, Raster))
    step = cells.height / 3
    place = {shape.text: shape for shape in drawing.shapes if isinstance(shape, Label)}
    for i, text in enumerate(["a", "dog", "<e>"]):
        assert place[text].x < cells.x
        assert cells.y + i * step < place[text].y < cells.y + (i + 1) * step
    for j, text in enumerate(["ein", "Hund"]):
        assert cells.x + j * step < place[text].x < cells.x + (j + 1.2) * step
        assert place[text].y < cells.y


@pytest.mark.parametrize("heads", [2, 3, 8, 12])
def test_heads_are_small_multiples_with_numbers(heads: int) -> None:
    drawing = draw(attention(heads, 3, 2))
    cells = [s for s in drawing.shapes if isinstance(s, Raster) and s.pixels.shape[:2] == (3, 2)]
    assert len({(cell.x, cell.y) for cell in cells}) == heads
    assert [text for text in texts(drawing) if text.startswith("head")] == [f"head {n}" for n in range(heads)]
    assert texts(drawing)[:2] == ["T", "N"]


def test_what_is_masked_is_hatched_and_a_small_weight_is_not() -> None:
    mask = np.array([[True, False], [True, True], [True, True]])
    cells = rasters(draw(attention(1, 3, 2) * mask, mask=mask))[0]
    step = cells.shape[0] // 3
    assert step > 1
    masked = {tuple(pixel) for pixel in cells[:step, step:].reshape(-1, 3)}
    assert masked == {tuple(rgb(HATCH).astype(int)), (255, 255, 255)}
    assert len({tuple(pixel) for pixel in cells[:step, :step].reshape(-1, 3)}) == 1


def test_only_a_mask_that_hides_something_is_in_the_legend() -> None:
    everything = np.ones((3, 2), np.bool_)
    assert "masked" not in texts(draw(attention(1, 3, 2), mask=everything))
    assert "masked" in texts(draw(attention(1, 3, 2), mask=np.tril(everything)))
    assert hatch_masked(sequential(attention(3, 2)), everything).shape == (3, 2, 3)


def test_an_image_of_many_tokens_is_not_made_larger() -> None:
    mask = np.tril(np.ones((700, 700), np.bool_))
    assert hatch_masked(np.zeros((700, 700, 3), np.uint8), mask).shape == (700, 700, 3)


def test_the_description_tells_the_largest_weight_of_each_row() -> None:
    weights = np.array([[[0.25, 0.75], [1, 0], [0.5, 0.5]]], np.float32)
    plain = draw(weights).description.replace("\u2068", "").replace("\u2069", "")
    assert "a → Hund 0.75; dog → ein 1.00; <e> → ein 0.50" in plain
