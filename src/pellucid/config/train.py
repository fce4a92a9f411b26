"""[train]: section 5 of the paper, and later methods."""

from dataclasses import dataclass
from typing import Literal

from pellucid.config.decode import BATCH_TOKENS, MOST_SEED
from pellucid.config.tables import SettingsBase, check_at_least, check_fields, check_probabilities
from pellucid.errors import ConfigError, format_value

TRACKERS = ("tensorboard",)
"""The supported programs that plot the metrics of a run."""
GONE_TRACKERS = ("trackio", "mlflow")
"""Values of `report_to` in recipes of earlier versions: they are read, and a run warns that they have no effect."""
Precision = Literal["float32", "bfloat16", "auto"]
"""The data types of matrix products in training; auto: the faster one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(SettingsBase):
    """The settings of training: section 5 of the paper, and later methods."""

    steps: int = 100_000
    """Optimizer steps."""
    batch_tokens: int = BATCH_TOKENS
    """Target (or source, if longer) tokens per batch, padding included."""
    accumulate: int = 1
    """Gradient accumulation: batches per optimizer step, on each process of a distributed training."""
    gradient_checkpointing: bool = False
    """Gradient checkpointing: store only the inputs of each layer for the backward pass, and recompute the rest. It
    takes a third more arithmetic and less memory, and gives the same gradients."""
    fsdp: bool = False
    """Sharded training (FSDP2): distribute weights, gradients and optimizer state over the processes, for a model that
    does not fit on one device; no effect with one process."""
    learning_rate: float | None = None
    """Peak learning rate; None: the paper's (d_model * warmup_steps)^-0.5."""
    warmup_steps: int = 4000
    """Warmup: steps over which the learning rate rises from zero."""
    final_learning_rate: float = 0.0
    """Learning rate that `schedule = "linear"` and "cosine" reach just after the last step."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "wsd"] = "noam"
    """Learning rate schedule after warmup. noam: equation 3 of the paper; wsd: constant, then a linear decay to zero
    (warmup-stable-decay)."""
    decay_fraction: float = 0.4
    """Share of the steps over which `schedule = "wsd"` decays to zero."""
    budget: float = 0.0
    """Time limit of the whole command in seconds; above 0 the clock decides when the decay of `schedule = "wsd"`
    starts. `--budget` sets it, with the other settings of the plan."""
    label_smoothing: float = 0.1
    """Label smoothing: probability that is spread over the vocabulary (section 5.4 of the paper)."""
    r_drop: float = 0.0
    """Weight of the divergence between two passes with different dropout (R-Drop, Liang et al. 2021); 0: one pass."""
    grad_clip: float = 0.0
    """Maximum norm of the gradient; 0: no clipping."""
    optimizer: Literal["adam", "muon"] = "adam"
    """adam: section 5.3 of the paper. muon: orthogonal steps for the matrices of the layers (Jordan et al. 2024), and
    Adam for all other weights."""
    muon_learning_rate: float = 0.01
    """Peak learning rate of the matrices that Muon trains; `learning_rate` is for all other weights. The schedule is
    the same."""
    muon_momentum: float = 0.95
    """Muon: decay of the mean gradient."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the matrices."""
    adam_beta1: float = 0.9
    """Adam: decay of the mean gradient."""
    adam_beta2: float = 0.98
    """Adam: decay of the mean squared gradient."""
    adam_eps: float = 1e-9
    """Adam: number that is added to the denominator."""
    init_from: str = ""
    """Run or model folder to initialize from (fine-tuning), instead of random weights: its tokenizer, shape and weights
    are used, and its [decode] settings where the recipe has the default; dropout is the recipe's."""
    init_sha256: str = ""
    """SHA-256 of that model's weights: recorded when training starts; if it is given, it must match."""
    embedding_init_scale: float = 1.0
    """Factor on the initial token embeddings, relative to the default standard deviation d_model^-0.5; no effect with
    `init_from`. Smaller embeddings learn faster if the output projection is tied to them."""
    ema_decay: float = 0.0
    """Decay per step of an exponential moving average of the weights, which is validated, saved and (with `average`)
    averaged instead of the weights; 0: no moving average."""
    precision: Precision = "float32"
    """Data type of the matrix products; everything else is computed in float32. auto: bfloat16 if it is faster on this
    machine.
    """
    seed: int = 1
    """Random seed of initial weights, order of the batches and dropout."""
    validate_every: int = 1000
    """Steps between validations."""
    decode_and_evaluate: int = 500
    """Validation sentences that are translated (greedily) and scored; 0: only the loss selects the best weights."""
    best_metric: Literal["score", "chrf", "loss", "bleu"] = "score"
    """The metric that selects the best validation. score: for a translator BLEU (if sentences are translated), with the
    tokenizer for the target's script (`zh`, characters, else `13a`), and BLEU below 1 counted as 0, so that the loss
    decides at first; for a classifier accuracy; for a language model the loss. chrf: chrF of a translator, for
    languages with rich morphology. loss: always the loss. "bleu" is read as "score".
    """
    patience: int = 0
    """Early stopping: stop after this many validations without a new best; with `schedule = "wsd"`, start the decay,
    which ends the run, after this many validations without a lower loss; 0: never."""
    save_every: int = 1000
    """Steps between checkpoints."""
    keep_every: int = 0
    """Steps between checkpoints whose weights are kept after training, for inspection; 0: only as needed for the
    average."""
    average: int = 5
    """Number of checkpoints to average (section 6.1 of the paper). At the end the averages and the best validation are
    compared on the whole validation set, and the best of them becomes the model; 1: the best validation, no average."""
    average_strategy: Literal["last", "best"] = "last"
    """The checkpoints to average. last: the last ones, and as a further candidate the ones with the best validation;
    best: only the latter."""
    log_every: int = 100
    """Steps between lines of the metrics log."""
    report_to: str | tuple[str, ...] = ()
    """tensorboard: also write the metrics log for TensorBoard, to the run folder. A resumed run may change it."""

    def __post_init__(self) -> None:
        check_fields(self)
        names = [self.report_to] if self.report_to and isinstance(self.report_to, str) else self.report_to
        object.__setattr__(self, "report_to", tuple(names))
        for name in self.report_to:
            if name not in (*TRACKERS, *GONE_TRACKERS):
                raise ConfigError(
                    f"`report_to` ({format_value(name)}) must be {', '.join(TRACKERS)}",
                    "send the metrics to other programs from a hook, `run.on_step(f)`",
                )
        if self.best_metric == "bleu":  # its older name
            object.__setattr__(self, "best_metric", "score")
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
            "decode_and_evaluate",
            "patience",
            "budget",
            "keep_every",
        )
        check_at_least(self, (*not_negative, "final_learning_rate", "seed"), 0)
        if self.seed > MOST_SEED:
            raise ConfigError(f"`seed` ({format_value(self.seed)}) must be at most {MOST_SEED:,}")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ConfigError(f"`learning_rate` ({self.learning_rate}) must be above 0")
        if not self.embedding_init_scale > 0:
            raise ConfigError(
                f"`embedding_init_scale` ({self.embedding_init_scale}) must be above 0", "1 is the default size"
            )
        if not self.muon_learning_rate > 0:
            raise ConfigError(f"`muon_learning_rate` ({self.muon_learning_rate}) must be above 0")
        if self.keep_every % self.save_every:
            raise ConfigError(
                f"`keep_every` ({self.keep_every}) must be a multiple of `save_every` ({self.save_every}), since only "
                "saved checkpoints can be kept"
            )
        self._check_final_rate()
        if self.schedule == "noam" and self.learning_rate is not None:
            raise ConfigError(
                f'`schedule = "noam"` computes the learning rate from `d_model` and `warmup_steps`, so '
                f"`learning_rate` ({self.learning_rate}) has no effect",
                'use `schedule = "inverse_sqrt"` for the same curve with your peak learning rate',
            )

    def _check_final_rate(self) -> None:
        if not self.final_learning_rate:
            return
        if self.schedule not in ("linear", "cosine"):
            raise ConfigError(
                f'`final_learning_rate` ({self.final_learning_rate}) has no effect with `schedule = "{self.schedule}"`',
                "leave it out, or use linear or cosine",
            )
        if self.learning_rate is not None and self.final_learning_rate > self.learning_rate:
            raise ConfigError(
                f"`final_learning_rate` ({self.final_learning_rate}) must be at most `learning_rate` "
                f"({self.learning_rate})"
            )
