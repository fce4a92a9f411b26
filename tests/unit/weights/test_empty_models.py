"""Models that are built for weights from elsewhere: all but the weights as ever, and nothing drawn."""

from typing import Any

import pytest
import torch

from pellucid.model.families import build_model
from pellucid.weights.empty_models import build_uninitialised
from pellucid.weights.tensors import parameters, set_parameters
from tests.tiny_model import tiny_config, words

SHAPES: dict[str, dict[str, Any]] = {
    "transformer": {},
    "decoder": {"num_encoder_layers": 0, "tie_embeddings": "decoder", "positions": "rotary", "d_model": 24},
    "classifier": {
        "num_decoder_layers": 0, "num_classes": 3, "tie_embeddings": "none", "positions": "learned",
        "embedding_norm": True, "num_segments": 2,
    },
    "relative": {"positions": "relative", "norm_type": "rms", "norm": "pre", "tie_embeddings": "none"},
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_with_the_same_weights_it_is_the_same_model(name: str) -> None:
    config = tiny_config(**{"src_vocab_size": 19} | SHAPES[name])
    drawn, unfilled = build_model(config).eval(), build_uninitialised(config).eval()
    assert type(unfilled) is type(drawn)
    assert [p.requires_grad for p in unfilled.parameters()] == [p.requires_grad for p in drawn.parameters()]
    set_parameters(unfilled, parameters(drawn), "the model")
    inputs = [words(19, 2, 7)] * (2 if config.family == "encoder-decoder" else 1)
    assert torch.equal(unfilled(*inputs), drawn(*inputs))


def test_the_callers_random_numbers_go_on() -> None:
    before = torch.get_rng_state()
    build_uninitialised(tiny_config())
    assert torch.equal(torch.get_rng_state(), before)
    build_model(tiny_config())
    assert not torch.equal(torch.get_rng_state(), before)
