"""What `test_ranks.py` runs in two processes: python -m tests.unit.training.on_ranks FOLDER NAME..; JSON on stdout."""

import itertools
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pellucid.data.batching import Batch
from pellucid.errors import PellucidError
from pellucid.model.families import Model
from pellucid.training.events import Hooks, StepEvent
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.log import SilentLog
from pellucid.training.loss import CrossEntropy, Losses
from pellucid.training.ranks import DistributedContext, init_distributed
from pellucid.training.schedule import BudgetClock
from pellucid.weights.sharded import get_local_rows
from tests.unit.training.toy_run import ToyRun

SHARDED = {"fsdp": True}
WITH = {"optimizer": "muon", "ema_decay": 0.5, "grad_clip": 1.0, "gradient_checkpointing": True}
STABLE = {"schedule": "wsd", "steps": 40}


def sgd(model: Model) -> torch.optim.SGD:
    """Proportional to the gradient: Adam makes steps of what is rounding alone, as of the biases of keys."""
    return torch.optim.SGD(model.parameters(), lr=0.1)


class LossOf(CrossEntropy):
    """The settings' loss, but that something happens before it is computed."""

    def __init__(self, before: Callable[[Batch], float]) -> None:
        super().__init__()
        object.__setattr__(self, "before", before)

    def __call__(self, model: Model, batch: Batch) -> Losses:
        factor = self.before(batch)  # type: ignore[attr-defined]
        found = super().__call__(model, batch)
        return Losses(found.minimised * factor, found.reported)


class Job:
    """The runs of this rank, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ranks: DistributedContext = init_distributed(torch.device("cpu"))

    def run(self, name: str, **parts: Any) -> ToyRun:
        """A run of both ranks, of the first's folder."""
        settings = {"accumulate": 1} | parts.pop("settings", {})
        if not self.ranks.is_first:
            parts["log"] = SilentLog(self.folder / name)
        return ToyRun(self.folder / name, settings=settings, parts={"ranks": self.ranks, **parts})

    def is_second(self, step: int, toy: ToyRun, at: int) -> bool:
        return self.ranks.rank == 1 and step == at

    def same_run(self) -> dict[str, Any]:
        """The run that one process takes with twice as many batches of its own."""
        toy = self.run("same", optimizer=sgd)
        toy.trainer.train()
        weights = torch.cat([p.detach().flatten() for p in toy.model.parameters()])
        return {"weights": weights.tolist(), "tokens": toy.trainer.state.tokens}

    def sums(self) -> list[list[float]]:
        """Sums of what is as small as rounding, in the order of the ranks, and in tensors of two types."""
        own = torch.tensor([1e8, 1.0, 3.0]) if self.ranks.rank else torch.tensor([-1e8, 1e-8, 4.0])
        doubles = torch.full((2, 3), 0.1 + self.ranks.rank, dtype=torch.float64)
        self.ranks.all_reduce_sum([own, doubles, (scalar := torch.tensor(float(self.ranks.rank + 1)))])
        return [own.tolist(), doubles.flatten().tolist(), [float(scalar)]]

    def stopped(self) -> list[Any]:
        """A hook of the second rank asks for the end, another for a lower rate, which the first does not."""

        def hook(event: StepEvent) -> None:
            if self.ranks.rank and event.step == 3:
                event.scale_rate(0.5)
            if self.ranks.rank and event.step == 5:
                event.stop()

        state = (toy := self.run("stopped", hooks=Hooks(step=[hook]))).trainer.train()
        return [state.step, state.stopped_early, state.rate_factor, len(toy.published) > 0]

    def signalled(self) -> list[Any]:
        """The second rank gets the signal, twice."""

        def hook(event: StepEvent) -> None:
            if self.ranks.rank and event.step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)

        toy = self.run("signalled", hooks=Hooks(step=[hook]))
        try:
            toy.trainer.train()
        except TrainingInterrupted as stop:
            return [stop.signal, toy.trainer.state.step, stop.saved_step]
        return []

    def short_of_memory(self) -> list[Any]:
        """The second rank lacks memory in step 3, for more than two sentences."""
        toy: ToyRun

        def before(batch: Batch) -> float:
            if self.ranks.rank and toy.trainer.state.step == 2 and len(batch.src) > 2:
                raise MemoryError
            return 1.0

        toy = self.run("memory", loss=LossOf(before))
        state = toy.trainer.train()
        return [state.step, state.parts, [text for text in toy.said if "memory" in text]]

    def no_memory(self) -> str:
        """The second rank lacks it for a single sentence."""

        def before(batch: Batch) -> float:
            if self.ranks.rank:
                raise MemoryError
            return 1.0

        return self.error_of(self.run("no-memory", loss=LossOf(before)))

    def not_a_number(self) -> str:
        """A sentence of the second rank gives a loss that is not finite."""
        bad = self.ranks.rank == 1
        return self.error_of(self.run("nan", loss=LossOf(lambda batch: math.nan if bad else 1.0)))

    def on_the_clock(self) -> list[Any]:
        """The first rank's clock is slow, the second's says at once that the time is over."""
        now = itertools.count(0, 1 if self.ranks.is_first else 10**5)
        clock = BudgetClock(100.0, 0.4, 0.0, now=lambda: float(next(now)))
        state = self.run("clock", settings=STABLE, clock=clock).trainer.train()
        return [state.falls_at, state.last_step, state.step]

    def sharded(self) -> dict[str, Any]:
        """The numbers that this rank holds, of how many; all weights after the run; and what the log says."""
        toy = self.run("sharded", settings=SHARDED | WITH)
        held = sum(get_local_rows(p)[0].numel() for p in toy.model.parameters())
        moments = {"weights": held, "of": sum(p.numel() for p in toy.model.parameters())}
        toy.trainer.train()
        state = toy.trainer.trained.optimizer.state.values()
        moments["moments"] = sum(get_local_rows(m)[0].numel() for each in state for m in each.values() if m.dim())
        weights = torch.cat([p.detach().flatten() for p in toy.model.parameters()])
        return moments | {"all": weights.tolist()}

    def sharded_not_a_number(self) -> str:
        bad = self.ranks.rank == 1
        return self.error_of(
            self.run("sharded-nan", settings=SHARDED, loss=LossOf(lambda batch: math.nan if bad else 1.0))
        )

    def sharded_no_memory(self) -> str:
        """The second rank lacks memory in the middle of a step, and ends: nothing can come after this."""

        def before(batch: Batch) -> float:
            if self.ranks.rank:
                raise MemoryError
            return 1.0

        return self.error_of(self.run("sharded-no-memory", settings=SHARDED, loss=LossOf(before)))

    def sharded_dies(self) -> str:
        """The second rank dies where the first gathers what it saves: nothing can come after this."""
        toy = self.run("sharded-dies", settings=SHARDED)

        def die(*_: object) -> None:
            print(json.dumps({"sharded_dies": ""}), flush=True)
            os._exit(0)

        if self.ranks.rank:
            toy.trainer._save = die  # type: ignore[method-assign]
        return self.error_of(toy)

    def sharded_with_an_optimizer_of_its_own(self) -> str:
        try:
            self.run("sharded-sgd", settings=SHARDED, optimizer=sgd)
        except PellucidError as error:
            return str(error)
        return ""

    def patience(self) -> list[Any]:
        """Validation gets no better."""
        toy = self.run("patience", settings={"patience": 1, "validate_every": 2})
        toy.scores = [20.0, 10.0, 10.0, 10.0, 10.0, 10.0]
        state = toy.trainer.train()
        return [state.step, state.stopped_early]

    def error_of(self, toy: ToyRun) -> str:
        """What a run says that fails."""
        try:
            toy.trainer.train()
        except PellucidError as error:
            return str(error)
        return ""


def main(folder: str, *names: str) -> None:
    """Runs those of these names, which end with both ranks alive."""
    job = Job(Path(folder))
    print(json.dumps({name: getattr(job, name)() for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
