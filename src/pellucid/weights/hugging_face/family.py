"""A family of Hugging Face models, as data: tables of its settings and names, and some arithmetic.

The tables map from Pellucid to transformers: each of our fields and modules has the name used there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from pellucid.weights.hugging_face.settings import HuggingFaceConfig

Tensors = dict[str, Tensor]
"""Hugging Face names, without the base prefix, to tensors."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of Hugging Face models.

    A name in `modules` is a module's, its weight and bias follow; `{i}` is a layer's number. A tuple is packed, row by
    row; `a|b` is `a`, or `b` if the file has no `a`.
    """

    kind: Literal["encoder", "decoder", "encoder-decoder"]
    prefix: str
    """The prefix of all names of the base model in a file that was saved with a head."""
    fields: Mapping[str, str]
    """The setting in config.json for each field of ModelConfig."""
    fixed: Mapping[str, Any]
    """Fields that are the same in all of the family."""
    defaults: Mapping[str, Any]
    """Settings that a config.json may leave out."""
    only: Mapping[str, Any] = field(default_factory=dict)
    """Settings of which only one value can be expressed."""
    modules: Mapping[str, str | tuple[str, ...]]
    """The family's modules for each of Pellucid's."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The family's parameters for Pellucid's, if the last part of the name differs, too."""
    decoder_start: str = "eos_token_id"
    """The setting with the decoder's start token, if `decoder_start_token_id` is left out."""
    source_start: str | None = None
    """The setting with the token before every source."""
    head: Mapping[str, str] = field(default_factory=dict)
    """The modules of a classification head; used if the file has them all."""
    head_activation: str = "none"
    """The activation of that head between its two layers."""
    heads: tuple[str, ...] = ()
    """Patterns of names outside the model: poolers and heads. They are listed."""
    buffers: tuple[str, ...] = ()
    """Patterns of names that are ignored: tables that are computed anyway."""
    sentences: bool = False
    """True if the model was trained on single sentences, so that a line of several sentences must be split."""
    shape: Callable[[HuggingFaceConfig, Tensors], dict[str, Any]] = lambda settings, tensors: {}
    """Fields that cannot be read from a table alone."""
    arithmetic: Callable[[HuggingFaceConfig, Tensors], Tensors] = lambda settings, tensors: {}
    """Tensors, by Hugging Face name, that replace the file's tensors: arithmetic folded into the weights."""
