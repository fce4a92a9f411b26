"""A parallel corpus as ids on disk: written once, then memory-mapped.

The files of a shard's folder:

    source.ids, target.ids           ids of all sentences, one after another, uint16 or uint32
    source.offsets, target.offsets   where each sentence starts, int64, one more than there are sentences
    index.json                       counts, SHA-256 of each file, the fingerprint of what they were made from
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.text.tokenizers import Tokenizers

FORMAT = "pellucid-shard/1"
CHUNK = 20_000  # pairs encoded at a time: bounds the memory, whatever the corpus


@dataclass(frozen=True)
class Sentences:
    """The ids of many sentences, back to back; sentence i is ids[offsets[i]:offsets[i + 1]]."""

    ids: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each sentence."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Shard:
    """A parallel corpus of ids, and what was left out of it."""

    source: Sentences
    target: Sentences
    empty: int
    too_long: int

    def __len__(self) -> int:
        return len(self.source)


def open_or_write(
    folder: Path, pairs: Iterable[tuple[str, str]], tokenizers: Tokenizers, max_length: int, fingerprint: str
) -> Shard:
    """The shard in `folder` if it is whole and was made from the same text (`fingerprint`); else it is written.

    Pairs with an empty side, or more than `max_length` tokens on a side, are left out and counted. `pairs` is read only
    when the shard is written. Raises DataError where nothing is left.
    """
    shard = _open(folder, fingerprint)
    if shard is None:
        _write(folder, pairs, tokenizers, max_length, fingerprint)
        shard = _open(folder, fingerprint)
        assert shard is not None
    return shard


def stored_fingerprint(folder: Path) -> str | None:
    """The fingerprint of the shard in `folder`; None where there is none, or its index is damaged."""
    try:
        index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        return str(index["fingerprint"]) if index["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _open(folder: Path, fingerprint: str) -> Shard | None:
    if stored_fingerprint(folder) != fingerprint:
        return None
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    try:
        if any(_sha256(folder / name) != digest for name, digest in index["sha256"].items()):
            return None
        source, target = (_mapped(folder / side, index["dtype"][side]) for side in ("source", "target"))
        return Shard(source, target, index["empty"], index["too_long"])
    except (KeyError, TypeError, AttributeError):
        return None


def _write(
    folder: Path, pairs: Iterable[tuple[str, str]], tokenizers: Tokenizers, max_length: int, fingerprint: str
) -> None:
    temporary = folder.with_name(folder.name + ".partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    with ExitStack() as files:
        source = files.enter_context(_SideWriter(temporary / "source", tokenizers.source.size))
        target = files.enter_context(_SideWriter(temporary / "target", tokenizers.target.size))
        empty, too_long = _encode(pairs, tokenizers, max_length, source, target)
    if not source.lengths:
        shutil.rmtree(temporary)
        raise DataError(
            f"no usable pair of sentences: {empty:,} had an empty side, {too_long:,} had more than {max_length} tokens",
            "raise `data.max_length`, or look at the files",
        )
    index = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "sentences": len(source.lengths),
        "empty": empty,
        "too_long": too_long,
        "dtype": {"source": source.dtype.name, "target": target.dtype.name},
        "sha256": {path.name: _sha256(path) for path in sorted(temporary.iterdir())},
    }
    (temporary / "index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(temporary, folder)


def _encode(
    pairs: Iterable[tuple[str, str]],
    tokenizers: Tokenizers,
    max_length: int,
    source: "_SideWriter",
    target: "_SideWriter",
) -> tuple[int, int]:
    """Writes the ids of the usable pairs; returns how many had an empty side, and how many were too long."""
    empty = too_long = 0
    stream = iter(pairs)
    while chunk := list(islice(stream, CHUNK)):
        encoded = (
            tokenizers.source.encode_lines([s for s, _ in chunk]),
            tokenizers.target.encode_lines([t for _, t in chunk]),
        )
        for src, tgt in zip(*encoded, strict=True):
            if not src or not tgt:
                empty += 1
            elif max(len(src), len(tgt)) > max_length:
                too_long += 1
            else:
                source.add(src)
                target.add(tgt)
    return empty, too_long


class _SideWriter:
    """Appends the sentences of one side to its files."""

    def __init__(self, stem: Path, vocab_size: int) -> None:
        self.stem = stem
        self.dtype = np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
        self.lengths: list[int] = []
        self.file = stem.with_suffix(".ids").open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        offsets = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        self.stem.with_suffix(".offsets").write_bytes(offsets.tobytes())

    def add(self, ids: list[int]) -> None:
        """Appends a sentence."""
        self.file.write(np.asarray(ids, self.dtype).tobytes())
        self.lengths.append(len(ids))


def _mapped(stem: Path, dtype: str) -> Sentences:
    offsets = np.fromfile(stem.with_suffix(".offsets"), dtype=np.int64)
    return Sentences(np.memmap(stem.with_suffix(".ids"), dtype=np.dtype(dtype), mode="r"), offsets)


def _sha256(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
