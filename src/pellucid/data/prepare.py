"""From text files to the training data: checks the lines, trains the tokenizers, writes the ids."""

import contextlib
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain, compress, zip_longest
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from pellucid.config import TASKS, DataConfig, DecodeConfig, ModelConfig
from pellucid.config.data import language_tag
from pellucid.config.tables import restore_old_names
from pellucid.config.tasks import TrainedTask
from pellucid.data.concatenation import Concatenation
from pellucid.data.continuous_text import ContinuousText, open_continuous_text
from pellucid.data.dataset_cache import DatasetCache
from pellucid.data.framing import TextFrame
from pellucid.data.in_memory import InMemoryText
from pellucid.data.inspection import Inspection, find_nth_true
from pellucid.data.issues import Issue, IssueKind
from pellucid.data.labels import Labels
from pellucid.data.lines import hash_path
from pellucid.data.pair_checks import HeldOut
from pellucid.data.parallel import MOST_NAMED, ParallelText, describe_texts, list_held_out_texts, parallel_texts
from pellucid.data.shards import EncodedCorpus, LineEncoderPair, load_or_encode, open_stored, read_stored_fingerprint
from pellucid.data.streamed_inspection import Choose, hash_sides, inspect_corpus, inspect_to_folder, open_inspection
from pellucid.data.window_order import needs_windows
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.files.reading import read_settings
from pellucid.files.writing import atomic_path, workspace, write_json, write_text
from pellucid.text.tokenizer import SPECIAL_TOKENS, UNK_ID, TokenizerBase
from pellucid.text.tokenizer_training import WITH_SYMBOLS, train_tokenizer
from pellucid.text.tokenizers import TokenizerPair

Pair = tuple[str, str]
Side = Literal["source", "target", "both"]
TEXTS = ("src", "tgt", "valid_src", "valid_tgt")
IN_WINDOWS = "/windows"
"""Suffix of the fingerprint of a run whose epochs have several windows."""
LEARNED_FROM = 150_000
"""Pairs that a tokenizer is trained on if the corpus is larger."""
MOST_COUNTED = 1 << 24
"""Tokens at most among which unknown tokens are counted."""
UNKNOWN = 0.001
"""Smallest fraction of unknown tokens that is logged."""
MOST_LOOKS = 3
"""Times at most that a tokenizer is trained again without the pairs that have too many of its tokens."""
SPLIT_SEED = 20170612  # any fixed number: the pairs held out must be the same in each run
RECORD = "corpus.json"
PASSAGE = 60
"""Tokens per passage of a continuous text."""
AROUND_TEXTS = (
    "source_prefix",
    "add_source_eos",
    "source_suffix",
    "target_prefix",
    "suppress_tokens",
    "banned",
    "end_ids",
)
"""The settings of [decode] that determine which ids a model reads and may generate, independent of the search."""
OF_INSPECTION = (
    "tsv_columns", "jsonl_keys", "on_bad_utf8", "on_copy", "on_duplicate", "on_too_long", "normalize", "tokenizer",
    "max_length", "valid_size", "corpus_tags",
)  # fmt: skip
"""The settings that determine the issues found in texts, and which pairs are used."""
OF_TOKENIZERS = (
    "tokenizer", "vocab_size", "tgt_vocab_size", "joint_vocab", "lowercase", "min_frequency",
    "byte_fallback", "normalize", "symbols", "corpus_tags",
)  # fmt: skip
"""The settings that determine the tokenizers trained on a text."""
TABLE = "table.json"
NEWER = (
    "concatenate", "corpus_weights_from", "sampling_temperature", "symbols", "corpus_tags", "src_lang", "tgt_lang",
    "add_language",
    "max_new_pieces",
)  # fmt: skip
"""Settings of [data] that runs of earlier versions lack; such runs can be resumed: a default value changes nothing."""


@dataclass(frozen=True)
class CacheEntry:
    """The cache folder of certain texts, which contains their inspection already."""

    prepared: DatasetCache
    folder: Path
    digests: dict[str, list[str]]
    """The SHA-256 of each text, by the setting that names it."""


@dataclass(frozen=True)
class Corpus:
    """The training pairs, read from disk again in each iteration, and the validation pairs."""

    data: DataConfig
    inspection: Inspection
    used: npt.NDArray[np.bool_]
    """True for each training pair: neither dropped, nor held out, nor with a source that is held out."""
    valid: list[Pair]
    valid_inspection: Inspection
    """The issues of the validation text; without a validation text, of the training text that it is split from."""
    valid_used: npt.NDArray[np.bool_]
    """True for each inspected pair that is one of `valid`."""
    task: TrainedTask = "translate"
    """The task, which defines a pair: a sentence and its translation, a text and its label, or a text twice."""
    given: Mapping[str, InMemoryText] = field(default_factory=dict)
    """The in-memory texts passed instead of files, by "train" and "valid"; empty if the texts are files."""
    kept: CacheEntry | None = None
    """The cache in which derived data is stored for other runs; None without a cache."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self.used))

    @property
    def is_large(self) -> bool:
        """True if there are too many pairs to sort at once, or to train a tokenizer on all of them."""
        return needs_windows(len(self))

    @property
    def findings(self) -> list[Issue]:
        """All issues found in the texts except "too_long", which requires a tokenizer."""
        found = [*self.inspection.findings]
        if self.valid_inspection is not self.inspection:
            found += self.valid_inspection.findings
        return [finding for finding in found if finding.fault != "too_long"]

    @property
    def valid_languages(self) -> tuple[str, ...]:
        """The language pair of each pair in `valid`, as in "de-en"; empty if no language pairs are named."""
        found = self.valid_inspection
        if not any(text.pair for text in found.texts):
            return ()
        ends = np.cumsum(found.counts)
        places = np.searchsorted(ends, np.flatnonzero(self.valid_used), side="right")
        return tuple(found.texts[place].pair for place in places.tolist())

    def train(self, skip: int = 0) -> Iterator[Pair]:
        """Returns the training pairs in their order, read from disk, without the first `skip`."""
        return self.inspection.pairs(self.used, self.data.on_bad_utf8, skip)

    def report(self) -> str:
        """Returns the sizes of the texts and their issues, one per line."""
        texts, counts, found = self.inspection.texts, self.inspection.counts, self.findings
        unit = TASKS[self.task].trained_on
        read = [f"{count:,} {unit} in {text}" for text, count in zip(texts, counts, strict=True)]
        if len(texts) > MOST_NAMED:
            read = [f"{sum(counts):,} {unit} in {describe_texts(texts)}"]
        head = f"texts: {', '.join(read)}" + ("" if found else "; no issue found")
        return "\n".join([head, *(f"  {finding}".replace("\n", "\n    ") for finding in found)])

    @cached_property
    def digests(self) -> dict[str, list[str]]:
        """The SHA-256 of each training and validation text, by the setting that names it."""
        if self.kept is not None:
            return self.kept.digests
        return _digests(self.data, self.given, alone=self.task == "generate")


@dataclass(frozen=True)
class TrainingData:
    """The data that training reads, as ids on disk."""

    tokenizers: TokenizerPair
    train: EncodedCorpus
    valid: EncodedCorpus
    valid_pairs: list[Pair]
    labels: tuple[str, ...] = ()
    """The names of a classifier's classes."""
    valid_languages: tuple[str, ...] = ()
    """The language pair of each pair in `valid_pairs`, as in "de-en"; empty if there is one language pair."""
    valid_rows_of: tuple[str, ...] = ()
    """The language pair of each row of `valid`."""
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    """The ids around the validation texts, as a translator reads and writes them, and the suppressed ids."""
    valid_bytes: int = 0
    """The size of the validation targets in bytes of UTF-8, with line ends; 0 if the targets are labels."""
    mark: str = ""
    """A fingerprint of texts, settings and tokenizers."""

    def read_as(self, decode: DecodeConfig, model: ModelConfig) -> Self:
        """Returns a copy with the framing of a model that is used with `decode`; a classifier's texts are unchanged."""
        if model.family == "encoder":
            return self
        framing, around = TextFrame.from_config(decode, model), {name: getattr(decode, name) for name in AROUND_TEXTS}
        train, valid = replace(self.train, framing=framing), replace(self.valid, framing=framing)
        return replace(self, train=train, valid=valid, decode=DecodeConfig(**around))

    def concatenate(self, part: float, seed: int, longest: int, data: DataConfig) -> Self:
        """Returns a copy in which a fraction `part` of the training pairs is concatenated with others; unchanged if 0.

        A concatenated line begins with one tag of `data`, as does each line that is translated.
        """
        if not part:
            return self
        train = self.train
        marks = frozenset([*data.symbols, *data.corpus_tags, *map(language_tag, data.files("tgt_lang"))])
        joining = Concatenation(train.source, train.target, train.corpora, self.tokenizers, part, seed, longest, marks)
        return replace(self, train=replace(train, concatenation=joining))


def open_corpus(
    data: DataConfig,
    task: TrainedTask = "translate",
    given: Mapping[str, InMemoryText] | None = None,
    prepared: DatasetCache | None = None,
) -> Corpus | ContinuousText:
    """Reads the texts of `data`, or the texts `given` instead of files, from the first line to the last.

    The inspection of files is stored in `prepared`, if given, and read from there the next time.

    Raises ConfigError if a text is not named; DataError for texts that cannot be used for training: a missing or
    damaged file, a line that is malformed, not UTF-8 (but see `data.on_bad_utf8`), or without its other side.
    """
    given = given or {}
    _check_rereadable_all(data)
    if task == "generate" and data.text == "continuous":
        return open_continuous_text(data, given)
    alone = not TASKS[task].targets
    texts: tuple[ParallelText, ...]
    valid_texts: tuple[ParallelText, ...]
    if given:
        if data.corpus_weights and len(data.corpus_weights) != (len(data.corpus_weights_from) or 1):
            raise ConfigError(
                f"`data.corpus_weights` ({list(data.corpus_weights)}) must have one value per corpus (1)",
                "leave it out: data passed in memory is one corpus",
            )
        if data.tgt_lang:
            raise ConfigError(
                f"`data.src_lang=` and `data.tgt_lang=` ({', '.join(data.files('tgt_lang'))}) are for corpora in files",
                "write each language pair to separate files",
            )
        if data.corpus_tags:
            raise ConfigError(
                f"`data.corpus_tags` ({list(data.corpus_tags)}) are for corpora in files",
                "add the tag to each source yourself",
            )
        texts, valid_texts = (given["train"],), (given["valid"],) if "valid" in given else ()
    else:
        texts, valid_texts = parallel_texts(data, alone=alone), list_held_out_texts(data, "valid", alone=alone)
    choose = partial(_choose_held_out, data=data, task=task, has_valid=bool(valid_texts))
    kept = None
    if prepared is not None and not given:
        inspection, kept = _inspect_once(texts, data, task, prepared, choose)
    else:
        held_out = _read_sources_in_memory(given) if given else read_held_out_sources(data)
        inspection = inspect_corpus(texts, data, held_out, choose=choose)
    if valid_texts:
        # Copies and duplicates are valid validation pairs.
        checked = inspect_corpus(valid_texts, replace(data, on_copy="keep", on_duplicate="keep"), {})
        checked.check()
        checked.check_used("validation text")
        valid, valid_used = list(checked.pairs(checked.used, data.on_bad_utf8)), checked.used
    else:
        _check_some_left(inspection, task)
        checked, valid, valid_used = inspection, list(inspection.valid), inspection.held_out
    return Corpus(data, inspection, inspection.trained, valid, checked, valid_used, task, given, kept)


def _inspect_once(
    texts: Sequence[ParallelText], data: DataConfig, task: TrainedTask, prepared: DatasetCache, choose: Choose
) -> tuple[Inspection, CacheEntry]:
    """Returns the inspection cached in `prepared` and its folder; inspects the texts if there is none."""
    tests = [path for path in (data.test_src, data.test_tgt) if path and Path(path).is_file()]
    named = {name: list(data.files(name)) for name in TEXTS if data.files(name)}
    known = prepared.digests([*(path for paths in named.values() for path in paths), *tests])
    digests = {name: [known[path] for path in paths] for name, paths in named.items()}
    settings = restore_old_names("data", {name: getattr(data, name) for name in OF_INSPECTION})
    if data.tgt_lang:  # otherwise the folders of earlier versions keep their names
        settings |= {name: data.files(name) for name in ("src_lang", "tgt_lang")}
    folder = prepared.get_folder(
        {"texts": digests, "test": [known[path] for path in tests], "task": task, "settings": settings}
    )
    found = open_inspection(folder / "inspection", texts)
    if found is None:
        with prepared.lock(folder):
            found = open_inspection(folder / "inspection", texts)
            if found is None:
                prepared.log_line(f"inspecting the texts; the results are stored in `{folder}`")
                inspect_to_folder(
                    folder / "inspection", texts, data, read_held_out_sources(data), choose, log_line=prepared.log_line
                )
                found = open_inspection(folder / "inspection", texts)
                assert found is not None
    return found, CacheEntry(prepared, folder, digests)


def _read_sources_in_memory(given: Mapping[str, InMemoryText]) -> HeldOut:
    """Returns the source sentences of the validation and test sets among in-memory texts."""
    names: tuple[IssueKind, ...] = ("valid", "test")
    return {name: (given[name].src, list(given[name].sources())) for name in names if name in given}


def read_held_out_sources(data: DataConfig) -> HeldOut:
    """Returns the source sentences of the validation and test sets, as far as the files are named and exist."""
    found: dict[IssueKind, tuple[str, list[str]]] = {}
    names: tuple[IssueKind, ...] = ("valid", "test")
    for name in names:
        sources, targets = data.files(f"{name}_src"), data.files(f"{name}_tgt")
        there = [
            ParallelText(src, tgt, data.tsv_columns, data.jsonl_keys)
            for src, tgt in zip_longest(sources, targets[: len(sources)], fillvalue="")
            if Path(src).is_file()
        ]
        if there:
            found[name] = " + ".join(text.src for text in there), [line for text in there for line in text.sources()]
    return found


def read_validation_pairs(run: Path, tokenizers: TokenizerPair, most: int) -> list[Pair]:
    """Returns the first validation pairs of a run, decoded from the ids in its folder.

    For a classifier the target is a class, for monolingual text the text itself; for continuous text each pair is a
    passage of 60 tokens. Returns an empty list if the folder has no ids, such as a model folder, or they are damaged.
    """
    shard = open_stored(run / "data" / "valid")
    if shard is None:
        return []
    if shard.source is shard.target and len(shard.target) < most:
        ids = shard.target.ids[: most * PASSAGE].tolist()
        passages = (tokenizers.target.decode(ids[at : at + PASSAGE]) for at in range(0, len(ids), PASSAGE))
        return [(passage, passage) for passage in passages]
    return [
        (tokenizers.source.decode(shard.source[row].tolist()), tokenizers.target.decode(shard.target[row].tolist()))
        for row in range(min(most, len(shard.target)))
    ]


def train_tokenizers(corpus: Corpus | ContinuousText, log_line: Callable[[str], object] = str) -> TokenizerPair:
    """Returns tokenizers trained on the training text only: on both sides of sentence pairs, else on texts, not labels.

    The tokenizers of a cached corpus are cached with it. `log_line` is called with messages, one sentence each.
    """
    kept = corpus.kept if isinstance(corpus, Corpus) else None
    if kept is None or Path(corpus.data.tokenizer).is_file():
        return _train_tokenizers(corpus, log_line)
    assert isinstance(corpus, Corpus)
    settings = restore_old_names("data", {name: getattr(corpus.data, name) for name in OF_TOKENIZERS})
    settings["learned_from"] = _count_tokenizer_pairs(corpus)
    settings["max_length"] = corpus.data.max_length  # also excludes tokenizers that were trained on dropped pairs
    if corpus.data.tgt_lang:
        settings["tgt_lang"] = corpus.data.files("tgt_lang")
    folder = kept.folder / f"tokenizer-{_digest(settings)[:16]}"
    with kept.prepared.lock(kept.folder):
        try:
            return TokenizerPair.load(folder, read_settings(folder / TABLE))
        except CheckpointError:  # missing or damaged
            shutil.rmtree(folder, ignore_errors=True)
        tokenizers = _train_tokenizers(corpus, log_line)
        folder.mkdir()
        write_json(folder / TABLE, tokenizers.save(folder))
        return tokenizers


def _train_tokenizers(corpus: Corpus | ContinuousText, log_line: Callable[[str], object]) -> TokenizerPair:
    data = corpus.data
    if isinstance(corpus, Corpus) and (wanted := _count_tokenizer_pairs(corpus)) < len(corpus):
        log_line(f"training the tokenizer on about {wanted:,} of the {len(corpus):,} {TASKS[corpus.task].trained_on}")
    # In continuous text, spaces and line ends are part of the text.
    normalization = "none" if isinstance(corpus, ContinuousText) else data.normalize

    # A custom tokenizer may have the tags; no symbol can be added to it.
    tags = data.corpus_tags or tuple(map(language_tag, dict.fromkeys(data.files("tgt_lang"))))
    symbols = (*data.symbols, *(tag for tag in tags if data.tokenizer in WITH_SYMBOLS and tag not in data.symbols))

    def train(side: Side, vocab_size: int, long: Mapping[int, Pair | None]) -> TokenizerBase:
        return train_tokenizer(
            data.tokenizer, SideText(corpus, side, long), vocab_size=vocab_size, lowercase=data.lowercase,
            min_frequency=data.min_frequency, byte_fallback=data.byte_fallback, normalize=normalization,
            symbols=symbols, log_line=log_line,
        )  # fmt: skip

    def train_without(long: Mapping[int, Pair | None]) -> TokenizerPair:
        if isinstance(corpus, ContinuousText) or corpus.task != "translate" or data.joint_vocab:
            of_pairs = isinstance(corpus, Corpus) and corpus.task == "translate"
            return TokenizerPair(train("both" if of_pairs else "source", data.vocab_size, long))
        target_size = data.tgt_vocab_size or data.vocab_size
        return TokenizerPair(train("source", data.vocab_size, long), train("target", target_size, long))

    tokenizers, long = train_without({}), dict[int, Pair | None]()
    if isinstance(corpus, ContinuousText) or data.tokenizer == "bytes" or Path(data.tokenizer).is_file():
        return tokenizers
    for _ in range(MOST_LOOKS):
        found = _too_long_to_learn(corpus, tokenizers)
        if found.keys() <= long.keys() or len(long | found) >= _count_tokenizer_pairs(corpus):
            break
        long |= found
        what = "whole" if data.on_too_long == "cut" else "from"
        log_line(f"the tokenizer does not learn {what} {len(long):,} {TASKS[corpus.task].trained_on} that are too long")
        tokenizers = train_without(long)
    return tokenizers


def _too_long_to_learn(corpus: Corpus, tokenizers: TokenizerPair) -> dict[int, Pair | None]:
    """Returns the tokenizer's training pairs with more than `max_length` tokens, by index: the truncated pair if such
    pairs are cut, None if they are dropped.
    """
    data, found = corpus.data, dict[int, Pair | None]()
    encoders = [tokenizers.source, tokenizers.target] if corpus.task == "translate" else [tokenizers.source]
    for place, pair in enumerate(_to_learn_from(corpus)):
        texts = list(pair)
        for side, tokenizer in enumerate(encoders):
            # A text has at most one token per byte, plus one for its beginning.
            if len(pair[side]) >= data.max_length or len(pair[side].encode("utf-8", "replace")) >= data.max_length:
                (ids,) = tokenizer.encode_lines([pair[side]])
                if len(ids) > data.max_length:
                    texts[side] = tokenizer.decode(ids[: data.max_length])
        if texts != list(pair):
            found[place] = (texts[0], texts[1]) if data.on_too_long == "cut" else None
    return found


@dataclass(frozen=True)
class SideText:
    """The lines of the training text, of one side or of both in turn, read from disk in each iteration."""

    corpus: Corpus | ContinuousText
    side: Side
    long: Mapping[int, Pair | None] = field(default_factory=dict)
    """Replacements of pairs, by index; None skips the pair."""

    def __iter__(self) -> Iterator[str]:
        pairs = _to_learn_from(self.corpus) if isinstance(self.corpus, Corpus) else self.corpus.train()
        if self.long:
            others = (self.long.get(place, pair) for place, pair in enumerate(pairs))
            pairs = (pair for pair in others if pair is not None)
        if self.side == "both":
            return chain.from_iterable(pairs)
        return (pair[self.side == "target"] for pair in pairs)


def _to_learn_from(corpus: Corpus) -> Iterator[Pair]:
    """Returns the training pairs; if more than `tokenizer_sample_size`, a sample of about that size, chosen by hash.

    The sample of a cached corpus is read from its own file after the first time.
    """
    wanted, there = _count_tokenizer_pairs(corpus), len(corpus)
    if there == wanted:
        return corpus.train()
    most = (wanted << 64) // there
    if corpus.kept is None:
        return _below(corpus, most)
    path = corpus.kept.folder / f"sample-{wanted}-{corpus.data.valid_size}.jsonl"
    if not path.is_file():
        with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(pair, ensure_ascii=False) + "\n" for pair in _below(corpus, most))
    return ((source, target) for source, target in map(json.loads, _read_and_close(path)))


def _below(corpus: Corpus, most: int) -> Iterator[Pair]:
    return (pair for pair in corpus.train() if int.from_bytes(hash_sides(*pair), "little") < most)


def _read_and_close(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from file


def _count_tokenizer_pairs(corpus: Corpus) -> int:
    """Returns the number of pairs that a tokenizer is trained on."""
    there = len(corpus)
    usual = LEARNED_FROM if corpus.is_large else there
    return min(there, corpus.data.tokenizer_sample_size or usual)


def prepare(
    corpus: Corpus | ContinuousText,
    tokenizers: TokenizerPair,
    folder: Path,
    log_line: Callable[[str], None],
    resuming: bool,
    labels: Labels | None = None,
    known: str = "",
    writes: bool = True,
) -> TrainingData:
    """Writes the corpus as shards in `folder`, or opens existing ones; writes its record to the parent folder.

    Args:
        labels: the labels of a classifier's corpus.
        writes: If False, another process has just written the shards, and they are opened.
        known: the fingerprint in the run's checkpoints; if empty, the fingerprint of the shard is used.

    Raises DataError if a resumed run has a different corpus than it was started with.
    """
    data = corpus.data
    if resuming:
        check_same_texts(corpus, tokenizers, folder, known)
    mark = _fingerprint(data, corpus.digests, tokenizers)
    cut, keep_texts = data.on_too_long == "cut", data.subword_regularization > 0 or data.concatenate > 0
    if isinstance(corpus, ContinuousText):
        return _prepare_running(corpus, tokenizers, folder, log_line, mark, writes)
    encoders = LineEncoderPair(tokenizers.source, labels) if labels else tokenizers
    alone = not TASKS[corpus.task].targets
    write = partial(
        load_or_encode,
        tokenizers=encoders,
        max_length=data.max_length,
        fingerprint=mark,
        cut=cut,
        alone=alone,
        log_line=log_line,
    )
    place = folder
    holding: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if corpus.kept is not None:
        place = corpus.kept.folder / f"ids-{_digest([mark, keep_texts])[:16]}"
        holding = corpus.kept.prepared.lock(corpus.kept.folder)
    with holding:
        train = write(place / "train", corpus.train, keep_texts=keep_texts, name="training text")
        train = _apply_corpus_weights(train, corpus)
        valid = write(place / "valid", corpus.valid, name="validation text")
    if corpus.is_large:
        mark += IN_WINDOWS
    long_train = _too_long(train, data, corpus.inspection, corpus.used)
    long_valid = _too_long(valid, data, corpus.valid_inspection, corpus.valid_used)
    for name, shard, long in (("training", train, long_train), ("validation", valid, long_valid)):
        log_line("\n".join([_describe_size(name, shard, corpus.task), *(f"  {finding}" for finding in long)]))
    of_sides = (
        (("target", tokenizers.target),) if alone else (("source", tokenizers.source), ("target", tokenizers.target))
    )
    for side, tokenizer in of_sides[: 1 if labels else 2]:
        _say_unknown(getattr(train, side).ids, "" if alone or labels else f"{side} ", tokenizer, log_line)
    if writes:
        write_text(folder.parent / RECORD, _record(corpus, train, valid, [*long_train, *long_valid]))
    is_usable = [bool(pair[0].strip() and pair[1].strip()) for pair in corpus.valid]
    usable, of = list(compress(corpus.valid, is_usable)), corpus.valid_languages
    rows_of = tuple(name for place, name in enumerate(of) if place not in {*valid.left_out})
    names, size = (labels.names, 0) if labels else ((), _target_bytes(corpus, valid, tokenizers))
    return TrainingData(
        tokenizers, train, valid, usable, names, tuple(compress(of, is_usable)), rows_of, valid_bytes=size, mark=mark
    )


def check_same_texts(corpus: Corpus | ContinuousText, tokenizers: TokenizerPair, folder: Path, known: str = "") -> None:
    """Raises DataError if the texts, settings or tokenizers have changed since the start of a run.

    Args:
        folder: the folder of the run's shards.
        known: the fingerprint in its checkpoints; if empty, the fingerprint of its shards is used.
    """
    began_with = known.removesuffix(IN_WINDOWS) or read_stored_fingerprint(folder / "train")
    if began_with not in (None, _fingerprint(corpus.data, corpus.digests, tokenizers)):
        raise make_texts_changed_error(folder.parent)


def make_texts_changed_error(run: Path, changed: Sequence[str] = ()) -> DataError:
    """Returns the error for a resumed run whose texts differ from the original ones; `changed` lists known changes."""
    which = f": {', '.join(f'`{path}`' for path in changed)}" if changed else ""
    return DataError(
        f"the texts differ from those that the run in `{run}` was started with{which}",
        "use the same texts, or start over with `fresh=True`",
    )


def _target_bytes(corpus: Corpus, valid: EncodedCorpus, tokenizers: TokenizerPair) -> int:
    """Returns the bytes of the targets in the validation shard, with line ends; cut targets count as truncated."""
    left_out, room = set(valid.left_out), corpus.data.max_length
    texts = [target for place, (_, target) in enumerate(corpus.valid) if place not in left_out]
    if valid.too_long and corpus.data.on_too_long == "cut":
        long = [len(ids) > room for ids in tokenizers.target.encode_lines(texts)]
        kept = (tokenizers.target.decode(ids.tolist()) for ids in (valid.target[i] for i in range(len(valid))))
        texts = [rest if cut else text for text, rest, cut in zip(texts, kept, long, strict=True)]
    return sum(len(text.encode("utf-8", "replace")) + 1 for text in texts)


def _prepare_running(
    corpus: ContinuousText,
    tokenizers: TokenizerPair,
    folder: Path,
    log_line: Callable[[str], None],
    mark: str,
    writes: bool,
) -> TrainingData:
    """Writes a continuous text as shards of its chunks. The ids are contiguous and are cut into blocks later."""
    write = partial(load_or_encode, tokenizers=tokenizers, max_length=sys.maxsize, fingerprint=mark, alone=True)
    block = corpus.data.max_length
    train = replace(write(folder / "train", corpus.train()), block=block)
    valid = replace(write(folder / "valid", corpus.valid), block=block)
    sizes = {"training": len(train.target.ids), "validation": len(valid.target.ids)}
    for name, tokens in sizes.items():
        log_line(f"{name}: {tokens:,} tokens of continuous text, in blocks of {block:,}")
    _say_unknown(train.target.ids, "", tokenizers.target, log_line)
    table = {
        "format": "pellucid-corpus/1",
        "texts": [{"src": path} for path in corpus.data.files("src") or [str(corpus.given["train"].src)]],
        "sha256": corpus.digests,
        **({"given": True} if corpus.given else {}),
        **{name: {"tokens": tokens} for name, tokens in sizes.items()},
        "findings": [],
    }
    if writes:
        write_json(folder.parent / RECORD, table)
    size = sum(len(chunk.encode("utf-8", "replace")) for chunk, _ in corpus.valid)
    return TrainingData(tokenizers, train, valid, [], valid_bytes=size, mark=mark)


def _check_some_left(inspection: Inspection, task: TrainedTask) -> None:
    """Raises DataError if holding out the validation pairs leaves no training pairs, since they share few sources."""
    if np.any(inspection.trained):
        return
    things, usable = TASKS[task].trained_on, int(np.count_nonzero(inspection.used))
    raise DataError(
        f"no training text is left in {' and '.join(map(str, inspection.texts[:3]))}: {len(inspection.valid):,} of "
        f"{usable:,} {things} are held out for validation, and the sources of all others are held out, too",
        f"use more different {things}, or set a validation text with `data.valid_src=`",
    )


def _choose_held_out(
    inspection: Inspection, usable: int, *, data: DataConfig, task: TrainedTask, has_valid: bool
) -> npt.NDArray[np.int64]:
    """Returns the indices, among the usable pairs, of the pairs to hold out for validation: a random sample of at most
    a tenth; none if there is a validation text.

    Raises DataError for texts that cannot be trained on, and for too few pairs.
    """
    inspection.check()
    inspection.check_used("training text")
    size = 0 if has_valid else min(data.valid_size, usable // 10)
    if size == 0 and not has_valid:
        single = not TASKS[task].targets
        one = len(inspection.texts) == 1 and not inspection.texts[0].tgt
        causes = inspection.causes("empty", "utf8")
        raise DataError(
            f"{describe_texts(inspection.texts)} {'has' if one else 'have'} {usable} usable "
            f"{TASKS[task].trained_on}: too few to hold out a tenth for validation{causes}",
            "set a validation text with `data.valid_src=`"
            if single
            else "set validation texts with `data.valid_src=` and `data.valid_tgt=`",
        )
    return np.random.default_rng(SPLIT_SEED).choice(usable, size, replace=False)


def _apply_corpus_weights(shard: EncodedCorpus, corpus: Corpus) -> EncodedCorpus:
    """Returns the shard with its corpora and their sampling weights."""
    counts = corpus.inspection.counts
    if not corpus.data.corpus_weights and not corpus.data.sampling_temperature:
        return shard
    ends = np.cumsum([0, *(np.count_nonzero(part) for part in np.split(corpus.used, np.cumsum(counts)[:-1]))])
    sizes = np.diff(ends - np.searchsorted(np.asarray(shard.left_out, np.int64), ends)).tolist()
    mixes = make_mixing_schedule(corpus.data, sizes)
    for _, weights in mixes:
        if not any(round(size * weight) for size, weight in zip(sizes, weights, strict=True)):
            raise ConfigError(
                f"`data.corpus_weights` ({list(weights)}) select no pair of {sizes}", "use larger weights"
            )
    return replace(shard, corpora=tuple(zip(sizes, mixes[0][1], strict=True)), mixes=mixes if len(mixes) > 1 else ())


def make_mixing_schedule(data: DataConfig, sizes: Sequence[int]) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Returns (first epoch, weight of each corpus) of each mix, for corpora of the given sizes in pairs.

    With temperature T a corpus of n pairs has the weight n ^ (1 / T - 1), scaled so that the epoch keeps its length
    (Arivazhagan et al. 2019, "Massively multilingual neural machine translation in the wild", section 4.3).
    """
    if data.sampling_temperature:
        parts = [size ** (1 / data.sampling_temperature) for size in sizes]
        times = sum(sizes) / sum(parts)
        weights = tuple(times * part / size if size else 0.0 for part, size in zip(parts, sizes, strict=True))
        return ((0, weights),)
    starts, each = data.corpus_weights_from or (0,), len(sizes)
    given = data.corpus_weights or (1.0,) * each
    return tuple((start, given[place * each : (place + 1) * each]) for place, start in enumerate(starts))


def _too_long(
    shard: EncodedCorpus, data: DataConfig, inspection: Inspection, used: npt.NDArray[np.bool_]
) -> list[Issue]:
    """Returns the issue for pairs of a shard with too many tokens, with count and first place; or an empty list."""
    if shard.first_too_long is None:
        return []
    path, line = inspection.place(find_nth_true(used, shard.first_too_long))
    effect = "cut" if data.on_too_long == "cut" else "left out"
    return [Issue("too_long", shard.too_long, path, line, "", f"pairs beyond {data.max_length} tokens", effect)]


def _say_unknown(ids: npt.NDArray[Any], side: str, tokenizer: TokenizerBase, log_line: Callable[[str], None]) -> None:
    """Logs the fraction of unknown tokens in the training text if it is at least a thousandth."""
    some = ids[:MOST_COUNTED]
    part = np.count_nonzero(some == tokenizer.unk_id) / max(len(some), 1)
    if part >= UNKNOWN:
        log_line(
            f"{100 * part:.2g} % of the {side}tokens of the training text are {SPECIAL_TOKENS[UNK_ID]}: the model "
            "cannot read or write these; a larger `data.vocab_size` covers more of them, and `data.byte_fallback` "
            "covers all characters"
        )


def _describe_size(name: str, shard: EncodedCorpus, task: str) -> str:
    source, target = len(shard.source.ids), len(shard.target.ids)
    tokens = (
        f"{source:,} source and {target:,} target tokens"
        if TASKS[task].family == "encoder-decoder"
        else f"{source:,} tokens"
    )
    sampled = sum(size * weight for size, weight in shard.corpora)
    later = f" in the first of {len(shard.mixes)} mixes" if shard.mixes else ""
    return (
        f"{name}: {len(shard):,} {TASKS[task].trained_on}, {tokens}"
        + (f"; {shard.empty:,} more without a token on a side" if shard.empty else "")
        + (f"; an epoch samples {sampled:,.0f} {TASKS[task].trained_on}{later}" if shard.corpora else "")
    )


def _record(corpus: Corpus, train: EncodedCorpus, valid: EncodedCorpus, long: list[Issue]) -> str:
    """Returns the record of the run's training data as JSON."""

    def size(shard: EncodedCorpus) -> dict[str, int]:
        tokens = {"source_tokens": len(shard.source.ids), "target_tokens": len(shard.target.ids)}
        return {"pairs": len(shard), **tokens}

    inspection = corpus.inspection
    table = {
        "format": "pellucid-corpus/1",
        "texts": [
            {"src": text.src, "tgt": text.tgt_file, "pairs": count}
            for text, count in zip(inspection.texts, inspection.counts, strict=True)
        ],
        "sha256": corpus.digests,
        **({"given": True} if corpus.given else {}),
        "training": size(train) | ({"corpora": train.corpora} if train.corpora else {}),
        "validation": size(valid),
        "findings": [finding.to_json() for finding in (*corpus.findings, *long)],
    }
    return json.dumps(table, indent=2, ensure_ascii=False) + "\n"


def _check_rereadable_all(data: DataConfig) -> None:
    """Raises DataError for a text that can be read only once."""
    for path in (Path(path) for name in TEXTS for path in data.files(name)):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise DataError(
                f"`{path}` is not a file: a pipe can be read only once, and training reads its texts several times",
                "write the text to a file first",
            )


def _digests(data: DataConfig, given: Mapping[str, InMemoryText], *, alone: bool) -> dict[str, list[str]]:
    """Returns the SHA-256 of each training and validation text."""
    if given:
        found: dict[str, list[str]] = {}
        for part, names in (("train", TEXTS[:2]), ("valid", TEXTS[2:])):
            if part in given:
                found |= {name: [digest] for name, digest in zip(names, given[part].digests, strict=True)}
        return {name: found[name] for name in found if not (alone and name.endswith("tgt"))}
    return {name: [hash_path(path) for path in data.files(name)] for name in TEXTS if data.files(name)}


def _fingerprint(data: DataConfig, digests: Mapping[str, list[str]], tokenizers: TokenizerPair) -> str:
    """Returns a hash of the texts and of the settings and tokenizers that determine their ids."""
    # The tokenizers' files reflect the settings among these that change ids.
    named = {*TEXTS, "test_src", "test_tgt", "normalize", "tgt_vocab_size", "cache_dir", "tokenizer_sample_size"}
    values = {f.name: (getattr(data, f.name), f.default) for f in fields(data) if f.name not in named}
    settings = {name: value for name, (value, default) in values.items() if name not in NEWER or value != default}
    with workspace() as folder:
        table = tokenizers.save(folder)
    return _digest([digests, restore_old_names("data", settings), table])


def _digest(table: object) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
