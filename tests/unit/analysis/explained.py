"""Small models of all families and options, whose words are explained, with ids for them."""

from collections.abc import Callable
from typing import Any

import torch

from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.tasks.tracing import trace
from pellucid.tracing.trace import Trace
from tests.unit.tracing.models import decoder, encoder, source, transformer

OPTIONS: dict[str, dict[str, Any]] = {
    "post": {"norm": "post"},
    "post-final": {"norm": "post", "final_norm": True},
    "pre": {"norm": "pre"},
    "pre-without-final": {"norm": "pre", "final_norm": False},
    "rms-gated": {"norm": "pre", "norm_type": "rms", "gated_feed_forward": True, "activation": "silu", "bias": False},
    "grouped-rotary": {"norm": "pre", "num_kv_heads": 2, "positions": "rotary", "qk_norm": True},
    "relative": {"positions": "relative", "head_dim": 3, "scale_embeddings": False},
    "learned": {"positions": "learned", "embedding_norm": True, "activation": "gelu", "output_bias": True},
    "untied": {"tie_embeddings": "none", "qkv_bias": False},
}
HEADS: dict[str, dict[str, Any]] = {
    "first": {},
    "mean": {"pooling": "mean", "norm": "pre"},
    "pooler": {"classifier_activation": "tanh", "num_segments": 2},
    "pooler-mean": {"classifier_activation": "relu", "pooling": "mean", "final_norm": True},
}

MODELS: dict[str, Callable[[], Model]] = {
    **{f"transformer-{name}": lambda fields=fields: transformer(**fields) for name, fields in OPTIONS.items()},
    **{f"decoder-{name}": lambda fields=fields: decoder(**fields) for name, fields in OPTIONS.items()},
    **{f"classifier-{name}": lambda fields=fields: encoder(num_classes=4, **fields) for name, fields in HEADS.items()},
}


def traced(model: Model) -> Trace:
    """The trace of a pass: a target that is given, of seven tokens read and four written."""
    return trace(model, source(7), source(4) if isinstance(model, Transformer) else None)


def logits_of(model: Model, found: Trace) -> torch.Tensor:
    """The logits (R, V) of a trace's pass, straight from the model; of a classifier (1, C)."""
    ids = {name: torch.tensor([[t.id for t in tokens]]) for name, tokens in found.sequences.items()}
    with torch.inference_mode():
        if isinstance(model, Transformer):
            return model(ids["src"], ids["tgt"])[0]
        return model(ids["src"]) if isinstance(model, SequenceClassifier) else model(ids["tgt"])[0]
