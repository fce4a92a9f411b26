"""[model]: the shape of a Transformer, and presets of shapes."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

from pellucid.config.tables import (
    SettingsBase,
    check_at_least,
    check_at_most,
    check_fields,
    check_probabilities,
    from_table,
    rename_settings,
)
from pellucid.errors import ConfigError, did_you_mean
from pellucid.files.reading import MOST_ID

MAX_POSITIONS = 5000
"""The default number of positions of a model that computes them."""
CEILINGS: dict[str, int | float] = {
    "src_vocab_size": MOST_ID, "tgt_vocab_size": MOST_ID, "pad_id": MOST_ID - 1, "bos_id": MOST_ID - 1,
    "eos_id": MOST_ID - 1, "d_model": 2**16, "d_ff": 2**18, "num_heads": 2**10, "num_kv_heads": 2**10,
    "head_dim": 2**16, "num_encoder_layers": 2**10, "num_decoder_layers": 2**10, "num_classes": 2**20,
    "num_segments": 2**16, "max_positions": 2**24, "relative_num_buckets": 2**16, "relative_max_distance": 2**24,
    "norm_eps": 1.0, "rotary_base": 1e15,
}  # fmt: skip
"""The largest value of each field: larger than in any published model, and small enough to build it without weights."""
MOST_IN_POSITIONS = 2**27
"""The largest table of positions in numbers, half a gigabyte: sinusoids are not in a file whose size limits them."""


Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
"""The activations of a feed-forward sublayer."""
Family = Literal["encoder-decoder", "encoder", "decoder"]
"""The stacks that a model may have: both, or one of them."""
DROPOUTS = ("dropout", "attention_dropout", "feed_forward_dropout")
"""The dropout probabilities: settings of a training, not of a trained model."""


def check_heads(d_model: int, num_heads: int, num_kv_heads: int | None, head_width: int | None) -> None:
    """Raises ConfigError if `num_heads` does not divide `d_model`, or `num_kv_heads` does not divide `num_heads`."""
    if head_width is None and d_model % num_heads:
        lower = d_model - d_model % num_heads
        use = f"{lower} or {lower + num_heads}" if lower else f"{num_heads}"
        raise ConfigError(f"`d_model` ({d_model}) must be divisible by `num_heads` ({num_heads})", f"use {use}")
    if num_kv_heads is not None and num_heads % num_kv_heads:
        raise ConfigError(f"`num_heads` ({num_heads}) must be divisible by `num_kv_heads` ({num_kv_heads})")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(SettingsBase):
    """The shape of a Transformer; the defaults are the paper's base model with separate vocabularies."""

    src_vocab_size: int = 37000
    """Size of the source vocabulary (training takes it from the tokenizer)."""
    tgt_vocab_size: int = 37000
    """Size of the target vocabulary (training takes it from the tokenizer)."""
    d_model: int = 512
    """Width of the residual stream (the paper's d_model)."""
    d_ff: int = 2048
    """Inner width of the feed-forward sublayer (the paper's d_ff)."""
    num_heads: int = 8
    """Attention heads (the paper's h)."""
    num_kv_heads: int | None = None
    """Number of key and value heads, each shared by equally many query heads (grouped-query attention); None: one for
    each query head."""
    head_dim: int | None = None
    """Width of a head (the paper's d_k, K in shapes); None: d_model / num_heads."""
    num_encoder_layers: int = 6
    """Layers of the encoder (the paper's N); 0: a decoder alone, as GPT-2."""
    num_decoder_layers: int = 6
    """Layers of the decoder (the paper's N); 0: an encoder alone, as BERT."""
    num_classes: int = 0
    """Number of classes of an encoder-only model; 0: no classifier, the outputs are the encoder's states."""
    classifier_activation: Literal["none", "tanh", "relu"] = "none"
    """Activation of an additional layer between the pooled state and the classes; none: no such layer."""
    pooling: Literal["first", "mean"] = "first"
    """State that the classifier reads: the first token's, or the mean over all tokens."""
    dropout: float = 0.1
    """Dropout on embeddings and on each sublayer's output (section 5.4 of the paper)."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    feed_forward_dropout: float = 0.0
    """Dropout inside the feed-forward sublayer, after the activation."""
    norm: Literal["post", "pre"] = "post"
    """Place of the layer norm: after the residual sum (post, the paper) or before the sublayer (pre)."""
    final_norm: bool | None = None
    """A norm after the last layer of each stack; None: only with `norm = "pre"`."""
    embedding_norm: bool = False
    """A norm on the sum of embeddings and positions."""
    norm_type: Literal["layer", "rms"] = "layer"
    """layer: layer norm; rms: RMSNorm, which only divides by the root mean square."""
    norm_eps: float = 1e-5
    """Small number that norms add to the variance."""
    positions: Literal["sinusoidal", "learned", "rotary", "relative"] = "sinusoidal"
    """sinusoidal (section 3.5 of the paper) or learned: a table that is added to the embeddings; rotary: queries and
    keys are rotated by their position; relative: a learned bias for each distance is added to the scores, as in T5."""
    rotary_base: float = 10000.0
    """Base of rotary positions: the slowest pair of dimensions rotates about once per 2 pi times this many tokens."""
    rotary_factor: float = 1.0
    """Factor by which the frequencies of rotary positions are divided, for texts that are longer by this factor than
    the training texts."""
    rotary_wavelengths: tuple[float, ...] = ()
    """Two wavelengths in tokens, for rotary positions with a factor: frequencies of waves shorter than the first are
    kept, of waves longer than the second divided by the factor, and in between divided in part, as in Llama 3. Empty:
    all frequencies are divided."""
    relative_num_buckets: int = 32
    """Number of buckets of distances with relative positions."""
    relative_max_distance: int = 128
    """Distance in tokens above which all distances share one bucket with relative positions."""
    max_positions: int = MAX_POSITIONS
    """Maximum length of a sequence, in tokens."""
    activation: Activation = "relu"
    """Activation of the feed-forward sublayer; gelu_tanh: GELU, approximated by a hyperbolic tangent."""
    gated_feed_forward: bool = False
    """Multiply the activation by a second projection (GLU variants)."""
    bias: bool = True
    """Biases in the projections and the norms of all layers."""
    qkv_bias: bool | None = None
    """Biases in the projections to queries, keys and values; None: same as `bias`."""
    qk_norm: bool = False
    """A norm on each head's queries and keys before their scores (Henry et al. 2020), as in Qwen3."""
    cross_query_norm: bool = True
    """With `qk_norm`: a norm on the queries of cross-attention, too; CTranslate2 supports only the norm on its keys."""
    output_bias: bool = False
    """A bias on the output projection."""
    scale_embeddings: bool = True
    """Multiply token embeddings by the square root of d_model (section 3.4 of the paper)."""
    num_segments: int = 0
    """Number of segment types, each with a vector that is added to the embeddings of its tokens (BERT's sentence A and
    B)."""
    tie_embeddings: Literal["none", "decoder", "all"] = "decoder"
    """Tied weights: the output projection shares the target embedding ("decoder"), and the source embedding, too
    ("all")."""
    pad_id: int | None = 0
    """Id of padding; None: no padding id, every id is a token."""
    bos_id: int = 1
    """Id of the start token of the decoder's input."""
    eos_id: int = 2
    """Id of the end token."""

    def __post_init__(self) -> None:
        if isinstance(self.rotary_wavelengths, list):  # immutable at all levels
            object.__setattr__(self, "rotary_wavelengths", tuple(self.rotary_wavelengths))
        check_fields(self)
        sizes = ("src_vocab_size", "tgt_vocab_size", "d_model", "d_ff", "num_heads", "max_positions")
        check_at_least(self, (*sizes, "num_kv_heads", "head_dim", "relative_max_distance"), 1)
        check_at_least(self, ("num_encoder_layers", "num_decoder_layers", "num_classes", "num_segments"), 0)
        check_at_least(self, ("norm_eps", "pad_id", "bos_id", "eos_id"), 0)
        check_at_least(self, ("relative_num_buckets",), 4)
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
            raise ConfigError("`num_classes` (1) must be 0 or at least 2", "use at least 2")

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
        if self.positions == "relative" and self.relative_max_distance <= self.relative_num_buckets // 2:
            raise ConfigError(
                f"`relative_max_distance` ({self.relative_max_distance}) must be above half of `relative_num_buckets` "
                f"({self.relative_num_buckets}): each bucket of the first half has a single distance"
            )

    @property
    def family(self) -> Family:
        """The family according to the layer counts: both stacks, or one of them."""
        if self.num_encoder_layers and self.num_decoder_layers:
            return "encoder-decoder"
        return "encoder" if self.num_encoder_layers else "decoder"

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of padding, start and end token that the model has."""
        return frozenset(i for i in (self.pad_id, self.bos_id, self.eos_id) if i is not None)

    @property
    def head_width(self) -> int:
        """The width of a head, K: `head_dim`, or d_model / num_heads if that is None."""
        return self.d_model // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def has_final_norm(self) -> bool:
        """True if each stack has a norm after its last layer."""
        return self.norm == "pre" if self.final_norm is None else self.final_norm

    @classmethod
    def encoder(cls, *, vocab_size: int = 37000, num_layers: int = 6, **fields: Any) -> Self:
        """Returns the shape of an encoder-only model. Raises ConfigError for an unknown field or an invalid value."""
        own = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
        own |= {"num_encoder_layers": num_layers, "num_decoder_layers": 0}
        return from_table(cls, own | fields, "[model]")

    @classmethod
    def decoder(cls, *, vocab_size: int = 37000, num_layers: int = 6, **fields: Any) -> Self:
        """Returns the shape of a decoder-only model. Raises ConfigError for an unknown field or an invalid value."""
        own = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
        own |= {"num_encoder_layers": 0, "num_decoder_layers": num_layers}
        return from_table(cls, own | fields, "[model]")

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """Returns the preset `name` with some fields replaced by `overrides`. Raises ConfigError for unknown names."""
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(
                f"unknown preset `{name}`{did_you_mean(str(name), PRESETS)}", f"choose one of {', '.join(PRESETS)}"
            )
        return from_table(cls, PRESETS[name] | rename_settings("model", overrides), "[model]")


PRESETS: dict[str, dict[str, Any]] = {
    # Table 3 of the paper.
    "base": {"tie_embeddings": "all"},
    "big": {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3, "tie_embeddings": "all"},
    # A few million parameters, for tens of thousands of sentence pairs.
    "tiny": {
        "d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3,
        "dropout": 0.2, "norm": "pre", "tie_embeddings": "all", "max_positions": 512,
    },
    # The tutorials: each as in its text.
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
