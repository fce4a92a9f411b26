"""Text in, text out: a Transformer with its tokenizers and a search."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.engine import sample_outputs, score_outputs, search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.sampling import SamplingConfig
from pellucid.errors import DataError
from pellucid.model.transformer import Transformer
from pellucid.tables import from_table, to_table
from pellucid.tasks.languages import check_languages, speaking
from pellucid.tasks.lines import listed
from pellucid.tasks.pieces import cut
from pellucid.tasks.saved import open_model, ready
from pellucid.tasks.summary import listing, summary
from pellucid.tasks.tracing import trace_search, trace_translation
from pellucid.text.tokenizers import Tokenizers
from pellucid.tracing.trace import Trace


@dataclass(frozen=True)
class Translation:
    """One translation of a line."""

    text: str
    """One line: where the model wrote a line's end, a space stands."""
    score: float
    """The sum of its tokens' log-probabilities, end token included."""
    tokens: list[str]
    """Its target tokens."""
    alternatives: list["Translation"] = field(default_factory=list, repr=False)
    """The n best, itself included."""


@dataclass(frozen=True)
class Scored:
    """What a model gives to a text that it did not write."""

    score: float
    """The sum of its tokens' log-probabilities, end token included; nan where it has none."""
    tokens: int
    """Its tokens, end token included."""
    fault: str = ""
    """Why there is no score."""


class Translator:
    """A trained translator.

        translator = Translator.load("run")
        translator.translate(["Ein Hund läuft ."])[0].text

    It puts its model into evaluation mode: dropout has no place in a translation.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: Tokenizers,
        decode: DecodeConfig | None = None,
        languages: Mapping[str, int] | None = None,
    ) -> None:
        """`languages`: the codes of the languages of a multilingual model, with their ids."""
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.decode = decode or DecodeConfig()
        self.languages = dict(languages or {})

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        *,
        revision: str | None = None,
    ) -> Self:
        """The translator of a run folder, a model folder, or a Hugging Face folder or name (at a `revision`).

        The languages are those that a multilingual model translates between where a call does not name others.

        Raises CheckpointError where there is none, it is damaged or no translator; ConfigError for an unknown language.
        """
        saved = open_model(folder, device, dtype, revision)
        tokenizers = ready(saved, "translate", folder).tokenizers
        assert isinstance(saved.model, Transformer), "only a Transformer is for translation"
        spoken = (saved.languages, source_language, target_language)
        decode = speaking(saved.decode, saved.model.config, tokenizers, *spoken)
        return cls(saved.model, tokenizers, decode, saved.languages)

    def __repr__(self) -> str:
        source, target = self.tokenizers.source, self.tokenizers.target
        sides = {source.kind: source.size}
        if source is not target:
            sides = {f"source {source.kind}": source.size, f"target {target.kind}": target.size}
        languages = f"languages {listing(self.languages)}" if self.languages else ""
        return summary(self, self.model, sides, f"beam_size {self.decode.beam_size}", languages)

    def translate(
        self,
        sources: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> list[Translation]:
        """The best translation of each line; an empty line gives an empty one.

        Args:
            sources: lines of text. A line beyond `max_source_length` tokens is translated in pieces, with a warning.
            source_language, target_language: codes in `languages`, for a multilingual model.
            options: fields of DecodeConfig that differ from the model's own: beam_size, n_best, length_penalty,
                max_length, batch_tokens, max_source_length. None leaves one as it is; `max_length=None` sets no limit
                but twice the source's tokens + 50.

        Raises ConfigError for an option that there is not, a value that cannot work, or a language that is unknown or
        missing.
        """
        config = self._config(options, source_language, target_language)
        lines = self._pieces(sources, config)
        found = iter(search(self.model, [piece for line in lines for piece in line], config))
        return [self._translation([next(found) for _ in line]) for line in lines]

    def sample(
        self,
        sources: Sequence[str],
        config: SamplingConfig | None = None,
        max_length: int | None = None,
        first_place: int = 0,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> list[Translation]:
        """One drawn translation of each line; lines and languages as `translate` takes them.

        `first_place` is how many lines came before, where a long input is translated a part at a time.
        """
        options = {"max_length": self.decode.max_length if max_length is None else max_length}
        decode = self._config(options, source_language, target_language)
        lines = self._pieces(sources, decode)
        pieces = [piece for line in lines for piece in line]
        drawn = sample_outputs(self.model, pieces, config or SamplingConfig(), decode, first_place)
        found = iter(drawn)
        return [self._translation([[next(found)] for _ in line]) for line in lines]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> list[float]:
        """The log-probability of each target given its source, end token included; what `Translation.score` is.

        Raises DataError where the lists differ in length, or a text is longer than the model takes; ConfigError for a
        language that is unknown or missing.
        """
        decode = self._config({}, source_language, target_language)
        src, tgt = self._encoded_pairs(sources, targets)
        self._check_lengths(src, tgt, decode)
        return score_outputs(self.model, src, tgt, decode)

    def scored(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> list[Scored]:
        """Returns what `score` gives, with the number of tokens; of a pair with a side too long for the model no score.

        Raises DataError where the lists differ in length; ConfigError for a language that is unknown or missing.
        """
        decode = self._config({}, source_language, target_language)
        pairs = list(zip(*self._encoded_pairs(sources, targets), strict=True))
        faults = [self._too_long(src, tgt, decode) for src, tgt in pairs]
        fitting = [pair for pair, fault in zip(pairs, faults, strict=True) if not fault]
        values = iter(score_outputs(self.model, [s for s, _ in fitting], [t for _, t in fitting], decode))
        return [
            Scored(math.nan if fault else next(values), len(tgt) + 1, fault)
            for (_, tgt), fault in zip(pairs, faults, strict=True)
        ]

    def trace(
        self,
        source: str,
        target: str | None = None,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> Trace:
        """All attentions of one translation, recorded as it is computed; tokens as text.

        Without a target, the search that `translate` makes is recorded with it: `trace.search` is its tree,
        `trace["search.cross"]` where each live hypothesis looked at each step, and the best hypothesis is the target.
        Languages and `options` are those of `translate`; a line that it would cut into pieces is read whole.

        Raises DataError for an empty source, or a text longer than the model takes; ConfigError as `translate` does.
        """
        decode = self._config(options, source_language, target_language)
        src = self.tokenizers.source.encode(source)
        if not src:
            raise DataError("the source is empty: there is nothing to translate, and nothing to trace")
        if target is None:
            self._check_lengths([src], [], decode)
            return trace_search(self.model, self.tokenizers, decode, src)
        tgt = self.tokenizers.target.encode(target)
        self._check_lengths([src], [tgt], decode)
        return trace_translation(self.model, self.tokenizers, decode, src, tgt)

    def _config(
        self, options: dict[str, Any], source_language: str | None, target_language: str | None
    ) -> DecodeConfig:
        """The model's own settings with `options` in place of some, for a translation between two languages."""
        given = {name: value for name, value in options.items() if value is not None or name == "max_length"}
        decode = from_table(DecodeConfig, to_table(self.decode) | given, "the options of translate")
        fixed = (self.model.config, self.tokenizers, self.languages)
        decode = speaking(decode, *fixed, source_language, target_language)
        check_languages(decode, *fixed)
        return decode

    def _encoded_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of both sides. Raises DataError where they differ in length."""
        src = self.tokenizers.source.encode_lines(listed(sources))
        tgt = self.tokenizers.target.encode_lines(listed(targets))
        if len(src) != len(tgt):
            raise DataError(f"{len(src)} sources and {len(tgt)} targets: each source needs one target")
        return src, tgt

    def _too_long(self, src: Sequence[int], tgt: Sequence[int], decode: DecodeConfig) -> str:
        """What of a pair the model's positions have no room for; empty where they have."""
        limits = self._source_room(decode), self._target_room(decode)
        return " and ".join(
            f"its {side} has {len(ids):,} tokens, the model takes at most {limit:,}"
            for side, ids, limit in zip(("source", "target"), (src, tgt), limits, strict=True)
            if len(ids) > limit
        )

    def _check_lengths(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], decode: DecodeConfig
    ) -> None:
        """Raises DataError for a text that the model's positions have no room for."""
        limits = self._source_room(decode), self._target_room(decode)
        for side, texts, limit in zip(("source", "target"), (sources, targets), limits, strict=True):
            for number, ids in enumerate(texts, start=1):
                if len(ids) > limit:
                    raise DataError(
                        f"{side} {number} has {len(ids):,} tokens, the model takes at most {limit:,}", "cut the text"
                    )

    def _source_room(self, decode: DecodeConfig) -> int:
        """The most tokens of a source that the model's positions have room for."""
        return self.model.config.max_positions - decode.added

    def _target_room(self, decode: DecodeConfig) -> int:
        """The most tokens of a target that the model's positions have room for, its start token aside."""
        return self.model.config.max_positions - 1 - len(decode.target_prefix)

    def _pieces(self, sources: Sequence[str], decode: DecodeConfig) -> list[list[list[int]]]:
        """The ids of each line, in one piece or in as many as the model needs; none for an empty line."""
        limit = max(1, min(decode.max_source_length, self._source_room(decode)))
        tokenizer, lines = self.tokenizers.source, []
        texts = listed(sources)
        for text, ids in zip(texts, tokenizer.encode_lines(texts), strict=True):
            pieces = [ids] if ids and text.strip() else []
            if pieces and len(ids) > limit:
                pieces = [piece for piece in cut(ids, tokenizer.tokens(ids), limit) if tokenizer.decode(piece).strip()]
                warnings.warn(
                    f"a line of {len(ids):,} tokens is longer than the model takes ({limit:,}); "
                    f"it is translated in {len(pieces)} pieces",
                    stacklevel=3,
                )
            lines.append(pieces)
        return lines

    def _translation(self, pieces: list[list[Hypothesis]]) -> Translation:
        """One line's translation from the n best of each of its pieces."""
        count = min((len(hypotheses) for hypotheses in pieces), default=1)
        ranked = [self._joined([hypotheses[i] for hypotheses in pieces]) for i in range(count)]
        return replace(ranked[0], alternatives=ranked)

    def _joined(self, pieces: list[Hypothesis]) -> Translation:
        target = self.tokenizers.target
        texts = [" ".join(target.decode(h.ids).splitlines()) for h in pieces]
        return Translation(
            text=texts[0] if len(texts) == 1 else " ".join(text.strip() for text in texts if text.strip()),
            score=float(sum(h.score for h in pieces)),
            tokens=[token for h in pieces for token in target.tokens(h.ids)],
        )
