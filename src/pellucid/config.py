"""Every setting with its default: the only home of defaults.

A `Recipe` holds the four groups of settings, as the sections [model] [data] [train] [decode] of a TOML file do.
The text below a field is its documentation: the reference pages are made from it.
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from pellucid.errors import ConfigError, did_you_mean
from pellucid.tables import (
    check_at_least,
    check_fields,
    check_probabilities,
    from_table,
    read_tables,
    shipped_recipes,
    split_override,
    to_table,
    toml_line,
)

FORMAT = "pellucid/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
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
    num_encoder_layers: int = 6
    """Layers of the encoder (the paper's N)."""
    num_decoder_layers: int = 6
    """Layers of the decoder (the paper's N)."""
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
    norm_eps: float = 1e-5
    """What a layer norm adds to the variance."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Sinusoids (section 3.5 of the paper) or a learned table."""
    max_positions: int = 5000
    """The longest sequence, in tokens."""
    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Activation of the feed-forward sublayer."""
    gated: bool = False
    """Multiply the activation by a second projection (GLU variants)."""
    bias: bool = True
    """Biases in the projections and the norms of all layers."""
    output_bias: bool = False
    """A bias on the output projection."""
    scale_embeddings: bool = True
    """Multiply token embeddings by the square root of d_model (section 3.4 of the paper)."""
    tie_embeddings: Literal["none", "decoder", "all"] = "decoder"
    """Share the output projection with the target embedding ("decoder") and with the source's as well ("all")."""
    pad_id: int | None = 0
    """Id that fills up short sequences; None: every id is a word."""
    bos_id: int = 1
    """Id that starts the decoder's input."""
    eos_id: int = 2
    """Id that ends a sequence."""

    def __post_init__(self) -> None:
        check_fields(self)
        sizes = ("src_vocab_size", "tgt_vocab_size", "d_model", "d_ff", "num_heads", "max_positions")
        check_at_least(self, (*sizes, "num_encoder_layers", "num_decoder_layers"), 1)
        check_at_least(self, ("norm_eps", "pad_id", "bos_id", "eos_id"), 0)
        check_probabilities(self, ("dropout", "attention_dropout", "feed_forward_dropout"))
        if self.d_model % self.num_heads:
            lower = self.d_model - self.d_model % self.num_heads
            upper = lower + self.num_heads
            use = f"{lower} or {upper}" if lower else f"{upper}"
            raise ConfigError(
                f"`d_model` ({self.d_model}) must be divisible by `num_heads` ({self.num_heads})", f"use {use}"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ConfigError(f"`d_model` ({self.d_model}) must be even for sinusoidal positions")
        if self.tie_embeddings == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f'`tie_embeddings = "all"` needs one vocabulary, but `src_vocab_size` is {self.src_vocab_size} '
                f"and `tgt_vocab_size` {self.tgt_vocab_size}",
                'use `tie_embeddings = "decoder"`, or a joint tokenizer',
            )

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm stands after the last layer of each stack."""
        return self.norm == "pre" if self.final_norm is None else self.final_norm

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """The preset `name`, with `overrides` for single fields. Raises ConfigError for an unknown name or field."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """The texts and how they become ids."""

    src: str | tuple[str, ...] = ""
    """Source sentences, one a line, plain or gzip; or a .tsv or .jsonl file, which holds both sides. Several corpora:
    a list."""
    tgt: str | tuple[str, ...] = ""
    """Target sentences, line by line with `src`; empty where `src` holds both sides."""
    weights: tuple[float, ...] = ()
    """How often each corpus of a list is seen in an epoch, as in [1, 2.5]; a fraction draws a part of it, another one
    each epoch. Empty: each once."""
    valid_src: str = ""
    """Source sentences to validate on; empty: some are cut off the training text."""
    valid_tgt: str = ""
    """Target sentences to validate on."""
    valid_size: int = 1000
    """Pairs cut off for validation where no validation text is given (at most a tenth of the text)."""
    test_src: str = ""
    """Source sentences that `pellucid evaluate` is to be run on; training says which of them its text holds."""
    test_tgt: str = ""
    """Target sentences of the test."""
    tsv_columns: tuple[int, ...] = (1, 2)
    """The columns of a .tsv file that hold source and target, counted from 1."""
    jsonl_keys: tuple[str, ...] = ("src", "tgt")
    """The keys of a .jsonl file that hold source and target; a dot goes into a table, as in "translation.de"."""
    on_bad_utf8: Literal["error", "replace", "skip"] = "error"
    """A training or validation line that is not UTF-8: stop, put U+FFFD for each bad byte, or leave its pair out."""
    on_copy: Literal["keep", "skip"] = "keep"
    """A training pair whose target is its source. It harms translation, and is right in normalisation."""
    on_duplicate: Literal["keep", "skip"] = "keep"
    """A training pair that occurred before, in any of the corpora."""
    tokenizer: str = "bpe"
    """bpe, unigram, words, characters, bytes, spaces (already cut text), or the path of a SentencePiece model."""
    vocab_size: int = 8000
    """Upper bound of the vocabulary; the text may give fewer words."""
    joint: bool = True
    """One vocabulary for both sides."""
    lowercase: bool = False
    """Lower-case the text (words, characters and spaces only)."""
    min_frequency: int = 1
    """How often a word must occur to have an id (words and spaces only)."""
    byte_fallback: bool = True
    """Write what the vocabulary lacks as bytes (bpe, unigram and characters only)."""
    max_length: int = 256
    """The longest sentence trained on, in tokens."""
    on_too_long: Literal["skip", "cut"] = "skip"
    """A pair with a longer side: leave it out, or cut its sides to `max_length`. Either is counted and said."""
    subword_sampling: float = 0.0
    """Probability with which a merge is left out each time a training sentence is cut (bpe), or the flatness of the
    distribution that its pieces are drawn from (unigram: 1 / (1 + Kudo's alpha)); 0: always the best pieces."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, list | tuple):  # frozen all the way down; a list of one file is that file
                single = f.name in ("src", "tgt") and len(value) == 1
                object.__setattr__(self, f.name, value[0] if single else tuple(value))
        check_fields(self)
        check_at_least(self, ("valid_size", "vocab_size", "min_frequency", "max_length"), 1)
        check_probabilities(self, ("subword_sampling",))
        self._check_lists()

    def files(self, name: str) -> tuple[str, ...]:
        """The files of a text field, say "src": none, one or several."""
        value: str | tuple[str, ...] = getattr(self, name)
        return value if isinstance(value, tuple) else (value,) if value else ()

    def _check_lists(self) -> None:
        for name in ("tsv_columns", "jsonl_keys"):
            if len(getattr(self, name)) != 2:
                raise ConfigError(f"`{name}` ({list(getattr(self, name))}) must name two: of the source, of the target")
        if min(self.tsv_columns) < 1:
            raise ConfigError(f"`tsv_columns` ({list(self.tsv_columns)}) are counted from 1")
        if self.weights and min(self.weights) <= 0:
            raise ConfigError(f"`weights` ({list(self.weights)}) must be above 0", "leave out a corpus not to be used")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """Section 5 of the paper, and what has proved itself since."""

    steps: int = 100_000
    """Optimizer steps."""
    batch_tokens: int = 4096
    """Target (or source, if longer) tokens of a batch, padding included."""
    accumulate: int = 1
    """Batches whose gradients make one step."""
    learning_rate: float | None = None
    """The highest learning rate; None: the paper's (d_model * warmup_steps)^-0.5."""
    warmup_steps: int = 4000
    """Steps over which the learning rate rises from zero."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "stable"] = "noam"
    """How the learning rate goes on after warm-up; noam is equation 3 of the paper; stable holds it, then falls."""
    decay_fraction: float = 0.4
    """The part of the steps over which `schedule = "stable"` falls to zero."""
    budget: float = 0.0
    """Seconds that the whole command may take; above 0 the clock decides when a stable rate begins to fall. The command
    line sets it, with the rest of the plan."""
    label_smoothing: float = 0.1
    """Probability that the loss spreads over all words (section 5.4 of the paper)."""
    r_drop: float = 0.0
    """Weight of the divergence between two passes with different dropout (R-Drop, Liang et al. 2021); 0: one pass."""
    grad_clip: float = 0.0
    """Largest norm of the gradient; 0: no clipping."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the matrices (AdamW)."""
    adam_beta1: float = 0.9
    """Decay of the gradient's mean."""
    adam_beta2: float = 0.98
    """Decay of the gradient's square."""
    adam_eps: float = 1e-9
    """What Adam adds to the denominator."""
    init_from: str = ""
    """A run or model folder to go on from, instead of random weights: its tokenizer, shape and weights are taken;
    dropout is the recipe's."""
    init_sha256: str = ""
    """SHA-256 of that model's weights: written down when training starts; given beforehand, it must agree."""
    ema_decay: float = 0.0
    """Decay a step of an exponential moving average of the weights, which is validated, kept and (with `average`)
    averaged in their place; 0: the weights themselves."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Of the matrix products; all the rest stays in single precision. auto: bfloat16 where the machine gains by it."""
    seed: int = 1
    """Decides initial weights, order of the batches and dropout."""
    validate_every: int = 1000
    """Steps between validations."""
    validate_decode: int = 500
    """Validation sentences translated (greedily) and scored; 0: the loss alone decides which weights are best."""
    best_by: Literal["bleu", "loss"] = "bleu"
    """What decides which validation is the best: BLEU (where sentences are translated), or the loss."""
    patience: int = 0
    """Stop after so many validations without a new best; 0: never."""
    save_every: int = 1000
    """Steps between checkpoints."""
    average: int = 5
    """The final weights are the mean of so many checkpoints (section 6.1 of the paper); 1: the best weights."""
    average_of: Literal["last", "best"] = "last"
    """The checkpoints averaged: the last ones, or those that validated best."""
    log_every: int = 100
    """Steps between lines of the metrics log."""

    def __post_init__(self) -> None:
        check_fields(self)
        counts = ("steps", "batch_tokens", "accumulate", "warmup_steps", "average")
        check_at_least(self, (*counts, "validate_every", "save_every", "log_every"), 1)
        check_probabilities(self, ("label_smoothing", "adam_beta1", "adam_beta2", "ema_decay", "decay_fraction"))
        not_negative = ("grad_clip", "weight_decay", "adam_eps", "r_drop", "validate_decode", "patience", "budget")
        check_at_least(self, (*not_negative, "seed"), 0)
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ConfigError(f"`learning_rate` ({self.learning_rate}) must be above 0")
        if self.schedule == "noam" and self.learning_rate is not None:
            raise ConfigError(
                f'`schedule = "noam"` takes its rate from `d_model` and `warmup_steps`, not from `learning_rate` '
                f"({self.learning_rate})",
                'use `schedule = "inverse_sqrt"` for the same curve with a highest rate of your own',
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig:
    """How a trained model searches for its output."""

    beam_size: int = 5
    """Hypotheses kept a step; 1: greedy search."""
    length_penalty: float = 1.0
    """Hypotheses rank by log-probability / length ** length_penalty."""
    n_best: int = 1
    """Translations given a sentence."""
    max_length: int | None = None
    """Most tokens of a translation; None: twice the source's tokens + 50."""
    batch_tokens: int = 4096
    """Source tokens translated at a time, padding and beams included."""
    max_source_length: int = 256
    """Source tokens of a line; a longer one is translated in pieces."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(self, ("beam_size", "n_best", "batch_tokens", "max_source_length", "max_length"), 1)
        if self.n_best > self.beam_size:
            raise ConfigError(
                f"`n_best` ({self.n_best}) cannot exceed `beam_size` ({self.beam_size})",
                f"use a beam of at least {self.n_best}",
            )


SECTIONS = {"model": ModelConfig, "data": DataConfig, "train": TrainConfig, "decode": DecodeConfig}


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A whole training: what pellucid.train() takes and a TOML recipe holds."""

    name: str = "custom"
    """What the recipe is called."""
    description: str = ""
    """What it trains, in a sentence."""
    time: str = ""
    """How long that took, and on what machine; empty: not measured."""
    task: Literal["translate"] = "translate"
    """What the model is for."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig.preset("tiny"))
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def from_tables(cls, tables: dict[str, Any]) -> Self:
        """The recipe of nested tables; [model] may start from a `preset`. Raises ConfigError for unknown keys."""
        values: dict[str, Any] = {}
        for key, value in tables.items():
            if key == "model" and isinstance(value, dict):
                table = dict(value)
                values[key] = ModelConfig.preset(table.pop("preset", "tiny"), **table)
            elif key in SECTIONS:
                values[key] = from_table(SECTIONS[key], value, f"[{key}]")
            else:
                values[key] = value
        return from_table(cls, values, "the recipe")

    @classmethod
    def load(cls, name_or_path: str | Path, overrides: list[str] | None = None) -> Self:
        """The recipe of a TOML file or of a shipped name, with `section.key=value` overrides."""
        tables = read_tables(name_or_path)
        for override in overrides or []:
            section, key, value = split_override(override, KEYS)
            table = tables.setdefault(section, {}) if section else tables
            if isinstance(table, dict):  # if not, from_tables() says so
                table[key] = value
        return cls.from_tables(tables)

    def to_toml(self) -> str:
        """The recipe as TOML; from_tables() reads it back equal."""
        lines = [toml_line(key, getattr(self, key)) for key in KEYS[""]]
        for section, cls in SECTIONS.items():
            defaults = {f.name: f.default for f in fields(cls)}
            table = to_table(getattr(self, section)).items()
            said = [toml_line(key, value) for key, value in table if value is not None or defaults[key] is not None]
            lines += ["", f"[{section}]", *said]
        return "\n".join(lines) + "\n"


KEYS = {section: [f.name for f in fields(cls)] for section, cls in SECTIONS.items()}
KEYS["model"].append("preset")
KEYS[""] = [f.name for f in fields(Recipe) if f.name not in SECTIONS]

__all__ = ["DataConfig", "DecodeConfig", "ModelConfig", "Recipe", "TrainConfig", "shipped_recipes"]
