"""A page that holds a model, run by Node: what a proof asks of it."""

import json
import shutil
import subprocess
import weakref
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pellucid.config import ModelConfig
from pellucid.conversion.numbers import Numbers, token_log_probs
from pellucid.errors import DataError, shown
from pellucid.views.model_page import ABOUT
from pellucid.views.page import islands_of

_SECONDS = 5


def node() -> str:
    """Returns the name of Node and its version. Raises ImportError where it is not installed."""
    found = shutil.which("node")
    if found is None:
        raise ImportError("node is not on PATH")
    told = subprocess.run([found, "-v"], capture_output=True, text=True, check=False, timeout=_SECONDS)
    return f"node {told.stdout.strip().removeprefix('v')}"


class Page:
    """Runs the very worker that a page carries, with the model that it carries; its process ends with this object."""

    def __init__(self, path: Path, config: ModelConfig) -> None:
        """Starts the worker of the page at `path`. Raises DataError for a page without a model, or a damaged one."""
        self.config = config
        found = islands_of(path.read_text(encoding="utf-8"))
        if not {"worker", ABOUT} <= set(found):
            raise DataError(
                f"`{path}` is not a page with a model in it", "write one: `pellucid.weights.to_page(model, path)`"
            )
        self._folder = TemporaryDirectory(prefix="pellucid-")
        for name, island in found.items():
            place = Path(self._folder.name) / name
            if name in ("worker", ABOUT):
                place.write_bytes(island.unpacked())
            elif name.startswith("model."):  # the worker unpacks these itself
                packed = {"name": name, "text": island.text, "dense": island.is_dense}
                place.with_name(f"{name}.json").write_text(json.dumps(packed), encoding="utf-8")
        node = shutil.which("node")
        assert node is not None, "library() has found it"
        runner = files("pellucid.conversion") / "page_runner.js"
        self._process = subprocess.Popen(
            [node, str(runner), self._folder.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        )  # fmt: skip
        weakref.finalize(self, _end, self._process, self._folder)
        self._answer()

    def ask(self, method: str, *args: Any) -> Any:
        """Returns what the worker answers. Raises DataError for what it refuses."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"method": method, "args": args}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DataError("the page's worker stopped without an answer", "open the page in a browser and look")
        found = json.loads(line)
        if "error" in found:
            raise DataError(f"the page's model refuses: {shown(found['error'])}", "write the page again")
        return found["result"]

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return [self.ask("encode", text, "target" if self.config.family == "decoder" else "source") for text in texts]

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        src = [] if self.config.family == "decoder" else list(ids)
        rows = np.array(self.ask("outputs", src, list(tgt_in)), dtype=np.float32)
        return rows[0] if self.config.num_classes else rows

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        return token_log_probs(self.outputs(ids, tgt_in), tgt_out)

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        src = [] if self.config.family == "decoder" else list(ids)
        found: list[int] = self.ask("greedy", src, list(tgt_in), list(suppressed), max_new)
        return found


def _end(process: "subprocess.Popen[str]", folder: "TemporaryDirectory[str]") -> None:
    """Ends the worker, which has nothing more to read then."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    folder.cleanup()
