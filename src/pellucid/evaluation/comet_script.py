"""The program that the Python of another environment runs: it reads a question as JSON and answers COMET's scores.

It has the standard library and what that environment holds, nothing of Pellucid. comet.py beside it starts it, and says
what question and answer hold.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from typing import Any

MARK = "pellucid-comet:"
"""Begins the line of the answer: an environment may print before any program of it runs."""


class Refusal(Exception):
    """Is raised for a question without scores; its one argument is the answer's `refusal`."""


def main() -> None:
    """Answers the question on standard input with one line on standard output."""
    answer = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what libraries print goes to standard error: the other one is for the answer
    question = json.loads(sys.stdin.buffer.read())
    try:
        found = _answered(question)
    except Refusal as refusal:
        found = {"refusal": refusal.args[0]}
    except Exception as error:
        found = {"failure": f"{type(error).__name__}: {error}"}
    answer.write(f"{MARK}{json.dumps(found)}\n")
    answer.close()


def _answered(question: dict[str, Any]) -> dict[str, Any]:
    try:
        versions = {name: importlib.metadata.version(name) for name in ("unbabel-comet", "torch", "transformers")}
    except importlib.metadata.PackageNotFoundError as error:
        raise Refusal(f"no {error.name}") from error
    versions["python"] = platform.python_version()
    checkpoint = _checkpoint(question)
    if "systems" not in question:
        return {"versions": versions, "checkpoint": checkpoint}
    # By name, not by a statement: no checker shall look for these where they are not.
    torch, comet = importlib.import_module("torch"), importlib.import_module("comet")
    if question["threads"]:
        torch.set_num_threads(question["threads"])
    model = comet.load_from_checkpoint(checkpoint)
    has_references = question["references"] is not None
    if model.requires_references() and not has_references:
        raise Refusal("references")
    reads = model.requires_references() or "ref" in getattr(model.hparams, "input_segments", ())
    columns = {"src": question["sources"]} | ({"ref": question["references"]} if has_references and reads else {})
    place: dict[str, Any] = {"gpus": 0}
    if question["device"] != "cpu" and torch.cuda.is_available():
        number = question["device"].partition(":")[2]
        place = {"gpus": 1, "devices": [int(number or 0)]}
    systems = []
    for translations in question["systems"]:
        rows = columns | {"mt": translations}
        samples = [dict(zip(rows, row)) for row in zip(*rows.values())]  # noqa: B905 (Python 3.8 and 3.9 run this)
        found = model.predict(samples, batch_size=16, progress_bar=False, **place)
        systems.append({"score": float(found.system_score), "lines": [float(score) for score in found.scores]})
    return {
        "versions": versions,
        "digest": _digest(checkpoint),
        # COMET's own command halves the weights, its Python does not; their scores differ in the third decimal.
        "dtype": str(next(model.parameters()).dtype).rpartition(".")[2],
        "reads_references": "ref" in columns,
        "systems": systems,
    }


def _checkpoint(question: dict[str, Any]) -> str:
    """Returns the path of the model's checkpoint.

    COMET's own download_model() is not asked: of a name that the hub's cache lacks, it makes a download from elsewhere,
    whatever it is told.
    """
    if question["checkpoint"]:
        return str(question["checkpoint"])
    hub = importlib.import_module("huggingface_hub")
    may_download = bool(question["download"])
    try:
        folder = hub.snapshot_download(repo_id=question["model"], local_files_only=not may_download)
    except FileNotFoundError as error:  # LocalEntryNotFoundError is one, also where a download finds no network
        if may_download:
            raise
        raise Refusal("not here") from error
    path = os.path.join(folder, "checkpoints", "model.ckpt")
    if not os.path.isfile(path):
        raise Refusal("no COMET model" if may_download else "not here")
    return path


def _digest(path: str) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


if __name__ == "__main__":
    main()
