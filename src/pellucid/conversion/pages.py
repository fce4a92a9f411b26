"""Runs a page that holds a model in Node, for the verification of a conversion."""

import json
import shutil
import subprocess
import weakref
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pellucid.config import ModelConfig
from pellucid.conversion.numbers import Numbers, token_log_probs
from pellucid.errors import DataError, format_value
from pellucid.views.model_page import ABOUT
from pellucid.views.page import read_data_blocks
from pellucid.waits import end, read_line

_SECONDS = 5
NEW_TOKENS = 20
"""The number of new tokens when a language model continues a text."""
ANSWER = 600.0
"""The most seconds that a page's worker may take for an answer: a long text in a large model, on a slow machine."""


def node() -> str:
    """Returns the name of Node and its version. Raises ImportError if it is not installed."""
    found = shutil.which("node")
    if found is None:
        raise ImportError("node is not on PATH")
    told = subprocess.run([found, "-v"], capture_output=True, text=True, check=False, timeout=_SECONDS)
    return f"node {told.stdout.strip().removeprefix('v')}"


class Page:
    """Runs the page's own worker with the page's model; its process ends with this object."""

    def __init__(self, path: Path, config: ModelConfig) -> None:
        """Starts the worker of the page at `path`. Raises DataError for a page without a model, or a damaged one."""
        self.config = config
        found = read_data_blocks(path.read_text(encoding="utf-8"))
        if not {"worker", ABOUT} <= set(found):
            raise DataError(
                f"`{path}` is not a page with a model", "write one with `pellucid.weights.to_page(model, path)`"
            )
        self._folder = TemporaryDirectory(prefix="pellucid-")
        for name, island in found.items():
            place = Path(self._folder.name) / name
            if name in ("worker", ABOUT):
                place.write_bytes(island.unpack())
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
        """Returns the worker's answer. Raises DataError if the worker rejects the call."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"method": method, "args": args}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = read_line(self._process, self._process.stdout, ANSWER)
        if not line:
            raise DataError(
                "the page's worker ended without an answer", "open the page in a browser and check its console"
            )
        found = json.loads(line)
        if "error" in found:
            raise DataError(f"the page's model failed: {format_value(found['error'])}", "write the page again")
        return found["result"]

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return [self.ask("encode", text, "target" if self.config.family == "decoder" else "source") for text in texts]

    def function(self, task: str) -> Callable[..., Any]:
        """Returns the page's function of a text for a task: translation by greedy search with the text as one sentence,
        continuation of a text, or the probability of each label.
        """
        if task == "translate":
            return lambda text: self.ask("translate", text, {"beamSize": 1, "segment": "off"})["text"]
        if task == "generate":
            return lambda text, max_new_tokens: (
                text + self.ask("generate", text, {"maxNewTokens": max_new_tokens})["text"]
            )
        return lambda text: {each["label"]: each["probability"] for each in self.ask("classify", text)["probabilities"]}

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
    end(process, _SECONDS)
    process.stdout.close()
    folder.cleanup()
