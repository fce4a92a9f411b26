import numpy as np

from pellucid.tracing.attention import AttentionTrace
from pellucid.views.canvas.colours import HUE, rgb
from pellucid.views.canvas.shapes import Box
from pellucid.views.pictures.model import draw_model, mosaic, thumbnails
from tests.unit.views.drawn import attention, rasters, texts


def test_all_heads_are_one_image_layers_below_each_other() -> None:
    part = np.zeros((2, 3, 32, 32), np.uint8)
    part[1, 2] = 255
    image = mosaic(part)
    assert image.shape == (2 * 34, 3 * 34, 3)
    assert (image[34:66, 68:100] == rgb(HUE)).all()
    assert not (image[:32] == rgb(HUE)).all(axis=2).any()


def test_each_attention_has_an_image_and_its_numbers() -> None:
    parts = {name: thumbnails(attention(name)) for name in ("encoder.self", "cross")}
    drawing = draw_model(parts, "T", {"cross": [(1, 2)]})
    assert sum(image.shape == (68, 102, 3) for image in rasters(drawing)) == 2
    assert {"encoder self-attention", "cross-attention", "head 0", "1", "2"} <= set(texts(drawing))
    assert sum(isinstance(shape, Box) and shape.stroke == HUE for shape in drawing.shapes) == 1


def test_a_pixel_is_the_largest_weight_that_it_lies_over() -> None:
    weights = np.zeros((1, 1, 64, 96), np.float32)
    weights[0, 0, 10, 50] = 1
    weights[0, 0, 63, 0] = 0.5
    found = thumbnails(AttentionTrace(name="x", queries="src", keys="tgt", ready=weights))
    assert found.shape == (1, 1, 32, 32)
    assert found.dtype == np.uint8
    expected = np.zeros((32, 32), np.uint8)
    expected[5, 16], expected[31, 0] = 255, 128
    np.testing.assert_array_equal(found[0, 0], expected)


def test_few_tokens_are_several_pixels_each() -> None:
    weights = np.array([[[[1, 0], [0, 1]]]], np.float32)
    found = thumbnails(AttentionTrace(name="x", queries="src", keys="src", ready=weights))[0, 0]
    np.testing.assert_array_equal(found, np.kron(np.eye(2), np.full((16, 16), 255)))


def test_another_size() -> None:
    assert thumbnails(attention(length=50), size=8).shape == (2, 3, 8, 8)
