"""A training run small enough for many tests: a few pairs of ids, a tiny model, a validation that is counted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.config import TrainConfig
from pellucid.data.shards import EncodedCorpus, Sentences
from pellucid.model.transformer import Transformer
from pellucid.training.log import RunLog
from pellucid.training.loop import Trainer
from pellucid.training.state import Checkpoints
from pellucid.training.validation import Validation
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, tiny_config
from tests.toy_task import metrics

SETTINGS: dict[str, Any] = {
    "steps": 12, "batch_tokens": 40, "accumulate": 2, "learning_rate": 1e-2, "schedule": "linear", "warmup_steps": 3,
    "validate_every": 4, "save_every": 3, "log_every": 2, "average": 2,
}  # fmt: skip


def sentences(lengths: list[int], vocab_size: int, generator: np.random.Generator) -> Sentences:
    """Random ids without the special ones."""
    ids = generator.integers(4, vocab_size, sum(lengths)).astype(np.uint16)
    return Sentences(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def toy_shard(pairs: int = 20, seed: int = 0) -> EncodedCorpus:
    """Pairs of random sentences, one to seven tokens long."""
    generator = np.random.default_rng(seed)
    src, tgt = (generator.integers(1, 8, pairs).tolist() for _ in range(2))
    return EncodedCorpus(
        sentences(src, SRC_VOCAB_SIZE, generator), sentences(tgt, TGT_VOCAB_SIZE, generator), empty=0, too_long=0
    )


@dataclass
class ToyRun:
    """A run in `folder`; made twice with the same folder, the second resumes the first."""

    folder: Path
    scores: list[Any] = field(default_factory=list)
    """What validation is to find, in order; then it finds the mean of the parameters."""
    at_step: Callable[[int], None] = lambda step: None
    """Called when a step's metrics are written."""
    settings: dict[str, Any] = field(default_factory=dict)
    dropout: float = 0.3
    parts: dict[str, Any] = field(default_factory=dict)
    """What the trainer gets besides: loss, optimizer, schedule, hooks."""

    def __post_init__(self) -> None:
        torch.manual_seed(5)
        self.scores = list(self.scores)
        self.model = Transformer(tiny_config(dropout=self.dropout, num_encoder_layers=1, num_decoder_layers=1))
        self.published: list[dict[str, torch.Tensor]] = []
        self.said: list[str] = []
        self.config = TrainConfig(**SETTINGS | self.settings)
        self.log = _Log(self)
        self.trainer = Trainer(
            model=self.model,
            shard=toy_shard(),
            config=self.config,
            checkpoints=Checkpoints(
                self.folder / "checkpoints",
                self.config.save_every,
                self.config.average,
                self.config.steps,
                self.config.average_strategy,
            ),
            validate=self._validate,
            publish=self._publish,
            **{"log": self.log, **self.parts},
        )

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the model's parameters."""
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def has_the_weights_of(self, other: "ToyRun") -> bool:
        """Returns whether all parameters are equal, bit for bit."""
        found, expected = (dict(run.model.named_parameters()) for run in (self, other))
        return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metrics log but for what the clock says."""
        return metrics(self.folder)

    @property
    def checkpoints(self) -> list[str]:
        """The names in the folder of checkpoints."""
        return sorted(path.name for path in (self.folder / "checkpoints").iterdir())

    def _publish(self, weights: dict[str, torch.Tensor]) -> None:
        self.published.append({name: tensor.detach().clone() for name, tensor in weights.items()})

    def _validate(self) -> Validation:
        assert not self.model.training
        if self.scores:
            found = self.scores.pop(0)
            return found if isinstance(found, Validation) else Validation(loss=1.0, bleu=found, sample="  source x")
        return Validation(loss=float(sum(p.double().mean() for p in self.model.parameters())))


class _Log(RunLog):
    def __init__(self, run: ToyRun) -> None:
        run.folder.mkdir(exist_ok=True)
        super().__init__(run.folder, run.config.steps, quiet=True)
        self.run = run

    def write(self, event: str, step: int, **values: Any) -> None:
        super().write(event, step, **values)
        self.run.at_step(step)

    def log_line(self, text: str) -> None:
        self.run.said.append(text)
