"""Follows how heads develop in training: their statistics on one text, by the checkpoints of a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.analysis.statistics import STATISTICS, compute_trace_statistics
from pellucid.errors import CheckpointError
from pellucid.tasks.task import TextModel, open_task, resolve_model
from pellucid.tasks.translator import Translator
from pellucid.tracing.attention import Array
from pellucid.tracing.trace import Trace
from pellucid.training.state import read_checkpoint_weights
from pellucid.weights.tensors import set_parameters


@dataclass(frozen=True)
class Evolution:
    """Holds a text's traces by the checkpoints of a run, oldest first."""

    steps: Sequence[int]
    traces: Sequence[Trace]
    statistics: Mapping[str, Mapping[str, Array]]
    """By attention and statistic, (checkpoints, N, H) each."""

    def extras(self) -> dict[str, Any]:
        """Returns the data of the viewer's view "evolution" besides the traces."""
        return {"steps": list(self.steps), "statistics": self.statistics}


def evolution(run: str | Path, source: str, target: str | None = None, device: str = "cpu") -> Evolution:
    """Traces a text with each checkpoint that a run has kept.

    Args:
        run: the folder of a run. It keeps as many checkpoints as its recipe's `train.average`, and at least two.
        target: for a translator, the translation to trace; None: the translation by the run's final model.

    Raises CheckpointError if the run has no checkpoint or a damaged one.
    """
    folder = resolve_model(run)
    reader = open_task(folder, device)
    if isinstance(reader, Translator) and target is None:
        target = reader.translate([source], segment="off")[0].text  # the whole line is traced
    texts = (source, target) if isinstance(reader, Translator) else (source,)
    found = list(_traces(folder, reader, lambda: reader.trace(*texts)))
    return collect_evolution([step for step, _ in found], [trace for _, trace in found])


def collect_evolution(steps: Sequence[int], traces: Sequence[Trace]) -> Evolution:
    """Returns the evolution from traces of one text at different steps, with the statistics of their heads."""
    by_trace = [compute_trace_statistics(trace) for trace in traces]
    statistics = {
        attention: {name: np.stack([found[attention][name] for found in by_trace]) for name in STATISTICS}
        for attention in by_trace[0]
    }
    return Evolution(steps, traces, statistics)


def _traces(folder: Path, reader: TextModel[Any], trace: Callable[[], Trace]) -> Iterator[tuple[int, Trace]]:
    """Yields the step and the trace of each checkpoint; the reader's model keeps the weights of the last one."""
    places = sorted(path for path in (folder / "checkpoints").glob("step-*") if path.name[5:].isdigit())
    if not places:
        raise CheckpointError(
            f"`{folder}` has no checkpoints", "name the folder of a run; a model folder has none of its training"
        )
    for path in places:
        set_parameters(reader.model, read_checkpoint_weights(path), f"`{path}`")
        yield int(path.name[5:]), trace()
