"""A family of foreign models, as data: tables of its settings and its names, and the little arithmetic between.

The tables read from our side: each of our fields and modules names what it is called there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from pellucid.weights.hugging_face.settings import Settings

Tensors = dict[str, Tensor]
"""Foreign names, without the base prefix, to tensors."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of foreign models.

    A name in `modules` is a module's, its weight and bias follow; `{i}` is a layer's number. A tuple is packed, row by
    row; `a|b` is `a`, or `b` where the file has no `a`.
    """

    kind: Literal["encoder", "decoder", "encoder-decoder"]
    prefix: str
    """The prefix of all names of the base model in a file that was saved with a head."""
    fields: Mapping[str, str]
    """Our field of ModelConfig to its setting in config.json."""
    fixed: Mapping[str, Any]
    """Our fields that are the same in all of the family."""
    defaults: Mapping[str, Any]
    """Settings that a config.json may leave out."""
    only: Mapping[str, Any] = field(default_factory=dict)
    """Settings of which one value can be expressed."""
    modules: Mapping[str, str | tuple[str, ...]]
    """Our modules to theirs."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Our parameters to theirs, where the last part of the name differs, too."""
    decoder_start: str = "eos_token_id"
    """The setting that holds what the decoder starts with, where `decoder_start_token_id` is left out."""
    source_start: str | None = None
    """The setting that holds what stands before every source."""
    head: Mapping[str, str] = field(default_factory=dict)
    """The modules of a classification head; used where the file has them all."""
    head_activation: str = "none"
    """The activation of that head between its two layers."""
    heads: tuple[str, ...] = ()
    """Patterns of names that stand beside the model: poolers and heads. They are listed."""
    buffers: tuple[str, ...] = ()
    """Patterns of names that say nothing: tables that are computed anyway."""
    sentences: bool = False
    """It was trained to translate sentences one by one, so that a line of several is to be cut."""
    shape: Callable[[Settings, Tensors], dict[str, Any]] = lambda settings, tensors: {}
    """Our fields that take more than a table."""
    arithmetic: Callable[[Settings, Tensors], Tensors] = lambda settings, tensors: {}
    """Tensors, by foreign name, in place of those of the file: what is only arithmetic, folded into the weights."""
