"""The engine of an ensemble: models of one target vocabulary, whose log-probabilities are averaged."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from pellucid.config import DecodeConfig, ModelConfig, SamplingConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.engines.engine import Ability, Engine, PyTorchEngine
from pellucid.errors import ConfigError

if TYPE_CHECKING:  # a translator without PyTorch does not load these modules
    import torch

    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints
    from pellucid.decoding.ensemble import Ensemble
    from pellucid.text.tokenizers import TokenizerPair


@dataclass(frozen=True)
class Member:
    """A model of an ensemble, with its tokenizers, settings and languages."""

    name: str
    """Its name in error messages."""
    engine: Engine
    tokenizers: "TokenizerPair"
    decode: DecodeConfig
    languages: Mapping[str, int]


class EnsembleEngine(Engine):
    """Models that choose each token together; each encodes a source with its own tokenizer."""

    noun = "an ensemble"
    remedy = "load one of its models separately"
    lacks: ClassVar[Mapping[Ability, str]] = {
        "model": "consists of several models, and cannot be inspected, changed or converted as one",
        "trace": "cannot be traced: a trace is of one model",
        "save": "cannot be saved: a model folder holds one model",
    }

    def __init__(self, members: Sequence[Member]) -> None:
        """Forms the ensemble. Raises ConfigError for models that cannot form one."""
        self._members = list(members)
        first = self._members[0]
        room = min(one.engine.config.max_positions for one in self._members)
        self._config = replace(first.engine.config, max_positions=room)
        for other in self._members[1:]:
            _check_together(first, other)

    @property
    def config(self) -> ModelConfig:
        """The configuration of the first model, with the fewest positions of all models."""
        return self._config

    @property
    def device(self) -> "torch.device":
        return self._members[0].engine.device

    def about(self) -> str:
        return f"ensemble of {len(self._members)}: {'; '.join(member.engine.about() for member in self._members)}"

    def add_weights(self, digest: "hashlib._Hash") -> str:
        for member in self._members:
            device = member.engine.add_weights(digest)
            source = member.tokenizers.source
            digest.update("\n".join(source.tokens(range(source.size))).encode("utf-8", "replace"))
            digest.update(repr((member.decode.source_prefix, member.decode.source_suffix)).encode())
        return device

    def _joint(self, config: DecodeConfig, *, is_searched: bool = False) -> "Ensemble":
        """Returns the models, each with the special tokens of its settings; if `is_searched`, with their fast steps."""
        from pellucid.decoding.ensemble import Ensemble

        decodes = [config]
        for member in self._members[1:]:
            own = config if member.languages else member.decode
            around = {name: getattr(own, name) for name in ("source_prefix", "add_source_eos", "source_suffix")}
            decodes.append(replace(config, **around))
        models = [
            member.engine.get_step_model()
            if is_searched and isinstance(member.engine, PyTorchEngine)
            else member.engine.model
            for member in self._members
        ]
        return Ensemble(models, decodes)

    def read(self, sources: list[list[int]], texts: Sequence[str]) -> list[list[int]]:
        """Returns sources with the ids for each model, from the ids of the first model."""
        from pellucid.decoding.ensemble import EnsembleSource

        own = self._members[0].tokenizers.source
        others = [
            sources if member.tokenizers.source is own else member.tokenizers.source.encode_lines(list(texts))
            for member in self._members[1:]
        ]
        return [EnsembleSource(ids, by_others) for ids, *by_others in zip(sources, *others, strict=True)]

    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        from pellucid.decoding import batched_search

        return enumerate(
            batched_search.search(self._joint(config, is_searched=True), sources, config, by, constraints=constraints)
        )

    def sample(
        self, sources: list[list[int]], sampling: SamplingConfig, config: DecodeConfig, places: list[int]
    ) -> list[Hypothesis]:
        from pellucid.decoding import batched_search

        return batched_search.sample_outputs(self._joint(config, is_searched=True), sources, sampling, config, places)

    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        from pellucid.decoding.ensemble import EnsembleSource
        from pellucid.decoding.scoring import output_log_probs

        if not all(isinstance(source, EnsembleSource) for source in sources):
            sources = self.read(sources, [self._members[0].tokenizers.source.decode(source) for source in sources])
        joint = self._joint(config)
        of_models = [
            output_log_probs(model, [source.each[number] for source in sources], targets, own)  # type: ignore[attr-defined]
            for number, (model, own) in enumerate(zip(joint.models, joint.decodes, strict=True))
        ]
        return [[fmean(of_token) for of_token in zip(*each, strict=True)] for each in zip(*of_models, strict=True)]

    def find_too_long(self, source: Sequence[int], config: DecodeConfig) -> str:
        for own, whole in zip(self._members, self._joint(config).add_special_ids(source), strict=True):
            room = own.engine.config.max_positions
            if len(whole) > room:
                return f"its source has {len(whole):,} tokens for one model, whose limit is {room:,}"
        return ""


def _check_together(first: Member, other: Member) -> None:
    """Raises ConfigError if two models cannot form an ensemble; the message names the difference."""
    name, other_name = first.name, other.name
    config, other_config = first.engine.config, other.engine.config
    hint = (
        "models of an ensemble must share a target vocabulary: train the second one with the tokenizer of the first one"
    )
    sizes = config.tgt_vocab_size, other_config.tgt_vocab_size
    if sizes[0] != sizes[1]:
        raise ConfigError(
            f"`{name}` and `{other_name}` have different target vocabularies: {sizes[0]:,} and {sizes[1]:,} ids", hint
        )
    written = [t.tokenizers.target.tokens(range(min(t.tokenizers.target.size, sizes[0]))) for t in (first, other)]
    for number, (one, another) in enumerate(zip(*written, strict=False)):
        if one != another:
            raise ConfigError(
                f"`{name}` and `{other_name}` have different target vocabularies: the id {number} is `{one}` in the "
                "one "
                f"and `{another}` in the other",
                hint,
            )
    for field in ("bos_id", "eos_id"):
        mine, its = getattr(config, field), getattr(other_config, field)
        if mine != its:
            raise ConfigError(f"`{name}` has `{field}` {mine}, and `{other_name}` {its}", hint)
    if first.languages != other.languages:
        raise ConfigError(
            f"`{name}` and `{other_name}` are of different languages: {_codes(first)}, and {_codes(other)}",
            "multilingual models of an ensemble must have the same ids for their codes",
        )
    if not first.languages and first.decode.target_prefix != other.decode.target_prefix:
        raise ConfigError(
            f"`{name}` begins every output with {list(first.decode.target_prefix)}, but `{other_name}` with "
            f"{list(other.decode.target_prefix)}",
            "the models of an ensemble must begin alike",
        )
    if first.engine.device != other.engine.device:
        raise ConfigError(
            f"`{name}` is on {first.engine.device}, and `{other_name}` on {other.engine.device}", "load both on one"
        )


def _codes(member: Member) -> str:
    return f"{len(member.languages)} codes" if member.languages else "no codes"
