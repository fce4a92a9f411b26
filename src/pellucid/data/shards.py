"""A parallel corpus as ids on disk: written once, then memory-mapped.

The files of a shard's folder:

    source.ids, target.ids           ids of all sentences, one after another, uint16 or uint32
    source.offsets, target.offsets   where each sentence starts, int64, one more than there are sentences
    (of texts alone, each its own target, there is no source)
    source.text, target.text         the sentences in UTF-8, where they are to be cut into other pieces later;
    source.bounds, target.bounds     where each starts, as above
    index.json                       counts, SHA-256 of each file, the fingerprint of what they were made from
"""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from pellucid.config.tables import from_table, to_table
from pellucid.data.concatenation import Concatenation
from pellucid.data.framing import Framing
from pellucid.data.sentences import Sentences, Texts
from pellucid.errors import ConfigError, DataError
from pellucid.files.reading import sha256_of
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.training_text import Sample, TrainingText

FORMAT = "pellucid-shard/1"
CHUNK = 20_000  # pairs encoded at a time: bounds the memory, whatever the corpus


@dataclass(frozen=True)
class Shard:
    """A parallel corpus of ids, and what was left out of it."""

    source: Sentences
    target: Sentences
    empty: int
    too_long: int
    """Left out, or cut, as was asked for."""
    first_too_long: int | None = None
    """Its place among the pairs that the shard was made from, counted from 0."""
    left_out: tuple[int, ...] = ()
    """The places of all pairs that are not in the shard."""
    corpora: tuple[tuple[int, float], ...] = ()
    """(sentences, times seen in an epoch) of each corpus in the shard; empty: all of them once."""
    block: int = 0
    """Tokens of a block where `target` is one running text, cut into blocks; 0: it is sentences."""
    framing: Framing | None = None
    """The ids that the model reads around each sentence, which are not stored; None: the start and the end token."""
    concatenation: Concatenation | None = None
    """The pairs that are joined with others each time they are drawn; None: none."""
    text: TrainingText | None = None
    """The facts about its lines; None: texts alone, or a shard of an earlier version."""

    def __len__(self) -> int:
        return len(self.source)


class Encoder(Protocol):
    """Makes ids of a side's lines."""

    @property
    def size(self) -> int:
        """Returns how many ids there are."""

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line."""


@dataclass(frozen=True)
class Encoders:
    """The encoders of the two sides, where the second is not text but labels."""

    source: Encoder
    target: Encoder


def open_or_write(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    tokenizers: Encoders | Tokenizers,
    max_length: int,
    fingerprint: str,
    keep_texts: bool = False,
    cut: bool = False,
    alone: bool = False,
) -> Shard:
    """Opens the shard in `folder` if it is whole and was made from the same text (`fingerprint`); else writes it.

    Pairs with an empty side, or more than `max_length` tokens on a side, are left out and counted; with `cut`, a side
    that is too long is cut, and has no text. With `alone` the second side is all that is stored, and stands for both.
    `pairs` is read only when the shard is written. Raises DataError where nothing is left.
    """
    shard = _open(folder, fingerprint)
    if shard is None:
        _write(folder, pairs, tokenizers, max_length, fingerprint, keep_texts, cut, alone)
        shard = _open(folder, fingerprint)
        assert shard is not None
    return shard


def stored_fingerprint(folder: Path) -> str | None:
    """Returns the fingerprint of the shard in `folder`; None where there is none, or its index is damaged."""
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
        files = {folder / name: digest for name, digest in index["sha256"].items()}
        if not all(path.is_file() and sha256_of(path) == digest for path, digest in files.items()):
            return None
        sides = {side: _mapped(folder / side, dtype) for side, dtype in index["dtype"].items()}
        source, target = sides.get("source", sides["target"]), sides["target"]
        left_out = tuple(index["left_out"])
        text = from_table(TrainingText, index["text"], "`text`") if "text" in index else None
        first = index["first_too_long"]
        numbers = [index["empty"], index["too_long"], *left_out, *([] if first is None else [first])]
        if not all(type(number) is int for number in numbers):
            return None
        return Shard(source, target, index["empty"], index["too_long"], index["first_too_long"], left_out, text=text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError):
        return None


def _write(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    tokenizers: Encoders | Tokenizers,
    max_length: int,
    fingerprint: str,
    keep_texts: bool,
    cut: bool,
    alone: bool,
) -> None:
    temporary = folder.with_name(folder.name + ".partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    with ExitStack() as files:
        source = None
        if not alone:
            source = files.enter_context(_SideWriter(temporary / "source", tokenizers.source.size, keep_texts))
        target = files.enter_context(_SideWriter(temporary / "target", tokenizers.target.size, keep_texts))
        counts = _encode(pairs, tokenizers, max_length, cut, source, target, sample := Sample())
    if not target.lengths:
        shutil.rmtree(temporary)
        raise DataError(
            f"no usable {'text' if alone else 'pair of sentences'}: {counts.empty:,} had an empty side, "
            f"{counts.too_long:,} had more than {max_length} tokens",
            "raise `data.max_length`, or look at the files",
        )
    index = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "sentences": len(target.lengths),
        **asdict(counts),
        **({"text": to_table(TrainingText.of(source.lengths, target.lengths, sample))} if source else {}),
        "dtype": ({"source": source.dtype.name} if source else {}) | {"target": target.dtype.name},
        "sha256": {path.name: sha256_of(path) for path in sorted(temporary.iterdir())},
    }
    (temporary / "index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(temporary, folder)


@dataclass
class _Counts:
    """The pairs that could not be taken as they are, by their places."""

    empty: int = 0
    too_long: int = 0
    first_too_long: int | None = None
    left_out: list[int] = field(default_factory=list)


def _encode(
    pairs: Iterable[tuple[str, str]],
    tokenizers: Encoders | Tokenizers,
    max_length: int,
    cut: bool,
    source: "_SideWriter | None",
    target: "_SideWriter",
    sample: Sample,
) -> _Counts:
    """Writes the ids of the usable pairs, and takes a sample of their texts."""
    counts = _Counts()
    stream, places = iter(pairs), count()
    while chunk := list(islice(stream, CHUNK)):
        targets = tokenizers.target.encode_lines([t for _, t in chunk])
        sources = targets if source is None else tokenizers.source.encode_lines([s for s, _ in chunk])
        for (src_text, tgt_text), src, tgt in zip(chunk, sources, targets, strict=True):
            place = next(places)
            too_long = max(len(src), len(tgt)) > max_length
            if not src or not tgt:
                counts.empty += 1
            elif too_long:
                counts.too_long += 1
                counts.first_too_long = place if counts.first_too_long is None else counts.first_too_long
            if not src or not tgt or (too_long and not cut):
                counts.left_out.append(place)
            else:
                if source is not None:
                    source.add(src[:max_length], src_text if len(src) <= max_length else "")
                target.add(tgt[:max_length], tgt_text if len(tgt) <= max_length else "")
                sample.add(src_text, tgt_text)
    return counts


class _SideWriter:
    """Appends the sentences of one side to its files."""

    def __init__(self, stem: Path, vocab_size: int, keep_texts: bool) -> None:
        self.stem = stem
        self.dtype = np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
        self.lengths: list[int] = []
        self.sizes: list[int] = []
        self.file = stem.with_suffix(".ids").open("wb")
        self.text_file = stem.with_suffix(".text").open("wb") if keep_texts else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        _starts(self.lengths).tofile(self.stem.with_suffix(".offsets"))
        if self.text_file:
            self.text_file.close()
            _starts(self.sizes).tofile(self.stem.with_suffix(".bounds"))

    def add(self, ids: list[int], text: str) -> None:
        """Appends a sentence."""
        self.file.write(np.asarray(ids, self.dtype).tobytes())
        self.lengths.append(len(ids))
        if self.text_file:
            self.sizes.append(self.text_file.write(text.encode("utf-8", "replace")))


def _starts(lengths: list[int]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _mapped(stem: Path, dtype: str) -> Sentences:
    text, texts = stem.with_suffix(".text"), None
    if text.is_file():
        texts = Texts(_array(text, "uint8"), np.fromfile(stem.with_suffix(".bounds"), dtype=np.int64))
    offsets = np.fromfile(stem.with_suffix(".offsets"), dtype=np.int64)
    return Sentences(_array(stem.with_suffix(".ids"), dtype), offsets, texts)


def _array(path: Path, dtype: str) -> npt.NDArray[Any]:
    """Returns the file's contents, read when they are used."""
    if not path.stat().st_size:  # cannot be mapped
        return np.zeros(0, np.dtype(dtype))
    return np.asarray(np.memmap(path, dtype=np.dtype(dtype), mode="r"))  # slicing a memmap itself is slow
