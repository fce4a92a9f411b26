"""Translates a folder with Ray Data: actors, each with a model, process the files, and Ray restarts dead actors."""

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, PellucidError, format_argument, format_install_command, format_value
from pellucid.streams.file_results import FileResult
from pellucid.streams.folder_translation import BulkTranslation, BulkWork


def translate_by_ray(bulk: BulkTranslation, address: str, actors: int, threads: int | None) -> Iterator[FileResult]:
    """Yields the result of each file of a folder, in the order in which the files finish.

    All machines of the cluster must see the model and both folders under the same paths.

    Args:
        address: the address of a cluster, as for `ray.init`; "local" starts a cluster on this machine.
        actors: number of parallel actors.
        threads: cores per actor; None: one.

    Raises ConfigError if the extra `ray` is missing or the cluster does not exist, PellucidError if Ray gives up.
    """
    try:
        import ray
        from ray.data import ActorPoolStrategy
    except ImportError as error:
        raise ConfigError("`ray=` requires the extra `ray`", format_install_command("ray")) from error
    for name, count in (("workers", actors), ("threads", threads)):
        if count is not None and count < 1:
            raise ConfigError(f"{format_argument(name, count)} must be at least 1")
    names = bulk.names()
    bulk = _anywhere(bulk)
    # Errors of the model are raised here once, instead of by each actor.
    replace(bulk.translating, loading={**bulk.translating.loading, "device": "cpu"}).load()
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    was_there = ray.is_initialized()
    if not was_there:
        stops = signal.getsignal(signal.SIGTERM)
        try:
            _knock(address)
            ray.init(address, log_to_driver=False, logging_level="warning")
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"no Ray cluster answers: {format_argument('ray', address)}: {error}",
                'set its address, or set `ray="local"`',
            ) from error
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, stops)  # Ray's own handler ends the process with status 1
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        needs: dict[str, Any] = {"num_cpus": threads or 1}
        if str(bulk.translating.loading.get("device", "")).startswith("cuda"):
            needs["num_gpus"] = 1
        files = ray.data.from_items([{"name": name} for name in names], override_num_blocks=len(names))
        done = files.map(
            Actor, fn_constructor_args=(bulk, threads or 1), compute=ActorPoolStrategy(size=min(actors, len(names))),
            **needs,
        )  # fmt: skip
        for row in done.iter_rows():
            yield FileResult(**row)
    except ray.exceptions.RayError as error:
        raise PellucidError(
            f"Ray failed: {format_value(str(error).strip().rpartition(chr(10))[2])}",  # it is preceded by a traceback
            "run the same command again to continue with the remaining files",
        ) from error
    finally:
        if not was_there:
            ray.shutdown()


class Actor:
    """A process of Ray that loads the model and translates files by name."""

    def __init__(self, bulk: BulkTranslation, threads: int) -> None:
        """Loads the model. Raises the errors of `Translator.load`."""
        import torch

        from pellucid.process import keep_freed_memory

        torch.set_num_threads(threads)
        keep_freed_memory()
        self._bulk = bulk
        self._translator = bulk.translating.load()
        self._shards = {shard.name: shard for shard in bulk.shards()}

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Translates the file of a row and returns its result as a row."""
        work = BulkWork(self._bulk, self._translator, [self._shards[row["name"]]])
        try:
            return asdict(next(work.outcomes(1, None)))
        except PellucidError as error:  # as of a full disk
            return asdict(FileResult(row["name"], "failed", error=str(error), hint=error.hint))


def _knock(address: str) -> None:
    """Raises OSError if no server listens at an address with a port: Ray would retry for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _anywhere(bulk: BulkTranslation) -> BulkTranslation:
    """Returns a copy with absolute paths."""

    def anywhere(name: str) -> str:
        return str(Path(name).resolve()) if Path(name).exists() else name

    loading = dict(bulk.translating.loading)
    loading["ensemble"] = [anywhere(str(name)) for name in loading.get("ensemble", ())]
    translating = replace(bulk.translating, model=anywhere(str(bulk.translating.model)), loading=loading)
    folders = Path(bulk.input_dir).resolve(), Path(bulk.output_dir).resolve()
    return replace(bulk, translating=translating, input_dir=folders[0], output_dir=folders[1])
