"""The model under examination: in two precisions, with input ids and the tolerance for rounding."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.doctor import CorpusCheck, Level
from pellucid.data.framing import TextFrame
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.training.loss import CrossEntropy, Loss

MOST_DOUBLE = 300_000_000
"""The most parameters of a model that is copied in double precision: 2.4 GB."""
LENGTHS = 7, 5, 4
"""The lengths of the test texts, in tokens, if the model has room for them."""
SEED = 17


@dataclass(frozen=True)
class ModelCheck(CorpusCheck):
    """A line of a model's report: "ok", "BAD", or "n/a" if the check does not apply to the model."""

    name: str = ""
    figure: float | None = None
    """The largest difference that was found."""
    tolerance: float | None = None
    """The largest difference allowed."""
    follows: str = ""
    """An earlier BAD check whose fault may be the cause of this one."""


@dataclass
class ExaminedModel:
    """A model, and all that is needed to examine it."""

    model: Model
    """The model as passed by the caller."""
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    loss: Loss = field(default_factory=CrossEntropy)
    folder: Path | None = None

    def __post_init__(self) -> None:
        self.config: ModelConfig = self.model.config
        self.exact: Model
        self.dtype: torch.dtype
        self.exact, self.dtype = _exact(self.model)
        self.tolerance: float = torch.finfo(self.dtype).eps ** 0.5
        """Half of the digits: the other half allows for the rounding of all layers, as in tests/rounding.py."""
        generator = np.random.default_rng(SEED)
        self.sources: list[list[int]] = []
        """The encoder's input ids, complete; empty for a decoder alone."""
        self.bare_sources: list[list[int]] = []
        self.targets: list[list[int]] = []
        """The decoder's input ids, with the ids before each text; empty for an encoder."""
        family, room = self.config.family, self.config.max_positions
        framing = TextFrame.from_config(self.decode, self.config)
        for length in LENGTHS:
            if family != "decoder":
                count = max(1, min(length, room - framing.of_source - PADS))
                self.bare_sources.append(self._sample_ids(generator, count, self.config.src_vocab_size))
                whole = [*framing.source_prefix, *self.bare_sources[-1], *framing.source_suffix]
                self.sources.append(whole if family == "encoder-decoder" else self.bare_sources[-1])
            if family != "encoder":
                count = max(1, min(length, room - framing.of_target))
                before = list(framing.target_prefix)
                self.targets.append([*before, *self._sample_ids(generator, count, self.config.tgt_vocab_size)])
        self.generator = generator
        self.tokenizers: TokenizerPair | None = None
        """The tokenizers of the model's folder; None if it has none."""

    @property
    def device(self) -> torch.device:
        """The device that the model computes on."""
        return next(self.model.parameters()).device

    def other_ids(self, ids: Sequence[int], size: int) -> list[int]:
        """Returns ids of the same number that all differ from `ids` at their index."""
        found = self._sample_ids(self.generator, len(ids), size)
        return [b if a != b else self._another(a, size) for a, b in zip(ids, found, strict=True)]

    def tensor(self, *rows: Sequence[int]) -> Tensor:
        """Returns rows of ids as a batch, (B, L), padded at the end."""
        width, pad_id = max(map(len, rows)), self.config.pad_id or 0
        return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=self.device)

    def output(self, src: Sequence[int] = (), tgt: Sequence[int] = (), model: Model | None = None) -> Tensor:
        """Returns a model's output for one text: logits (1, T, V), of a classifier (1, C), of an encoder (1, S, D)."""
        model = model or self.exact
        if isinstance(model, Transformer):
            return model(self.tensor(src), self.tensor(tgt))
        return model(self.tensor(tgt if isinstance(model, DecoderOnly) else src))

    def outputs(self, model: Model | None = None) -> list[Tensor]:
        """Returns a model's output for each text alone."""
        empty: list[list[int]] = [[]] * len(LENGTHS)
        pairs = zip(self.sources or empty, self.targets or empty, strict=True)
        return [self.output(src, tgt, model) for src, tgt in pairs]

    def result(self, name: str, said: str, figure: float, advice: str, tolerance: float | None = None) -> ModelCheck:
        """Returns the line of a comparison; `{}` in `said` is the figure."""
        allowed = self.tolerance if tolerance is None else tolerance
        good = figure <= allowed  # a NaN is not
        text = f"{name}: {said.format(f'{figure:.1e}' if figure else '0')} (at most {allowed:.1e})"
        level: Level = "ok" if good else "BAD"
        return ModelCheck(level, text, "" if good else advice, name, figure, allowed)

    def _sample_ids(self, generator: np.random.Generator, count: int, size: int) -> list[int]:
        special = {self.config.pad_id, self.config.bos_id, self.config.eos_id, *self.decode.suppress_tokens}
        words = [i for i in range(min(size, 1000)) if i not in special] or [i for i in range(size) if i in special]
        ids: list[int] = generator.choice(words, count).tolist()
        return ids

    def _another(self, one: int, size: int) -> int:
        return next((i for i in range(size) if i not in (one, self.config.pad_id)), one)


PADS = 3
"""The positions reserved for padding."""


def report_not_applicable(name: str, reason: str) -> ModelCheck:
    """Returns the line of a check that does not apply."""
    return ModelCheck("n/a", f"{name}: {reason}", name=name)


def report_bad(name: str, text: str, advice: str = "", figure: float | None = None) -> ModelCheck:
    """Returns the line of a fault that is not a difference of numbers."""
    return ModelCheck("BAD", f"{name}: {text}", advice, name, figure)


def report_good(name: str, text: str) -> ModelCheck:
    """Returns the line of a passed check that measures nothing."""
    return ModelCheck("ok", f"{name}: {text}", name=name)


def relative_difference(one: Tensor, other: Tensor) -> float:
    """Returns the largest difference of two tensors, relative to the largest number; infinity if a number is not
    finite.
    """
    if one.shape != other.shape or not bool(one.isfinite().all() & other.isfinite().all()):
        return float("inf")
    if not one.numel():
        return 0.0
    one, other = one.detach().double(), other.detach().double()
    largest = float(torch.maximum(one.abs().max(), other.abs().max()))
    return float((one - other).abs().max()) / largest if largest else 0.0


def _exact(model: Model) -> tuple[Model, torch.dtype]:
    """Returns a copy in evaluation mode, in double precision if all its parts support that, and the precision."""
    own = next(p.dtype for p in model.parameters() if p.is_floating_point())
    for dtype in (torch.float64, torch.float32, own):
        if dtype == torch.float64 and sum(p.numel() for p in model.parameters()) > MOST_DOUBLE:
            continue
        try:
            copied = deepcopy(model).to(dtype).eval()
            if _reads(copied).dtype == dtype:
                return copied, dtype
        except (RuntimeError, TypeError):  # a custom module, or a device, without double precision
            continue
    return deepcopy(model).eval(), own


@torch.inference_mode()
def _reads(model: Model) -> Tensor:
    """Returns a model's output for a single id."""
    ids = torch.ones(1, 1, dtype=torch.long, device=next(model.parameters()).device)
    return model(ids, ids) if isinstance(model, Transformer) else model(ids)


def record_outputs(model: nn.Module, run: Callable[[], object]) -> dict[str, list[Any]]:
    """Returns the outputs of a model's modules while `run` ran, by module name, in the order of computation."""
    found: dict[str, list[Any]] = {}

    def keep(place: str) -> Callable[..., None]:
        return lambda module, given, output: found.setdefault(place, []).append(output)

    hooks = [module.register_forward_hook(keep(place)) for place, module in list_parts(model)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def list_parts(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Returns embeddings, position modules, the sublayers of each layer, layers, final norms, projection, head."""
    found = []
    for place, module in model.named_modules():
        stack, _, rest = place.partition(".")
        if isinstance(module, Embeddings) or place in ("output_projection", "head"):
            found.append((place, module))
        # A layer's dropout is shared by its sublayers, so it does not locate a difference.
        in_a_layer = rest.startswith("layers.") and rest.count(".") in (1, 2) and not rest.endswith(".dropout")
        if stack in ("encoder", "decoder") and (in_a_layer or rest in ("norm", "relative")):
            found.append((place, module))
    return found


def first_difference(
    subject: ExaminedModel, one: Callable[[], object], other: Callable[[], object], upto: int | None = None
) -> str:
    """Returns the name of the first module of the exact model whose output differs between two runs; empty if none
    does.

    The common part of both outputs is compared: the first rows, and of these the first positions, or those before
    `upto`.
    """
    first, second = record_outputs(subject.exact, one), record_outputs(subject.exact, other)
    for place, outputs in first.items():
        for a, b in zip(outputs, second.get(place, []), strict=False):
            if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dim() == b.dim() == 3:
                length = min(a.size(1), b.size(1)) if upto is None else upto
                if relative_difference(a[:1, :length], b[:1, :length]) > subject.tolerance:
                    return place
    return ""


def describe_origin(place: str) -> str:
    """Returns the phrase of a line that says where a fault begins."""
    return f"; it begins in {place}" if place else ""


def is_encoder(model: nn.Module) -> bool:
    """Returns True if a model is an encoder alone."""
    return isinstance(model, EncoderOnly)
