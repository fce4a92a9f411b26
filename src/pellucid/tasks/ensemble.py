"""A Translator of several models that write by one vocabulary: the mean of their log-probabilities decides."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NoReturn

from pellucid.config import DecodeConfig, ModelConfig, SamplingConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.errors import ConfigError, shown
from pellucid.tasks.segments import Segment
from pellucid.tasks.translator import Translator

if TYPE_CHECKING:  # as in pellucid/tasks/task.py
    import torch

    from pellucid.decoding.beam import Search
    from pellucid.decoding.constraints import Constraints
    from pellucid.decoding.ensemble import Ensemble
    from pellucid.evaluation.calibration import Calibration
    from pellucid.text.tokenizers import Tokenizers
    from pellucid.text.training_text import TrainingText
    from pellucid.tracing.trace import Trace


class EnsembleTranslator(Translator):
    """Translators that write together, token by token. The first one's settings hold for all of them.

        both = pellucid.EnsembleTranslator([pellucid.Translator.load("a"), pellucid.Translator.load("b")])
        both.translate(["Ein Hund läuft ."])[0].text

    Each reads a source by its own tokenizer. A score is the mean of the scores that the models give.
    """

    def __init__(self, translators: Sequence[Translator], names: Sequence[str] = ()) -> None:
        """Puts translators together, which stay as they are; `names` are what errors call them.

        Raises ConfigError for fewer than two, and for models that do not write by the same vocabulary, are on different
        devices, or are of different languages.
        """
        self.members: list[Translator] = list(translators)
        if len(self.members) < 2:
            raise ConfigError(
                f"an ensemble has two models or more, and this one has {len(self.members)}", "name another"
            )
        if odd := [one for one in self.members if not isinstance(one, Translator) or "model" not in vars(one)]:
            raise ConfigError(f"{shown(odd[0])} is no translator with one model of PyTorch", "load it by itself")
        names = names or [f"model {number}" for number in range(1, len(self.members) + 1)]
        first = self.members[0]
        self.tokenizers: Tokenizers = first.tokenizers
        self.decode: DecodeConfig = first.decode
        self.labels: tuple[str, ...] = ()
        self.languages: dict[str, int] = dict(first.languages)
        self.text: TrainingText | None = first.text
        self.card = ""
        self.calibration: Calibration | None = None
        room = min(one.config.max_positions for one in self.members)
        self._config_of_all = replace(first.config, max_positions=room)
        for name, other in zip(names[1:], self.members[1:], strict=True):
            _check_together(first, other, names[0], name)

    def __getattr__(self, name: str) -> Any:
        """Refuses the one model that a Translator has, in words."""
        if name == "model":
            _refuse("is of several models, and cannot be inspected, changed or converted as one")
        raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`")

    @property
    def config(self) -> ModelConfig:
        """The shape of the first model, with the fewest positions that one of them has."""
        return self._config_of_all

    @property
    def device(self) -> "torch.device":
        return self.members[0].device

    def trace(self, *args: Any, **options: Any) -> "Trace":
        """Refuses: what attends is one model."""
        _refuse("cannot be traced: attention is one model's")

    def save(self, folder: str | Path) -> None:
        """Refuses: a model folder holds one model."""
        _refuse("cannot be saved: a model folder holds one model")

    def add_weights(self, digest: "hashlib._Hash") -> str:
        for member in self.members:
            device = member.add_weights(digest)
            source = member.tokenizers.source
            digest.update("\n".join(source.tokens(range(source.size))).encode("utf-8", "replace"))
            digest.update(repr((member.decode.source_prefix, member.decode.source_suffix)).encode())
        return device

    def _about(self) -> str:
        return f"ensemble of {len(self.members)}: {'; '.join(member._about() for member in self.members)}"

    def _joint(self, config: DecodeConfig) -> "Ensemble":
        """Returns the models as a search takes them; what stands around a source is each model's own setting."""
        from pellucid.decoding.ensemble import Ensemble

        decodes = [config]
        for member in self.members[1:]:
            own = config if member.languages else member.decode
            around = {name: getattr(own, name) for name in ("source_prefix", "source_end", "source_suffix")}
            decodes.append(replace(config, **around))
        return Ensemble([member.model for member in self.members], decodes)

    def _segments(self, sources: Sequence[str], decode: DecodeConfig, stacklevel: int = 3) -> list[list[Segment]]:
        lines = super()._segments(sources, decode, stacklevel + 1)
        segments = [segment for line in lines for segment in line]
        texts = [
            segment.source if len(segment.pieces) == 1 else self.tokenizers.source.decode(piece)
            for segment in segments
            for piece in segment.pieces
        ]
        read = iter(self._read([piece for segment in segments for piece in segment.pieces], texts))
        return [[replace(s, pieces=[next(read) for _ in s.pieces]) for s in line] for line in lines]

    def _encoded_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        src, tgt = super()._encoded_pairs(sources, targets)
        return self._read(src, list(sources)), tgt

    def _read(self, first: list[list[int]], texts: list[str]) -> list[list[int]]:
        """Returns sources with the ids by which each model reads them; `first` are the first model's."""
        from pellucid.decoding.ensemble import Readings

        own = self.tokenizers.source
        others = [
            first if member.tokenizers.source is own else member.tokenizers.source.encode_lines(texts)
            for member in self.members[1:]
        ]
        return [Readings(ids, by_others) for ids, *by_others in zip(first, *others, strict=True)]

    def _searching(
        self, pieces: list[list[int]], config: DecodeConfig, search: "Search | None", constraints: "Constraints | None"
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        from pellucid.decoding import engine

        return enumerate(engine.search(self._joint(config), pieces, config, search, constraints=constraints))

    def _sampled(
        self, pieces: list[list[int]], sampling: SamplingConfig, decode: DecodeConfig, places: list[int]
    ) -> list[Hypothesis]:
        from pellucid.decoding import engine

        return engine.sample_outputs(self._joint(decode), pieces, sampling, decode, places)

    def _log_probs(self, sources: list[list[int]], targets: list[list[int]], decode: DecodeConfig) -> list[list[float]]:
        from pellucid.decoding.ensemble import Readings
        from pellucid.decoding.scoring import output_log_probs

        if not all(isinstance(source, Readings) for source in sources):
            sources = self._read(sources, [self.tokenizers.source.decode(source) for source in sources])
        joint = self._joint(decode)
        of_models = [
            output_log_probs(model, [source.each[number] for source in sources], targets, own)  # type: ignore[attr-defined]
            for number, (model, own) in enumerate(zip(joint.models, joint.decodes, strict=True))
        ]
        return [[fmean(of_token) for of_token in zip(*each, strict=True)] for each in zip(*of_models, strict=True)]

    def _too_long(self, src: Sequence[int], tgt: Sequence[int], decode: DecodeConfig) -> str:
        joint = self._joint(decode)
        if fault := super()._too_long(src, tgt, decode):
            return fault
        for own, whole in zip(self.members, joint.whole_sources(src), strict=True):
            if len(whole) > own.config.max_positions:
                return f"its source has {len(whole):,} tokens for one model, which takes {own.config.max_positions:,}"
        return ""


def _refuse(what: str) -> NoReturn:
    raise ConfigError(f"an ensemble {what}", "load one of its models by itself")


def _check_together(first: Translator, other: Translator, name: str, other_name: str) -> None:
    """Raises ConfigError where two models cannot write together, naming what differs."""
    hint = "models of an ensemble share a target vocabulary: train the second one with the first one's tokenizer"
    sizes = first.config.tgt_vocab_size, other.config.tgt_vocab_size
    if sizes[0] != sizes[1]:
        raise ConfigError(
            f"`{name}` and `{other_name}` write by different vocabularies: {sizes[0]:,} and {sizes[1]:,} ids", hint
        )
    written = [t.tokenizers.target.tokens(range(min(t.tokenizers.target.size, sizes[0]))) for t in (first, other)]
    for number, (one, another) in enumerate(zip(*written, strict=False)):
        if one != another:
            raise ConfigError(
                f"`{name}` and `{other_name}` write by different vocabularies: the id {number} is `{one}` in the one "
                f"and `{another}` in the other",
                hint,
            )
    for field in ("bos_id", "eos_id"):
        mine, its = getattr(first.config, field), getattr(other.config, field)
        if mine != its:
            raise ConfigError(f"`{name}` has `{field}` {mine}, and `{other_name}` {its}", hint)
    if first.languages != other.languages:
        raise ConfigError(
            f"`{name}` and `{other_name}` are of different languages: {_codes(first)}, and {_codes(other)}",
            "multilingual models are in one ensemble only where their codes have the same ids",
        )
    if not first.languages and first.decode.target_prefix != other.decode.target_prefix:
        raise ConfigError(
            f"`{name}` begins every output with {list(first.decode.target_prefix)}, and `{other_name}` with "
            f"{list(other.decode.target_prefix)}",
            "the models of an ensemble begin alike",
        )
    if first.device != other.device:
        raise ConfigError(f"`{name}` is on {first.device}, and `{other_name}` on {other.device}", "load both on one")


def _codes(translator: Translator) -> str:
    return f"{len(translator.languages)} codes" if translator.languages else "no codes"
