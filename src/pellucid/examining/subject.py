"""The subject of an examination: a model in two precisions, ids for it to read, and how far rounding reaches."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.doctor import Check, Level
from pellucid.data.framing import Framing
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.training.loss import CrossEntropy, Loss

MOST_DOUBLE = 300_000_000
"""Parameters of a model that is still copied in double precision: 2.4 GB."""
LENGTHS = 7, 5, 4
"""Tokens of the texts that a model is examined on, where it has room for so many."""
SEED = 17


@dataclass(frozen=True)
class ModelCheck(Check):
    """A line of a model's report: "ok", "BAD", or "n/a" where the model has nothing that could be checked so."""

    name: str = ""
    figure: float | None = None
    """The largest difference that was found, as its line says."""
    tolerance: float | None = None
    """The most that it may be."""
    follows: str = ""
    """An earlier check that is BAD, of which this one being BAD may be a consequence."""


@dataclass
class Subject:
    """A model, and all that is needed to examine it."""

    model: Model
    """As it is given."""
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    loss: Loss = field(default_factory=CrossEntropy)
    folder: Path | None = None

    def __post_init__(self) -> None:
        self.config: ModelConfig = self.model.config
        self.exact: Model
        self.dtype: torch.dtype
        self.exact, self.dtype = _exact(self.model)
        self.tolerance: float = torch.finfo(self.dtype).eps ** 0.5
        """Half of the digits: the rest is left to the rounding of all layers, as tests/rounding.py has it."""
        generator = np.random.default_rng(SEED)
        self.sources: list[list[int]] = []
        """The ids that the encoder reads, whole; of a decoder alone nothing."""
        self.bare_sources: list[list[int]] = []
        self.targets: list[list[int]] = []
        """The ids that the decoder reads, with those before each text; of an encoder nothing."""
        family, room = self.config.family, self.config.max_positions
        framing = Framing.of(self.decode, self.config)
        for length in LENGTHS:
            if family != "decoder":
                count = max(1, min(length, room - framing.of_source - PADS))
                self.bare_sources.append(self._drawn(generator, count, self.config.src_vocab_size))
                whole = [*framing.before_source, *self.bare_sources[-1], *framing.behind_source]
                self.sources.append(whole if family == "encoder-decoder" else self.bare_sources[-1])
            if family != "encoder":
                count = max(1, min(length, room - framing.of_target))
                before = list(framing.before_target)
                self.targets.append([*before, *self._drawn(generator, count, self.config.tgt_vocab_size)])
        self.generator = generator

    @property
    def device(self) -> torch.device:
        """The device that the model computes on."""
        return next(self.model.parameters()).device

    def other_ids(self, ids: Sequence[int], size: int) -> list[int]:
        """Returns as many ids, each another than the one in its place."""
        found = self._drawn(self.generator, len(ids), size)
        return [b if a != b else self._another(a, size) for a, b in zip(ids, found, strict=True)]

    def tensor(self, *rows: Sequence[int]) -> Tensor:
        """Returns rows of ids as a batch, (B, L), filled up behind."""
        width, pad_id = max(map(len, rows)), self.config.pad_id or 0
        return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=self.device)

    def output(self, src: Sequence[int] = (), tgt: Sequence[int] = (), model: Model | None = None) -> Tensor:
        """Returns what a model says of one text: logits (1, T, V), of a classifier (1, C), of an encoder (1, S, D)."""
        model = model or self.exact
        if isinstance(model, Transformer):
            return model(self.tensor(src), self.tensor(tgt))
        return model(self.tensor(tgt if isinstance(model, DecoderOnly) else src))

    def outputs(self, model: Model | None = None) -> list[Tensor]:
        """Returns what a model says of each text by itself."""
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

    def _drawn(self, generator: np.random.Generator, count: int, size: int) -> list[int]:
        special = {self.config.pad_id, self.config.bos_id, self.config.eos_id, *self.decode.suppress}
        words = [i for i in range(min(size, 1000)) if i not in special] or [i for i in range(size) if i in special]
        ids: list[int] = generator.choice(words, count).tolist()
        return ids

    def _another(self, one: int, size: int) -> int:
        return next((i for i in range(size) if i not in (one, self.config.pad_id)), one)


PADS = 3
"""Places that are left for padding."""


def not_applicable(name: str, reason: str) -> ModelCheck:
    """Returns the line of a check that has no subject."""
    return ModelCheck("n/a", f"{name}: {reason}", name=name)


def bad(name: str, text: str, advice: str = "", figure: float | None = None) -> ModelCheck:
    """Returns the line of a fault that is no matter of digits."""
    return ModelCheck("BAD", f"{name}: {text}", advice, name, figure)


def good(name: str, text: str) -> ModelCheck:
    """Returns the line of a check that found nothing, and measures nothing."""
    return ModelCheck("ok", f"{name}: {text}", name=name)


def apart(one: Tensor, other: Tensor) -> float:
    """Returns the largest difference of two tensors, as a part of the largest number; of what is no number infinity."""
    if one.shape != other.shape or not bool(one.isfinite().all() & other.isfinite().all()):
        return float("inf")
    if not one.numel():
        return 0.0
    one, other = one.detach().double(), other.detach().double()
    largest = float(torch.maximum(one.abs().max(), other.abs().max()))
    return float((one - other).abs().max()) / largest if largest else 0.0


def _exact(model: Model) -> tuple[Model, torch.dtype]:
    """Returns a copy in evaluation mode, in double precision where all its parts can do that, and the precision."""
    own = next(p.dtype for p in model.parameters() if p.is_floating_point())
    for dtype in (torch.float64, torch.float32, own):
        if dtype == torch.float64 and sum(p.numel() for p in model.parameters()) > MOST_DOUBLE:
            continue
        try:
            copied = deepcopy(model).to(dtype).eval()
            if _reads(copied).dtype == dtype:
                return copied, dtype
        except (RuntimeError, TypeError):  # a part of somebody's own, or a device, that knows single precision alone
            continue
    return deepcopy(model).eval(), own


@torch.inference_mode()
def _reads(model: Model) -> Tensor:
    """Returns what a model says of a single id."""
    ids = torch.ones(1, 1, dtype=torch.long, device=next(model.parameters()).device)
    return model(ids, ids) if isinstance(model, Transformer) else model(ids)


def recorded(model: nn.Module, run: Callable[[], object]) -> dict[str, list[Any]]:
    """Returns what the parts of a model gave while `run` ran, by their places, in the order in which they were done."""
    found: dict[str, list[Any]] = {}

    def keep(place: str) -> Callable[..., None]:
        return lambda module, given, output: found.setdefault(place, []).append(output)

    hooks = [module.register_forward_hook(keep(place)) for place, module in parts_of(model)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def parts_of(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Returns embeddings, what tells distances, the sublayers of each layer, layers, final norms, projection, head."""
    found = []
    for place, module in model.named_modules():
        stack, _, rest = place.partition(".")
        if isinstance(module, Embeddings) or place in ("output_projection", "head"):
            found.append((place, module))
        # A layer's dropout is shared by its sublayers, so it tells nothing of where a difference begins.
        in_a_layer = rest.startswith("layers.") and rest.count(".") in (1, 2) and not rest.endswith(".dropout")
        if stack in ("encoder", "decoder") and (in_a_layer or rest in ("norm", "relative")):
            found.append((place, module))
    return found


def first_difference(
    subject: Subject, one: Callable[[], object], other: Callable[[], object], upto: int | None = None
) -> str:
    """Names the part of the exact model that first gives something else in two runs; empty where none does.

    What both have in common is compared: the first rows, and of them the first places, or those before `upto`.
    """
    first, second = recorded(subject.exact, one), recorded(subject.exact, other)
    for place, outputs in first.items():
        for a, b in zip(outputs, second.get(place, []), strict=False):
            if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dim() == b.dim() == 3:
                length = min(a.size(1), b.size(1)) if upto is None else upto
                if apart(a[:1, :length], b[:1, :length]) > subject.tolerance:
                    return place
    return ""


def began(place: str) -> str:
    """Returns how a line says where a fault begins."""
    return f"; it begins in {place}" if place else ""


def is_encoder(model: nn.Module) -> bool:
    """Tells whether a model is an encoder alone."""
    return isinstance(model, EncoderOnly)
