"""Answers a stream with several parallel processes, each with its own model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pellucid.errors import ConfigError, format_argument
from pellucid.workers import Answering, Chunks, Workers, can_fork

if TYPE_CHECKING:
    from pellucid.tasks.task import TextModel


@contextmanager
def run_workers(
    workers: int,
    threads: int | None,
    task: "TextModel[Any]",
    load: Callable[[], "TextModel[Any]"],
    options: Mapping[str, Any] | None = None,
    make_answering: "Callable[[Any], Answering[Any, Any]] | None" = None,
) -> Iterator[Callable[[Chunks[Any], Callable[[], bool]], Iterator[Sequence[Any]]]]:
    """Yields a function that answers the chunks of a stream in this process, or in workers with `threads` threads each.

    Args:
        task: the model, loaded with one thread if there are workers, so that no thread exists at the fork.
        load: loads the same model in another process.
        options: the options of `task.process_lines`.
        make_answering: returns the function that answers chunks by a model, in place of `task.process_lines`.

    Raises ConfigError for several workers on a device other than the CPU, which they would share.
    """
    if workers == 1:
        answer = (make_answering or partial(_process_lines, options or {}))(task)
        yield lambda chunks, _: (answer(lines, place) for place, lines in chunks)
        return
    device = task.device.type
    if device != "cpu":
        raise ConfigError(
            f"{format_argument('workers', workers)} share the cores of a CPU, but the model is on {device}",
            'leave it out, or set `device="cpu"`',
        )
    forks = can_fork()
    opened = partial(_return_task, task) if forks else load
    ready = partial(_ready, opened, threads, make_answering or partial(_process_lines, options or {}))
    running: Workers[Any, Any] = Workers(workers, ready, "fork" if forks else "spawn")
    try:
        yield running.answer_chunks
    finally:
        running.stop()


def _return_task(task: "TextModel[Any]") -> "TextModel[Any]":
    return task


def _process_lines(options: Mapping[str, Any], task: "TextModel[Any]") -> Answering[Any, Any]:
    return partial(task.process_lines, **options)


def _ready(
    load: Callable[[], "TextModel[Any]"],
    threads: int | None,
    make_answering: Callable[["TextModel[Any]"], Answering[Any, Any]],
) -> Answering[Any, Any]:
    """Returns the function that answers lines in a worker, with the process settings of a command."""
    import torch

    from pellucid.process import keep_freed_memory

    if threads is not None:
        torch.set_num_threads(threads)
    keep_freed_memory()
    return make_answering(load())
