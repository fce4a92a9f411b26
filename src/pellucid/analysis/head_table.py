"""The statistics of a model's heads over several sentences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.analysis.statistics import STATISTICS, sink_columns, statistics
from pellucid.errors import DataError
from pellucid.tracing.trace import Array, Trace


@dataclass(frozen=True, slots=True)
class HeadTable:
    """The mean of each statistic over sentences, each counting alike."""

    means: Mapping[str, Mapping[str, Array]]
    """By attention and statistic, (N, H) each."""
    sentences: int

    def to_json(self) -> dict[str, Any]:
        """The fields as json.dumps() takes them."""
        return {
            "format": "pellucid-heads/1",
            "sentences": self.sentences,
            "statistics": {
                attention: {name: values.round(6).tolist() for name, values in found.items()}
                for attention, found in self.means.items()
            },
        }

    def report(self, origin: str) -> str:
        """A table for the screen, a row a head."""
        lines = [f"{'head':<30}" + "".join(f"{name:>13}" for name in STATISTICS)]
        for attention, found in self.means.items():
            for layer, head in np.ndindex(found[STATISTICS[0]].shape):
                values = "".join(f"{found[name][layer, head]:>13.3f}" for name in STATISTICS)
                lines.append(f"{f'{attention} layer {layer} head {head}':<30}{values}")
        return "\n".join([*lines, f"means over {self.sentences:,} sentences of {origin}"])


def statistics_of(trace: Trace) -> dict[str, dict[str, Array]]:
    """statistics() of all attentions of a model's pass; sinks are the first and the special columns."""
    return {
        name: statistics(attention, sink_columns(trace.sequences[attention.keys]))
        for name, attention in trace.attentions.items()
        if not name.startswith("search.")
    }


def mean_statistics(traces: Iterable[Trace]) -> HeadTable:
    """The means over traces of one model. Raises DataError where there are none."""
    found = [statistics_of(trace) for trace in traces]
    if not found:
        raise DataError("there are no sentences to take statistics of")
    means = {
        attention: {name: np.mean([one[attention][name] for one in found], axis=0) for name in STATISTICS}
        for attention in found[0]
    }
    return HeadTable(means, len(found))
