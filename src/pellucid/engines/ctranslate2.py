"""The CTranslate2 engine of a Translator: text processing and settings are Pellucid's, PyTorch is not required.

As with PyTorch: segmentation, special tokens, the length for ranking and limits, and scores. Different: a beam stops
once as many hypotheses have ended as it is wide, and the last digits, so near ties, depend on the batch.
"""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.batches import batches_by_length
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.ids import add_special_ids, check_decoding_ids, list_suppressed_ids
from pellucid.engines import EngineName, converters
from pellucid.engines.conversion_cache import MODEL, WITH_TORCH, get_cached_conversion
from pellucid.engines.engine import Ability, Engine
from pellucid.errors import (
    CheckpointError,
    ConfigError,
    did_you_mean,
    format_argument,
    format_install_command,
    format_value,
)
from pellucid.files.budget import MOST_TOKENIZER_BYTES
from pellucid.files.reading import read_list
from pellucid.process import count_cores, keep_torch_threads
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.weights.folder import Description, read_description

if TYPE_CHECKING:
    import hashlib

    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints

NAME: EngineName = "ctranslate2"
DTYPES = (
    "float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16",
)  # fmt: skip
"""The compute types of CTranslate2; which of them are supported depends on the machine."""
BATCHES_AHEAD = 2
"""Queued batches per worker: enough to keep all workers busy, few enough for a quick response to Ctrl-C."""


def open_engine(
    folder: Path, device: str, dtype: object, tokenizer: GivenTokenizers | None = None, threads: int | None = None
) -> tuple["CTranslate2Engine", Description]:
    """Opens the model of a folder on CTranslate2. Converts it first, unless a conversion is cached.

    Args:
        device: "auto" takes CUDA, then the CPU.
        dtype: one of `DTYPES`, or the PyTorch type of that name; None: float32.
        tokenizer: the custom tokenizer that the model was trained with.
        threads: the number of CPU cores to use; None: all.

    Returns the engine, and the description of the model that is stored with the conversion.

    Raises ConfigError if the extra `ct2` is missing, for an unsupported device, type or number of threads, and for a
    model that CTranslate2 does not support; CheckpointError if the folder has no model.
    """
    if threads is not None and threads < 1:
        raise ConfigError(f"{format_argument('threads', threads)} must be at least 1")
    kind, number = _device(device)
    name = _dtype(dtype, kind)
    kept = get_cached_conversion(folder, NAME, name, partial(converters[NAME], folder, name, tokenizer))
    described = read_description(kept, tokenizer=tokenizer)
    engine = CTranslate2Engine(
        described.config, kept / MODEL, device=kind, device_index=number, compute_type=name,
        inter_threads=threads or count_cores() if kind == "cpu" else 1, intra_threads=1,
    )  # fmt: skip
    return engine, described


class CTranslate2Engine(Engine):
    """The search of CTranslate2 over a model that was converted for it."""

    noun = "a translator on CTranslate2"
    remedy = WITH_TORCH
    lacks: ClassVar[Mapping[Ability, str]] = {
        "model": "has no PyTorch model: it cannot be traced, inspected, changed or saved",
        "trace": "cannot be traced",
        "save": "cannot be saved: the folder that it was loaded from is its model",
        "sample": "does not sample: it has one stream of random numbers for all lines, not one per line",
        "search": "has its own search, and does not support `search=`, `beam_groups=` and `next_token_alternatives=`",
        "constraints": "does not support `terms=`, `prefixes=`, `min_length=` and `no_repeat_ngram_size=`",
    }

    def __init__(self, config: ModelConfig, folder: Path, **how: Any) -> None:
        """Loads a converted model from its folder; passes `how` to `ctranslate2.Translator`.

        Raises CheckpointError if CTranslate2 cannot load it.
        """
        self._config = config
        self._key = folder.parent.name
        self._how = how
        self._folder = folder
        self._loaded: tuple[int, Any] = (os.getpid(), self._load())
        words = _vocabularies(folder)
        if len(words[0]) < config.src_vocab_size or len(words[1]) < config.tgt_vocab_size:
            raise CheckpointError(
                f"`{folder}` is damaged: its vocabularies have {len(words[0]):,} and {len(words[1]):,} tokens, but "
                f"the model has {config.src_vocab_size:,} and {config.tgt_vocab_size:,}",
                f"remove it, or {WITH_TORCH}",
            )
        self._source: list[str] = words[0]
        self._target: list[str] = words[1]
        self._ids: dict[str, int] = {word: i for i, word in enumerate(self._target)}

    def _load(self) -> Any:
        try:
            with keep_torch_threads():
                return _library().Translator(str(self._folder), **self._how)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"CTranslate2 cannot load `{self._folder}`: {error}", f"remove it, or {WITH_TORCH}"
            ) from error

    @property
    def _translator(self) -> Any:
        """The translator of this process. A forked process loads it again, since it has none of the threads.

        Raises CheckpointError if the conversion cannot be loaded again, or a GPU cannot be used after a fork.
        """
        process, engine = self._loaded
        if process != os.getpid():
            # Never freed: the destructor would wait for threads that do not exist here.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
            engine = self._load()
            self._loaded = (os.getpid(), engine)
        return engine

    @property
    def config(self) -> ModelConfig:
        return self._config

    def add_weights(self, digest: "hashlib._Hash") -> str:
        digest.update(self._key.encode())
        return str(self._how["device"])

    def about(self) -> str:
        config = self.config
        return (
            f"CTranslate2 in {self._how['compute_type']}, {config.num_encoder_layers} + {config.num_decoder_layers} "
            f"layers, d_model {config.d_model}, on {self._how['device']}"
        )

    def sample(self, *_: Any) -> list[Hypothesis]:
        """Raises ConfigError: see `lacks`."""
        self.require("sample")
        raise NotImplementedError

    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Searches, then repeats the search for texts whose output exceeds its limit or violates a constraint.

        CTranslate2 has one limit per batch, and suppresses tokens before the softmax, where Pellucid suppresses them
        after it. So the first search suppresses none, and results of the second are rescored by the model.
        """
        if by is not None:
            self.require("search")
        if constraints:
            self.require("constraints")
        check_decoding_ids(config, self.config)
        whole = [add_special_ids(ids, self.config, config) for ids in sources]
        room = self.config.max_positions - 1 - len(config.target_prefix)
        limits = [min(config.limit(len(ids)), room) for ids in sources]
        never = set(list_suppressed_ids(self.config, config.suppress_tokens))
        again = []
        budget = config.batch_tokens // config.beam_size
        batches = batches_by_length([(len(ids) - 1,) for ids in whole], budget, padded=True)
        for place, one in self._run(batches, whole, limits, config):
            limit = limits[place]
            if all(len(h.ids) <= limit and never.isdisjoint(h.ids) and keeps_rules(h.ids, config, limit) for h in one):
                yield place, one
            else:
                again.append(place)
        if again:
            shapes = [(len(whole[place]) - 1, limits[place]) for place in again]
            batches = ([again[i] for i in batch] for batch in batches_by_length(shapes, budget, padded=False))
            found = dict(self._run(batches, whole, limits, config, sorted(never), again=True))
            yield from self._rescore(found, sources, config).items()

    def _run(
        self,
        batches: Iterable[list[int]],
        sources: Sequence[list[int]],
        limits: Sequence[int],
        config: DecodeConfig,
        never: Sequence[int] = (),
        *,
        again: bool = False,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yields the hypotheses of each index of the batches.

        An output without an end token exceeds the limit of its batch. If `again`, the texts of a batch share one limit,
        at which outputs end, and suppressed ids (`never`) and n-gram blocking apply; the scores are then not the
        model's.
        """
        prefix = [self._target[i] for i in config.target_prefix]
        ends = [
            self._target[i]
            for i in dict.fromkeys((self.config.eos_id, *config.end_ids))
            if i not in config.suppress_tokens
        ]
        banned = [[self._target[i] for i in ids] for ids in ([i] for i in never if i not in config.end_ids)]
        banned += [[self._target[i] for i in ids] for ids in config.banned] if again else []

        def search(batch: list[int]) -> Any:
            longest = max(limits[place] for place in batch)
            return self._translator.translate_batch(
                [self._words_of_source(sources[place]) for place in batch],
                [prefix] * len(batch) if prefix else None,
                beam_size=config.beam_size,
                num_hypotheses=config.n_best,
                length_penalty=config.length_penalty,
                suppress_sequences=banned or None,
                no_repeat_ngram_size=config.no_repeat_ngram_size if again else 0,
                end_token=ends if len(ends) > 1 else None,
                max_decoding_length=len(prefix) + longest + (not again),  # with the end token, unless scored again
                min_decoding_length=len(prefix) + min(config.min_length, longest) if again and config.min_length else 0,
                max_input_length=0,  # long texts are already split
                return_scores=True,
                return_end_token=True,
                asynchronous=True,
            )

        ids, start = self._ids, len(prefix)
        for place, result in self._ahead(batches, search):
            found = []
            for words, rank in zip(result.hypotheses, result.scores, strict=True):
                if not words or not all(word in ids for word in words):
                    raise CheckpointError(
                        f"CTranslate2 writes {format_value(words)}, which are not tokens of the model: "
                        f"`{self._folder}` is "
                        "damaged",
                        f"remove it, or {WITH_TORCH}",
                    )
                score = rank * len(words) ** config.length_penalty  # the length includes end token and prefix
                words = words[start:-1] if words[-1] in ends else words[start:]
                found.append(Hypothesis([ids[word] for word in words], score, start))
            yield place, found

    def _ahead(self, batches: Iterable[list[int]], call: Callable[[list[int]], Any]) -> Iterator[tuple[int, Any]]:
        """Yields the engine's result for each index of the batches; keeps several batches in flight."""
        waiting: deque[tuple[list[int], Any]] = deque()
        for batch in batches:
            waiting.append((batch, call(batch)))
            if len(waiting) > BATCHES_AHEAD * self._how["inter_threads"]:
                yield from _answers(*waiting.popleft())
        while waiting:
            yield from _answers(*waiting.popleft())

    def _rescore(
        self,
        found: Mapping[int, list[Hypothesis]],
        pieces: Sequence[list[int]],
        config: DecodeConfig,
    ) -> dict[int, list[Hypothesis]]:
        """Returns hypotheses with the model's scores, ranked by them; an output at its limit ends there."""
        pairs = [(pieces[place], h.ids) for place, one in found.items() for h in one]
        scores = iter(self.scores([src for src, _ in pairs], [tgt for _, tgt in pairs], config))
        return {
            place: sorted([replace(h, score=next(scores)) for h in one], key=lambda h: -h.rank(config.length_penalty))
            for place, one in found.items()
        }

    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        check_decoding_ids(config, self.config)
        src = [add_special_ids(ids, self.config, config) for ids in sources]
        start = len(config.target_prefix)
        tgt = [[self._target[i] for i in (*config.target_prefix, *ids)] for ids in targets]

        def score(batch: list[int]) -> Any:
            both = [self._words_of_source(src[place]) for place in batch], [tgt[place] for place in batch]
            return self._translator.score_batch(*both, max_input_length=0, asynchronous=True)

        shapes = [(len(a) - 1, len(b)) for a, b in zip(src, tgt, strict=True)]
        batches = batches_by_length(shapes, config.batch_tokens, padded=True)
        found = {place: list(map(float, result.log_probs[start:])) for place, result in self._ahead(batches, score)}
        return [found[place] for place in range(len(src))]

    def _words_of_source(self, whole: list[int]) -> list[str]:
        """Returns a source's tokens from its ids with special tokens, to which the engine adds none."""
        return [self._source[i] for i in whole]


def keeps_rules(ids: Sequence[int], config: DecodeConfig, limit: int) -> bool:
    """Returns True if an output of at most `limit` tokens is long enough, repeats no n-gram and contains no banned
    sequence.
    """
    whole, size = (*config.target_prefix, *ids), config.no_repeat_ngram_size
    runs = [whole[start : start + size] for start in range(len(whole) - size + 1)] if size else []
    banned = any(whole[at : at + len(run)] == run for run in config.banned for at in range(len(whole)))
    return len(ids) >= min(config.min_length, limit) and len(set(runs)) == len(runs) and not banned


def _answers(batch: list[int], results: Any) -> Iterator[tuple[int, Any]]:
    for place, result in zip(batch, results, strict=True):
        yield place, result.result()


def _library() -> Any:
    try:
        import ctranslate2
    except ImportError as error:
        raise ConfigError(
            "CTranslate2 is not installed", f"install the extra `ct2`: {format_install_command('ct2')}"
        ) from error
    return ctranslate2


def _device(name: str) -> tuple[str, int]:
    """Returns the device's type and index. Raises ConfigError if CTranslate2 has no such device."""
    count = _library().get_cuda_device_count()
    known = ["cpu", *(["cuda"] if count else []), *(f"cuda:{i}" for i in range(count))]
    if name == "auto":
        return ("cuda" if count else "cpu"), 0
    if name not in known:
        raise ConfigError(
            f"device `{format_value(name)}` is not available in CTranslate2 here{did_you_mean(name, known)}",
            f"choose one of auto, {', '.join(known)}, or {WITH_TORCH}",
        )
    kind, _, number = name.partition(":")
    return kind, int(number or 0)


def _dtype(dtype: object, device: str) -> str:
    """Returns the name of a compute type; None: float32. Raises ConfigError if this machine does not support it."""
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    able = _library().get_supported_compute_types(device)
    known = [known for known in DTYPES if known in able]
    if name not in known:
        of = (
            f"is not supported by CTranslate2 on this machine's {device}"
            if name in DTYPES
            else "is unknown to CTranslate2"
        )
        raise ConfigError(
            f"dtype `{format_value(name)}` {of}{did_you_mean(name, known)}", f"choose one of {', '.join(known)}"
        )
    return name


def _vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """Returns the source and the target vocabulary, ordered by id."""
    shared = folder / "shared_vocabulary.json"
    names = [shared.name] * 2 if shared.exists() else ["source_vocabulary.json", "target_vocabulary.json"]
    source, target = (read_list(folder / name, MOST_TOKENIZER_BYTES) for name in names)
    return source, target
