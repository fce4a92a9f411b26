import numpy as np

from pellucid.views.canvas.colours import HUE, rgb
from pellucid.views.canvas.drawing import Box
from pellucid.views.pictures.matrix import Heading
from pellucid.views.pictures.model import draw_model, mosaic
from pellucid.views.thumbnails import thumbnails
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
    drawing = draw_model(parts, Heading(title="T"), {"cross": [(1, 2)]})
    assert sum(image.shape == (68, 102, 3) for image in rasters(drawing)) == 2
    assert {"encoder: self-attention", "decoder: cross-attention", "head 0", "1", "2"} <= set(texts(drawing))
    assert sum(isinstance(shape, Box) and shape.stroke == HUE for shape in drawing.shapes) == 1
