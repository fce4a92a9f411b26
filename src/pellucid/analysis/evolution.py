"""Follows how heads become what they are: their statistics on one text, by the checkpoints of a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.analysis.statistics import STATISTICS, statistics_of
from pellucid.errors import CheckpointError
from pellucid.tasks.task import TextModel, model_folder, open_task
from pellucid.tasks.translator import Translator
from pellucid.tracing.attention import Array
from pellucid.tracing.trace import Trace
from pellucid.training.state import read_weights
from pellucid.weights.tensors import set_parameters


@dataclass(frozen=True)
class Evolution:
    """Holds a text's traces by the checkpoints of a run, oldest first."""

    steps: Sequence[int]
    traces: Sequence[Trace]
    statistics: Mapping[str, Mapping[str, Array]]
    """By attention and statistic, (checkpoints, N, H) each."""

    def extras(self) -> dict[str, Any]:
        """Returns what the viewer's view "evolution" is given beside the traces."""
        return {"steps": list(self.steps), "statistics": self.statistics}


def evolution(run: str | Path, source: str, target: str | None = None, device: str = "cpu") -> Evolution:
    """Traces a text by each checkpoint that a run has kept.

    Args:
        run: the folder of a run. It keeps as many checkpoints as its recipe's `train.average`, and at least two.
        target: of a translator the translation that is looked at; None: the one that the run's model makes.

    Raises CheckpointError where the run has no checkpoint, or a damaged one.
    """
    folder = model_folder(run)
    reader = open_task(folder, device)
    if isinstance(reader, Translator) and target is None:
        target = reader.translate([source], segment="off")[0].text  # what is traced is the whole line
    texts = (source, target) if isinstance(reader, Translator) else (source,)
    found = list(_traces(folder, reader, lambda: reader.trace(*texts)))
    return gathered([step for step, _ in found], [trace for _, trace in found])


def gathered(steps: Sequence[int], traces: Sequence[Trace]) -> Evolution:
    """Returns the traces of one text, made at different steps, with the statistics of their heads."""
    by_trace = [statistics_of(trace) for trace in traces]
    statistics = {
        attention: {name: np.stack([found[attention][name] for found in by_trace]) for name in STATISTICS}
        for attention in by_trace[0]
    }
    return Evolution(steps, traces, statistics)


def _traces(folder: Path, reader: TextModel[Any], trace: Callable[[], Trace]) -> Iterator[tuple[int, Trace]]:
    """Yields the step and the trace of each checkpoint; the reader's model is left with the last one's weights."""
    places = sorted(path for path in (folder / "checkpoints").glob("step-*") if path.name[5:].isdigit())
    if not places:
        raise CheckpointError(
            f"`{folder}` has no checkpoints", "name the folder of a run; a model folder has none of its training"
        )
    for path in places:
        set_parameters(reader.model, read_weights(path), f"`{path}`")
        yield int(path.name[5:]), trace()
