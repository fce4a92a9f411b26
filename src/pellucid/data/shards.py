"""A parallel corpus as ids on disk: written once, then memory-mapped.

The files in a shard's folder:

    source.ids, target.ids           ids of all sentences, one after another, uint16 or uint32
    source.offsets, target.offsets   where each sentence starts, int64, one more than there are sentences
    (monolingual text, which is its own target, has no source)
    source.text, target.text         the sentences in UTF-8, if they are segmented again in training;
    source.bounds, target.bounds     where each starts, as above
    index.json                       counts, SHA-256 of each file, fingerprint of texts and settings
"""

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
from pellucid.data.framing import TextFrame
from pellucid.data.journal import Journal
from pellucid.data.process_map import ProgressReporter, map_in_processes
from pellucid.data.sentences import PackedTexts, Sentences
from pellucid.errors import ConfigError, DataError
from pellucid.files.budget import MOST_LOG_BYTES
from pellucid.files.reading import TABLE, TEXT, hash_file
from pellucid.files.records import RecordFormat, is_whole, note_stamps
from pellucid.files.writing import replace_folder
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import Sample, TrainingTextStats

FORMAT = RecordFormat(
    "pellucid-shard/1",
    {"fingerprint": TEXT, "dtype": TABLE, "sha256": TABLE},
    most_bytes=MOST_LOG_BYTES,  # it lists the dropped pairs
)
INDEX = "index.json"
STAMPS = "stamps.json"
"""Size and time of the files when their hashes were checked: unchanged files are not read again."""
TYPES = ("uint16", "uint32")
"""The types in which ids are stored: the first one if all ids fit."""
CHUNK = 20_000  # pairs encoded at a time: bounds the memory for any corpus


@dataclass(frozen=True)
class EncodedCorpus:
    """A parallel corpus of ids, and the counts of dropped pairs."""

    source: Sentences
    target: Sentences
    empty: int
    too_long: int
    """Pairs that were too long: dropped or truncated, as requested."""
    first_too_long: int | None = None
    """The index of the first one among the input pairs, from 0."""
    left_out: tuple[int, ...] = ()
    """The indices of all pairs that are not in the shard."""
    corpora: tuple[tuple[int, float], ...] = ()
    """(sentences, times seen per epoch) of each corpus in the shard; empty: all sentences once."""
    mixes: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """(first epoch, weight of each corpus) if the weights change in a run; empty: the weights of `corpora` apply."""
    block: int = 0
    """Tokens per block if `target` is a continuous text, cut into blocks; 0: sentences."""
    framing: TextFrame | None = None
    """The ids added around each sentence, which are not stored; None: the start and the end token."""
    concatenation: Concatenation | None = None
    """The concatenation of pairs with others in each epoch; None: no concatenation."""
    text: TrainingTextStats | None = None
    """Statistics of the lines; None for monolingual text, or a shard of an earlier version."""

    def __len__(self) -> int:
        return len(self.source)


Pairs = Callable[[int], Iterator[tuple[str, str]]] | Iterable[tuple[str, str]]
"""Sentence pairs, or a function that yields the pairs from an index on."""


class LineEncoder(Protocol):
    """Encodes the lines of a side as ids."""

    @property
    def size(self) -> int:
        """Returns the number of ids."""

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line."""


@dataclass(frozen=True)
class LineEncoderPair:
    """The encoders of the two sides, if the second side consists of labels."""

    source: LineEncoder
    target: LineEncoder


def load_or_encode(
    folder: Path,
    pairs: Pairs,
    tokenizers: LineEncoderPair | TokenizerPair,
    max_length: int,
    fingerprint: str,
    keep_texts: bool = False,
    cut: bool = False,
    alone: bool = False,
    workers: int | None = None,
    log_line: Callable[[str], object] = str,
    name: str = "text",
) -> EncodedCorpus:
    """Opens the shard in `folder` if it is complete and its `fingerprint` matches; else writes it.

    Pairs with an empty side, or more than `max_length` tokens on a side, are dropped and counted; with `cut`, a side
    that is too long is truncated, and has no text. With `alone` only the second side is stored, and used for both.
    `pairs` is read only when the shard is written. An interrupted encoding is resumed. Many pairs are encoded by
    several processes, `workers` or one per core, with identical output. `log_line` is called with progress messages.
    Raises DataError, which refers to the text by its `name`, if no pair is left.
    """
    shard = _open(folder, fingerprint)
    if shard is None:
        _write(
            folder, pairs, tokenizers, _Rules(max_length, cut, alone, keep_texts), fingerprint, workers, log_line, name
        )
        shard = _open(folder, fingerprint)
        assert shard is not None
    return shard


def read_stored_fingerprint(folder: Path) -> str | None:
    """Returns the fingerprint of the shard in `folder`; None if there is no shard, or its index is damaged."""
    index = FORMAT.read(folder / INDEX)
    return None if index is None else str(index["fingerprint"])


def open_stored(folder: Path) -> EncodedCorpus | None:
    """Opens the shard in `folder`, with any fingerprint; returns None if it is missing or damaged."""
    return _open(folder, None)


def _open(folder: Path, fingerprint: str | None) -> EncodedCorpus | None:
    """Opens the shard in `folder` if it has this fingerprint; a `fingerprint` of None matches any."""
    index = FORMAT.read(folder / INDEX)
    if index is None or fingerprint not in (None, index["fingerprint"]):
        return None
    try:
        if not is_whole(folder, index["sha256"], folder / STAMPS):
            return None
        sides = {side: _map_side(folder / side, dtype) for side, dtype in index["dtype"].items()}
        source, target = sides.get("source", sides["target"]), sides["target"]
        left_out = tuple(index["left_out"])
        text = from_table(TrainingTextStats, index["text"], "`text`") if "text" in index else None
        first = index["first_too_long"]
        numbers = [index["empty"], index["too_long"], *left_out, *([] if first is None else [first])]
        if not all(type(number) is int for number in numbers):
            return None
        return EncodedCorpus(
            source, target, index["empty"], index["too_long"], index["first_too_long"], left_out, text=text
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError):
        return None


@dataclass(frozen=True)
class _Rules:
    """Rules for dropping or truncating pairs, and for storing the others."""

    max_length: int
    cut: bool
    alone: bool
    keep_texts: bool


@dataclass(frozen=True)
class _Encoded:
    """A chunk of pairs in the stored format."""

    content: dict[str, bytes]
    """The bytes to append to each file of ids and texts."""
    lengths: dict[str, npt.NDArray[np.int64]]
    """For each file of offsets, the distance to the next sentence."""
    empty: int
    too_long: list[int]
    left_out: list[int]
    """The indices, within the chunk, of the pairs that are too long, and of the pairs that are not stored."""


def _write(
    folder: Path,
    pairs: Pairs,
    tokenizers: LineEncoderPair | TokenizerPair,
    rules: _Rules,
    fingerprint: str,
    workers: int | None,
    log_line: Callable[[str], object],
    name: str,
) -> None:
    encoders = (
        {"target": tokenizers.target} if rules.alone else {"source": tokenizers.source, "target": tokenizers.target}
    )
    dtypes = {side: np.dtype(TYPES[encoder.size > 1 << 16]) for side, encoder in encoders.items()}
    places = {f"{side}.offsets": f"{side}.ids" for side in encoders}
    if rules.keep_texts:
        places |= {f"{side}.bounds": f"{side}.text" for side in encoders}
    files = sorted((*places, *places.values()))
    temporary = folder.with_name(folder.name + ".partial")
    sample, lengths = Sample(), {side: np.zeros(0, np.int64) for side in encoders}
    with Journal(temporary, f"{FORMAT.name} {fingerprint}", files) as journal:
        state = journal.state
        if state:
            sample.load(state["sample"])
            lengths = {side: np.array(counts, np.int64) for side, counts in state["lengths"].items()}
        else:
            state = {"read": 0, "counts": asdict(_Counts()), "ends": dict.fromkeys(places, 0)}
            for file in places:
                journal.append(file, np.zeros(1, np.int64).tobytes())
        counts = _Counts(**state["counts"])
        stream = pairs(state["read"]) if callable(pairs) else islice(pairs, state["read"], None)
        told = ProgressReporter(log_line, "encoding", state["read"])
        ready = partial(_ready, tokenizers, dtypes, rules)
        for chunk, encoded in map_in_processes(_chunks(stream), ready, workers):
            for file, content in encoded.content.items():
                journal.append(file, content)
            for file, found in encoded.lengths.items():
                ends = state["ends"][file] + np.cumsum(found)
                journal.append(file, ends.tobytes())
                state["ends"][file] = int(ends[-1]) if len(ends) else state["ends"][file]
            for side in encoders:
                lengths[side] = _add_counts(lengths[side], np.bincount(encoded.lengths[f"{side}.offsets"]))
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
            f"the {name} has no usable {'line' if rules.alone else 'pair of sentences'}: {counts.empty:,} had an empty "
            f"side, {counts.too_long:,} had more than {rules.max_length} tokens",
            "raise `data.max_length`, or check the files",
        )
    digests = {file: hash_file(temporary / file) for file in files}
    text = None if rules.alone else TrainingTextStats.from_lengths(lengths["source"], lengths["target"], sample)
    FORMAT.write(
        temporary / INDEX,
        fingerprint=fingerprint,
        sentences=sentences,
        **asdict(counts),
        **({} if text is None else {"text": to_table(text)}),
        dtype={side: dtype.name for side, dtype in dtypes.items()},
        sha256=digests,
    )
    note_stamps(temporary, digests, temporary / STAMPS)
    replace_folder(temporary, folder)


@dataclass
class _Counts:
    """The pairs that were dropped or truncated, by index."""

    empty: int = 0
    too_long: int = 0
    first_too_long: int | None = None
    left_out: list[int] = field(default_factory=list)

    def add(self, encoded: _Encoded, before: int) -> None:
        """Adds the counts of a chunk, which `before` pairs precede."""
        self.empty += encoded.empty
        self.too_long += len(encoded.too_long)
        if encoded.too_long and self.first_too_long is None:
            self.first_too_long = before + encoded.too_long[0]
        self.left_out += [before + place for place in encoded.left_out]


def _chunks(stream: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


def _ready(
    tokenizers: LineEncoderPair | TokenizerPair, dtypes: dict[str, np.dtype[Any]], rules: _Rules
) -> Callable[[list[tuple[str, str]]], _Encoded]:
    return partial(_encode, tokenizers=tokenizers, dtypes=dtypes, rules=rules)


def _encode(
    chunk: list[tuple[str, str]],
    tokenizers: LineEncoderPair | TokenizerPair,
    dtypes: dict[str, np.dtype[Any]],
    rules: _Rules,
) -> _Encoded:
    """Returns the ids of the usable pairs of a chunk, and the indices of the others."""
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


def _add_counts(counts: npt.NDArray[np.int64], more: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    longer, shorter = (counts, more) if len(counts) >= len(more) else (more, counts)
    found = longer.copy()
    found[: len(shorter)] += shorter
    return found


def _map_side(stem: Path, dtype: str) -> Sentences:
    """Maps one side's files. Raises ValueError if their ids are not of `dtype`, or `dtype` is not a type of ids."""
    if dtype not in TYPES:
        raise ValueError(f"ids are of type {' or '.join(TYPES)}, not {dtype!r}")
    text, texts = stem.with_suffix(".text"), None
    if text.is_file():
        texts = PackedTexts(_array(text, "uint8"), _array(stem.with_suffix(".bounds"), "int64"))
    ids, offsets = _array(stem.with_suffix(".ids"), dtype), _array(stem.with_suffix(".offsets"), "int64")
    if len(ids) != offsets[-1]:
        raise ValueError(f"{len(ids)} ids of type {dtype}, but the sentences have {offsets[-1]}")
    return Sentences(ids, offsets, texts)


def _array(path: Path, dtype: str) -> npt.NDArray[Any]:
    """Returns the memory-mapped content of the file."""
    if not path.stat().st_size:  # cannot be mapped
        return np.zeros(0, np.dtype(dtype))
    return np.asarray(np.memmap(path, dtype=np.dtype(dtype), mode="r"))  # slicing a memmap itself is slow
