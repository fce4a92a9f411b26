"""Text in, text out: a Transformer with its tokenizers and a search."""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypedDict, Unpack, cast

from pellucid.config import TASKS, DecodeConfig, ModelConfig, SamplingConfig, Task
from pellucid.config.decode import MOST_SEED
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.errors import ConfigError, DataError, argument, did_you_mean, shown
from pellucid.tasks.languages import check_languages, codes_before_source, speaking, spoken_in
from pellucid.tasks.segments import Segment, joined, ranked_together, segments_of
from pellucid.tasks.task import Scored, TextModel, listed, listing, open_model
from pellucid.text.sentences import sentences
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.text.training_text import TrainingText

if TYPE_CHECKING:  # as in pellucid/tasks/task.py
    import torch

    from pellucid.decoding.beam import Search
    from pellucid.decoding.constraints import Constraints
    from pellucid.evaluation.calibration import Calibration
    from pellucid.evaluation.scores import References, Scores
    from pellucid.model.parts import Parts
    from pellucid.model.transformer import Transformer
    from pellucid.tasks.branches import Branch
    from pellucid.tasks.confidence import Confidence, Forced
    from pellucid.tasks.reranking import Reranker
    from pellucid.tasks.terms import Terms, TermWriter
    from pellucid.tracing.trace import Trace
    from pellucid.weights.folder import SavedModel

MOST_DRAWS = 2**10
"""The most translations of a line among which one is chosen: each is compared with each."""
_BITS_OF_A_PLACE = 48  # lines of an input: above them stands the number of a piece in its line

Engine = Literal["torch", "ctranslate2"]
ENGINES = {"ctranslate2": "pellucid.engines.ctranslate2"}
"""The modules of the engines beside PyTorch. They lie above this one, as the classes of tasks above their records."""

ENSEMBLE = "pellucid.tasks.ensemble"
"""The module of translators of several models, which lies above this one, too."""

Own = Literal["own"]
"""Stands for the model's own setting where None means something itself."""


class TranslateOptions(TypedDict, total=False):
    """The options of `Translator.translate` and `Translator.trace`."""

    search: "Search | None"
    source_language: str | None
    target_language: str | None
    beam_size: int | None
    n_best: int | None
    length_penalty: float | None
    max_length: int | Own | None
    batch_tokens: int | None
    max_source_length: int | None
    segment: Literal["auto", "off"] | None
    decode: DecodeConfig | None
    min_length: int | None
    no_repeat_ngram: int | None
    prefixes: Sequence[str] | None
    terms: "Terms | None"
    line_terms: Sequence[Sequence[str]] | None
    diverse_groups: int | None
    diversity: float | None
    rerank: "str | Path | Reranker | None"
    alternatives: int | None


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
    pieces: list[tuple[list[int], list[int]]] = field(default_factory=list, repr=False, compare=False)
    """The ids that were read and written, a pair for each piece that was translated by itself."""


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
    """The text that was translated by itself: the line, or its sentences in their order; none of an empty line."""
    confidence: "Confidence | None" = field(default=None, repr=False)
    """The statement of how sure one may be of it; None where that was not asked for."""
    branch: "Branch | None" = field(default=None, repr=False)
    """The token by which it parts from its alternatives, where these are of `alternatives=`."""

    def to_json(self) -> dict[str, Any]:
        """Returns text, score and tokens, and the confidence where there is one; of several sentences these, and of
        several translations all of them."""
        table = self._table() | ({} if self.confidence is None else self.confidence.to_json())
        if len(self.sentences) > 1:
            table["sentences"] = [
                {"source": s.source, "text": s.text, "score": round(s.score, 5)} for s in self.sentences
            ]
        several = len(self.alternatives) > 1 or self.branch is not None
        return table | ({"alternatives": [t._table() for t in self.alternatives]} if several else {})

    def _table(self) -> dict[str, Any]:
        branch = (
            {"next_token": self.branch.token, "next_probability": round(self.branch.probability, 5)}
            if self.branch
            else {}
        )
        return {"text": self.text, "score": round(self.score, 5), "tokens": self.tokens} | branch


class Translator(TextModel["Transformer"]):
    """A trained translator.

        translator = Translator.load("run")
        translator.translate(["Ein Hund läuft ."])[0].text

    It puts its model into evaluation mode: dropout has no place in a translation.
    """

    task: ClassVar[Task] = TASKS["translate"]
    of_lines: ClassVar[tuple[str, ...]] = ("prefixes", "line_terms")
    calibration: "Calibration | None" = None
    """The record of what held-out text says of its probabilities; None: it is not calibrated."""
    _writer: "TermWriter | None" = None

    def __init__(
        self,
        model: "Transformer",
        tokenizers: GivenTokenizers,
        decode: DecodeConfig | None = None,
        languages: Mapping[str, int] | None = None,
        text: TrainingText | None = None,
    ) -> None:
        """Puts the parts of a translator together.

        Args:
            decode: how it searches where a call does not say otherwise.
            languages: the codes of the languages of a multilingual model, with their ids.
            text: what its training lines were; None: not known, and no line is cut into sentences.
        """
        super().__init__(model, tokenizers, decode, languages=languages, text=text)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: "str | torch.device" = "auto",
        dtype: "str | torch.dtype | None" = None,
        source_language: str | None = None,
        target_language: str | None = None,
        *,
        revision: str | None = None,
        parts: "Parts | None" = None,
        tokenizer: GivenTokenizers | None = None,
        engine: Engine = "torch",
        threads: int | None = None,
        ensemble: Sequence[str | Path] = (),
    ) -> Self:
        """Opens the translator of a run folder, a model folder, a Hugging Face folder, or a name (at a `revision`).

        Arguments are those of `TextModel.load`; the languages are those that a multilingual model translates between
        where a call does not name others.

        Args:
            engine: "torch", Pellucid's own search, which is the reference; or "ctranslate2" (the extra `ct2`), which
                is faster, takes `dtype="int8"` besides, and needs no PyTorch once the folder's cache holds the model
                converted. It gives up that a text is the same in every batch, traces, and searches of one's own.
            threads: cores that CTranslate2 takes; None: all. PyTorch is told by `torch.set_num_threads`.
            ensemble: further models, which write together with the first one: an `EnsembleTranslator` comes back. They
                share the target vocabulary; each reads a source by its own tokenizer.

        Raises CheckpointError where there is no model, it is damaged, is for another task or has no tokenizer;
        ConfigError for an unknown language, device, precision or engine, and for what the engine cannot do.
        """
        if isinstance(ensemble, str | Path):
            raise ConfigError(f"{argument('ensemble', shown(str(ensemble)))} is one name", "give a list of folders")
        if ensemble:
            how = {"engine": None if engine == "torch" else engine, "parts": parts, "tokenizer": tokenizer}
            return cls._as_ensemble(
                [folder, *ensemble], (device, dtype, source_language, target_language), revision, how
            )
        if engine != "torch":
            place = device, dtype, source_language, target_language
            return cls._on_another_engine(engine, folder, *place, revision, parts, tokenizer, threads)
        if threads is not None:
            raise ConfigError(
                f"{argument('threads', threads)} is for another engine than PyTorch", "call `torch.set_num_threads`"
            )
        found = cls._from_folder(folder, open_model(folder, device, dtype, revision, parts, tokenizer))
        spoken = (found.languages, source_language, target_language, found.pairs)
        found.decode = speaking(found.decode, found.config, found.tokenizers, *spoken)
        return found

    @classmethod
    def _as_ensemble(
        cls, folders: Sequence[str | Path], place: tuple[Any, ...], revision: str | None, how: Mapping[str, Any]
    ) -> Self:
        """Opens several translators as one, which is a Translator that searches by all of them."""
        for name, value in how.items():
            if value is not None:
                raise ConfigError(
                    f"{argument(name, value) if isinstance(value, str) else f'`{name}=`'} does not go with "
                    "`ensemble=`, whose models all compute in PyTorch and are opened by their folders",
                    "leave one out" if name == "engine" else "load each by itself, and give them to EnsembleTranslator",
                )
        first = Translator.load(folders[0], *place, revision=revision)
        others = [Translator.load(folder, *place) for folder in folders[1:]]
        return cast(
            Self, import_module(ENSEMBLE).EnsembleTranslator([first, *others], [str(folder) for folder in folders])
        )

    @classmethod
    def _on_another_engine(cls, engine: str, *given: Any) -> Self:
        """Opens the translator by an engine beside PyTorch, which is a Translator that searches by other means."""
        if engine not in ENGINES:
            known = ("torch", *ENGINES)
            raise ConfigError(
                f"unknown {argument('engine', shown(engine))}{did_you_mean(engine, known)}",
                f"choose one of {', '.join(known)}",
            )
        if cls is not Translator:
            raise ConfigError(
                f"{argument('engine', engine)} opens a translator of its own kind, and no {cls.__name__}",
                "call `pellucid.Translator.load`, or leave `engine=` out",
            )
        return cast(Self, import_module(ENGINES[engine]).open_translator(*given))

    @classmethod
    def _from_folder(cls, folder: str | Path, saved: "SavedModel") -> Self:
        from pellucid.evaluation.calibration import calibration_in

        opened = super()._from_folder(folder, saved)
        opened.calibration = calibration_in(folder)
        return opened

    def save(self, folder: str | Path) -> None:
        from pellucid.evaluation.calibration import save_calibration

        super().save(folder)
        save_calibration(self.calibration, folder)

    @classmethod
    def _opened(cls, saved: "SavedModel", tokenizers: Tokenizers) -> Self:
        from pellucid.model.transformer import Transformer

        assert isinstance(saved.model, Transformer), "the task's record says so"
        return cls(saved.model, tokenizers, saved.decode, saved.languages, saved.text)

    @property
    def config(self) -> ModelConfig:
        """The sizes and the shape of its model."""
        return self.model.config

    @property
    def pairs(self) -> tuple[str, ...]:
        """The pairs of languages that it was trained on, as in "de-en"; none of a model of two languages."""
        return () if self.text is None else self.text.pairs

    def _searched(
        self, pieces: list[list[int]], config: DecodeConfig, search: "Search | None", constraints: "Constraints | None"
    ) -> list[list[Hypothesis]]:
        """Returns the n best hypotheses of each piece, best first."""
        found = dict(self._searching(pieces, config, search, constraints))
        return [found[place] for place in range(len(pieces))]

    def _searching(
        self, pieces: list[list[int]], config: DecodeConfig, search: "Search | None", constraints: "Constraints | None"
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        """Yields each piece's place and its n best hypotheses, as they are found.

        It is what an engine is for, as are the next two.
        """
        from pellucid.decoding import engine

        return enumerate(engine.search(self.model, pieces, config, search, constraints=constraints))

    def _sampled(
        self, pieces: list[list[int]], sampling: SamplingConfig, decode: DecodeConfig, places: list[int]
    ) -> list[Hypothesis]:
        """Returns one drawn output of each piece, by random numbers of its place."""
        from pellucid.decoding import engine

        return engine.sample_outputs(self.model, pieces, sampling, decode, places)

    def _scores(self, sources: list[list[int]], targets: list[list[int]], decode: DecodeConfig) -> list[float]:
        """Returns the log-probability of each target given its source, both as ids."""
        return [math.fsum(values) for values in self._log_probs(sources, targets, decode)]

    def _log_probs(self, sources: list[list[int]], targets: list[list[int]], decode: DecodeConfig) -> list[list[float]]:
        """Returns the log-probabilities of each target's tokens and of its end token, whose sum is its score."""
        from pellucid.decoding.scoring import output_log_probs

        return output_log_probs(self.model, sources, targets, decode)

    def _traits(self) -> list[str]:
        languages = [f"languages {listing(self.languages)}"] if self.languages else []
        return [f"beam_size {self.decode.beam_size}", *languages]

    def translate(
        self,
        sources: Sequence[str],
        *,
        search: "Search | None" = None,
        source_language: str | None = None,
        target_language: str | None = None,
        beam_size: int | None = None,
        n_best: int | None = None,
        length_penalty: float | None = None,
        max_length: int | Own | None = "own",
        batch_tokens: int | None = None,
        max_source_length: int | None = None,
        segment: Literal["auto", "off"] | None = None,
        decode: DecodeConfig | None = None,
        confidence: bool = False,
        min_length: int | None = None,
        no_repeat_ngram: int | None = None,
        prefixes: Sequence[str] | None = None,
        terms: "Terms | None" = None,
        line_terms: Sequence[Sequence[str]] | None = None,
        diverse_groups: int | None = None,
        diversity: float | None = None,
        rerank: "str | Path | Reranker | None" = None,
        alternatives: int | None = None,
    ) -> list[Translation]:
        """Returns the best translation of each line; an empty line gives an empty one.

        Every option but `max_length` leaves the model's own setting as it is where it is None.

        Args:
            sources: lines of text. A line of several sentences is translated sentence by sentence, where the model was
                trained on single ones, and joined as it stood: `Translation.sentences` has them. A sentence beyond
                `max_source_length` tokens is translated in pieces, with a warning.
            search: a search of one's own, a function of `pellucid.Steps` and a DecodeConfig that returns a
                `pellucid.Found` for each sentence; None: beam search.
            source_language, target_language: codes in `languages`, for a multilingual model.
            beam_size: hypotheses kept a step; 1 is greedy search.
            n_best: translations of each line, in `Translation.alternatives`: texts that differ, so they may be fewer.
            length_penalty: hypotheses rank by log-probability / length ** length_penalty.
            max_length: most tokens of a translation; None: twice the source's tokens + 50; "own": as the model has it.
            batch_tokens: source tokens translated at a time, padding and beams included.
            max_source_length: source tokens of a sentence that is translated in one piece.
            segment: "auto" cuts lines into sentences as said above, "off" leaves them as they are.
            decode: settings in place of all of the model's own, over which the options above win.
            confidence: gives each best translation its `Translation.confidence`, by a further pass over it.
            min_length: the fewest tokens of the translation of a sentence.
            no_repeat_ngram: no so many tokens in a row stand in the translation of a sentence twice.
            prefixes: what the translation of each line begins with, one a line, "" for nothing. Its last word may go
                on; its probability is part of the score. Of a line of several sentences it begins the first.
            terms: pairs of a source term and its translation. Where a sentence has the source term, as whole words, its
                translation holds the other. A source term in small letters is found however it is written, one with a
                capital only so; the longest first. Of several translations of one source term any will do.
            line_terms: what the translation of each line must hold, a list for each line.
            diverse_groups: parts the beam into so many groups that avoid each other's words; with `n_best` each gives
                its share.
            diversity: how many nats a word counts less for each earlier group's hypothesis that writes it at the same
                place; 1 where nothing else is said.
            rerank: chooses among the n best of each sentence by further models: a `pellucid.Reranker`, or the file that
                `pellucid rerank` wrote. Scores stay those of this model. The beam is as wide as its n best, at least.
            alternatives: looks for the best translation behind each of so many most probable tokens that may stand at
                the beginning, or where the line's prefix ends: `Translation.alternatives` has them, best first, each
                with its `branch`. Lines are of one sentence.

        Warns with LongText of sentences that are longer than what the model was trained on.

        Raises ConfigError for a value that cannot work, or a language that is unknown or missing; DataError for another
        number of prefixes or lists of terms than of lines, for what is longer than a translation may be or cannot be
        written by the vocabulary, and for a line of several parts with `line_terms` or `alternatives`;
        DecodingError for terms with a search of one's own, or a beam of one.
        """
        config = self._config(
            decode, source_language, target_language, beam_size=beam_size, n_best=n_best if rerank is None else None,
            max_length=max_length, length_penalty=length_penalty, batch_tokens=batch_tokens,
            max_source_length=max_source_length, segment=segment,
        )  # fmt: skip
        if rerank is not None:
            rerank = self._reranker(rerank)
            if beam_size is not None and beam_size < rerank.n_best:
                raise ConfigError(
                    f"{argument('beam_size', beam_size)} is narrower than the {rerank.n_best} best among which is "
                    "chosen",
                    "leave it out, or fit the factors for fewer",
                )
            config = replace(config, beam_size=max(config.beam_size, rerank.n_best))
            config = config if n_best is None else replace(config, n_best=n_best)
        wanted = config.n_best
        if rerank is not None:
            config = replace(config, n_best=max(wanted, rerank.n_best))
        lines = self._segments(sources, config)
        pieces = [piece for line in lines for s in line for piece in s.pieces]
        constraints = self._constraints(lines, config, min_length, no_repeat_ngram, prefixes)
        if terms is not None or line_terms is not None:
            constraints = self._with_terms(constraints, lines, config, terms, line_terms)
        by = search
        if diverse_groups is not None or diversity is not None:
            by = self._diverse(config, search, diverse_groups, diversity)
        penalty = config.length_penalty if search is None else None
        if alternatives is not None:
            others = {"search": search, "n_best": n_best, "rerank": rerank, "diverse_groups": diverse_groups}
            return self._branching(sources, lines, config, constraints, alternatives, others, confidence=confidence)
        if rerank is None:
            searched = self._searching(pieces, config, by, constraints)
        else:
            whole = self._searched(pieces, config, by, constraints)
            searched, penalty = enumerate(self._reranked(rerank, lines, whole, config, wanted)), None
        found = self._translations(lines, searched, penalty)
        best = [replace(one, alternatives=_distinct(one.alternatives)) for one in found]
        return self._with_confidence(sources, best, config) if confidence else best

    def _constraints(
        self,
        lines: list[list[Segment]],
        config: DecodeConfig,
        min_length: int | None,
        no_repeat_ngram: int | None,
        prefixes: Sequence[str] | None,
    ) -> "Constraints | None":
        """Returns what the outputs of all pieces must be; None where nothing is asked for.

        Raises what `translate` says of these options.
        """
        if prefixes is None and min_length is None and no_repeat_ngram is None:
            return None
        from pellucid.decoding.constraints import Constraints

        least = 0 if min_length is None else min_length  # a mistake is not taken for nothing, as by `or`
        constraints = Constraints(min_length=least, no_repeat_ngram=0 if no_repeat_ngram is None else no_repeat_ngram)
        if min_length is not None and config.max_length is not None and min_length > config.max_length:
            raise ConfigError(
                f"`min_length` ({min_length}) exceeds `max_length` ({config.max_length})", "lower the one, or raise it"
            )
        begins = []
        if prefixes is not None:
            texts = listed(prefixes)
            if len(texts) != len(lines):
                raise DataError(f"{len(lines)} sources and {len(texts)} prefixes: each source has one", 'none is ""')
            for line, text, ids in zip(lines, texts, self.tokenizers.target.encode_lines(texts), strict=True):
                pieces = [piece for segment in line for piece in segment.pieces]
                limit = self._limit(pieces[0], config) if pieces else len(ids)
                if len(ids) > limit:
                    raise DataError(
                        f"the prefix `{shown(text)}` has {len(ids):,} tokens, and the translation of its line at most "
                        f"{limit:,}",
                        "cut it, or set `max_length=`",
                    )
                begins += [tuple(ids) if number == 0 else () for number in range(len(pieces))]
        return replace(constraints, prefixes=tuple(begins))

    def _with_terms(
        self,
        constraints: "Constraints | None",
        lines: list[list[Segment]],
        config: DecodeConfig,
        terms: "Terms | None",
        line_terms: Sequence[Sequence[str]] | None,
    ) -> "Constraints":
        """Returns the constraints with the terms that each piece asks for. Raises what `translate` says of them."""
        from pellucid.decoding.constraints import Constraints
        from pellucid.tasks.terms import TermWriter, glossary_of, terms_of_lines

        source = self.tokenizers.source
        if self._writer is None:
            self._writer = TermWriter(self.tokenizers.target)
        glossary = glossary_of(terms or ())
        of_lines = [list[str]() for _ in lines] if line_terms is None else terms_of_lines(line_terms, len(lines))
        found = []
        for line, given in zip(lines, of_lines, strict=True):
            pieces = [(segment, piece) for segment in line for piece in segment.pieces]
            if given and len(pieces) > 1:
                raise DataError(
                    f"{_named(line)} is translated in {len(pieces)} parts, and its terms do not say in which they "
                    "stand",
                    'give a sentence a line, or `segment="off"`',
                )
            for segment, piece in pieces:
                text = segment.source if len(segment.pieces) == 1 else source.decode(piece)
                asked = [
                    self._writer.term(choices) for choices in (*glossary.asked_by(text), *((one,) for one in given))
                ]
                found.append(tuple(dict.fromkeys(asked)))
        constraints = replace(constraints or Constraints(), terms=tuple(found), continues=self._writer.continues)
        pieces_of = [(line, piece) for line in lines for segment in line for piece in segment.pieces]
        for place, (line, piece) in enumerate(pieces_of):
            needed, limit = constraints.least(place), self._limit(piece, config)
            if needed > limit:
                what = "prefix and the terms" if constraints.prefixes and constraints.prefixes[place] else "terms"
                raise DataError(
                    f"the {what} of {_named(line)} have {needed:,} tokens, and its translation at most {limit:,}",
                    "leave some out, or set `max_length=`",
                )
        return constraints

    def _reranker(self, rerank: "str | Path | Reranker") -> "Reranker":
        from pellucid.tasks.reranking import Reranker, load_reranker

        if isinstance(rerank, str | Path):
            return load_reranker(rerank, self.device)
        if not isinstance(rerank, Reranker):
            raise ConfigError(f"`rerank=` is a {type(rerank).__name__}", "give a pellucid.Reranker, or its file")
        return rerank

    def _reranked(
        self,
        rerank: "Reranker",
        lines: list[list[Segment]],
        searched: list[list[Hypothesis]],
        config: DecodeConfig,
        wanted: int,
    ) -> list[list[Hypothesis]]:
        """Returns the n best of each piece in the order that a reranker gives them, as many as are wanted."""
        from pellucid.tasks.reranking import Candidates

        source, target = self.tokenizers.source, self.tokenizers.target
        read = [
            (segment.source if len(segment.pieces) == 1 else source.decode(piece), piece)
            for line in lines
            for segment in line
            for piece in segment.pieces
        ]
        candidates = [Candidates.of(*one, target, hypotheses) for one, hypotheses in zip(read, searched, strict=True)]
        return [hypotheses[:wanted] for hypotheses in rerank.best_first(self, candidates, config)]

    def _diverse(
        self, config: DecodeConfig, search: "Search | None", groups: int | None, strength: float | None
    ) -> "Search":
        """Returns the search by groups. Raises ConfigError for what cannot be."""
        from pellucid.decoding.diverse import STRENGTH, DiverseSearch

        if search is not None:
            raise ConfigError("`search=` is a search of its own, and has no `diverse_groups=`", "leave one of them out")
        if groups is None:
            raise ConfigError("`diversity=` means nothing without `diverse_groups=`", "say how many groups there are")
        found = DiverseSearch(groups, STRENGTH if strength is None else strength)
        found.check(config)
        return found

    def _branching(
        self,
        sources: Sequence[str],
        lines: list[list[Segment]],
        config: DecodeConfig,
        constraints: "Constraints | None",
        count: int,
        others: Mapping[str, object],
        *,
        confidence: bool,
    ) -> list[Translation]:
        """Returns the best translation of each line, with those that part at the next token."""
        from pellucid.tasks.branches import branches, check_branches

        check_branches(count, lines, **others)
        pieces = [piece for line in lines for segment in line for piece in segment.pieces]
        found = branches(self._searched, self.tokenizers.target, pieces, config, constraints, count)
        searched = enumerate([hypothesis for hypothesis, _ in of_piece] for of_piece in found)
        of_pieces, best = iter(found), []
        for translation in self._translations(lines, searched, config.length_penalty):
            named = [branch for _, branch in next(of_pieces)] if translation.sentences else []  # an empty line has none
            each = [replace(one, branch=branch) for one, branch in zip(translation.alternatives, named, strict=False)]
            best.append(replace(each[0], alternatives=_distinct(each)) if each else translation)
        return self._with_confidence(sources, best, config) if confidence else best

    def _limit(self, piece: list[int], config: DecodeConfig) -> int:
        """Returns the most tokens of the translation of a piece."""
        return min(config.limit(len(piece)), self._target_room(config))

    def sample(
        self,
        sources: Sequence[str],
        config: SamplingConfig | None = None,
        max_length: int | Own | None = "own",
        *,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        epsilon: float | None = None,
        seed: int | None = None,
        mbr: int | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        batch_tokens: int | None = None,
        segment: Literal["auto", "off"] | None = None,
        confidence: bool = False,
    ) -> list[Translation]:
        """Returns one drawn translation of each line; lines, languages and `segment` as `translate` takes them.

        A line has random numbers of its own, from (seed, its place), so neighbours and batches change nothing.

        Args:
            config: how to draw, as one object; None: from the model's whole distribution.
            temperature: divides the logits: below 1 sharper, above 1 flatter. Like the three below, it wins over
                `config`.
            top_k: draws from so many most probable tokens; 0: from all.
            top_p: draws from the fewest tokens that together are so probable.
            epsilon: draws from the tokens that the model gives this probability or more.
            seed: decides the draws; 1 where nothing says otherwise.
            confidence: as for `translate`.
            mbr: draws so many translations of each line, with `seed`, `seed` + 1 and so on, and returns the one that is
                most like all of them: minimum Bayes risk, by chrF.

        Raises ConfigError and DecodingError for a value that cannot work.
        """
        drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "epsilon": epsilon, "seed": seed}
        given: dict[str, Any] = {name: value for name, value in drawn.items() if value is not None}
        return self._drawn(
            sources, 0, replace(config or SamplingConfig(), **given), mbr, confidence, max_length=max_length,
            source_language=source_language, target_language=target_language, batch_tokens=batch_tokens,
            segment=segment,
        )  # fmt: skip

    def _drawn(
        self,
        sources: Sequence[str],
        before: int,
        sampling: SamplingConfig,
        mbr: int | None = None,
        confidence: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> list[Translation]:
        """Returns one drawn translation of each line of a stream of which `before` lines came before.

        With `mbr` it is the one of so many draws that is most like all of them.
        """
        if mbr is not None and not 2 <= mbr <= MOST_DRAWS:
            raise ConfigError(
                f"`mbr` ({shown(mbr)}) must be from 2 to {MOST_DRAWS:,} draws", "16 to 64 are usual; each is a search"
            )
        if options.pop("search", None) is not None:
            raise ConfigError("`search` looks for a translation, and `sampling` draws one", "leave one of them out")
        _check_unconstrained(options, "a drawn translation")
        decode = self._config(**options)
        lines = self._segments(sources, decode, stacklevel=4)
        pieces, places = [], []
        for place, line in enumerate(lines, start=before):
            of_line = [piece for s in line for piece in s.pieces]
            pieces += of_line
            places += [place + (number << _BITS_OF_A_PLACE) for number in range(len(of_line))]
        draws = []
        for number in range(mbr or 1):
            seeded = replace(sampling, seed=(sampling.seed + number) % MOST_SEED) if mbr else sampling
            found = iter(self._sampled(pieces, seeded, decode, places))
            draws.append(
                [self._translation(line, [[[next(found)] for _ in s.pieces] for s in line], None) for line in lines]
            )
        drawn = draws[0] if mbr is None else self._most_like_all(draws)
        return self._with_confidence(sources, drawn, decode) if confidence else drawn

    def _most_like_all(self, draws: list[list[Translation]]) -> list[Translation]:
        """Returns of the draws of each line the one that is most like all of them."""
        from pellucid.evaluation.consensus import most_like_all

        return [of_line[most_like_all([drawn.text for drawn in of_line])] for of_line in zip(*draws, strict=True)]

    def _with_confidence(
        self, sources: Sequence[str], translations: list[Translation], decode: DecodeConfig
    ) -> list[Translation]:
        """Returns translations with how sure one may be of them."""
        from pellucid.tasks.confidence import assess

        target, forced = self.tokenizers.target, self._forced(translations, decode)
        return [
            replace(translation, confidence=assess(target, self.calibration, source, translation.text, pieces))
            for source, translation, pieces in zip(sources, translations, forced, strict=True)
        ]

    def _forced(self, translations: Sequence[Translation], decode: DecodeConfig) -> list[list["Forced"]]:
        """Returns the pieces of each translation with their log-probabilities, by one pass over what was written."""
        from pellucid.tasks.confidence import Forced

        pieces = [[piece for sentence in t.sentences for piece in sentence.pieces] for t in translations]
        flat = [piece for of_line in pieces for piece in of_line]
        values = iter(self._log_probs([source for source, _ in flat], [target for _, target in flat], decode))
        return [[Forced(source, target, next(values)) for source, target in of_line] for of_line in pieces]

    def answer(
        self,
        lines: Sequence[str] | Sequence[tuple[str, str]],
        place: int,
        *,
        sampling: SamplingConfig | None = None,
        mbr: int | None = None,
        confidence: bool = False,
        prefixed: bool = False,
        termed: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> list[Translation]:
        """Translates some lines of a stream, of which `place` came before; draws as `sampling` says, if it is given.

        `prefixed` says that the lines are pairs: a line, and what its translation begins with; `termed`, that they are
        a line, and what its translation must hold, with tabs between the terms.
        """
        if prefixed or termed:
            pairs = cast(Sequence[tuple[str, str]], lines)
            if prefixed:
                options["prefixes"] = [prefix for _, prefix in pairs]
            else:
                options["line_terms"] = [of_line.split("\t") for _, of_line in pairs]
            lines = [line for line, _ in pairs]
        texts = cast(Sequence[str], lines)
        if sampling is None:
            return self.translate(texts, confidence=confidence, **options)
        return self._drawn(texts, place, sampling, mbr, confidence, **options)

    def stream(
        self,
        lines: Iterable[str],
        *,
        sampling: SamplingConfig | None = None,
        confidence: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> Iterator[Translation]:
        """Translates lines one after another, however many there are; at most 2,048 are held at a time.

            with open("big.de") as lines:
                for translation in translator.stream(lines, beam_size=4):
                    print(translation.text)

        Options are those of `translate`; with `sampling` the translations are drawn. `prefixes` and `line_terms` may be
        as long as the lines, and are read along with them.
        """
        if (terms := options.get("terms")) is not None and not isinstance(terms, Mapping):
            options["terms"] = [*terms]  # each stretch reads them
        return super().stream(lines, sampling=sampling, confidence=confidence, **options)

    def evaluate(
        self,
        sources: Sequence[str],
        references: "References",
        *,
        tokenize: str = "auto",
        ter: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> "Scores":
        """Translates `sources` and scores them against `references`, one each or several sets as [first, second].

        Args:
            tokenize: how BLEU cuts text: by the references' script, or by the tokenizer of that name, as score_corpus
                says.
            ter: computes TER, too.
            options: as `translate` takes them.

        Raises DataError where the lists differ in length or are empty, ConfigError for what cannot be set.
        """
        from pellucid.evaluation.scores import score_corpus

        outputs = [translation.text for translation in self.translate(sources, **options)]
        return score_corpus(outputs, references, tokenize=tokenize, ter=ter)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> list[float]:
        """Returns the log-probability of each target given its source, end token included, as `Translation.score`.

        Raises DataError where the lists differ in length, or a text is longer than the model takes; ConfigError for a
        language that is unknown or missing.
        """
        decode = self._config(None, source_language, target_language)
        src, tgt = self._encoded_pairs(sources, targets)
        self._check_lengths(src, tgt, decode)
        return self._scores(src, tgt, decode)

    def scored(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        confidence: bool = False,
    ) -> list[Scored]:
        """Returns what `score` gives, with the number of tokens; a pair that is too long for the model has no score.

        With `confidence` each pair that has one gets `Scored.confidence`: how sure the model may be of the target.

        Raises DataError where the lists differ in length; ConfigError for a language that is unknown or missing.
        """
        decode = self._config(None, source_language, target_language)
        pairs = list(zip(*self._encoded_pairs(sources, targets), strict=True))
        faults = [self._too_long(src, tgt, decode) for src, tgt in pairs]
        fitting = [pair for pair, fault in zip(pairs, faults, strict=True) if not fault]
        values = iter(self._log_probs([s for s, _ in fitting], [t for _, t in fitting], decode))
        found = []
        for (src, tgt), fault, source, target in zip(pairs, faults, sources, targets, strict=True):
            if fault:
                found.append(Scored(math.nan, len(tgt) + 1, fault))
                continue
            of_pair = next(values)
            sure = self._assessed(source, target, src, tgt, of_pair) if confidence else None
            found.append(Scored(math.fsum(of_pair), len(tgt) + 1, confidence=sure))
        return found

    def _assessed(self, source: str, target: str, src: list[int], tgt: list[int], values: list[float]) -> "Confidence":
        from pellucid.tasks.confidence import Forced, assess

        return assess(self.tokenizers.target, self.calibration, source, target, [Forced(src, tgt, values)])

    def trace(
        self, source: str, target: str | None = None, *, residual: bool = False, **options: Unpack[TranslateOptions]
    ) -> "Trace":
        """Records all attentions of one translation as it is computed, and what was probable; tokens as text.

        Without a target, the search that `translate` makes is recorded with it: `trace.search` is its tree,
        `trace["search.cross"]` where each live hypothesis looked at each step, and the best hypothesis is the target.
        The options are those of `translate`. A search of one's own that goes by `beam_search` or `greedy_search` leaves
        its tree; of one with a loop of its own the pass over what it found best is recorded, and `trace.search` is
        None. A line that would be cut into sentences or pieces is read whole: of several sentences a warning says so,
        since `translate` gives another translation then. `residual=True` keeps the residual stream, too.

        Raises DataError for an empty source, or a text longer than the model takes; ConfigError as `translate` does,
        and for a search where a target is given.
        """
        from pellucid.tasks.tracing import trace_search, trace_translation

        _check_unconstrained(options, "a trace")
        own = options.pop("search", None)
        if own is not None and target is not None:
            raise ConfigError("`search=` means nothing where `target=` is given: nothing is searched", "leave one out")
        decode = self._config(**options)
        src = self.tokenizers.source.encode(source)
        if not src:
            raise DataError("the source is empty: there is nothing to translate, and nothing to trace")
        self._tell_of_sentences(source, len(src), decode)
        if target is None:
            self._check_lengths([src], [], decode)
            return trace_search(self.model, self.tokenizers, decode, src, own, residual)
        tgt = self.tokenizers.target.encode(target)
        self._check_lengths([src], [tgt], decode)
        return trace_translation(self.model, self.tokenizers, decode, src, tgt, residual)

    def _config(
        self,
        decode: DecodeConfig | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        max_length: int | Own | None = "own",
        **options: Any,
    ) -> DecodeConfig:
        """Returns the settings of one call: the model's own with what was given in place of some, and the languages."""
        given = {name: value for name, value in options.items() if value is not None}
        if max_length != "own":
            given["max_length"] = max_length
        decode = replace(decode or self.decode, **given)
        fixed = (self.config, self.tokenizers, self.languages)
        decode = speaking(decode, *fixed, source_language, target_language, self.pairs, stacklevel=4)
        check_languages(decode, *fixed)
        return decode

    def _encoded_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Returns the ids of both sides. Raises DataError where they differ in length."""
        src = self.tokenizers.source.encode_lines(listed(sources))
        tgt = self.tokenizers.target.encode_lines(listed(targets))
        if len(src) != len(tgt):
            raise DataError(f"{len(src)} sources and {len(tgt)} targets: each source needs one target")
        return src, tgt

    def _too_long(self, src: Sequence[int], tgt: Sequence[int], decode: DecodeConfig) -> str:
        """Says which side of a pair the model's positions have no room for; empty where they have."""
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
        """Returns the most tokens of a source that the model's positions have room for."""
        return self.config.max_positions - decode.added

    def _target_room(self, decode: DecodeConfig) -> int:
        """Returns the most tokens of a target that the model's positions have room for, its start token aside."""
        return self.config.max_positions - 1 - len(decode.target_prefix)

    def _segments(self, sources: Sequence[str], decode: DecodeConfig, stacklevel: int = 3) -> list[list[Segment]]:
        """Returns what is translated by itself of each line; nothing of an empty line. Warns of what is too long.

        `stacklevel` is the number of calls between the warning and the line that it is about.
        """
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
                        stacklevel=stacklevel,
                    )
        if self.text is not None:
            lengths = [segment.length for line in lines for segment in line if len(segment.pieces) == 1]
            if too_long := [length for length in lengths if self.text.is_too_long(length)]:
                warnings.warn(too_long_text(len(too_long), max(too_long), self.text), LongText, stacklevel=stacklevel)
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

    def _translations(
        self,
        lines: list[list[Segment]],
        searched: Iterable[tuple[int, list[Hypothesis]]],
        length_penalty: float | None,
    ) -> list[Translation]:
        """Returns the translation of each line, written as soon as its pieces are found: an engine searches on."""
        numbers = iter(range(sum(len(segment.pieces) for line in lines for segment in line)))
        places = [[[next(numbers) for _ in segment.pieces] for segment in line] for line in lines]
        line_of = [number for number, of_line in enumerate(places) for of_segment in of_line for _ in of_segment]
        missing = Counter(line_of)
        found: dict[int, list[Hypothesis]] = {}

        def written(number: int) -> Translation:
            here = [[found.pop(place) for place in of_segment] for of_segment in places[number]]
            return self._translation(lines[number], here, length_penalty)

        best = {number: written(number) for number in range(len(lines)) if number not in missing}
        for place, hypotheses in searched:
            found[place] = hypotheses
            missing[line_of[place]] -= 1
            if not missing[line_of[place]]:
                best[line_of[place]] = written(line_of[place])
        return [best[number] for number in range(len(lines))]

    def _translation(
        self, line: list[Segment], found: list[list[list[Hypothesis]]], length_penalty: float | None
    ) -> Translation:
        """Returns one line's translation from the n best of each piece of its segments.

        They rank by `length_penalty`; None: as they stand.
        """
        pieces = [hypotheses for of_segment in found for hypotheses in of_segment]
        count = max(map(len, pieces), default=1)
        if count == 1:
            ranked = [self._joined(line, [[hypotheses[0] for hypotheses in of_segment] for of_segment in found])]
        else:
            ranks = [
                [-float(i) if length_penalty is None else h.rank(length_penalty) for i, h in enumerate(hypotheses)]
                for hypotheses in pieces
            ]
            ranked = []
            for chosen in ranked_together(ranks, count):
                best = iter([hypotheses[i] for hypotheses, i in zip(pieces, chosen, strict=True)])
                ranked.append(self._joined(line, [[next(best) for _ in of_segment] for of_segment in found]))
        first = ranked[0]
        return Translation(first.text, first.score, first.tokens, ranked, first.sentences)

    def _joined(self, line: list[Segment], chosen: list[list[Hypothesis]]) -> Translation:
        target = self.tokenizers.target
        parts = []
        for segment, pieces in zip(line, chosen, strict=True):
            texts = [" ".join(target.decode(h.ids).splitlines()) for h in pieces]
            several = len(texts) > 1
            text = joined(texts, [Segment(segment.source, [], " ")] * len(texts)) if several else "".join(texts)
            score = float(sum(h.score for h in pieces))
            ids = [(piece, h.ids) for piece, h in zip(segment.pieces, pieces, strict=True)]
            parts.append(Sentence(segment.source, text, score, segment.length, ids))
        return Translation(
            text=joined([part.text for part in parts], line) if parts else "",
            score=float(sum(part.score for part in parts)),
            tokens=[token for pieces in chosen for h in pieces for token in target.tokens(h.ids)],
            sentences=parts,
        )


def _distinct(translations: list[Translation]) -> list[Translation]:
    """Returns the first of each text: a model that learnt several cuts of a word may write one in several ways."""
    found: dict[str, Translation] = {}
    for each in translations:
        found.setdefault(each.text, each)
    return list(found.values())


def confidence_settings(translator: Translator, *, asked: bool) -> dict[str, Any]:
    """Returns what decides the confidences of a stream: an output that was stopped goes on under the same alone."""
    calibration = translator.calibration
    return {"confidence": "not calibrated" if calibration is None else asdict(calibration)} if asked else {}


def _check_unconstrained(options: TranslateOptions, what: str) -> None:
    """Raises ConfigError for an option that constrains or parts a search, where there is no such search."""
    for name in (
        "min_length",
        "no_repeat_ngram",
        "prefixes",
        "terms",
        "line_terms",
        "diverse_groups",
        "diversity",
        "rerank",
        "alternatives",
    ):
        if options.pop(name, None) is not None:  # type: ignore[misc]
            raise ConfigError(f"`{name}=` is of `translate` alone, and means nothing to {what}", "leave it out")


def too_long_text(count: int, longest: int, text: TrainingText) -> str:
    """Returns what to say of sentences beyond what is usual in the training text."""
    return (
        f"{count:,} {'sentence is' if count == 1 else 'sentences are'} longer than nearly all that the model was "
        f"trained on ({longest:,} tokens; there 999 lines of 1,000 have at most {text.source_length:,}): "
        "expect less of the translation"
    )


def _named(line: Sequence[Segment]) -> str:
    """Returns a line by its text, for a message: its number would be that within a part of a stream."""
    return f"the line `{shown(' '.join(segment.source for segment in line))}`"
