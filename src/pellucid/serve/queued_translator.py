"""A translator whose passes through the model are computed by the queue of a server, with those of other requests.

All else, the tokens, the spans that are protected, the marks and the documents, is that of `Translator`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.config import DecodeConfig, ModelConfig, SamplingConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.engines.engine import Ability, Engine, Pair, Weights
from pellucid.serve.work_queue import Ticket
from pellucid.tasks.guards import SourceGuard
from pellucid.tasks.terms import TermEncoder
from pellucid.tasks.translator import Translator

if TYPE_CHECKING:
    import hashlib

    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints
    from pellucid.evaluation.calibration import Calibration
    from pellucid.text.word_forms import WordForms
    from pellucid.weights.aligning_head import AligningHead


class EngineWrapper(Engine):
    """An engine that passes everything to another one."""

    def __init__(self, inner: Engine) -> None:
        self.inner: Engine = inner
        self.lacks: Mapping[Ability, str] = inner.lacks  # type: ignore[misc]  # a class variable of the inner engine

    @property
    def config(self) -> ModelConfig:
        return self.inner.config

    @property
    def model(self) -> Any:
        return self.inner.model

    def about(self) -> str:
        return self.inner.about()

    def add_weights(self, digest: "hashlib._Hash") -> str:
        return self.inner.add_weights(digest)

    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        return self.inner.search(sources, config, by, constraints)

    def sample(
        self, sources: list[list[int]], sampling: SamplingConfig, config: DecodeConfig, places: list[int]
    ) -> list[Hypothesis]:
        return self.inner.sample(sources, sampling, config, places)

    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        return self.inner.log_probs(sources, targets, config)

    def cross_weights(self, pairs: Sequence[Pair], head: tuple[int, int] | None) -> list[Weights] | None:
        return self.inner.cross_weights(pairs, head)

    def read(self, sources: list[list[int]], texts: Sequence[str]) -> list[list[int]]:
        return self.inner.read(sources, texts)

    def find_too_long(self, source: Sequence[int], config: DecodeConfig) -> str:
        return self.inner.find_too_long(source, config)


class QueuedEngine(EngineWrapper):
    """An engine whose computations wait in the queue of a server."""

    def __init__(self, inner: Engine, ticket: Ticket) -> None:
        super().__init__(inner)
        self.ticket: Ticket = ticket

    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        return self.ticket.search(self.inner, sources, config, by, constraints).items()

    def sample(
        self, sources: list[list[int]], sampling: SamplingConfig, config: DecodeConfig, places: list[int]
    ) -> list[Hypothesis]:
        return self.ticket.call(lambda: self.inner.sample(sources, sampling, config, places))

    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        return self.ticket.call(lambda: self.inner.log_probs(sources, targets, config))

    def cross_weights(self, pairs: Sequence[Pair], head: tuple[int, int] | None) -> list[Weights] | None:
        return self.ticket.call(lambda: self.inner.cross_weights(pairs, head))


class QueuedTranslator(Translator):
    """A translator of one request."""

    def __init__(self, inner: Translator, ticket: Ticket) -> None:
        super().__init__(
            QueuedEngine(inner.engine, ticket), inner.tokenizers, inner.decode, inner.languages, inner.text
        )
        self.calibration: Calibration | None = inner.calibration
        self.aligning_head: AligningHead | None = inner.aligning_head
        self.word_forms: WordForms | None = inner.word_forms
        self._inner: Translator = inner

    # Both read the whole vocabulary: once for a model, not for each request.
    @property
    def _source_guard(self) -> SourceGuard:
        return self._inner._source_guard

    @property
    def _term_writer(self) -> TermEncoder:
        return self._inner._term_writer
