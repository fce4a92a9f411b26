"""Several processes of one training, as torchrun starts them, but forked: without the seconds for importing torch."""

import os
import socket
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.processes import run_python

Done = subprocess.CompletedProcess[str]


def run_ranks(
    count: int, *arguments: object, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 100
) -> list[Done]:
    """Runs `python ARGUMENTS` in so many processes that train together; returns how each ended, by rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    def run(rank: int) -> Done:
        own = {name: str(value) for name, value in (shared | {"RANK": rank, "LOCAL_RANK": rank}).items()}
        return run_python(*arguments, cwd=cwd, env={**os.environ, **(env or {}), **own}, timeout=timeout)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
