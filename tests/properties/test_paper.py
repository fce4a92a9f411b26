"""What the paper says about its models: how many parameters they have; and where learning must begin."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pellucid.config import ModelConfig
from pellucid.model.transformer import Transformer

VOCAB_SIZE = 37_000
"""Section 5.1: about so many word pieces, shared by source and target."""


@pytest.mark.parametrize(("preset", "millions", "millions_in_the_paper"), [("base", 63.1, 65), ("big", 214.2, 213)])
def test_the_parameters_of_table_3(preset: str, millions: float, millions_in_the_paper: float) -> None:
    config = ModelConfig.preset(preset, src_vocab_size=VOCAB_SIZE, tgt_vocab_size=VOCAB_SIZE)
    with torch.device("meta"):
        model = Transformer(config)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == expected_count(config)
    assert round(count / 1e6, 1) == millions
    assert abs(count / 1e6 / millions_in_the_paper - 1) < 0.03


def expected_count(config: ModelConfig) -> int:
    """By hand: one matrix of embeddings, N layers of blocks with their biases and norms."""
    d, d_ff = config.d_model, config.d_ff
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * d_ff + d_ff + d, 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return VOCAB_SIZE * d + config.num_encoder_layers * encoder_layer + config.num_decoder_layers * decoder_layer


def first_loss(config: ModelConfig) -> float:
    """The cross-entropy, in training, of random targets, shifted by the start token."""
    model = Transformer(config).train()
    src, tgt_out = torch.randint(3, config.tgt_vocab_size, (2, 4, 50))
    start = torch.full((4, 1), config.bos_id)
    with torch.no_grad():
        logits = model(src, torch.cat([start, tgt_out[:, :-1]], dim=1))
    return F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten()).item()


@pytest.mark.parametrize(
    ("preset", "vocab_size", "overrides"),
    [
        pytest.param("base", VOCAB_SIZE, {}, marks=pytest.mark.slow),
        ("base", 2000, {"num_encoder_layers": 2}),
        ("base", 2000, {"num_encoder_layers": 2, "num_decoder_layers": 2, "tie_embeddings": "none"}),
        ("tiny", 2000, {}),
        ("tiny", 2000, {"tie_embeddings": "none"}),
        ("tiny", 2000, {"scale_embeddings": False}),
        ("pytorch-seq2seq", 2000, {}),
    ],
    ids=str,
)
def test_learning_begins_at_the_uniform_distribution(preset: str, vocab_size: int, overrides: dict[str, Any]) -> None:
    """A loss far above ln V would first have to unlearn what the initial weights claim."""
    config = ModelConfig.preset(preset, src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, **overrides)
    uniform = math.log(vocab_size)
    assert uniform - 0.1 < first_loss(config) < uniform + 0.7
