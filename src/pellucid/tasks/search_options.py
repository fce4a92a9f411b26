"""The options of a translation in one validated record: for Python, streams, teachers and the command line.

A message names an option as in a Python call (`beam_size=`); the command line replaces it by its own option.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.config.decode import CEILINGS
from pellucid.errors import ConfigError, format_argument
from pellucid.tasks.option_fields import option, read_options
from pellucid.text.protected import compile_patterns

if TYPE_CHECKING:  # CTranslate2 works without PyTorch
    from pellucid.decoding.beam import SearchFunction
    from pellucid.tasks.reranking import Reranker
    from pellucid.tasks.terms import Terms

UseModelDefault = Literal["own"]
"""The value that selects the model's setting for an option whose None has another meaning."""

MOST_DRAWS = 2**10
"""The most samples of a line for minimum Bayes risk, which compares all pairs."""
MOST_ALTERNATIVES = int(CEILINGS["beam_size"])

SAMPLING = tuple(field.name for field in fields(SamplingConfig))
"""The options that require sampling."""
NOT_TRACED = (
    "min_length", "no_repeat_ngram_size", "prefixes", "terms", "constraints", "beam_groups", "diversity_penalty",
    "rerank", "next_token_alternatives", "memory",
)  # fmt: skip
"""The options that a trace does not take."""
NOT_SAMPLED = ("search", "beam_size", "n_best", "length_penalty", *NOT_TRACED)
"""The options of a search for the best translations, which sampling does not take."""
OTHER_ALTERNATIVES = ("search", "n_best", "rerank", "beam_groups", "memory")
"""The options that return other alternatives than `next_token_alternatives=`."""


class TranslateOptions(TypedDict, total=False):
    """The options of all methods of a translator that translate, for the type checker."""

    search: "SearchFunction | None"
    source_language: str | None
    target_language: str | None
    beam_size: int | None
    n_best: int | None
    length_penalty: float | None
    max_length: int | UseModelDefault | None
    batch_tokens: int | None
    max_source_length: int | None
    segment: Literal["auto", "off"] | None
    decode: DecodeConfig | None
    min_length: int | None
    no_repeat_ngram_size: int | None
    prefixes: Sequence[str] | None
    terms: "Terms | None"
    constraints: Sequence[Sequence[str]] | None
    beam_groups: int | None
    diversity_penalty: float | None
    rerank: "str | Path | Reranker | None"
    next_token_alternatives: int | None
    memory: str | Path | None
    keep: str | Sequence[str] | None
    protect: Literal["auto", "on", "off"] | None
    repair: Literal["auto", "off"] | None
    min_confidence: float | None
    below: Literal["source", "empty"] | None


class LineOptions(TranslateOptions, total=False):
    """The options of `Translator.translate`, for the type checker."""

    confidence: bool


class SampleOptions(TypedDict, total=False):
    """The options of `Translator.sample`, for the type checker."""

    source_language: str | None
    target_language: str | None
    batch_tokens: int | None
    segment: Literal["auto", "off"] | None
    confidence: bool
    keep: str | Sequence[str] | None
    protect: Literal["auto", "on", "off"] | None
    min_confidence: float | None
    below: Literal["source", "empty"] | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    epsilon_cutoff: float | None
    seed: int | None
    mbr: int | None


class StreamOptions(LineOptions, total=False):
    """The options of `Translator.stream`, for the type checker."""

    sampling: SamplingConfig | None
    mbr: int | None


class AnswerOptions(StreamOptions, total=False):
    """The options of `Translator.process_lines`, for the type checker."""

    prefixed: bool
    termed: bool


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of one call that translates, each with its description and its option of `pellucid translate`.

    If an option is None (`max_length`: "own"), the model's setting applies.

    Raises ConfigError for options that cannot be combined or lack a required one; DecodingError for an invalid value of
    a sampling option.
    """

    search: "SearchFunction | None" = option(
        "a custom search: a function of `pellucid.SearchState` and a DecodeConfig that returns a "
        "`pellucid.SearchResult` for each sentence; None: beam search."
    )
    source_language: str | None = option("the code of the source language in `languages`, for a multilingual model.")
    target_language: str | None = option("the code of the target language in `languages`, for a multilingual model.")
    beam_size: int | None = option(
        "hypotheses kept per step; 1 is greedy search.",
        "N", "beam size: hypotheses kept per step; 1 is greedy search",
        is_setting=True,
    )  # fmt: skip
    n_best: int | None = option(
        "translations per line, in `Translation.alternatives`. Duplicates are removed, so there may be fewer.",
        "N", "translations per line; more than one requires `json=`",
        is_setting=True,
    )  # fmt: skip
    length_penalty: float | None = option(
        "hypotheses rank by log-probability / length ** length_penalty.",
        "X", "rank hypotheses by log-probability / length ** X",
        is_setting=True,
    )  # fmt: skip
    max_length: int | UseModelDefault | None = option(
        'most tokens of a translation; None: twice the source\'s tokens + 50; "own": the model\'s setting.',
        "N", "maximum number of tokens of a translation",
        kind=int | None, value="own",
    )  # fmt: skip
    batch_tokens: int | None = option(
        "source tokens per batch, padding and beams included.",
        "N", "source tokens per batch, beams included",
        is_setting=True,
    )  # fmt: skip
    max_source_length: int | None = option(
        "most source tokens of a sentence that is translated in one part.", is_setting=True
    )
    segment: Literal["auto", "off"] | None = option(
        '"auto" splits lines into sentences as described above, "off" leaves them whole.',
        "MODE", "split lines into sentences (auto) or not (off)", "auto",
        is_setting=True,
    )  # fmt: skip
    decode: DecodeConfig | None = option("settings that replace all of the model's; the options above override them.")
    confidence: bool = option(
        "sets `Translation.confidence` of each best translation, by a further pass over it.", value=False
    )
    min_length: int | None = option(
        "the fewest tokens of the translation of a sentence.",
        "N", "minimum number of tokens of a sentence's translation", "none",
    )  # fmt: skip
    no_repeat_ngram_size: int | None = option(
        "forbids repeated n-grams of this size in the translation of a sentence.",
        "N", "forbid repeated n-grams of N tokens in a sentence's translation", "allowed",
    )  # fmt: skip
    prefixes: Sequence[str] | None = option(
        'a forced prefix for the translation of each line, "" for none. The translation may continue its last word, '
        "and its probability is part of the score. It applies to the first sentence of a line."
    )
    terms: "Terms | None" = option(
        "pairs of a source term and its translation. If a sentence has the source term, as whole words, its "
        "translation contains the target term. A source term in lower case matches any case, one with a capital only "
        "the same case; the longest match first. Of several translations of a source term one is enough."
    )
    constraints: Sequence[Sequence[str]] | None = option(
        "target terms that the translation of each line must contain, a list for each line."
    )
    beam_groups: int | None = option(
        "divides the beam into this number of groups that avoid each other's tokens; with `n_best` each group "
        "contributes its share.",
        "N", "with `n_best=`: diverse beam search: N groups of the beam that avoid each other's words", "1",
    )  # fmt: skip
    diversity_penalty: float | None = option(
        "nats subtracted from a token for each hypothesis of an earlier group that has it at the same position; "
        "default 1.",
        "X", "with `beam_groups=`: penalty in nats for a word that an earlier group uses", "1",
    )  # fmt: skip
    rerank: "str | Path | Reranker | None" = option(
        "reranks the n best of each sentence with further models: a `pellucid.Reranker`, or the file that the verb "
        "`fit-reranker` wrote. Scores remain this model's. The beam is at least as wide as its n-best list.",
        "FILE", "rerank the n-best list with the weights in a file written by the verb `fit-reranker`", "no reranking",
        kind=str | None,
    )  # fmt: skip
    next_token_alternatives: int | None = option(
        "returns the best translation after each of this number of most probable tokens, at the beginning or after the "
        "line's prefix: `Translation.alternatives` has them, best first, each with its `next_token`. Lines must be "
        "single sentences.",
        "N", "with `json=`: N alternatives for the next token, each with its best translation", "none",
    )  # fmt: skip
    memory: str | Path | None = option(
        "a translation memory: a TMX file or another file with both sides, the file that the verb `remember` wrote, or "
        "the model folder that has this file. A line whose source it has, equal after the tokenizer's normalization, "
        "gets the stored translation. For a line that is very similar, the words of the stored translation that do not "
        "change are terms of the search, where the model's alignment identifies them. `Translation.matches` lists the "
        "units. Requires the extra `memory`.",
        "FILE", "translation memory, .tmx or written by `remember`: reuse equal lines, take terms from similar ones",
        "none",
        kind=str | None,
    )  # fmt: skip
    keep: str | Sequence[str] | None = option(
        "regular expressions, or one, of parts that the translation must contain unchanged, in addition to "
        "placeholders (`%s`, `{0}`), addresses (URLs, mail), file names and paths, code in backticks, tags, numbers "
        "with units and emoji. A line whose translation loses one of them is left untranslated, with the flag "
        '"spans".',
        "REGEX",
        "pattern of text to copy into the translation, in addition to placeholders, URLs, ...; may be repeated", "none",
        kind=tuple[str, ...],
    )  # fmt: skip
    protect: Literal["auto", "on", "off"] | None = option(
        '"off" protects only the parts that match `keep`; "auto", the default, is "on" for a model whose training text '
        'is known, and "off" for one of another library, which may have learned to copy.',
        "MODE",
        "copy placeholders, URLs, code, tags and emoji (on), or only `keep=` (off); auto: off for models of other "
        "libraries, else on",
        "auto",
    )  # fmt: skip
    repair: Literal["auto", "off"] | None = option(
        '"auto", the default, reads a line in capitals, in title case, without capitals or without diacritics as the '
        "training text writes its words (see `word_forms`); the translation of a line in capitals is in capitals. An "
        'unknown word that is misspelled is read as the known one, with the flag "spelling". It also translates a '
        "sentence again, without repetitions and if necessary in parts, if its translation repeats itself or it is "
        'longer than nearly all training lines; the flags "loop" and "parts" tell. That applies to beam search by '
        'models trained here on sentences, with segment="auto" and without `prefixes` and `constraints`. "off": lines '
        "are read as they are written, and the search alone decides.",
        "MODE",
        "restore case, diacritics and spelling of lines, and translate again, if necessary in parts, sentences whose "
        "translation repeats itself or that are longer than nearly all training lines (auto), or not (off)",
        "auto",
    )  # fmt: skip
    min_confidence: float | None = option(
        "replaces a translation whose probability (see `confidence`, which it sets) is below this value, with the flag "
        '"confidence". Without a calibration it is the model\'s probability, which is not the share of right words.',
        "X", "replace translations of a probability below X, from 0 to 1, and flag them", "none",
    )  # fmt: skip
    below: Literal["source", "empty"] | None = option(
        '"source", the default: the line itself replaces such a translation; "empty": an empty text does.',
        "TEXT", "with `min_confidence=`: keep the source of such a line, or leave it empty", "source",
    )  # fmt: skip
    sample: bool = option(
        "samples translations; `sampling` and `mbr` imply it.",
        help="sample translations, instead of beam search", default="", value=False,
    )  # fmt: skip
    sampling: SamplingConfig | None = option(
        "the settings of sampling, each of which the next five options can override; None: search for the best."
    )
    temperature: float | None = option(
        "divides the logits: below 1 sharper, above 1 flatter.",
        "X", "with `sample=`: softmax temperature: below 1 sharper, above 1 flatter", "1",
    )  # fmt: skip
    top_k: int | None = option(
        "samples from the k most probable tokens; 0: from all.",
        "N", "with `sample=`: sample from the N most probable tokens", "all",
    )  # fmt: skip
    top_p: float | None = option(
        "samples from the smallest set of tokens with at least this total probability.",
        "X", "with `sample=`: sample from the smallest set of tokens with total probability X", "1",
    )  # fmt: skip
    epsilon_cutoff: float | None = option(
        "samples from the tokens with at least this probability.",
        "X", "with `sample=`: sample from the tokens of probability X or more, as in 0.02", "0",
    )  # fmt: skip
    seed: int | None = option("the random seed; default 1.", "N", "with `sample=`: random seed", "1")
    mbr: int | None = option(
        "samples this number of translations of each line, with `seed`, `seed` + 1 and so on, and returns the one most "
        "similar to all of them: minimum Bayes risk, by chrF.",
        "N", "minimum Bayes risk: sample N translations, and print the one most similar to all by chrF", "none",
    )  # fmt: skip
    prefixed: bool = False
    """If True, the lines are pairs of a line and the prefix of its translation (`prefixes`)."""
    termed: bool = False
    """If True, the lines are pairs of a line and the tab-separated terms of its translation (`constraints`)."""

    @property
    def fixes_output(self) -> bool:
        """True if options contain text of the output, whose case must stay."""
        return any(value is not None for value in (self.prefixes, self.constraints, self.next_token_alternatives))

    def __post_init__(self) -> None:
        self._check_sampling()
        if self.protect not in (None, "auto", "on", "off"):
            raise ConfigError(f"{format_argument('protect', self.protect)} must be auto, on or off")
        compile_patterns(self.keep_patterns)
        self._check_guards()
        if self.prefixed and self.termed:
            raise ConfigError("`prefixes=` and `constraints=` cannot be combined", "leave one of them out")
        if self.beam_groups is not None or self.diversity_penalty is not None:
            if self.search is not None:
                raise ConfigError("`search=` is a custom search, which has no `beam_groups=`", "leave one of them out")
            if self.beam_groups is None:
                raise ConfigError("`diversity_penalty=` requires `beam_groups=`", "set the number of groups")
        if (count := self.next_token_alternatives) is not None:
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_ALTERNATIVES:
                raise ConfigError(
                    f"{format_argument('next_token_alternatives', count)} must be a whole number from 1 to "
                    f"{MOST_ALTERNATIVES:,}",
                    "5 are usual",
                )
            for name in self._select_set(OTHER_ALTERNATIVES):
                raise ConfigError(
                    f"`{name}=` selects one translation, and `next_token_alternatives={count}` returns several",
                    "leave one of them out",
                )

    def _check_guards(self) -> None:
        least = self.min_confidence
        if least is not None and (isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1):
            raise ConfigError(
                f"{format_argument('min_confidence', least)} must be a probability from 0 to 1",
                "see the probabilities of your text by `confidence=True`",
            )
        if self.repair not in (None, "auto", "off"):
            raise ConfigError(f"{format_argument('repair', self.repair)} must be auto or off")
        if self.below not in (None, "source", "empty"):
            raise ConfigError(f"{format_argument('below', self.below)} must be source or empty")
        if self.below is not None and least is None:
            raise ConfigError(
                f"{format_argument('below', self.below)} requires `min_confidence=`", "set the least probability"
            )

    def _check_sampling(self) -> None:
        """Merges the options of sampling into `sampling`, which remains None for a search."""
        if self.mbr is not None and not 2 <= self.mbr <= MOST_DRAWS:
            raise ConfigError(
                f"{format_argument('mbr', self.mbr)} must be from 2 to {MOST_DRAWS:,} samples",
                "16 to 64 are usual; each sample is one decoding pass",
            )
        given = {name: getattr(self, name) for name in self._select_set(SAMPLING)}
        if not self.sample and self.sampling is None and self.mbr is None:
            for name in given:
                raise ConfigError(f"`{name}=` requires `sample=True`", "add `sample=True`")
            return
        reason = "mbr=" if self.mbr is not None else "sample=True" if self.sample else "sampling="
        for name in self._select_set(NOT_SAMPLED):
            raise ConfigError(f"`{name}=` cannot be combined with `{reason}`", f"leave `{name}=` out")
        object.__setattr__(self, "sampling", replace(self.sampling or SamplingConfig(), **given))

    def _select_set(self, names: Iterable[str]) -> Iterator[str]:
        """Yields the names of options that are given; `prefixed` and `termed` count as `prefixes` and `constraints`."""
        pairs = {"prefixes": self.prefixed, "constraints": self.termed}
        for name in names:
            if getattr(self, name) is not None or pairs.get(name):
                yield name

    @property
    def keep_patterns(self) -> tuple[str, ...]:
        """The regular expressions of `keep`."""
        return (self.keep,) if isinstance(self.keep, str) else tuple(self.keep or ())

    @property
    def non_defaults(self) -> dict[str, Any]:
        """The options that differ from their defaults, enough for an equal record; sampling as `sampling` alone."""
        apart = {"sample", *SAMPLING}
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in apart}
        return {name: value for name, value in values.items() if value != getattr(SearchOptions, name)}

    def settings(self, decode: DecodeConfig, candidates: int | None = None) -> DecodeConfig:
        """Returns the settings of the search: `self.decode` if given, else `decode`, overridden by the options.

        Args:
            decode: the model's settings.
            candidates: the number of hypotheses for a reranker, which the beam must hold; None: no reranker.

        Raises ConfigError for a value out of range, and for a beam that is narrower than `candidates`.
        """
        if not isinstance(self.decode, DecodeConfig | None):
            raise ConfigError(
                f"{format_argument('decode', self.decode)} must be a DecodeConfig, not {type(self.decode).__name__}",
                "as in `decode=pellucid.DecodeConfig(beam_size=4)`",
            )
        given: dict[str, Any] = {name: getattr(self, name) for name in self._select_set(SETTINGS)}
        if self.max_length != "own":
            given["max_length"] = self.max_length
        n_best = {} if candidates is None or "n_best" not in given else {"n_best": given.pop("n_best")}
        config = replace(self.decode or decode, **given)
        if candidates is None:
            return config
        if self.beam_size is not None and self.beam_size < candidates:
            raise ConfigError(
                f"{format_argument('beam_size', self.beam_size)} is smaller than the {candidates} best that are "
                "reranked",
                "leave it out, or fit the factors for fewer",
            )
        return replace(replace(config, beam_size=max(config.beam_size, candidates)), **n_best)

    def for_lines(self, lines: Sequence[Any]) -> "tuple[Sequence[str], SearchOptions]":
        """Returns the texts of lines, and the options, with the second texts if the lines are pairs."""
        if not (self.prefixed or self.termed):
            return lines, self
        texts, seconds = [text for text, _ in lines], [second for _, second in lines]
        if self.prefixed:
            return texts, replace(self, prefixed=False, prefixes=seconds)
        return texts, replace(self, termed=False, constraints=[second.split("\t") for second in seconds])

    def select(self, lines: Sequence[int]) -> "SearchOptions":
        """Returns the options of some of the lines, by their indices."""
        prefixes, terms = self.prefixes, self.constraints
        return replace(
            self,
            prefixes=prefixes and [prefixes[number] for number in lines],
            constraints=terms and [terms[number] for number in lines],
        )

    def check_trace(self, target: str | None) -> None:
        """Raises ConfigError for an option that a trace does not take, and for a search if `target` is given."""
        for name in (
            *self._select_set((*NOT_TRACED, "keep", "protect", "repair", "min_confidence", "sampling")),
            *(["confidence"] if self.confidence else []),
        ):
            raise ConfigError(f"`{name}=` is an option of `translate`, and has no effect on a trace", "leave it out")
        if self.search is not None and target is not None:
            raise ConfigError(
                "`search=` has no effect if `target=` is given: nothing is searched", "leave one of them out"
            )


SETTINGS = tuple(name for name, (_, text) in read_options(SearchOptions).items() if text.is_setting)
"""The options that replace the model's settings of the same names, unless they are None."""
