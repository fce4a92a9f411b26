"""[model]: the shape of a Transformer, and shapes with a name."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

from pellucid.config.tables import (
    Settings,
    check_at_least,
    check_at_most,
    check_fields,
    check_probabilities,
    from_table,
)
from pellucid.errors import ConfigError, did_you_mean
from pellucid.files.reading import MOST_ID

MAX_POSITIONS = 5000
"""The positions of a model that computes them, where nobody says otherwise."""
CEILINGS: dict[str, int | float] = {
    "src_vocab_size": MOST_ID, "tgt_vocab_size": MOST_ID, "pad_id": MOST_ID - 1, "bos_id": MOST_ID - 1,
    "eos_id": MOST_ID - 1, "d_model": 2**16, "d_ff": 2**18, "num_heads": 2**10, "num_kv_heads": 2**10,
    "head_dim": 2**16, "num_encoder_layers": 2**10, "num_decoder_layers": 2**10, "num_classes": 2**20,
    "num_segments": 2**16, "max_positions": 2**24, "relative_buckets": 2**16, "relative_distance": 2**24,
    "norm_eps": 1.0, "rotary_base": 1e15,
}  # fmt: skip
"""The largest value of each field: beyond what anybody has published, and small enough to build an outline of it."""
MOST_IN_POSITIONS = 2**27
"""Numbers in a table of positions, half a gigabyte: sinusoids are in no file whose length could be compared."""


Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
"""The activations of a feed-forward sublayer."""
Family = Literal["encoder-decoder", "encoder", "decoder"]
"""The stacks that a model may have: both, or one of them."""
DROPOUTS = ("dropout", "attention_dropout", "feed_forward_dropout")
"""The settings that are probabilities of dropout: they are a training's, not a model's."""


def check_heads(d_model: int, num_heads: int, num_kv_heads: int | None, head_width: int | None) -> None:
    """Raises ConfigError where heads do not divide the width that they share, or heads of keys those of queries."""
    if head_width is None and d_model % num_heads:
        lower = d_model - d_model % num_heads
        use = f"{lower} or {lower + num_heads}" if lower else f"{num_heads}"
        raise ConfigError(f"`d_model` ({d_model}) must be divisible by `num_heads` ({num_heads})", f"use {use}")
    if num_kv_heads is not None and num_heads % num_kv_heads:
        raise ConfigError(f"`num_heads` ({num_heads}) must be divisible by `num_kv_heads` ({num_kv_heads})")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Settings):
    """The shape of a Transformer; the defaults are the paper's base model with separate vocabularies."""

    src_vocab_size: int = 37000
    """Words in the source vocabulary (a recipe takes it from the tokenizer)."""
    tgt_vocab_size: int = 37000
    """Words in the target vocabulary (a recipe takes it from the tokenizer)."""
    d_model: int = 512
    """Width of the residual stream (the paper's d_model)."""
    d_ff: int = 2048
    """Inner width of the feed-forward sublayer (the paper's d_ff)."""
    num_heads: int = 8
    """Attention heads (the paper's h)."""
    num_kv_heads: int | None = None
    """Heads of keys and values, each shared by as many query heads (grouped-query attention); None: one each."""
    head_dim: int | None = None
    """Width of a head (the paper's d_k, K in shapes); None: d_model / num_heads."""
    num_encoder_layers: int = 6
    """Layers of the encoder (the paper's N); 0: a decoder alone, as GPT-2."""
    num_decoder_layers: int = 6
    """Layers of the decoder (the paper's N); 0: an encoder alone, as BERT."""
    num_classes: int = 0
    """Classes that an encoder alone tells apart; 0: it ends with its states."""
    classifier_activation: Literal["none", "tanh", "relu"] = "none"
    """A layer with this activation between the first token's state and the classes; none: no such layer."""
    pooling: Literal["first", "mean"] = "first"
    """The state that decides between classes: the first token's, or the mean of all."""
    dropout: float = 0.1
    """Dropout on embeddings and on each sublayer's output (section 5.4 of the paper)."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    feed_forward_dropout: float = 0.0
    """Dropout inside the feed-forward sublayer, after the activation."""
    norm: Literal["post", "pre"] = "post"
    """Layer norm after the residual sum (the paper) or before the sublayer."""
    final_norm: bool | None = None
    """A norm after the last layer of each stack; None: with `norm = "pre"` only."""
    embedding_norm: bool = False
    """A norm on the sum of embeddings and positions."""
    norm_type: Literal["layer", "rms"] = "layer"
    """Layer norm, or its part that divides by the root mean square."""
    norm_eps: float = 1e-5
    """A small number that norms add to the variance."""
    positions: Literal["sinusoidal", "learned", "rotary", "relative"] = "sinusoidal"
    """Sinusoids (section 3.5 of the paper) or a learned table, added to the embeddings; queries and keys turned by
    their position (rotary), or scores raised by a learned number for each distance (relative, as in T5)."""
    rotary_base: float = 10000.0
    """The slowest pair of dimensions of rotary positions turns about once in 2 pi times so many tokens."""
    rotary_factor: float = 1.0
    """Texts may be so many times longer than those trained on: the rates of rotary positions are divided by it."""
    rotary_wavelengths: tuple[float, ...] = ()
    """Two wavelengths in tokens, for rotary positions with a factor: rates of shorter waves than the first stay as they
    are, those of longer waves than the second are divided, those in between by a part, as in Llama 3. Empty: all are
    divided."""
    relative_buckets: int = 32
    """The number of distances that relative positions tell apart."""
    relative_distance: int = 128
    """The distance from which on relative positions tell none apart."""
    max_positions: int = MAX_POSITIONS
    """The longest sequence, in tokens."""
    activation: Activation = "relu"
    """Activation of the feed-forward sublayer; gelu_tanh: its approximation by a hyperbolic tangent."""
    gated: bool = False
    """Multiply the activation by a second projection (GLU variants)."""
    bias: bool = True
    """Biases in the projections and the norms of all layers."""
    qkv_bias: bool | None = None
    """Biases in the projections to queries, keys and values; None: as `bias`."""
    qk_norm: bool = False
    """A norm on each head's queries and keys before their scores (Henry et al. 2020), as Qwen3 has it."""
    cross_query_norm: bool = True
    """With `qk_norm`, a norm on the queries to the encoder's output, too; CTranslate2 has one on its keys alone."""
    output_bias: bool = False
    """A bias on the output projection."""
    scale_embeddings: bool = True
    """Multiply token embeddings by the square root of d_model (section 3.4 of the paper)."""
    num_segments: int = 0
    """Kinds of segment, each with a vector that is added to its tokens' embeddings (BERT's sentence A and B)."""
    tie_embeddings: Literal["none", "decoder", "all"] = "decoder"
    """Share the output projection with the target embedding ("decoder") and with the source's as well ("all")."""
    pad_id: int | None = 0
    """Id that fills up short sequences; None: every id is a word."""
    bos_id: int = 1
    """Id that starts the decoder's input."""
    eos_id: int = 2
    """Id that ends a sequence."""

    def __post_init__(self) -> None:
        if isinstance(self.rotary_wavelengths, list):  # frozen all the way down
            object.__setattr__(self, "rotary_wavelengths", tuple(self.rotary_wavelengths))
        check_fields(self)
        sizes = ("src_vocab_size", "tgt_vocab_size", "d_model", "d_ff", "num_heads", "max_positions")
        check_at_least(self, (*sizes, "num_kv_heads", "head_dim", "relative_distance"), 1)
        check_at_least(self, ("num_encoder_layers", "num_decoder_layers", "num_classes", "num_segments"), 0)
        check_at_least(self, ("norm_eps", "pad_id", "bos_id", "eos_id"), 0)
        check_at_least(self, ("relative_buckets",), 4)
        check_at_most(self, CEILINGS)
        check_probabilities(self, DROPOUTS)
        self._check_family()
        check_heads(self.d_model, self.num_heads, self.num_kv_heads, self.head_dim)
        self._check_positions()
        if self.tie_embeddings == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f'`tie_embeddings = "all"` needs one vocabulary, but `src_vocab_size` is {self.src_vocab_size} '
                f"and `tgt_vocab_size` {self.tgt_vocab_size}",
                'use `tie_embeddings = "decoder"`, or a joint tokenizer',
            )

    def _check_family(self) -> None:
        if not self.num_encoder_layers and not self.num_decoder_layers:
            raise ConfigError(
                "`num_encoder_layers` and `num_decoder_layers` are both 0", "give a stack at least one layer"
            )
        if self.num_classes and self.num_decoder_layers:
            raise ConfigError(
                f"`num_classes` ({self.num_classes}) is for an encoder alone, but `num_decoder_layers` is "
                f"{self.num_decoder_layers}",
                "set `num_decoder_layers = 0`",
            )
        if self.num_classes == 1:
            raise ConfigError("`num_classes` (1) leaves nothing to tell apart", "use at least 2")

    def _check_positions(self) -> None:
        if self.positions in ("sinusoidal", "learned") and self.max_positions * self.d_model > MOST_IN_POSITIONS:
            raise ConfigError(
                f"`max_positions` ({self.max_positions:,}) and `d_model` ({self.d_model:,}) make a table of "
                f"{self.max_positions * self.d_model:,} numbers; at most {MOST_IN_POSITIONS:,} are allowed",
                f"use at most {MOST_IN_POSITIONS // self.d_model:,} positions",
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ConfigError(f"`d_model` ({self.d_model}) must be even for sinusoidal positions")
        if self.positions == "rotary":
            if self.head_width % 2:
                raise ConfigError(f"heads of an odd width ({self.head_width}) cannot have rotary positions")
            if not 0 < self.rotary_base < math.inf:
                raise ConfigError(f"`rotary_base` ({self.rotary_base}) must be above 0")
            if not 1 <= self.rotary_factor < math.inf:
                raise ConfigError(f"`rotary_factor` ({self.rotary_factor}) must be at least 1")
            waves = self.rotary_wavelengths
            if waves and not (len(waves) == 2 and 0 < waves[0] < waves[1] < math.inf):
                raise ConfigError(f"`rotary_wavelengths` ({list(waves)}) must be two numbers, the smaller one first")
        if self.positions == "relative" and self.relative_distance <= self.relative_buckets // 2:
            raise ConfigError(
                f"`relative_distance` ({self.relative_distance}) must be above half of `relative_buckets` "
                f"({self.relative_buckets}): the first half of the buckets hold one distance each"
            )

    @property
    def family(self) -> Family:
        """The family that the layer counts tell: both stacks, or one of them."""
        if self.num_encoder_layers and self.num_decoder_layers:
            return "encoder-decoder"
        return "encoder" if self.num_encoder_layers else "decoder"

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of padding, begin and end, as far as the model has them."""
        return frozenset(i for i in (self.pad_id, self.bos_id, self.eos_id) if i is not None)

    @property
    def head_width(self) -> int:
        """The width of a head, K: `head_dim`, or d_model / num_heads where that is None."""
        return self.d_model // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def has_final_norm(self) -> bool:
        """True where a norm stands after the last layer of each stack."""
        return self.norm == "pre" if self.final_norm is None else self.final_norm

    @classmethod
    def encoder(cls, *, vocab_size: int = 37000, num_layers: int = 6, **fields: Any) -> Self:
        """Returns the shape of an encoder alone. Raises ConfigError for an unknown field or a value that cannot be."""
        own = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
        own |= {"num_encoder_layers": num_layers, "num_decoder_layers": 0}
        return from_table(cls, own | fields, "[model]")

    @classmethod
    def decoder(cls, *, vocab_size: int = 37000, num_layers: int = 6, **fields: Any) -> Self:
        """Returns the shape of a decoder alone. Raises ConfigError for an unknown field or a value that cannot be."""
        own = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
        own |= {"num_encoder_layers": 0, "num_decoder_layers": num_layers}
        return from_table(cls, own | fields, "[model]")

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """Returns the preset `name`, with `overrides` for single fields. Raises ConfigError for unknown names."""
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(
                f"unknown preset `{name}`{did_you_mean(str(name), PRESETS)}", f"choose one of {', '.join(PRESETS)}"
            )
        return from_table(cls, PRESETS[name] | overrides, "[model]")


PRESETS: dict[str, dict[str, Any]] = {
    # Table 3 of the paper.
    "base": {"tie_embeddings": "all"},
    "big": {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3, "tie_embeddings": "all"},
    # A few million parameters, for some ten thousand sentence pairs.
    "tiny": {
        "d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3,
        "dropout": 0.2, "norm": "pre", "tie_embeddings": "all", "max_positions": 512,
    },
    # The tutorials: each as its own text has it.
    "annotated": {
        "norm": "pre", "norm_eps": 1e-6, "attention_dropout": 0.1, "feed_forward_dropout": 0.1,
        "tie_embeddings": "none", "output_bias": True,
    },
    "keras-transformer": {
        "norm": "pre", "final_norm": False, "norm_eps": 1e-6, "dropout": 0.2, "tie_embeddings": "decoder",
    },
    "pytorch-seq2seq": {
        "d_model": 256, "d_ff": 512, "num_encoder_layers": 3, "num_decoder_layers": 3, "positions": "learned",
        "max_positions": 100, "tie_embeddings": "none", "output_bias": True,
    },
    "aladdin-persson": {
        "dropout": 0.0, "positions": "learned", "max_positions": 100, "scale_embeddings": False,
        "tie_embeddings": "none", "output_bias": True,
    },
}  # fmt: skip
