"""Models of all families and kinds of attention, small, with ids for them; and traces of them."""

from typing import Any

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.families import DecoderOnly, EncoderOnly, Model, SequenceClassifier, build_model
from pellucid.model.transformer import Transformer
from pellucid.tasks.tracing import trace
from pellucid.tracing.trace import Trace
from tests.tiny_model import SRC_VOCAB_SIZE, tiny_model, words

SIZES = {"d_model": 12, "d_ff": 20, "num_heads": 6, "max_positions": 64, "dropout": 0.0}

KINDS: dict[str, dict[str, Any]] = {
    "sinusoids": {},
    "grouped-heads": {"num_kv_heads": 2},
    "rotary": {"positions": "rotary", "num_kv_heads": 3},
    "relative": {"positions": "relative", "head_dim": 3},
}


def shaken(model: Model) -> Model:
    """In eval mode, its biases and norms random, and its attention peaked."""
    model.eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
            elif "qkv_proj" in name:
                parameter *= 2
    return model


def encoder(**fields: Any) -> EncoderOnly:
    """An encoder alone."""
    model = shaken(build_model(ModelConfig.encoder(vocab_size=SRC_VOCAB_SIZE, num_layers=2, **SIZES | fields)))
    assert isinstance(model, EncoderOnly)
    return model


def classifier() -> SequenceClassifier:
    """An encoder with segments and a head."""
    model = encoder(num_classes=3, num_segments=2)
    assert isinstance(model, SequenceClassifier)
    return model


def decoder(**fields: Any) -> DecoderOnly:
    """A decoder alone."""
    model = shaken(build_model(ModelConfig.decoder(vocab_size=SRC_VOCAB_SIZE, num_layers=2, **SIZES | fields)))
    assert isinstance(model, DecoderOnly)
    return model


def transformer(**fields: Any) -> Transformer:
    """An encoder-decoder with as many layers in each stack."""
    model = shaken(tiny_model(**{"num_heads": 6} | fields))
    assert isinstance(model, Transformer)
    return model


def source(length: int = 5) -> Tensor:
    """Ids of a text, (1, S)."""
    return words(SRC_VOCAB_SIZE - 4, 1, length)


def traced_pair() -> Trace:
    """A trace with all three kinds of attention, and a mask."""
    return trace(transformer(), source(), source(4))


def each_parameter(model: nn.Module) -> list[Tensor]:
    """Copies of a model's parameters."""
    return [parameter.detach().clone() for parameter in model.parameters()]
