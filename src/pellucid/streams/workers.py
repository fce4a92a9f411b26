"""A stream answered by several processes side by side, each with a model of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pellucid.errors import ConfigError, argument
from pellucid.workers import Answering, Stretches, Workers, may_be_copied

if TYPE_CHECKING:
    from pellucid.tasks.task import TextModel


@contextmanager
def answering_by(
    workers: int,
    threads: int | None,
    task: "TextModel[Any]",
    load: Callable[[], "TextModel[Any]"],
    options: Mapping[str, Any],
) -> Iterator[Callable[[Stretches[Any], Callable[[], bool]], Iterator[Sequence[Any]]]]:
    """Yields what answers the stretches of a stream: this process, or several workers with so many threads each.

    Args:
        task: the model, opened with one thread where there are workers: none that it has started is copied then.
        load: opens the same model in another process.
        options: those of `task.answer`.

    Raises ConfigError for workers beside a device, which they would share.
    """
    if workers == 1:
        yield lambda stretches, _: (task.answer(lines, place, **options) for place, lines in stretches)
        return
    device = task.device.type
    if device != "cpu":
        raise ConfigError(
            f"{argument('workers', workers)} share the cores of a processor among them, and the model is on {device}",
            'leave it out, or give `device="cpu"`',
        )
    forks = may_be_copied()
    opened = partial(_given, task) if forks else load
    ready = partial(_ready, opened, threads, options)
    running: Workers[Any, Any] = Workers(workers, ready, "fork" if forks else "spawn")
    try:
        yield running.answered
    finally:
        running.stop()


def _given(task: "TextModel[Any]") -> "TextModel[Any]":
    return task


def _ready(
    load: Callable[[], "TextModel[Any]"], threads: int | None, options: Mapping[str, Any]
) -> Answering[Any, Any]:
    """Returns what answers lines in a worker, with the settings of a command's own process."""
    import torch

    from pellucid.process import keep_freed_memory

    if threads is not None:
        torch.set_num_threads(threads)
    keep_freed_memory()
    return partial(load().answer, **options)
