"""From text files to what the loop reads: checked lines, trained tokenizers, shards of ids."""

import contextlib
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain, compress, zip_longest
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from pellucid.config import TASKS, DataConfig, DecodeConfig, ModelConfig
from pellucid.config.data import language_tag
from pellucid.config.tasks import TrainedTask
from pellucid.data.classified import Labels
from pellucid.data.concatenation import Concatenation
from pellucid.data.faults import Fault, Finding
from pellucid.data.framing import Framing
from pellucid.data.given import GivenText
from pellucid.data.health import Inspection, find_true, inspect
from pellucid.data.judging import HeldOut
from pellucid.data.lines import fingerprint
from pellucid.data.parallel import ParallelText, held_out_texts, parallel_texts
from pellucid.data.prepared import Prepared
from pellucid.data.running import RunningCorpus, open_running
from pellucid.data.shards import Encoders, Shard, open_or_write, stored_fingerprint
from pellucid.data.streamed_inspection import hash_of, inspect_into, open_inspected
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.files.reading import read_settings
from pellucid.files.writing import replacing, write_json, write_text
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.tokenizer_training import WITH_SYMBOLS, train_tokenizer
from pellucid.text.tokenizers import Tokenizers

Pair = tuple[str, str]
Side = Literal["source", "target", "both"]
TEXTS = ("src", "tgt", "valid_src", "valid_tgt")
IN_WINDOWS = "/windows"
"""Ends the fingerprint of a run that is trained in the order of `windows`."""
MOST_SORTED = 1 << 21
"""Pairs up to which an epoch is sorted as a whole."""
LEARNED_FROM = 150_000
"""Pairs of a larger corpus than that from which a tokenizer learns."""
SPLIT_SEED = 20170612  # any fixed number: the pairs held out must be the same in each run
RECORD = "corpus.json"
AROUND_TEXTS = ("source_prefix", "source_end", "source_suffix", "target_prefix", "suppress")
"""The settings of [decode] that decide the ids that a model reads and may write, whatever the search."""
OF_INSPECTION = (
    "tsv_columns", "jsonl_keys", "on_bad_utf8", "on_copy", "on_duplicate", "on_too_long", "normalize", "tokenizer",
    "max_length", "valid_size", "tags",
)  # fmt: skip
"""The settings that decide what is found in texts, and which pairs are used."""
OF_TOKENIZERS = (
    "tokenizer", "vocab_size", "target_vocab_size", "joint", "lowercase", "min_frequency",
    "byte_fallback", "normalize", "symbols", "tags",
)  # fmt: skip
"""The settings that decide which tokenizers are trained on a text."""
TABLE = "table.json"
NEWER = (
    "concatenate", "weights_from", "temperature", "symbols", "tags", "src_lang", "tgt_lang", "add_language",
    "added_pieces",
)  # fmt: skip
"""Settings of [data] that runs of earlier versions go on without: at its default each of them changes nothing."""


@dataclass(frozen=True)
class Kept:
    """The place of what is made of certain texts, whose inspection lies there already."""

    prepared: Prepared
    folder: Path
    digests: dict[str, list[str]]
    """The SHA-256 of each text, by the setting that names it."""


@dataclass(frozen=True)
class Corpus:
    """The pairs to train on, read anew from disk each time, and the pairs to validate on."""

    data: DataConfig
    inspection: Inspection
    used: npt.NDArray[np.bool_]
    """True for each pair that is trained on: neither left out, nor held out, nor with a source that is held out."""
    valid: list[Pair]
    valid_inspection: Inspection
    """The faults found in the validation text; where none is given, in the training text, off which some are cut."""
    valid_used: npt.NDArray[np.bool_]
    """True for each inspected pair that is one of `valid`."""
    task: TrainedTask = "translate"
    """Says what a pair is: a sentence and its translation, a text and its label, or a text twice."""
    given: Mapping[str, GivenText] = field(default_factory=dict)
    """The texts that were handed over instead of files, by "train" and "valid"; empty: they are files."""
    kept: Kept | None = None
    """The place where what is made of it is kept for other runs, too; None: nowhere."""
    began_large: bool | None = None
    """True where the run that goes on with it began in the ways for large corpora; None: none goes on."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self.used))

    @property
    def is_large(self) -> bool:
        """True where there are too many pairs to be sorted at once, and for a tokenizer to learn from all."""
        return len(self) > MOST_SORTED if self.began_large is None else self.began_large

    @property
    def findings(self) -> list[Finding]:
        """All that was found in the texts but what is too long, which is known when there is a tokenizer."""
        found = [*self.inspection.findings]
        if self.valid_inspection is not self.inspection:
            found += self.valid_inspection.findings
        return [finding for finding in found if finding.fault != "too_long"]

    @property
    def valid_languages(self) -> tuple[str, ...]:
        """The languages of each of `valid`, as in "de-en"; none where no pair of languages is named."""
        found = self.valid_inspection
        if not any(text.pair for text in found.texts):
            return ()
        ends = np.cumsum(found.counts)
        places = np.searchsorted(ends, np.flatnonzero(self.valid_used), side="right")
        return tuple(found.texts[place].pair for place in places.tolist())

    def train(self, skip: int = 0) -> Iterator[Pair]:
        """Returns the training pairs in their order, read anew, but the first `skip`."""
        return self.inspection.pairs(self.used, self.data.on_bad_utf8, skip)

    def report(self) -> str:
        """Returns what was read, and what was found in it, a line each."""
        texts, counts, found = self.inspection.texts, self.inspection.counts, self.findings
        read = [f"{count:,} {TASKS[self.task].trained_on} in {text}" for text, count in zip(texts, counts, strict=True)]
        head = f"texts: {', '.join(read)}" + ("" if found else "; no fault found")
        return "\n".join([head, *(f"  {finding}".replace("\n", "\n    ") for finding in found)])

    @cached_property
    def digests(self) -> dict[str, list[str]]:
        """The SHA-256 of each text that is trained or validated on, by the setting that names it."""
        if self.kept is not None:
            return self.kept.digests
        return _digests(self.data, self.given, alone=self.task == "generate")


@dataclass(frozen=True)
class TrainingData:
    """All that training reads, as ids on the disk."""

    tokenizers: Tokenizers
    train: Shard
    valid: Shard
    valid_pairs: list[Pair]
    labels: tuple[str, ...] = ()
    """The names of a classifier's classes."""
    valid_languages: tuple[str, ...] = ()
    """The languages of each of `valid_pairs`, as in "de-en"; none where there is one pair of languages."""
    valid_rows_of: tuple[str, ...] = ()
    """The same of each row of `valid`."""
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    """Says what stands around the validation texts as a translator reads and writes them, and what is never written."""
    valid_bytes: int = 0
    """The size of the targets validated on, in UTF-8 with their line ends; 0 where they are labels."""
    mark: str = ""
    """A fingerprint of texts, settings and tokenizers."""

    def read_as(self, decode: DecodeConfig, model: ModelConfig) -> Self:
        """Returns the same as a model reads it that is used with `decode`; a classifier's texts stay as they are."""
        if model.family == "encoder":
            return self
        framing, around = Framing.of(decode, model), {name: getattr(decode, name) for name in AROUND_TEXTS}
        train, valid = replace(self.train, framing=framing), replace(self.valid, framing=framing)
        return replace(self, train=train, valid=valid, decode=DecodeConfig(**around))

    def concatenated(self, part: float, seed: int, longest: int, data: DataConfig) -> Self:
        """Returns the same with a part of the training pairs joined with others when they are drawn; 0: as it is.

        A tag of `data` stands before a joint line once, as before each that is translated.
        """
        if not part:
            return self
        train = self.train
        marks = frozenset([*data.symbols, *data.tags, *map(language_tag, data.files("tgt_lang"))])
        joining = Concatenation(train.source, train.target, train.corpora, self.tokenizers, part, seed, longest, marks)
        return replace(self, train=replace(train, concatenation=joining))


def open_corpus(
    data: DataConfig,
    task: TrainedTask = "translate",
    given: Mapping[str, GivenText] | None = None,
    prepared: Prepared | None = None,
) -> Corpus | RunningCorpus:
    """Reads the texts of `data`, or those that are `given` in place of files, from the first line to the last.

    What is found in files goes to `prepared`, if there is such a place; a second time it is read from there.

    Raises ConfigError where a text is not named, DataError for what cannot be trained on: a missing or damaged file, a
    line that is not of its format, not UTF-8 (but see `data.on_bad_utf8`), or without another side.
    """
    given = given or {}
    _check_rereadable_all(data)
    if task == "generate" and data.text == "running":
        return open_running(data, given)
    alone = not TASKS[task].targets
    if prepared is not None and not given:
        return _open_kept(data, task, prepared)
    held_out = held_out_sources(data)
    texts: tuple[ParallelText, ...]
    valid_texts: tuple[ParallelText, ...]
    if given:
        if data.weights and len(data.weights) != (len(data.weights_from) or 1):
            raise ConfigError(
                f"`data.weights` ({list(data.weights)}) must be as many as the corpora (1)",
                "leave it out: what is handed over is one corpus",
            )
        if data.tgt_lang:
            raise ConfigError(
                f"`data.src_lang` and `data.tgt_lang` ({', '.join(data.files('tgt_lang'))}) are for corpora in files",
                "write each pair of languages to files of its own",
            )
        if data.tags:
            raise ConfigError(
                f"`data.tags` ({list(data.tags)}) are for corpora in files", "put the tag before each source yourself"
            )
        texts, valid_texts = (given["train"],), (given["valid"],) if "valid" in given else ()
        faults: tuple[Fault, ...] = ("valid", "test")
        held_out = {name: (given[name].src, list(given[name].sources())) for name in faults if name in given}
    else:
        texts, valid_texts = parallel_texts(data, alone=alone), held_out_texts(data, "valid", alone=alone)
    inspection = inspect(texts, data, held_out)
    inspection.check()
    if not valid_texts:
        return _with_validation_cut_off(inspection, data, task, given)
    pairs, valid = _read_valid(valid_texts, data)
    return Corpus(data, inspection, inspection.used, pairs, valid, valid.used, task, given)


def _read_valid(texts: Sequence[ParallelText], data: DataConfig) -> tuple[list[Pair], Inspection]:
    """Returns the pairs to validate on, and what is wrong in their text."""
    # Copies and repeated pairs are as good as others to validate on.
    valid = inspect(texts, replace(data, on_copy="keep", on_duplicate="keep"), {})
    valid.check()
    return list(valid.pairs(valid.used, data.on_bad_utf8)), valid


def _open_kept(data: DataConfig, task: TrainedTask, prepared: Prepared) -> Corpus:
    """Returns the corpus with the inspection that `prepared` holds, made now where it holds none."""
    alone = not TASKS[task].targets
    texts, valid_texts = parallel_texts(data, alone=alone), held_out_texts(data, "valid", alone=alone)
    tests = [path for path in (data.test_src, data.test_tgt) if path and Path(path).is_file()]
    named = {name: list(data.files(name)) for name in TEXTS if data.files(name)}
    known = prepared.digests([*(path for paths in named.values() for path in paths), *tests])
    digests = {name: [known[path] for path in paths] for name, paths in named.items()}
    settings = {name: getattr(data, name) for name in OF_INSPECTION}
    if data.tgt_lang:  # else the folders of earlier versions keep their names
        settings |= {name: data.files(name) for name in ("src_lang", "tgt_lang")}
    folder = prepared.of_texts(
        {"texts": digests, "test": [known[path] for path in tests], "task": task, "settings": settings}
    )
    found = open_inspected(folder / "inspection", texts)
    if found is None:
        with prepared.held(folder):
            found = open_inspected(folder / "inspection", texts)
            if found is None:
                prepared.say(f"inspecting the texts; what is found is kept in `{folder}`")
                choose = partial(_choose_held_out, data=data, task=task) if not valid_texts else None
                inspect_into(folder / "inspection", texts, data, held_out_sources(data), choose, say=prepared.say)
                found = open_inspected(folder / "inspection", texts)
                assert found is not None
    inspection, kept = found.inspection, Kept(prepared, folder, digests)
    if not valid_texts:
        return Corpus(data, inspection, found.trained, found.valid, inspection, found.held_out, task, kept=kept)
    pairs, valid = _read_valid(valid_texts, data)
    return Corpus(data, inspection, inspection.used, pairs, valid, valid.used, task, kept=kept)


def held_out_sources(data: DataConfig) -> HeldOut:
    """Returns the source sentences to validate and to test on, as far as they are named and there."""
    found: dict[Fault, tuple[str, list[str]]] = {}
    names: tuple[Fault, ...] = ("valid", "test")
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


def train_tokenizers(corpus: Corpus | RunningCorpus, say: Callable[[str], object] = str) -> Tokenizers:
    """Returns tokenizers trained on the training text alone: on both sides of pairs, else on texts and no labels.

    Those of a corpus that is kept are kept with it. `say` is given what there is to say of them, a sentence each.
    """
    kept = corpus.kept if isinstance(corpus, Corpus) else None
    if kept is None or Path(corpus.data.tokenizer).is_file():
        return _train_tokenizers(corpus, say)
    assert isinstance(corpus, Corpus)
    settings = {name: getattr(corpus.data, name) for name in OF_TOKENIZERS} | {"learned_from": _learned_from(corpus)}
    if corpus.data.tgt_lang:
        settings["tgt_lang"] = corpus.data.files("tgt_lang")
    folder = kept.folder / f"tokenizer-{_digest(settings)[:16]}"
    with kept.prepared.held(kept.folder):
        try:
            return Tokenizers.load(folder, read_settings(folder / TABLE))
        except CheckpointError:  # it is not there, or damaged
            shutil.rmtree(folder, ignore_errors=True)
        tokenizers = _train_tokenizers(corpus, say)
        folder.mkdir()
        write_json(folder / TABLE, tokenizers.save(folder))
        return tokenizers


def _train_tokenizers(corpus: Corpus | RunningCorpus, say: Callable[[str], object]) -> Tokenizers:
    data = corpus.data
    if isinstance(corpus, Corpus) and (wanted := _learned_from(corpus)) < len(corpus):
        say(f"the tokenizer learns from about {wanted:,} of the {len(corpus):,} {TASKS[corpus.task].trained_on}")
    # In a running text spaces and line ends are text.
    normalization = "none" if isinstance(corpus, RunningCorpus) else data.normalize

    # Somebody else's tokenizer may know the tags; nothing can be added to it.
    tags = data.tags or tuple(map(language_tag, dict.fromkeys(data.files("tgt_lang"))))
    symbols = (*data.symbols, *(tag for tag in tags if data.tokenizer in WITH_SYMBOLS and tag not in data.symbols))

    def trained(side: Side, vocab_size: int) -> CompleteTokenizer:
        return train_tokenizer(
            data.tokenizer, SideText(corpus, side), vocab_size=vocab_size, lowercase=data.lowercase,
            min_frequency=data.min_frequency, byte_fallback=data.byte_fallback, normalize=normalization,
            symbols=symbols, say=say,
        )  # fmt: skip

    if isinstance(corpus, RunningCorpus) or corpus.task != "translate" or data.joint:
        of_pairs = isinstance(corpus, Corpus) and corpus.task == "translate"
        tokenizer = trained("both" if of_pairs else "source", data.vocab_size)
        return Tokenizers(tokenizer)
    return Tokenizers(trained("source", data.vocab_size), trained("target", data.target_vocab_size or data.vocab_size))


@dataclass(frozen=True)
class SideText:
    """The lines of the training text, of one side or of both in turn, read anew each time."""

    corpus: Corpus | RunningCorpus
    side: Side

    def __iter__(self) -> Iterator[str]:
        pairs = _to_learn_from(self.corpus) if isinstance(self.corpus, Corpus) else self.corpus.train()
        if self.side == "both":
            return chain.from_iterable(pairs)
        return (pair[self.side == "target"] for pair in pairs)


def _to_learn_from(corpus: Corpus) -> Iterator[Pair]:
    """Returns the training pairs, or of more than `tokenizer_pairs` so many, give or take some, by a hash of each.

    Those of a corpus that is kept are read from a file of their own after the first time.
    """
    wanted, there = _learned_from(corpus), len(corpus)
    if there == wanted:
        return corpus.train()
    most = (wanted << 64) // there
    if corpus.kept is None:
        return _below(corpus, most)
    path = corpus.kept.folder / f"sample-{wanted}-{corpus.data.valid_size}.jsonl"
    if not path.is_file():
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(pair, ensure_ascii=False) + "\n" for pair in _below(corpus, most))
    return ((source, target) for source, target in map(json.loads, _closing(path)))


def _below(corpus: Corpus, most: int) -> Iterator[Pair]:
    return (pair for pair in corpus.train() if int.from_bytes(hash_of(*pair), "little") < most)


def _closing(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from file


def _learned_from(corpus: Corpus) -> int:
    """Returns how many pairs a tokenizer learns from."""
    there = len(corpus)
    usual = LEARNED_FROM if corpus.is_large else there
    return min(there, corpus.data.tokenizer_pairs or usual)


def prepare(
    corpus: Corpus | RunningCorpus,
    tokenizers: Tokenizers,
    folder: Path,
    say: Callable[[str], None],
    resuming: bool,
    labels: Labels | None = None,
    known: str = "",
    writes: bool = True,
) -> TrainingData:
    """Writes the corpus as shards below `folder`, or finds them there from an earlier time; beside it, its record.

    Args:
        labels: those of a classifier's corpus.
        writes: False: another process has just done so, and its shards are opened.
        known: the fingerprint that the run's checkpoints have; empty: the shard's own counts.

    Raises DataError when a run that goes on finds another corpus than it began with.
    """
    data = corpus.data
    if resuming:
        check_same_texts(corpus, tokenizers, folder, known)
    mark = _fingerprint(data, corpus.digests, tokenizers)
    cut, keep_texts = data.on_too_long == "cut", data.subword_sampling > 0 or data.concatenate > 0
    if isinstance(corpus, RunningCorpus):
        return _prepare_running(corpus, tokenizers, folder, say, mark, writes)
    encoders = Encoders(tokenizers.source, labels) if labels else tokenizers
    alone = not TASKS[corpus.task].targets
    write = partial(
        open_or_write, tokenizers=encoders, max_length=data.max_length, fingerprint=mark, cut=cut, alone=alone, say=say
    )
    place = folder
    holding: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if corpus.kept is not None:
        place = corpus.kept.folder / f"ids-{_digest([mark, keep_texts])[:16]}"
        holding = corpus.kept.prepared.held(corpus.kept.folder)
    with holding:
        train = _weighted(write(place / "train", corpus.train, keep_texts=keep_texts), corpus)
        valid = write(place / "valid", corpus.valid)
    if corpus.is_large:
        train, mark = replace(train, in_windows=True), mark + IN_WINDOWS
    long_train = _too_long(train, data, corpus.inspection, corpus.used)
    long_valid = _too_long(valid, data, corpus.valid_inspection, corpus.valid_used)
    for name, shard, long in (("training", train, long_train), ("validation", valid, long_valid)):
        say("\n".join([_size_of(name, shard, corpus.task), *(f"  {finding}" for finding in long)]))
    if writes:
        write_text(folder.parent / RECORD, _record(corpus, train, valid, [*long_train, *long_valid]))
    is_usable = [bool(pair[0].strip() and pair[1].strip()) for pair in corpus.valid]
    usable, of = list(compress(corpus.valid, is_usable)), corpus.valid_languages
    rows_of = tuple(name for place, name in enumerate(of) if place not in {*valid.left_out})
    names, size = (labels.names, 0) if labels else ((), _target_bytes(corpus, valid, tokenizers))
    return TrainingData(
        tokenizers, train, valid, usable, names, tuple(compress(of, is_usable)), rows_of, valid_bytes=size, mark=mark
    )


def check_same_texts(corpus: Corpus | RunningCorpus, tokenizers: Tokenizers, folder: Path, known: str = "") -> None:
    """Raises DataError where the texts, or what makes ids of them, are not those that a run began with.

    Args:
        folder: where the run's shards lie.
        known: the fingerprint that its checkpoints have; empty: that of its shards counts.
    """
    began_with = known.removesuffix(IN_WINDOWS) or stored_fingerprint(folder / "train")
    if began_with not in (None, _fingerprint(corpus.data, corpus.digests, tokenizers)):
        raise other_texts(folder.parent)


def other_texts(run: Path, changed: Sequence[str] = ()) -> DataError:
    """Returns the error for a run that goes on with other texts than it began with; `changed` are those known to be."""
    which = f": {', '.join(f'`{path}`' for path in changed)}" if changed else ""
    return DataError(
        f"the texts are not those that the run in `{run}` began with{which}",
        "give it the same texts, or start over with `fresh=True`",
    )


def _target_bytes(corpus: Corpus, valid: Shard, tokenizers: Tokenizers) -> int:
    """Returns the bytes of the targets in the validation shard, each with its line's end; of a cut one what is left."""
    left_out, room = set(valid.left_out), corpus.data.max_length
    texts = [target for place, (_, target) in enumerate(corpus.valid) if place not in left_out]
    if valid.too_long and corpus.data.on_too_long == "cut":
        long = [len(ids) > room for ids in tokenizers.target.encode_lines(texts)]
        kept = (tokenizers.target.decode(ids.tolist()) for ids in (valid.target[i] for i in range(len(valid))))
        texts = [rest if cut else text for text, rest, cut in zip(texts, kept, long, strict=True)]
    return sum(len(text.encode("utf-8", "replace")) + 1 for text in texts)


def _prepare_running(
    corpus: RunningCorpus, tokenizers: Tokenizers, folder: Path, say: Callable[[str], None], mark: str, writes: bool
) -> TrainingData:
    """Writes a running text as shards of its chunks, whose ids stand back to back and are cut into blocks later."""
    write = partial(open_or_write, tokenizers=tokenizers, max_length=sys.maxsize, fingerprint=mark, alone=True)
    block = corpus.data.max_length
    train = replace(write(folder / "train", corpus.train()), block=block)
    valid = replace(write(folder / "valid", corpus.valid), block=block)
    sizes = {"training": len(train.target.ids), "validation": len(valid.target.ids)}
    for name, tokens in sizes.items():
        say(f"{name}: {tokens:,} tokens of running text, in blocks of {block:,}")
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


def _with_validation_cut_off(
    inspection: Inspection, data: DataConfig, task: TrainedTask, given: Mapping[str, GivenText]
) -> Corpus:
    """Holds some pairs from all over the texts out of the training, at most a tenth.

    With them go all pairs that have one of their sources: a sentence that was seen with another target is not new.
    """
    numbers = np.flatnonzero(inspection.used)
    held_out = np.zeros_like(inspection.used)
    held_out[numbers[_choose_held_out(inspection, len(numbers), data=data, task=task)]] = True
    used = inspection.used & ~np.isin(inspection.source_hashes, inspection.source_hashes[held_out])
    pairs = list(inspection.pairs(held_out, data.on_bad_utf8))
    return Corpus(data, inspection, used, pairs, inspection, held_out, task, given)


def _choose_held_out(
    inspection: Inspection, usable: int, *, data: DataConfig, task: TrainedTask
) -> npt.NDArray[np.int64]:
    """Returns the numbers, among the usable pairs, of those to validate on. Raises DataError for too few of them."""
    size = min(data.valid_size, usable // 10)
    if size == 0:
        single = not TASKS[task].targets
        one = len(inspection.texts) == 1 and not inspection.texts[0].tgt
        raise DataError(
            f"{' and '.join(map(str, inspection.texts))} {'has' if one else 'have'} {usable} usable "
            f"{TASKS[task].trained_on}: too few to hold a tenth out for validation",
            "give a validation text by `data.valid_src=`"
            if single
            else "give validation texts by `data.valid_src=` and `data.valid_tgt=`",
        )
    return np.random.default_rng(SPLIT_SEED).choice(usable, size, replace=False)


def _weighted(shard: Shard, corpus: Corpus) -> Shard:
    """Returns the shard with its corpora, of which some may be seen more often than others."""
    counts = corpus.inspection.counts
    if not corpus.data.weights and not corpus.data.temperature:
        return shard
    ends = np.cumsum([0, *(np.count_nonzero(part) for part in np.split(corpus.used, np.cumsum(counts)[:-1]))])
    sizes = np.diff(ends - np.searchsorted(np.asarray(shard.left_out, np.int64), ends)).tolist()
    mixes = mixes_of(corpus.data, sizes)
    for _, weights in mixes:
        if not any(round(size * weight) for size, weight in zip(sizes, weights, strict=True)):
            raise ConfigError(f"`data.weights` ({list(weights)}) draw no pair at all of {sizes}", "use larger weights")
    return replace(shard, corpora=tuple(zip(sizes, mixes[0][1], strict=True)), mixes=mixes if len(mixes) > 1 else ())


def mixes_of(data: DataConfig, sizes: Sequence[int]) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Returns (first epoch, weight of each corpus) of each mix, for corpora of so many pairs.

    By temperature T a corpus of n pairs has the weight n ^ (1 / T - 1), in such a measure that an epoch stays as long
    (Arivazhagan et al. 2019, "Massively multilingual neural machine translation in the wild", section 4.3).
    """
    if data.temperature:
        parts = [size ** (1 / data.temperature) for size in sizes]
        times = sum(sizes) / sum(parts)
        weights = tuple(times * part / size if size else 0.0 for part, size in zip(parts, sizes, strict=True))
        return ((0, weights),)
    starts, each = data.weights_from or (0,), len(sizes)
    given = data.weights or (1.0,) * each
    return tuple((start, given[place * each : (place + 1) * each]) for place, start in enumerate(starts))


def _too_long(shard: Shard, data: DataConfig, inspection: Inspection, used: npt.NDArray[np.bool_]) -> list[Finding]:
    """Finds how many pairs of a shard had too many tokens, and where the first one stands."""
    if shard.first_too_long is None:
        return []
    path, line = inspection.place(find_true(used, shard.first_too_long))
    effect = "cut" if data.on_too_long == "cut" else "left out"
    return [Finding("too_long", shard.too_long, path, line, "", f"pairs beyond {data.max_length} tokens", effect)]


def _size_of(name: str, shard: Shard, task: str) -> str:
    source, target = len(shard.source.ids), len(shard.target.ids)
    tokens = (
        f"{source:,} source and {target:,} target tokens"
        if TASKS[task].family == "encoder-decoder"
        else f"{source:,} tokens"
    )
    drawn = sum(size * weight for size, weight in shard.corpora)
    later = f" in the first mix, {len(shard.mixes) - 1} more to follow" if shard.mixes else ""
    return (
        f"{name}: {len(shard):,} {TASKS[task].trained_on}, {tokens}"
        + (f"; {shard.empty:,} more without a token on a side" if shard.empty else "")
        + (f"; an epoch draws {drawn:,.0f} {TASKS[task].trained_on}{later}" if shard.corpora else "")
    )


def _record(corpus: Corpus, train: Shard, valid: Shard, long: list[Finding]) -> str:
    """Returns what the run is trained on, as JSON."""

    def size(shard: Shard) -> dict[str, int]:
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
    """Raises DataError for a text that can be read once alone."""
    for path in (Path(path) for name in TEXTS for path in data.files(name)):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise DataError(
                f"`{path}` is not a file: a pipe can be read once, and training reads its texts several times",
                "write the text to a file first",
            )


def _digests(data: DataConfig, given: Mapping[str, GivenText], *, alone: bool) -> dict[str, list[str]]:
    """Returns the SHA-256 of each text that is trained or validated on."""
    if given:
        found: dict[str, list[str]] = {}
        for part, names in (("train", TEXTS[:2]), ("valid", TEXTS[2:])):
            if part in given:
                found |= {name: [digest] for name, digest in zip(names, given[part].digests, strict=True)}
        return {name: found[name] for name in found if not (alone and name.endswith("tgt"))}
    return {name: [fingerprint(path) for path in data.files(name)] for name in TEXTS if data.files(name)}


def _fingerprint(data: DataConfig, digests: Mapping[str, list[str]], tokenizers: Tokenizers) -> str:
    """Returns a digest that changes with the texts, and with the settings and tokenizers that decide their ids."""
    # What the tokenizers' files say counts with these.
    named = {*TEXTS, "test_src", "test_tgt", "normalize", "target_vocab_size", "prepared", "tokenizer_pairs"}
    values = {f.name: (getattr(data, f.name), f.default) for f in fields(data) if f.name not in named}
    settings = {name: value for name, (value, default) in values.items() if name not in NEWER or value != default}
    with tempfile.TemporaryDirectory() as folder:
        table = tokenizers.save(Path(folder))
    return _digest([digests, settings, table])


def _digest(table: object) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
