"""Text in, text out: a Transformer with its tokenizers and a search."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch

from pellucid.config import DecodeConfig
from pellucid.config.tables import from_table, to_table
from pellucid.decoding import engine
from pellucid.decoding.beam import Search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.sampling import SamplingConfig
from pellucid.decoding.scoring import score_outputs
from pellucid.errors import DataError
from pellucid.model.transformer import Transformer
from pellucid.tasks.languages import check_languages, codes_before_source, speaking, spoken_in
from pellucid.tasks.lines import listed
from pellucid.tasks.saved import open_model, ready
from pellucid.tasks.segments import Segment, joined, ranked_together, segments_of
from pellucid.tasks.summary import listing, summary
from pellucid.tasks.tracing import trace_search, trace_translation
from pellucid.text.sentences import sentences
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.training_text import TrainingText
from pellucid.tracing.trace import Trace

_BITS_OF_A_PLACE = 48  # lines of an input: above them stands the number of a piece in its line


class LongText(UserWarning):
    """A sentence is longer than what a model was trained on."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a line and its translation."""

    source: str
    text: str
    score: float
    """The sum of its tokens' log-probabilities, end token included."""
    length: int
    """Its source tokens."""


@dataclass(frozen=True)
class Translation:
    """One translation of a line."""

    text: str
    """One line: where the model wrote a line's end, a space stands."""
    score: float
    """The sum of its tokens' log-probabilities, end token included; of several sentences the sum of theirs."""
    tokens: list[str]
    """Its target tokens."""
    alternatives: list["Translation"] = field(default_factory=list, repr=False)
    """The n best, itself included."""
    sentences: list[Sentence] = field(default_factory=list, repr=False)
    """What was translated by itself: the line, or its sentences in their order; none of an empty line."""


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
        text: TrainingText | None = None,
    ) -> None:
        """Puts the parts of a translator together.

        Args:
            languages: the codes of the languages of a multilingual model, with their ids.
            text: what its training lines were; None: not known, and no line is cut into sentences.
        """
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.decode = decode or DecodeConfig()
        self.languages = dict(languages or {})
        self.text = text

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
        return cls(saved.model, tokenizers, decode, saved.languages, saved.text)

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
        search: Search | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> list[Translation]:
        """The best translation of each line; an empty line gives an empty one.

        Args:
            sources: lines of text. A line of several sentences is translated sentence by sentence, where the model was
                trained on single ones, and joined as it stood: `Translation.sentences` has them. A sentence beyond
                `max_source_length` tokens is translated in pieces, with a warning.
            search: a search of one's own, a function of `pellucid.Steps` and a DecodeConfig that returns a
                `pellucid.Found` for each sentence; None: beam search.
            source_language, target_language: codes in `languages`, for a multilingual model.
            options: fields of DecodeConfig that differ from the model's own: beam_size, n_best, length_penalty,
                max_length, batch_tokens, max_source_length, segment ("auto", or "off": lines as they are). None leaves
                one as it is; `max_length=None` sets no limit but twice the source's tokens + 50.

        Warns with LongText of sentences that are longer than what the model was trained on.

        Raises ConfigError for an option that there is not, a value that cannot work, or a language that is unknown or
        missing.
        """
        config = self._config(options, source_language, target_language)
        lines = self._segments(sources, config)
        pieces = [piece for line in lines for s in line for piece in s.pieces]
        found = iter(engine.search(self.model, pieces, config, search))
        penalty = config.length_penalty if search is None else None
        return [self._translation(line, [[next(found) for _ in s.pieces] for s in line], penalty) for line in lines]

    def sample(
        self,
        sources: Sequence[str],
        config: SamplingConfig | None = None,
        max_length: int | None = None,
        first_place: int = 0,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        segment: str | None = None,
    ) -> list[Translation]:
        """One drawn translation of each line; lines, languages and `segment` as `translate` takes them.

        `first_place` is how many lines came before, where a long input is translated a part at a time.
        """
        options = {"max_length": self.decode.max_length if max_length is None else max_length, "segment": segment}
        decode = self._config(options, source_language, target_language)
        lines = self._segments(sources, decode)
        pieces, places = [], []
        for place, line in enumerate(lines, start=first_place):
            of_line = [piece for s in line for piece in s.pieces]
            pieces += of_line
            places += [place + (number << _BITS_OF_A_PLACE) for number in range(len(of_line))]
        found = iter(engine.sample_outputs(self.model, pieces, config or SamplingConfig(), decode, places))
        return [self._translation(line, [[[next(found)] for _ in s.pieces] for s in line], None) for line in lines]

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
        Languages and `options` are those of `translate`. A line that it would cut into sentences or pieces is read
        whole: of several sentences a warning says so, since `translate` gives another translation then.

        Raises DataError for an empty source, or a text longer than the model takes; ConfigError as `translate` does.
        """
        decode = self._config(options, source_language, target_language)
        src = self.tokenizers.source.encode(source)
        if not src:
            raise DataError("the source is empty: there is nothing to translate, and nothing to trace")
        self._tell_of_sentences(source, len(src), decode)
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

    def _segments(self, sources: Sequence[str], decode: DecodeConfig) -> list[list[Segment]]:
        """What is translated by itself of each line; nothing of an empty line. Warns of what is too long."""
        limit = max(1, min(decode.max_source_length, self._source_room(decode)))
        text = self.text if decode.segment == "auto" else None
        language = spoken_in(decode, self.tokenizers, self.languages)
        led = codes_before_source(self.tokenizers, self.languages)
        lines = segments_of(listed(sources), self.tokenizers.source, limit, text, language, led_by_codes=led)
        for line in lines:
            for segment in line:
                if len(segment.pieces) > 1:
                    warnings.warn(
                        f"a {'sentence' if len(line) > 1 else 'line'} of {segment.length:,} tokens is longer than the "
                        f"model takes ({limit:,}); it is translated in {len(segment.pieces)} pieces",
                        stacklevel=3,
                    )
        if self.text is not None:
            lengths = [segment.length for line in lines for segment in line if len(segment.pieces) == 1]
            if too_long := [length for length in lengths if self.text.is_too_long(length)]:
                warnings.warn(too_long_text(len(too_long), max(too_long), self.text), LongText, stacklevel=3)
        return lines

    def _tell_of_sentences(self, source: str, length: int, decode: DecodeConfig) -> None:
        """Warns that a text which is read whole would be translated in several sentences."""
        if decode.segment == "auto" and self.text is not None and self.text.is_unlike(length):
            count = len(sentences(source, spoken_in(decode, self.tokenizers, self.languages)))
            if count > 1:
                warnings.warn(
                    f"the text has {count} sentences, and is read here as one line; `translate` translates each by "
                    "itself, so give one sentence to see what it does",
                    stacklevel=3,
                )

    def _translation(
        self, line: list[Segment], found: list[list[list[Hypothesis]]], length_penalty: float | None
    ) -> Translation:
        """Returns one line's translation from the n best of each piece of its segments.

        They rank by `length_penalty`; None: as they stand.
        """
        pieces = [hypotheses for of_segment in found for hypotheses in of_segment]
        count = max(map(len, pieces), default=1)
        ranks = [
            [-float(i) if length_penalty is None else h.rank(length_penalty) for i, h in enumerate(hypotheses)]
            for hypotheses in pieces
        ]
        ranked = []
        for chosen in ranked_together(ranks, count):
            best = iter([hypotheses[i] for hypotheses, i in zip(pieces, chosen, strict=True)])
            ranked.append(self._joined(line, [[next(best) for _ in of_segment] for of_segment in found]))
        return replace(ranked[0], alternatives=ranked)

    def _joined(self, line: list[Segment], chosen: list[list[Hypothesis]]) -> Translation:
        target = self.tokenizers.target
        parts = []
        for segment, pieces in zip(line, chosen, strict=True):
            texts = [" ".join(target.decode(h.ids).splitlines()) for h in pieces]
            text = joined(texts, [Segment(segment.source, [], " ")] * len(texts)) if texts else ""
            parts.append(Sentence(segment.source, text, float(sum(h.score for h in pieces)), segment.length))
        return Translation(
            text=joined([part.text for part in parts], line) if parts else "",
            score=float(sum(part.score for part in parts)),
            tokens=[token for pieces in chosen for h in pieces for token in target.tokens(h.ids)],
            sentences=parts,
        )


def too_long_text(count: int, longest: int, text: TrainingText) -> str:
    """Returns what to say of sentences beyond what is usual in the training text."""
    return (
        f"{count:,} {'sentence is' if count == 1 else 'sentences are'} longer than nearly all that the model was "
        f"trained on ({longest:,} tokens; there 999 lines of 1,000 have at most {text.source_length:,}): "
        "expect less of the translation"
    )
