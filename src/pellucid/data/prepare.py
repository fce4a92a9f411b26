"""From text files to what the loop reads: checked lines, trained tokenizers, shards of ids."""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from pellucid.config import TASKS, DataConfig, DecodeConfig, ModelConfig
from pellucid.config.tasks import TrainedTask
from pellucid.data.classified import Labels
from pellucid.data.concatenation import Concatenation
from pellucid.data.faults import Fault, Finding
from pellucid.data.framing import Framing
from pellucid.data.given import GivenText
from pellucid.data.health import Inspection, inspect
from pellucid.data.judging import HeldOut
from pellucid.data.lines import fingerprint
from pellucid.data.parallel import ParallelText, held_out_text, parallel_texts
from pellucid.data.running import RunningCorpus, open_running
from pellucid.data.shards import Encoders, Shard, open_or_write, stored_fingerprint
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import write_json, write_text
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import Tokenizers

Pair = tuple[str, str]
Side = Literal["source", "target", "both"]
TEXTS = ("src", "tgt", "valid_src", "valid_tgt")
SPLIT_SEED = 20170612  # any fixed number: the pairs held out must be the same in each run
RECORD = "corpus.json"
AROUND_TEXTS = ("source_prefix", "source_end", "source_suffix", "target_prefix", "suppress")
"""The settings of [decode] that decide the ids that a model reads and may write, whatever the search."""
NEWER = ("concatenate",)
"""Settings of [data] that runs of earlier versions go on without: at its default each of them changes nothing."""


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

    def __len__(self) -> int:
        return int(np.count_nonzero(self.used))

    @property
    def findings(self) -> list[Finding]:
        """All that was found in the texts but what is too long, which is known when there is a tokenizer."""
        found = [*self.inspection.findings]
        if self.valid_inspection is not self.inspection:
            found += self.valid_inspection.findings
        return [finding for finding in found if finding.fault != "too_long"]

    def train(self) -> Iterator[Pair]:
        """Returns the training pairs in their order, read anew."""
        return self.inspection.pairs(self.used, self.data.on_bad_utf8)

    def report(self) -> str:
        """Returns what was read, and what was found in it, a line each."""
        texts, counts, found = self.inspection.texts, self.inspection.counts, self.findings
        read = [f"{count:,} {TASKS[self.task].trained_on} in {text}" for text, count in zip(texts, counts, strict=True)]
        head = f"texts: {', '.join(read)}" + ("" if found else "; no fault found")
        return "\n".join([head, *(f"  {finding}".replace("\n", "\n    ") for finding in found)])

    @cached_property
    def digests(self) -> dict[str, list[str]]:
        """The SHA-256 of each text that is trained or validated on, by the setting that names it."""
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

    def concatenated(self, part: float, seed: int, longest: int) -> Self:
        """Returns the same with a part of the training pairs joined with others when they are drawn; 0: as it is."""
        if not part:
            return self
        train = self.train
        joining = Concatenation(train.source, train.target, train.corpora, self.tokenizers, part, seed, longest)
        return replace(self, train=replace(train, concatenation=joining))


def open_corpus(
    data: DataConfig, task: TrainedTask = "translate", given: Mapping[str, GivenText] | None = None
) -> Corpus | RunningCorpus:
    """Reads the texts of `data`, or those that are `given` in place of files, from the first line to the last.

    Raises ConfigError where a text is not named, DataError for what cannot be trained on: a missing or damaged file, a
    line that is not of its format, not UTF-8 (but see `data.on_bad_utf8`), or without another side.
    """
    given = given or {}
    _check_rereadable_all(data)
    if task == "generate" and data.text == "running":
        return open_running(data, given)
    alone = not TASKS[task].targets
    held_out = held_out_sources(data)
    texts: tuple[ParallelText, ...]
    valid_text: ParallelText | None
    if given:
        if data.weights and len(data.weights) != 1:
            raise ConfigError(
                f"`data.weights` ({list(data.weights)}) must be as many as the corpora (1)",
                "leave it out: what is handed over is one corpus",
            )
        texts, valid_text = (given["train"],), given.get("valid")
        faults: tuple[Fault, ...] = ("valid", "test")
        held_out = {name: (given[name].src, list(given[name].sources())) for name in faults if name in given}
    else:
        texts, valid_text = parallel_texts(data, alone=alone), held_out_text(data, "valid", alone=alone)
    inspection = inspect(texts, data, held_out)
    inspection.check()
    if valid_text is None:
        return _with_validation_cut_off(inspection, data, task, given)
    # Copies and repeated pairs are as good as others to validate on.
    valid = inspect([valid_text], replace(data, on_copy="keep", on_duplicate="keep"), {})
    valid.check()
    pairs = list(valid.pairs(valid.used, data.on_bad_utf8))
    return Corpus(data, inspection, inspection.used, pairs, valid, valid.used, task, given)


def held_out_sources(data: DataConfig) -> HeldOut:
    """Returns the source sentences to validate and to test on, as far as they are named and there."""
    found: dict[Fault, tuple[str, list[str]]] = {}
    names: tuple[Fault, ...] = ("valid", "test")
    for name in names:
        src, tgt = getattr(data, f"{name}_src"), getattr(data, f"{name}_tgt")
        if src and Path(src).is_file():
            found[name] = src, list(ParallelText(src, tgt, data.tsv_columns, data.jsonl_keys).sources())
    return found


def train_tokenizers(corpus: Corpus | RunningCorpus, say: Callable[[str], object] = str) -> Tokenizers:
    """Returns tokenizers trained on the training text alone: on both sides of pairs, else on texts and no labels.

    `say` is given what there is to say of them, a sentence each.
    """
    data = corpus.data
    # In a running text spaces and line ends are text.
    normalization = "none" if isinstance(corpus, RunningCorpus) else data.normalize

    def trained(side: Side, vocab_size: int) -> CompleteTokenizer:
        return train_tokenizer(
            data.tokenizer, SideText(corpus, side), vocab_size=vocab_size, lowercase=data.lowercase,
            min_frequency=data.min_frequency, byte_fallback=data.byte_fallback, normalize=normalization, say=say,
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
        if self.side == "both":
            return chain.from_iterable(self.corpus.train())
        return (pair[self.side == "target"] for pair in self.corpus.train())


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
        open_or_write, tokenizers=encoders, max_length=data.max_length, fingerprint=mark, cut=cut, alone=alone
    )
    train = _weighted(write(folder / "train", corpus.train(), keep_texts=keep_texts), corpus)
    valid = write(folder / "valid", corpus.valid)
    long_train = _too_long(train, data, corpus.inspection, corpus.used)
    long_valid = _too_long(valid, data, corpus.valid_inspection, corpus.valid_used)
    for name, shard, long in (("training", train, long_train), ("validation", valid, long_valid)):
        say("\n".join([_size_of(name, shard, corpus.task), *(f"  {finding}" for finding in long)]))
    if writes:
        write_text(folder.parent / RECORD, _record(corpus, train, valid, [*long_train, *long_valid]))
    usable = [pair for pair in corpus.valid if pair[0].strip() and pair[1].strip()]
    names, size = (labels.names, 0) if labels else ((), _target_bytes(corpus, valid, tokenizers))
    return TrainingData(tokenizers, train, valid, usable, names, valid_bytes=size, mark=mark)


def check_same_texts(corpus: Corpus | RunningCorpus, tokenizers: Tokenizers, folder: Path, known: str = "") -> None:
    """Raises DataError where the texts, or what makes ids of them, are not those that a run began with.

    Args:
        folder: where the run's shards lie.
        known: the fingerprint that its checkpoints have; empty: that of its shards counts.
    """
    began_with = known or stored_fingerprint(folder / "train")
    if began_with not in (None, _fingerprint(corpus.data, corpus.digests, tokenizers)):
        raise DataError(
            f"the texts are not those that the run in `{folder.parent}` began with",
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
    size = min(data.valid_size, len(numbers) // 10)
    if size == 0:
        single = not TASKS[task].targets
        one = len(inspection.texts) == 1 and not inspection.texts[0].tgt
        raise DataError(
            f"{' and '.join(map(str, inspection.texts))} {'has' if one else 'have'} {len(numbers)} usable "
            f"{TASKS[task].trained_on}: too few to hold a tenth out for validation",
            "give a validation text by `data.valid_src=`"
            if single
            else "give validation texts by `data.valid_src=` and `data.valid_tgt=`",
        )
    held_out = np.zeros_like(inspection.used)
    held_out[numbers[np.random.default_rng(SPLIT_SEED).choice(len(numbers), size, replace=False)]] = True
    used = inspection.used & ~np.isin(inspection.source_hashes, inspection.source_hashes[held_out])
    pairs = list(inspection.pairs(held_out, data.on_bad_utf8))
    return Corpus(data, inspection, used, pairs, inspection, held_out, task, given)


def _weighted(shard: Shard, corpus: Corpus) -> Shard:
    """Returns the shard with its corpora, of which some may be seen more often than others."""
    weights, counts = corpus.data.weights, corpus.inspection.counts
    if not weights:
        return shard
    numbers = np.delete(np.flatnonzero(corpus.used), shard.left_out)
    sizes = np.diff(np.searchsorted(numbers, np.cumsum([0, *counts]))).tolist()
    if not any(round(size * weight) for size, weight in zip(sizes, weights, strict=True)):
        raise ConfigError(f"`data.weights` ({list(weights)}) draw no pair at all of {sizes}", "use larger weights")
    return replace(shard, corpora=tuple(zip(sizes, weights, strict=True)))


def _too_long(shard: Shard, data: DataConfig, inspection: Inspection, used: npt.NDArray[np.bool_]) -> list[Finding]:
    """Finds how many pairs of a shard had too many tokens, and where the first one stands."""
    if shard.first_too_long is None:
        return []
    path, line = inspection.place(int(np.flatnonzero(used)[shard.first_too_long]))
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
    return (
        f"{name}: {len(shard):,} {TASKS[task].trained_on}, {tokens}"
        + (f"; {shard.empty:,} more without a token on a side" if shard.empty else "")
        + (f"; an epoch draws {drawn:,.0f} {TASKS[task].trained_on}" if shard.corpora else "")
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
    named = {*TEXTS, "test_src", "test_tgt", "normalize", "target_vocab_size"}
    values = {f.name: (getattr(data, f.name), f.default) for f in fields(data) if f.name not in named}
    settings = {name: value for name, (value, default) in values.items() if name not in NEWER or value != default}
    with tempfile.TemporaryDirectory() as folder:
        table = tokenizers.save(Path(folder))
    return hashlib.sha256(json.dumps([digests, settings, table], sort_keys=True).encode()).hexdigest()
