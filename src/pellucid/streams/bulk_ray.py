"""A folder translated by Ray Data: actors, each with a model, take its files, and Ray starts anew what dies."""

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, PellucidError, argument, install, shown
from pellucid.streams.bulk import BulkTranslation, BulkWork, Outcome


def translate_by_ray(bulk: BulkTranslation, address: str, actors: int, threads: int | None) -> Iterator[Outcome]:
    """Yields how each file of a folder ended, in the order in which they end.

    All machines of the cluster must see the model and both folders under the same paths.

    Args:
        address: a cluster's, as `ray.init` takes it; "local" starts one on this machine.
        actors: how many work side by side.
        threads: the cores of each; None: one.

    Raises ConfigError where the extra `ray` is missing or there is no such cluster; PellucidError where Ray gives up.
    """
    try:
        import ray
        from ray.data import ActorPoolStrategy
    except ImportError as error:
        raise ConfigError("`ray=` needs the extra `ray`", install("ray")) from error
    for name, count in (("workers", actors), ("threads", threads)):
        if count is not None and count < 1:
            raise ConfigError(f"{argument(name, count)} must be at least 1")
    names = bulk.names()
    bulk = _anywhere(bulk)
    # What is wrong with the model is said here once, and not by each actor again and again.
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
                f"no cluster of Ray answers: {argument('ray', address)}: {error}", 'name it, or give `ray="local"`'
            ) from error
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, stops)  # Ray has its own, which ends the process with status 1
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
            yield Outcome(**row)
    except ray.exceptions.RayError as error:
        raise PellucidError(
            f"Ray gave up: {shown(str(error).strip().rpartition(chr(10))[2])}",  # a traceback stands before it
            "the same command goes on with what is left",
        ) from error
    finally:
        if not was_there:
            ray.shutdown()


class Actor:
    """A process of Ray that has opened the model, and translates the files that it is given the names of."""

    def __init__(self, bulk: BulkTranslation, threads: int) -> None:
        """Opens the model. Raises what `Translator.load` raises."""
        import torch

        from pellucid.process import keep_freed_memory

        torch.set_num_threads(threads)
        keep_freed_memory()
        self._bulk = bulk
        self._translator = bulk.translating.load()
        self._shards = {shard.name: shard for shard in bulk.shards()}

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Translates the file of a row; returns its outcome as one."""
        work = BulkWork(self._bulk, self._translator, [self._shards[row["name"]]])
        try:
            return asdict(next(work.outcomes(1, None)))
        except PellucidError as error:  # as of a full disk
            return asdict(Outcome(row["name"], "failed", error=str(error), hint=error.hint))


def _knock(address: str) -> None:
    """Raises OSError where nobody listens at an address with a port: Ray would try again for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _anywhere(bulk: BulkTranslation) -> BulkTranslation:
    """Returns the same with paths that do not depend on the folder that a process is in."""

    def anywhere(name: str) -> str:
        return str(Path(name).resolve()) if Path(name).exists() else name

    loading = dict(bulk.translating.loading)
    loading["ensemble"] = [anywhere(str(name)) for name in loading.get("ensemble", ())]
    translating = replace(bulk.translating, model=anywhere(str(bulk.translating.model)), loading=loading)
    folders = Path(bulk.input_dir).resolve(), Path(bulk.output_dir).resolve()
    return replace(bulk, translating=translating, input_dir=folders[0], output_dir=folders[1])
