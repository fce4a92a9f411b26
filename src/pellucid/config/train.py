"""[train]: section 5 of the paper, and what has proved itself since."""

from dataclasses import dataclass
from typing import Literal

from pellucid.config.decode import BATCH_TOKENS, MOST_SEED
from pellucid.config.tables import Settings, check_at_least, check_fields, check_probabilities
from pellucid.errors import ConfigError, shown

TRACKERS = ("tensorboard", "trackio", "mlflow")
"""Programs that draw a run's numbers."""
Precision = Literal["float32", "bfloat16", "auto"]
"""The types of a training's matrix products, and the choice of the faster one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Settings):
    """Section 5 of the paper, and what has proved itself since."""

    steps: int = 100_000
    """Optimizer steps."""
    batch_tokens: int = BATCH_TOKENS
    """Target (or source, if longer) tokens of a batch, padding included."""
    accumulate: int = 1
    """Batches whose gradients make one step, on each of the processes that train together."""
    recompute: bool = False
    """Keep only what goes into each layer for the backward pass, and compute the rest there once more: a third more
    arithmetic for a part of the memory, and the same gradients."""
    shard: bool = False
    """Deal weights, gradients and the optimizer's moments out among the processes that train together (FSDP2), for what
    does not fit on one of them; nothing changes where there is one."""
    learning_rate: float | None = None
    """The highest learning rate; None: the paper's (d_model * warmup_steps)^-0.5."""
    warmup_steps: int = 4000
    """Steps over which the learning rate rises from zero."""
    final_learning_rate: float = 0.0
    """The rate that `schedule = "linear"` and "cosine" reach just after the last step."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "stable"] = "noam"
    """The curve of the learning rate after warm-up; noam is equation 3 of the paper; stable holds it, then falls."""
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
    optimizer: Literal["adam", "muon"] = "adam"
    """adam: section 5.3 of the paper. muon: orthogonal steps for the matrices of the layers (Jordan et al. 2024), and
    Adam for all else."""
    muon_learning_rate: float = 0.01
    """The highest rate of those matrices, where `learning_rate` is that of all else; it follows the same schedule."""
    muon_momentum: float = 0.95
    """Decay of those gradients' mean."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the matrices."""
    adam_beta1: float = 0.9
    """Decay of the gradient's mean."""
    adam_beta2: float = 0.98
    """Decay of the gradient's square."""
    adam_eps: float = 1e-9
    """The number that Adam adds to the denominator."""
    init_from: str = ""
    """A run or model folder to go on from, instead of random weights: its tokenizer, shape and weights are taken,
    and of [decode] what the recipe leaves at its default; dropout is the recipe's."""
    init_sha256: str = ""
    """SHA-256 of that model's weights: written down when training starts; given beforehand, it must agree."""
    embedding_scale: float = 1.0
    """The size of the token embeddings that a training from random weights begins with, beside the deviation
    d_model^-0.5 that they have otherwise. Smaller ones learn faster where the output projection is the same matrix."""
    ema_decay: float = 0.0
    """Decay a step of an exponential moving average of the weights, which is validated, kept and (with `average`)
    averaged in their place; 0: the weights themselves."""
    precision: Precision = "float32"
    """The type of the matrix products; all the rest stays in single precision. auto: bfloat16 where the machine gains
    by it.
    """
    seed: int = 1
    """Decides initial weights, order of the batches and dropout."""
    validate_every: int = 1000
    """Steps between validations."""
    validate_decode: int = 500
    """Validation sentences translated (greedily) and scored; 0: the loss alone decides which weights are best."""
    best_by: Literal["score", "chrf", "loss", "bleu"] = "score"
    """The measure by which a validation is the best. The score: of a translator BLEU (where sentences are translated),
    its tokens those that suit the target's script (`zh`, characters, else `13a`), below 1 counted as 0, so that the
    loss decides until BLEU says something; of a classifier accuracy; of a language model the loss. chrf: chrF of a
    translator, for languages with many forms of a word. loss: always the loss. "bleu" is read as "score".
    """
    patience: int = 0
    """Stop after so many validations without a new best; with `schedule = "stable"`, after so many without a lower loss
    the rate begins to fall, and the run ends with that; 0: never."""
    save_every: int = 1000
    """Steps between checkpoints."""
    keep_every: int = 0
    """Steps between checkpoints whose weights stay to the end, to be looked at; 0: only what the average needs."""
    average: int = 5
    """At the end the best validation and means of so many checkpoints (section 6.1 of the paper) are compared on all of
    the validation text, and the best of them becomes the model; 1: the best validation alone."""
    average_of: Literal["last", "best"] = "last"
    """The checkpoints averaged: the last ones, with the mean of those that validated best beside it, or these alone."""
    log_every: int = 100
    """Steps between lines of the metrics log."""
    log_to: str | tuple[str, ...] = ()
    """Programs that are given the lines of the metrics log as they come: tensorboard, trackio, mlflow, one or several.
    They write into the run's folder, unless the environment tells them another place. A run may go on with others."""

    def __post_init__(self) -> None:
        check_fields(self)
        names = [self.log_to] if self.log_to and isinstance(self.log_to, str) else self.log_to
        object.__setattr__(self, "log_to", tuple(names))
        for name in self.log_to:
            if name not in TRACKERS:
                raise ConfigError(f"`log_to` ({shown(name)}) must be one or several of {', '.join(TRACKERS)}")
        if self.best_by == "bleu":  # its older name
            object.__setattr__(self, "best_by", "score")
        counts = ("steps", "batch_tokens", "accumulate", "warmup_steps", "average")
        check_at_least(self, (*counts, "validate_every", "save_every", "log_every"), 1)
        check_probabilities(
            self, ("label_smoothing", "adam_beta1", "adam_beta2", "muon_momentum", "ema_decay", "decay_fraction")
        )
        not_negative = (
            "grad_clip",
            "weight_decay",
            "adam_eps",
            "r_drop",
            "validate_decode",
            "patience",
            "budget",
            "keep_every",
        )
        check_at_least(self, (*not_negative, "final_learning_rate", "seed"), 0)
        if self.seed > MOST_SEED:
            raise ConfigError(f"`seed` ({shown(self.seed)}) must be at most {MOST_SEED:,}")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ConfigError(f"`learning_rate` ({self.learning_rate}) must be above 0")
        if not self.embedding_scale > 0:
            raise ConfigError(
                f"`embedding_scale` ({self.embedding_scale}) must be above 0", "1 leaves them as they are"
            )
        if not self.muon_learning_rate > 0:
            raise ConfigError(f"`muon_learning_rate` ({self.muon_learning_rate}) must be above 0")
        if self.keep_every % self.save_every:
            raise ConfigError(
                f"`keep_every` ({self.keep_every}) must be a multiple of `save_every` ({self.save_every}), since only "
                "what is saved can be kept"
            )
        self._check_final_rate()
        if self.schedule == "noam" and self.learning_rate is not None:
            raise ConfigError(
                f'`schedule = "noam"` takes its rate from `d_model` and `warmup_steps`, not from `learning_rate` '
                f"({self.learning_rate})",
                'use `schedule = "inverse_sqrt"` for the same curve with a highest rate of your own',
            )

    def _check_final_rate(self) -> None:
        if not self.final_learning_rate:
            return
        if self.schedule not in ("linear", "cosine"):
            raise ConfigError(
                f'`final_learning_rate` ({self.final_learning_rate}) means nothing to `schedule = "{self.schedule}"`',
                "leave it out, or use linear or cosine",
            )
        if self.learning_rate is not None and self.final_learning_rate > self.learning_rate:
            raise ConfigError(
                f"`final_learning_rate` ({self.final_learning_rate}) must be at most `learning_rate` "
                f"({self.learning_rate})"
            )
