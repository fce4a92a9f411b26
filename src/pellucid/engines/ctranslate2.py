"""A Translator whose search is CTranslate2's: lines, sentences and settings are Pellucid's, and PyTorch is not needed.

The same are: which text is translated by itself, what stands around it, the length by which an output is ranked and
limited, and what a score is. CTranslate2's own are: when a beam stops (once as many hypotheses have ended as it is
wide), and that the last digits, so near ties, depend on the sentences beside.
"""

import json
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pellucid.config import TASKS, DecodeConfig, ModelConfig
from pellucid.decoding.batches import batches_by_length
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.ids import check_ids, suppressed_ids, whole_source
from pellucid.engines.kept import MODEL, WITH_TORCH, kept_conversion
from pellucid.errors import CheckpointError, ConfigError, argument, did_you_mean, install, shown
from pellucid.process import torch_threads_kept
from pellucid.tasks.languages import speaking
from pellucid.tasks.task import check_for, model_folder
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.text.training_text import TrainingText
from pellucid.weights.folder import CALIBRATION, Description, is_foreign, read_config, read_description

if TYPE_CHECKING:
    import hashlib

    import torch

    from pellucid.decoding.beam import Search
    from pellucid.decoding.constraints import Constraints
    from pellucid.model.parts import Parts
    from pellucid.tracing.trace import Trace

NAME = "ctranslate2"
DTYPES = (
    "float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16",
)  # fmt: skip
"""The types of matrices that CTranslate2 has; which of them it computes with depends on the machine."""
BATCHES_AHEAD = 2
"""Batches that wait for each worker: enough that none is idle, few enough that Ctrl-C need not wait for long."""


def open_translator(
    folder: str | Path,
    device: "str | torch.device" = "auto",
    dtype: "str | torch.dtype | None" = None,
    source_language: str | None = None,
    target_language: str | None = None,
    revision: str | None = None,
    parts: "Parts | None" = None,
    tokenizer: GivenTokenizers | None = None,
    threads: int | None = None,
) -> "CTranslate2Translator":
    """Opens a translator on CTranslate2, as `Translator.load` says; converts the model first where none is kept.

    Raises ConfigError, besides, where the extra `ct2` is missing, and for a model that CTranslate2 cannot express.
    """
    if parts is not None:
        raise ConfigError("`parts=` are modules of PyTorch, which CTranslate2 cannot run", WITH_TORCH)
    if threads is not None and threads < 1:
        raise ConfigError(f"{argument('threads', threads)} must be at least 1")
    place = model_folder(folder, revision)
    if not is_foreign(place):
        check_for(Translator.task, TASKS[read_config(place)["task"]], place)
    kind, number = _device(str(device))
    name = _dtype(dtype, kind)
    kept = kept_conversion(place, NAME, name, partial(_convert, place, name, tokenizer))
    described = read_description(kept, tokenizer=tokenizer)
    cores = threads or _cores()
    found = CTranslate2Translator(
        described, kept / MODEL, device=kind, device_index=number, compute_type=name,
        inter_threads=cores if kind == "cpu" else 1, intra_threads=1,
    )  # fmt: skip
    if (place / CALIBRATION).exists():
        from pellucid.evaluation.calibration import calibration_in  # it brings numpy

        found.calibration = calibration_in(place)
    found.decode = speaking(
        found.decode, found.config, found.tokenizers, found.languages, source_language, target_language, found.pairs
    )
    return found


class CTranslate2Translator(Translator):
    """A translator that searches by CTranslate2. It has no model of PyTorch: what needs one says so."""

    def __init__(self, described: Description, folder: Path, **how: Any) -> None:
        """Loads the engine from a converted model's folder; `how` is what `ctranslate2.Translator` takes.

        Raises CheckpointError where CTranslate2 cannot load it.
        """
        self.tokenizers: Tokenizers = described.tokenizers
        self.decode: DecodeConfig = described.decode
        self.labels: tuple[str, ...] = ()
        self.languages: dict[str, int] = dict(described.languages)
        self.text: TrainingText | None = described.text
        self.card = ""
        self._config_of_model = described.config
        self._key = folder.parent.name
        self._how = how
        try:
            with torch_threads_kept():
                self._engine: Any = _library().Translator(str(folder), **how)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"CTranslate2 cannot load `{folder}`: {error}", f"remove it, or {WITH_TORCH}"
            ) from error
        words = _vocabularies(folder)
        self._source: list[str] = words[0]
        self._target: list[str] = words[1]
        self._ids: dict[str, int] = {word: i for i, word in enumerate(self._target)}

    def __getattr__(self, name: str) -> Any:
        """Refuses the model of PyTorch that a Translator has, in words."""
        if name == "model":
            self._refuse("has no model of PyTorch: it cannot be traced, inspected, changed or saved")
        raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`")

    @property
    def config(self) -> ModelConfig:
        return self._config_of_model

    def trace(self, *args: Any, **options: Any) -> "Trace":
        self._refuse("cannot be traced")

    def save(self, folder: str | Path) -> None:
        self._refuse("cannot be saved: the folder that it was loaded from is its model")

    def add_weights(self, digest: "hashlib._Hash") -> str:
        digest.update(self._key.encode())
        return str(self._how["device"])

    def _about(self) -> str:
        config = self.config
        return (
            f"CTranslate2 in {self._how['compute_type']}, {config.num_encoder_layers} + {config.num_decoder_layers} "
            f"layers, d_model {config.d_model}, on {self._how['device']}"
        )

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigError(f"a translator on CTranslate2 {what}", WITH_TORCH)

    def _sampled(self, *_: Any) -> list[Hypothesis]:
        self._refuse("does not draw: its random numbers are one stream for all lines, and not each line's own")

    def _searching(
        self, pieces: list[list[int]], config: DecodeConfig, search: "Search | None", constraints: "Constraints | None"
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Searches twice where it must: a text that passed its own limit, or holds what may not be written.

        CTranslate2 has one limit a batch, and leaves out tokens before it normalizes, where Pellucid leaves them out
        behind: so nothing is suppressed at first, and what is searched again gets the scores that the model gives.
        """
        if search is not None:
            self._refuse(
                "has a search of its own, and takes none as `search=`, no `diverse_groups=` and no `alternatives=`"
            )
        if constraints:
            self._refuse("takes no `terms=`, `prefixes=`, `min_length=` or `no_repeat_ngram=`")
        check_ids(config, self.config)
        sources = [whole_source(ids, self.config, config) for ids in pieces]
        room = self.config.max_positions - 1 - len(config.target_prefix)
        limits = [min(config.limit(len(ids)), room) for ids in pieces]
        never = set(suppressed_ids(self.config, config.suppress))
        again = []
        budget = config.batch_tokens // config.beam_size
        batches = batches_by_length([(len(ids) - 1,) for ids in sources], budget, padded=True)
        for place, one in self._run(batches, sources, limits, config):
            if all(len(h.ids) <= limits[place] and never.isdisjoint(h.ids) for h in one):
                yield place, one
            else:
                again.append(place)
        if again:
            shapes = [(len(sources[place]) - 1, limits[place]) for place in again]
            batches = ([again[i] for i in batch] for batch in batches_by_length(shapes, budget, padded=False))
            found = dict(self._run(batches, sources, limits, config, sorted(never)))
            yield from self._scored_again(found, pieces, config).items()

    def _run(
        self,
        batches: Iterable[list[int]],
        sources: Sequence[list[int]],
        limits: Sequence[int],
        config: DecodeConfig,
        never: Sequence[int] = (),
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yields the hypotheses of each place of the batches.

        An output without an end token is over the limit of its batch. Where there is something that is `never` written,
        batches have one limit each, and it ends there; what such a search returns has no scores of the model's.
        """
        prefix = [self._target[i] for i in config.target_prefix]

        def search(batch: list[int]) -> Any:
            longest = max(limits[place] for place in batch)
            return self._engine.translate_batch(
                [self._words_of_source(sources[place]) for place in batch],
                [prefix] * len(batch) if prefix else None,
                beam_size=config.beam_size,
                num_hypotheses=config.n_best,
                length_penalty=config.length_penalty,
                suppress_sequences=[[self._target[i]] for i in never] or None,
                max_decoding_length=len(prefix) + longest + (not never),  # with the end token, unless scored again
                min_decoding_length=0,
                max_input_length=0,  # what is too long was cut into pieces
                return_scores=True,
                return_end_token=True,
                asynchronous=True,
            )

        end, ids, start = self._target[self.config.eos_id], self._ids, len(prefix)
        for place, result in self._ahead(batches, search):
            found = []
            for words, rank in zip(result.hypotheses, result.scores, strict=True):
                score = rank * len(words) ** config.length_penalty  # the end token is counted, and the prefix
                words = words[start:-1] if words[-1] == end else words[start:]
                found.append(Hypothesis([ids[word] for word in words], score, start))
            yield place, found

    def _ahead(self, batches: Iterable[list[int]], call: Callable[[list[int]], Any]) -> Iterator[tuple[int, Any]]:
        """Yields what the engine answers for each place of the batches, of which some are under way all the time."""
        waiting: deque[tuple[list[int], Any]] = deque()
        for batch in batches:
            waiting.append((batch, call(batch)))
            if len(waiting) > BATCHES_AHEAD * self._how["inter_threads"]:
                yield from _answers(*waiting.popleft())
        while waiting:
            yield from _answers(*waiting.popleft())

    def _scored_again(
        self,
        found: Mapping[int, list[Hypothesis]],
        pieces: Sequence[list[int]],
        config: DecodeConfig,
    ) -> dict[int, list[Hypothesis]]:
        """Returns hypotheses with the model's own log-probabilities, ranked by these: at its limit an output ends."""
        pairs = [(pieces[place], h.ids) for place, one in found.items() for h in one]
        scores = iter(self._scores([src for src, _ in pairs], [tgt for _, tgt in pairs], config))
        return {
            place: sorted([replace(h, score=next(scores)) for h in one], key=lambda h: -h.rank(config.length_penalty))
            for place, one in found.items()
        }

    def _log_probs(self, sources: list[list[int]], targets: list[list[int]], decode: DecodeConfig) -> list[list[float]]:
        check_ids(decode, self.config)
        src = [whole_source(ids, self.config, decode) for ids in sources]
        start = len(decode.target_prefix)
        tgt = [[self._target[i] for i in (*decode.target_prefix, *ids)] for ids in targets]

        def score(batch: list[int]) -> Any:
            both = [self._words_of_source(src[place]) for place in batch], [tgt[place] for place in batch]
            return self._engine.score_batch(*both, max_input_length=0, asynchronous=True)

        shapes = [(len(a) - 1, len(b)) for a, b in zip(src, tgt, strict=True)]
        batches = batches_by_length(shapes, decode.batch_tokens, padded=True)
        found = {place: list(map(float, result.log_probs[start:])) for place, result in self._ahead(batches, score)}
        return [found[place] for place in range(len(src))]

    def _words_of_source(self, whole: list[int]) -> list[str]:
        """Returns a source as the engine takes it, from its ids with all that stands around it: it adds nothing."""
        return [self._source[i] for i in whole]


def _answers(batch: list[int], results: Any) -> Iterator[tuple[int, Any]]:
    for place, result in zip(batch, results, strict=True):
        yield place, result.result()


def _convert(folder: Path, dtype: str, tokenizer: GivenTokenizers | None, place: Path) -> None:
    """Writes a model for CTranslate2 with its proof, and its description; imports PyTorch.

    Raises ConfigError for a model that CTranslate2 cannot express, CheckpointError for one that came out another.
    """
    import torch

    from pellucid.conversion.proof import prove
    from pellucid.weights.export.ctranslate2 import to_ctranslate2
    from pellucid.weights.opening import open_folder

    saved = open_folder(folder, torch.device("cpu"), tokenizer=tokenizer)
    opened = Translator._from_folder(folder, saved)
    opened.save_description(place)
    rounded_to = "" if dtype == "float32" else dtype
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of tokenizer.json, which is not read here
            to_ctranslate2(
                saved.model, opened.tokenizers, place / MODEL, cast(Any, rounded_to or None),
                decode=replace(saved.decode, source_end=False),  # a call may say what stands around a source
            )  # fmt: skip
    except ConfigError as error:
        raise ConfigError(str(error), WITH_TORCH) from error
    proof = prove(folder, place / MODEL, "ct2", rounded_to=rounded_to, tokenizer=tokenizer)
    proof.save(place / MODEL)
    most = proof.tolerance if proof.decides else sys.float_info.max
    if not proof.largest_difference <= most:
        raise CheckpointError(
            f"the model in `{folder}` came out another in CTranslate2: {proof.measure} differ by "
            f"{proof.largest_difference:.1e} of the largest, and {proof.tolerance:g} is allowed",
            WITH_TORCH,
        )


def _library() -> Any:
    try:
        import ctranslate2
    except ImportError as error:
        raise ConfigError("CTranslate2 is not installed", f"it comes with the extra `ct2`: {install('ct2')}") from error
    return ctranslate2


def _device(name: str) -> tuple[str, int]:
    """Returns the kind of device and its number. Raises ConfigError where CTranslate2 has none of that name."""
    count = _library().get_cuda_device_count()
    known = ["cpu", *(["cuda"] if count else []), *(f"cuda:{i}" for i in range(count))]
    if name == "auto":
        return ("cuda" if count else "cpu"), 0
    if name not in known:
        raise ConfigError(
            f"device `{shown(name)}` is none that CTranslate2 has here{did_you_mean(name, known)}",
            f"choose one of auto, {', '.join(known)}, or {WITH_TORCH}",
        )
    kind, _, number = name.partition(":")
    return kind, int(number or 0)


def _dtype(dtype: object, device: str) -> str:
    """Returns the type by its name; None: float32. Raises ConfigError for one that this machine does not compute in."""
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    able = _library().get_supported_compute_types(device)
    known = [known for known in DTYPES if known in able]
    if name not in known:
        of = (
            f"is not computed in by CTranslate2 on this machine's {device}"
            if name in DTYPES
            else "is unknown to CTranslate2"
        )
        raise ConfigError(f"dtype `{shown(name)}` {of}{did_you_mean(name, known)}", f"choose one of {', '.join(known)}")
    return name


def _cores() -> int:
    """Returns how many cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


def _vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """Returns the words of source and target by their ids."""
    shared = folder / "shared_vocabulary.json"
    names = [shared.name] * 2 if shared.exists() else ["source_vocabulary.json", "target_vocabulary.json"]
    source, target = (json.loads((folder / name).read_text(encoding="utf-8")) for name in names)
    return source, target
