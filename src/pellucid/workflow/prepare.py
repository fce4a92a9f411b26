"""From text files to what the loop reads: checked lines, trained tokenizers, shards of ids."""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path

import numpy as np

from pellucid.config import DataConfig
from pellucid.data.corpus import fingerprint, read_pairs
from pellucid.data.shards import Shard, open_or_write, stored_fingerprint
from pellucid.errors import ConfigError, DataError
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.training import train_tokenizer
from pellucid.training.log import RunLog

Pair = tuple[str, str]
TEXTS = ("src", "tgt", "valid_src", "valid_tgt")
SPLIT_SEED = 20170612  # any fixed number: the pairs held out must be the same in each run


@dataclass(frozen=True)
class Corpus:
    """The pairs to train on, read anew from disk each time, and the pairs to validate on."""

    data: DataConfig
    held_out: frozenset[int]
    valid: list[Pair]

    def train(self) -> Iterator[Pair]:
        """The training pairs in their order, without those held out, nor copies of those."""
        held = set(self.valid) if self.held_out else set()
        for number, pair in enumerate(read_pairs(self.data.src, self.data.tgt)):
            if number not in self.held_out and pair not in held:
                yield pair


@dataclass(frozen=True)
class Prepared:
    """All that training reads."""

    tokenizers: Tokenizers
    train: Shard
    valid: Shard
    valid_pairs: list[Pair]


def open_corpus(data: DataConfig) -> Corpus:
    """The texts of `data`, checked from the first line to the last: files, UTF-8, line counts.

    Raises ConfigError where a text is not named, DataError for what is wrong in one.
    """
    for name, other in (("src", "tgt"), ("tgt", "src"), ("valid_src", "valid_tgt"), ("valid_tgt", "valid_src")):
        if not getattr(data, name) and (getattr(data, other) or name == "src"):
            raise ConfigError(f"`data.{name}` is not given", "a parallel corpus needs a source and a target file")
        _check_rereadable(Path(getattr(data, name)))
    count = sum(1 for _ in read_pairs(data.src, data.tgt))
    if data.valid_src:
        return Corpus(data, frozenset(), list(read_pairs(data.valid_src, data.valid_tgt)))
    size = min(data.valid_size, count // 10)
    if size == 0:
        raise DataError(
            f"`{data.src}` has {count} lines: too few to hold a tenth out for validation",
            "give validation texts by `--valid-src` and `--valid-tgt`",
        )
    held_out = frozenset(np.random.default_rng(SPLIT_SEED).choice(count, size, replace=False).tolist())
    valid = [pair for number, pair in enumerate(read_pairs(data.src, data.tgt)) if number in held_out]
    return Corpus(data, held_out, valid)


def train_tokenizers(corpus: Corpus) -> Tokenizers:
    """Tokenizers trained on the training text alone."""
    data = corpus.data

    def trained(lines: Iterator[str]) -> Tokenizers:
        tokenizer = train_tokenizer(
            data.tokenizer, lines, vocab_size=data.vocab_size, lowercase=data.lowercase,
            min_frequency=data.min_frequency, byte_fallback=data.byte_fallback,
        )  # fmt: skip
        return Tokenizers(tokenizer, tokenizer)

    if data.joint:
        return trained(chain.from_iterable(corpus.train()))
    source, target = trained(s for s, _ in corpus.train()), trained(t for _, t in corpus.train())
    return Tokenizers(source.source, target.target)


def prepare(corpus: Corpus, tokenizers: Tokenizers, folder: Path, log: RunLog, resuming: bool) -> Prepared:
    """The corpus as shards below `folder`, written or found there from an earlier time.

    Raises DataError when a run that goes on finds another corpus than it began with.
    """
    mark = _fingerprint(corpus.data, tokenizers)
    if resuming and stored_fingerprint(folder / "train") not in (None, mark):
        raise DataError(
            f"the texts are not those that the run in `{folder.parent}` began with",
            "give it the same texts, or start over with --fresh",
        )
    limit = corpus.data.max_length
    train = open_or_write(folder / "train", corpus.train(), tokenizers, limit, mark)
    valid = open_or_write(folder / "valid", corpus.valid, tokenizers, limit, mark)
    for name, shard in (("training", train), ("validation", valid)):
        source, target = len(shard.source.ids), len(shard.target.ids)
        left_out = f"; left out: {shard.empty:,} with an empty side, {shard.too_long:,} beyond {limit} tokens"
        log.say(
            f"{name}: {len(shard):,} pairs, {source:,} source and {target:,} target tokens"
            + (left_out if shard.empty or shard.too_long else "")
        )
    usable = [pair for pair in corpus.valid if pair[0].strip() and pair[1].strip()]
    return Prepared(tokenizers, train, valid, usable)


def _check_rereadable(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(
            f"`{path}` is no file: a pipe can be read once, and training reads its texts several times",
            "write the text to a file first",
        )


def _fingerprint(data: DataConfig, tokenizers: Tokenizers) -> str:
    """Changes with the texts, the settings and the tokenizers that decide their ids."""
    texts = {name: fingerprint(path) for name in TEXTS if (path := getattr(data, name))}
    named = {*texts, "test_src", "test_tgt"}
    settings = {f.name: getattr(data, f.name) for f in fields(data) if f.name not in named}
    with tempfile.TemporaryDirectory() as folder:
        table = tokenizers.save(Path(folder))
    return hashlib.sha256(json.dumps([texts, settings, table], sort_keys=True).encode()).hexdigest()
