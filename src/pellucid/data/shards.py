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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pellucid.config.tables import from_table, to_table
from pellucid.data.concatenation import Concatenation
from pellucid.data.framing import Framing
from pellucid.data.journal import Journal
from pellucid.data.prepared import is_whole, note_stamps
from pellucid.data.sentences import Sentences, Texts
from pellucid.data.side_by_side import Told, worked_on
from pellucid.errors import ConfigError, DataError
from pellucid.files.reading import sha256_of
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.training_text import Sample, TrainingText

FORMAT = "pellucid-shard/1"
STAMPS = "stamps.json"
"""Size and time of the files when they were read to the end: while they stay, the files are not read again."""
TYPES = ("uint16", "uint32")
"""The types that ids are stored as: the first where it holds all of them."""
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
    mixes: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """(first epoch, weight of each corpus) where the weights change in a run; empty: those of `corpora` stay."""
    block: int = 0
    """Tokens of a block where `target` is one running text, cut into blocks; 0: it is sentences."""
    framing: Framing | None = None
    """The ids that the model reads around each sentence, which are not stored; None: the start and the end token."""
    concatenation: Concatenation | None = None
    """The pairs that are joined with others each time they are drawn; None: none."""
    in_windows: bool = False
    """True where it is trained on in the order of `windows`, and not sorted as a whole."""
    text: TrainingText | None = None
    """The facts about its lines; None: texts alone, or a shard of an earlier version."""

    def __len__(self) -> int:
        return len(self.source)


Pairs = Callable[[int], Iterator[tuple[str, str]]] | Iterable[tuple[str, str]]
"""Sentence pairs; or what gives those from some place on."""


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
    pairs: Pairs,
    tokenizers: Encoders | Tokenizers,
    max_length: int,
    fingerprint: str,
    keep_texts: bool = False,
    cut: bool = False,
    alone: bool = False,
    workers: int | None = None,
    say: Callable[[str], object] = str,
) -> Shard:
    """Opens the shard in `folder` if it is whole and was made from the same text (`fingerprint`); else writes it.

    Pairs with an empty side, or more than `max_length` tokens on a side, are left out and counted; with `cut`, a side
    that is too long is cut, and has no text. With `alone` the second side is all that is stored, and stands for both.
    `pairs` is read only when the shard is written. What was interrupted is gone on with, from where it was. Several
    processes encode many pairs, `workers` or one a core: to the same bytes. `say` is told how far they are. Raises
    DataError where nothing is left.
    """
    shard = _open(folder, fingerprint)
    if shard is None:
        _write(folder, pairs, tokenizers, _Rules(max_length, cut, alone, keep_texts), fingerprint, workers, say)
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


def open_stored(folder: Path) -> Shard | None:
    """Opens the shard in `folder`, whatever it was made from; None where there is none, or it is damaged."""
    fingerprint = stored_fingerprint(folder)
    return None if fingerprint is None else _open(folder, fingerprint)


def _open(folder: Path, fingerprint: str) -> Shard | None:
    if stored_fingerprint(folder) != fingerprint:
        return None
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    try:
        if not is_whole(folder, index["sha256"], folder / STAMPS):
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
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError):
        return None


@dataclass(frozen=True)
class _Rules:
    """The pairs that are left out or cut, and what is stored of the others."""

    max_length: int
    cut: bool
    alone: bool
    keep_texts: bool


@dataclass(frozen=True)
class _Encoded:
    """Some pairs as they are stored."""

    content: dict[str, bytes]
    """The bytes to append to each file of ids and texts."""
    lengths: dict[str, npt.NDArray[np.int64]]
    """For each file of places, how far the next sentence is."""
    empty: int
    too_long: list[int]
    left_out: list[int]
    """The places, among these pairs, of those that are too long, and of those that are not stored."""


def _write(
    folder: Path,
    pairs: Pairs,
    tokenizers: Encoders | Tokenizers,
    rules: _Rules,
    fingerprint: str,
    workers: int | None,
    say: Callable[[str], object],
) -> None:
    encoders = (
        {"target": tokenizers.target} if rules.alone else {"source": tokenizers.source, "target": tokenizers.target}
    )
    dtypes = {side: np.dtype(TYPES[encoder.size > 1 << 16]) for side, encoder in encoders.items()}
    places = {f"{side}.offsets": f"{side}.ids" for side in encoders}
    if rules.keep_texts:
        places |= {f"{side}.bounds": f"{side}.text" for side in encoders}
    names = sorted((*places, *places.values()))
    temporary = folder.with_name(folder.name + ".partial")
    sample, lengths = Sample(), {side: np.zeros(0, np.int64) for side in encoders}
    with Journal(temporary, f"{FORMAT} {fingerprint}", names) as journal:
        state = journal.state
        if state:
            sample.load(state["sample"])
            lengths = {side: np.array(counts, np.int64) for side, counts in state["lengths"].items()}
        else:
            state = {"read": 0, "counts": asdict(_Counts()), "ends": dict.fromkeys(places, 0)}
            for name in places:
                journal.append(name, np.zeros(1, np.int64).tobytes())
        counts = _Counts(**state["counts"])
        stream = pairs(state["read"]) if callable(pairs) else islice(pairs, state["read"], None)
        told = Told(say, "encoding", state["read"])
        ready = partial(_ready, tokenizers, dtypes, rules)
        for chunk, encoded in worked_on(_chunks(stream), ready, workers):
            for name, content in encoded.content.items():
                journal.append(name, content)
            for name, found in encoded.lengths.items():
                ends = state["ends"][name] + np.cumsum(found)
                journal.append(name, ends.tobytes())
                state["ends"][name] = int(ends[-1]) if len(ends) else state["ends"][name]
            for side in encoders:
                lengths[side] = _added(lengths[side], np.bincount(encoded.lengths[f"{side}.offsets"]))
            counts.add(encoded, state["read"])
            left_out = set(encoded.left_out)
            for place, pair in enumerate(chunk):
                if place not in left_out:
                    sample.add(*pair)
            state["read"] += len(chunk)
            journal.state = state | {
                "counts": asdict(counts),
                "lengths": {side: found.tolist() for side, found in lengths.items()},
                "sample": sample.to_json(),
            }
            journal.commit()
            told.hear(state["read"])
        journal.finish()
    sentences = int(lengths["target"].sum())
    if not sentences:
        shutil.rmtree(temporary)
        raise DataError(
            f"no usable {'text' if rules.alone else 'pair of sentences'}: {counts.empty:,} had an empty side, "
            f"{counts.too_long:,} had more than {rules.max_length} tokens",
            "raise `data.max_length`, or look at the files",
        )
    digests = {name: sha256_of(temporary / name) for name in names}
    text = None if rules.alone else TrainingText.of(lengths["source"], lengths["target"], sample)
    index = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "sentences": sentences,
        **asdict(counts),
        **({} if text is None else {"text": to_table(text)}),
        "dtype": {side: dtype.name for side, dtype in dtypes.items()},
        "sha256": digests,
    }
    (temporary / "index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    note_stamps(temporary, digests, temporary / STAMPS)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(temporary, folder)


@dataclass
class _Counts:
    """The pairs that could not be taken as they are, by their places."""

    empty: int = 0
    too_long: int = 0
    first_too_long: int | None = None
    left_out: list[int] = field(default_factory=list)

    def add(self, encoded: _Encoded, before: int) -> None:
        """Adds those of some pairs, `before` of which came so many others."""
        self.empty += encoded.empty
        self.too_long += len(encoded.too_long)
        if encoded.too_long and self.first_too_long is None:
            self.first_too_long = before + encoded.too_long[0]
        self.left_out += [before + place for place in encoded.left_out]


def _chunks(stream: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


def _ready(
    tokenizers: Encoders | Tokenizers, dtypes: dict[str, np.dtype[Any]], rules: _Rules
) -> Callable[[list[tuple[str, str]]], _Encoded]:
    return partial(_encode, tokenizers=tokenizers, dtypes=dtypes, rules=rules)


def _encode(
    chunk: list[tuple[str, str]], tokenizers: Encoders | Tokenizers, dtypes: dict[str, np.dtype[Any]], rules: _Rules
) -> _Encoded:
    """Returns the ids of the usable pairs of a chunk, and which are not."""
    targets = tokenizers.target.encode_lines([t for _, t in chunk])
    sources = targets if rules.alone else tokenizers.source.encode_lines([s for s, _ in chunk])
    empty, too_long, left_out, kept = 0, [], [], []
    for place, (src, tgt) in enumerate(zip(sources, targets, strict=True)):
        is_empty, is_long = not src or not tgt, max(len(src), len(tgt)) > rules.max_length
        empty += is_empty
        if is_long and not is_empty:
            too_long.append(place)
        if is_empty or (is_long and not rules.cut):
            left_out.append(place)
        else:
            kept.append(place)
    content, lengths = {}, {}
    for side, ids, column in (("source", sources, 0), ("target", targets, 1)):
        if side not in dtypes:
            continue
        rows = [ids[place][: rules.max_length] for place in kept]
        content[f"{side}.ids"] = np.fromiter(chain.from_iterable(rows), dtypes[side]).tobytes()
        lengths[f"{side}.offsets"] = np.array([len(row) for row in rows], np.int64)
        if rules.keep_texts:
            whole = [chunk[place][column] if len(ids[place]) <= rules.max_length else "" for place in kept]
            texts = [text.encode("utf-8", "replace") for text in whole]
            content[f"{side}.text"] = b"".join(texts)
            lengths[f"{side}.bounds"] = np.array([len(text) for text in texts], np.int64)
    return _Encoded(content, lengths, empty, too_long, left_out)


def _added(counts: npt.NDArray[np.int64], more: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    longer, shorter = (counts, more) if len(counts) >= len(more) else (more, counts)
    found = longer.copy()
    found[: len(shorter)] += shorter
    return found


def _mapped(stem: Path, dtype: str) -> Sentences:
    """Maps one side's files. Raises ValueError where their ids are not of `dtype`, or that is no type of ids."""
    if dtype not in TYPES:
        raise ValueError(f"ids are of type {' or '.join(TYPES)}, not {dtype!r}")
    text, texts = stem.with_suffix(".text"), None
    if text.is_file():
        texts = Texts(_array(text, "uint8"), _array(stem.with_suffix(".bounds"), "int64"))
    ids, offsets = _array(stem.with_suffix(".ids"), dtype), _array(stem.with_suffix(".offsets"), "int64")
    if len(ids) != offsets[-1]:
        raise ValueError(f"{len(ids)} ids of type {dtype}, where the sentences have {offsets[-1]}")
    return Sentences(ids, offsets, texts)


def _array(path: Path, dtype: str) -> npt.NDArray[Any]:
    """Returns the file's contents, read when they are used."""
    if not path.stat().st_size:  # cannot be mapped
        return np.zeros(0, np.dtype(dtype))
    return np.asarray(np.memmap(path, dtype=np.dtype(dtype), mode="r"))  # slicing a memmap itself is slow
