"""The search of a call: computes translations from the options and the pieces of its lines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pellucid.config import DecodeConfig
from pellucid.config.decode import MOST_SEED
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.errors import ConfigError, DataError, format_value
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.segmentation import Segment
from pellucid.tasks.segmenter import Segmenter
from pellucid.tasks.task import check_lines
from pellucid.tasks.terms import TermEncoder, make_glossary, parse_line_terms
from pellucid.tasks.translation import SegmentedLines, Translation, keep_distinct

if TYPE_CHECKING:  # CTranslate2 works without PyTorch
    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints
    from pellucid.tasks.reranking import Reranker

_BITS_OF_A_PLACE = 48  # for the line number; the bits above hold the number of the piece in its line


def sample_lines(
    segmenter: Segmenter, lines: SegmentedLines, options: SearchOptions, config: DecodeConfig, place: int
) -> list[Translation]:
    """Returns one sampled translation of each line of a stream, the first of which has the index `place`.

    With `options.mbr` it is the sample most similar to all samples of the line: minimum Bayes risk, by chrF.
    """
    assert options.sampling is not None
    places = []
    for number, line in enumerate(lines.lines, start=place):
        count = sum(len(segment.pieces) for segment in line)
        places += [number + (piece << _BITS_OF_A_PLACE) for piece in range(count)]
    samples = []
    for number in range(options.mbr or 1):
        seed = options.sampling.seed + number
        sampling = replace(options.sampling, seed=seed % MOST_SEED) if options.mbr else options.sampling
        found = segmenter.engine.sample(lines.pieces, sampling, config, places)
        samples.append(lines.translate((i, [hypothesis]) for i, hypothesis in enumerate(found)))
    if options.mbr is None:
        return samples[0]
    from pellucid.evaluation.consensus import select_by_mbr

    return [of_line[select_by_mbr([one.text for one in of_line])] for of_line in zip(*samples, strict=True)]


@dataclass(frozen=True)
class TranslationSearch:
    """A search for the best translations of some lines."""

    segmenter: Segmenter
    lines: SegmentedLines
    options: SearchOptions
    config: DecodeConfig
    """The settings; its `min_length` and `no_repeat_ngram_size` apply if the options have none."""
    reranker: "Reranker | None"
    writer: TermEncoder
    max_repeats: int = 0
    """The most times that a run of tokens may occur in a row; 0: no limit."""

    def run(self) -> tuple[list[Translation], bool]:
        """Returns the best translation of each line with its alternatives, and True if no constraint affected them.

        Raises the errors of `Translator.translate` for its options.
        """
        constraints, config = self._make_constraints(), self.config
        # The constraints replace these two settings: 0 requires nothing.
        config = config if self.options.min_length is None else replace(config, min_length=0)
        config = config if self.options.no_repeat_ngram_size is None else replace(config, no_repeat_ngram_size=0)
        by = self._choose_search(config)
        if self.options.next_token_alternatives is not None:
            return self._find_alternatives(
                self.options.next_token_alternatives, config, constraints
            ), constraints is None
        engine, pieces = self.segmenter.engine, self.lines.pieces
        if self.reranker is None:
            penalty = config.length_penalty if self.options.search is None else None
            found = self.lines.translate(engine.search(pieces, config, by, constraints), penalty)
        else:
            candidates = replace(config, n_best=max(config.n_best, self.reranker.n_best))
            searched = engine.search_all(pieces, candidates, by, constraints)
            found = self.lines.translate(enumerate(self._rerank(self.reranker, searched, candidates)))
        return [replace(one, alternatives=keep_distinct(one.alternatives)) for one in found], constraints is None

    def _choose_search(self, config: DecodeConfig) -> "SearchFunction | None":
        """Returns the search by groups or the custom search; None: beam search."""
        if self.options.beam_groups is None:
            return self.options.search
        from pellucid.decoding.diverse_beam import STRENGTH, DiverseSearch

        strength = self.options.diversity_penalty
        found = DiverseSearch(self.options.beam_groups, STRENGTH if strength is None else strength)
        found.check(config)
        return found

    def _make_constraints(self) -> "Constraints | None":
        """Returns the constraints of the outputs of all pieces; None if no option constrains them."""
        given = self.options
        if (
            all(
                value is None
                for value in (
                    given.prefixes,
                    given.min_length,
                    given.no_repeat_ngram_size,
                    given.terms,
                    given.constraints,
                )
            )
            and not self.max_repeats
        ):
            return None
        from pellucid.decoding.constraints import Constraints

        constraints = Constraints(
            min_length=0 if given.min_length is None else given.min_length,  # `or` would pass False and ""
            no_repeat_ngram_size=0 if given.no_repeat_ngram_size is None else given.no_repeat_ngram_size,
            max_repeats=self.max_repeats,
        )
        most = self.config.max_length
        if given.min_length is not None and most is not None and given.min_length > most:
            raise ConfigError(
                f"`min_length` ({given.min_length}) exceeds `max_length` ({most})",
                "lower `min_length`, or raise `max_length`",
            )
        if given.prefixes is not None:
            constraints = replace(constraints, prefixes=self._encode_prefixes(given.prefixes))
        if given.terms is not None or given.constraints is not None:
            constraints = self._add_terms(constraints)
        return constraints

    def _encode_prefixes(self, prefixes: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Returns the prefix of each piece's output: the first piece of a line has the line's prefix.

        Raises DataError if the numbers of prefixes and lines differ, and for a prefix that exceeds the output's limit.
        """
        lines, texts = self.lines.lines, check_lines(prefixes)
        if len(texts) != len(lines):
            raise DataError(
                f"{len(lines)} sources and {len(texts)} prefixes: each source needs one", 'an empty prefix is ""'
            )
        found: list[tuple[int, ...]] = []
        for line, text, ids in zip(lines, texts, self.lines.tokenizers.target.encode_lines(texts), strict=True):
            pieces = [piece for segment in line for piece in segment.pieces]
            limit = self.segmenter.limit(pieces[0], self.config) if pieces else len(ids)
            if len(ids) > limit:
                raise DataError(
                    f"the prefix `{format_value(text)}` has {len(ids):,} tokens, but the translation of its line has "
                    f"at most {limit:,}",
                    "shorten it, or set `max_length=`",
                )
            found += [tuple(ids) if number == 0 else () for number in range(len(pieces))]
        return tuple(found)

    def _add_terms(self, constraints: "Constraints") -> "Constraints":
        """Returns the constraints with the terms that the output of each piece must contain.

        Raises DataError for terms that are invalid or cannot be encoded, for terms of a line of several pieces, and for
        terms that exceed the output's limit.
        """
        lines, of_lines = self.lines.lines, self.options.constraints
        glossary = make_glossary(self.options.terms or ())
        required = [list[str]() for _ in lines] if of_lines is None else parse_line_terms(of_lines, len(lines))
        found = []
        for line, of_line in zip(lines, required, strict=True):
            pieces = list(self.lines.read_line(line))
            if of_line and len(pieces) > 1:
                raise DataError(
                    f"{_name_line(line)} is translated in {len(pieces)} parts, and its terms cannot be assigned to "
                    "them",
                    'write one sentence per line, or set `segment="off"`',
                )
            for text, _ in pieces:
                choices = (*glossary.find_required(text), *((one,) for one in of_line))
                found.append(tuple(dict.fromkeys(map(self.writer.term, choices))))
        constraints = replace(constraints, terms=tuple(found), continues=self.writer.continues)
        pieces_of = [(line, piece) for line in lines for segment in line for piece in segment.pieces]
        for place, (line, piece) in enumerate(pieces_of):
            needed, limit = constraints.compute_min_length(place), self.segmenter.limit(piece, self.config)
            if needed > limit:
                what = "prefix and the terms" if constraints.prefixes and constraints.prefixes[place] else "terms"
                raise DataError(
                    f"the {what} of {_name_line(line)} have {needed:,} tokens, but its translation has at most "
                    f"{limit:,}",
                    "leave some out, or set `max_length=`",
                )
        return constraints

    def _rerank(
        self, reranker: "Reranker", searched: Sequence[list[Hypothesis]], config: DecodeConfig
    ) -> list[list[Hypothesis]]:
        """Returns the `n_best` hypotheses of each piece in the reranker's order."""
        from pellucid.tasks.reranking import Candidates

        target = self.lines.tokenizers.target
        read = [each for line in self.lines.lines for each in self.lines.read_line(line)]
        candidates = [
            Candidates.from_hypotheses(*one, target, hypotheses) for one, hypotheses in zip(read, searched, strict=True)
        ]
        ranked = reranker.best_first(self.segmenter.engine, candidates, config)
        return [hypotheses[: self.config.n_best] for hypotheses in ranked]

    def _find_alternatives(
        self, count: int, config: DecodeConfig, constraints: "Constraints | None"
    ) -> list[Translation]:
        """Returns the best translation of each line, with the alternatives that differ in the next token."""
        from pellucid.tasks.next_tokens import check_whole, expand_next_tokens

        check_whole(self.lines.lines)
        search, target = self.segmenter.engine.search_all, self.lines.tokenizers.target
        found = expand_next_tokens(search, target, self.lines.pieces, config, constraints, count)
        searched = enumerate([hypothesis for hypothesis, _ in of_piece] for of_piece in found)
        of_pieces, best = iter(found), []
        for translation in self.lines.translate(searched, config.length_penalty):
            named = [branch for _, branch in next(of_pieces)] if translation.sentences else []  # an empty line has none
            each = [
                replace(one, next_token=branch) for one, branch in zip(translation.alternatives, named, strict=False)
            ]
            best.append(replace(each[0], alternatives=keep_distinct(each)) if each else translation)
        return best


def _name_line(line: Sequence[Segment]) -> str:
    """Returns a line by its text, for a message, since its number would count within a chunk of a stream."""
    return f"the line `{format_value(' '.join(segment.source for segment in line))}`"
