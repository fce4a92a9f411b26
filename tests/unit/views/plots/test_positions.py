import math

import numpy as np
import pytest
import torch

import pellucid
from pellucid.config import ModelConfig
from pellucid.errors import ConfigError, DataError
from pellucid.model.families import DecoderOnly
from pellucid.views.canvas.colours import map_diverging_colours
from tests.tiny_model import tiny_model
from tests.unit.views.drawn import outside, rasters, texts


def test_sinusoids_and_their_dot_products() -> None:
    drawing = pellucid.plot_positions(10, 16)
    table, similarity = [image for image in rasters(drawing) if image.shape[0] == 10]
    expected = pellucid.sinusoids(10, 16)
    np.testing.assert_array_equal(table, map_diverging_colours(expected / expected.abs().max()))
    np.testing.assert_array_equal(similarity, map_diverging_colours((expected @ expected.T / 8).clamp(-1, 1)))
    assert outside(drawing) == []
    assert {"Encodings", "Similarity", "position", "dimension"} <= set(texts(drawing))


def test_learned_positions_are_those_of_the_model() -> None:
    model = tiny_model(positions="learned")
    for stack, embedding in (("encoder", model.src_embedding), ("decoder", model.tgt_embedding)):
        drawing = pellucid.plot_positions(7, model=model, stack=stack)
        table = embedding.positions.weight[:7].detach()
        np.testing.assert_array_equal(rasters(drawing)[0], map_diverging_colours(table / table.abs().max()))
        assert drawing.title == f"Learned positions of the {stack}"


def test_rotary_positions_score_by_distance() -> None:
    model = tiny_model(positions="rotary", d_model=24)
    drawing = pellucid.plot_positions(9, model=model)
    _, score = [image for image in rasters(drawing) if image.shape[0] == 9]
    rates = 10000.0 ** -(np.arange(0, 8, 2) / 8)
    expected = [[np.mean([math.cos((i - j) * rate) for rate in rates]) for j in range(9)] for i in range(9)]
    np.testing.assert_allclose(score.astype(int), map_diverging_colours(np.array(expected)).astype(int), atol=1)


def test_relative_positions_are_the_bias_of_each_head() -> None:
    model = tiny_model(positions="relative")
    drawing = pellucid.plot_positions(6, model=model, stack="decoder")
    places = torch.arange(6)
    bias = model.decoder.relative(places, places).bias[0].detach()
    images = [image for image in rasters(drawing) if image.shape[0] == 6]
    np.testing.assert_array_equal(images, map_diverging_colours(bias / bias.abs().max()))
    assert {"Head 0", "Head 1", "Head 2"} <= set(texts(drawing))


@pytest.mark.parametrize("length", [0, 65])
def test_a_length_that_the_model_has_not(length: int) -> None:
    with pytest.raises(DataError, match=rf"`length` \({length}\) must be in 1..64"):
        pellucid.plot_positions(length, model=tiny_model())


def test_a_stack_that_the_model_has_not() -> None:
    config = ModelConfig.decoder(vocab_size=9, num_layers=1, d_model=8, d_ff=8, num_heads=2)
    with pytest.raises(ConfigError, match="the model has no `stack` 'encoder'") as error:
        pellucid.plot_positions(4, model=DecoderOnly(config), stack="encoder")
    assert error.value.hint == "it has decoder"
