"""Translation memories in a search: lines that a memory has are not translated again, and similar ones give terms.

A line is reused if its source equals that of a unit after the tokenizer's normalization. A fuzzy match is a unit whose
words are similar: 1 minus the edit distance of the words, divided by the larger number of words. If it is very similar,
the model aligns the words that differ with the unit's translation; if all of them have words there, the other words of
the translation, in runs of at least two, are terms of the search. Where words were added that replace none, it is not
known where the translation has them: such a match is shown, and is not used.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Literal

from pellucid.config import DecodeConfig
from pellucid.data.memory_file import Languages, identify_memory, read_memory, resolve_memory
from pellucid.errors import ConfigError, DataError, PellucidError, format_install_command
from pellucid.tasks.languages import find_direction
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translation import MemoryMatch, Sentence, Translation
from pellucid.text.normalization import SPACE_MARK, normalize
from pellucid.text.sentences import writes_spaces
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.words import is_combining, word_spans

if TYPE_CHECKING:
    from pellucid.tasks.word_alignment import WordAlignment

LEAST_SIMILARITY = 0.7
"""The similarity from which on a unit is a match: the usual bound of programs for translators."""
LEAST_USED = 0.85
"""The similarity from which on a unit gives terms. Captions lost 8 BLEU by terms of less similar captions, and nothing
by those of more similar ones; lines that differ from a unit in one word gained 58 (docs/results/2026-11-29-text.md)."""
NEARLY_EQUAL = 0.99
"""The similarity of a unit with the same words that is not equal."""
MOST_MATCHES = 3
"""The most matches of a line."""
FEWEST_WORDS = 2
"""The fewest words of a run of the translation that becomes a term."""
MOST_CHANGED = 0.2
"""The attention of a word of the translation to changed words up to which it is taken from the unit."""
_UNKNOWN, _FIRST, _LAST = "\x01", 0x100, 0x10FFFF
"""The characters for a word that the memory lacks, for its first word, and for all words beyond the last character."""

Span = tuple[int, int]
Translate = Callable[[Sequence[str], SearchOptions], list[Translation]]


class TranslationMemory:
    """The pairs of a memory, found by equal and by similar sources."""

    def __init__(self, pairs: Sequence[tuple[str, str]], tokenizer: TokenizerBase) -> None:
        """Takes pairs of sources and translations; of equal sources the last one is used."""
        self._tokenizer = tokenizer
        last = {self._normalize(source): (source, target) for source, target in pairs}
        self._whole: Mapping[str, tuple[str, str]] = last
        self._units = [*last.values()]
        words = dict.fromkeys(word for source in last for word in _split(source))
        self._characters = {word: chr(min(_FIRST + number, _LAST)) for number, word in enumerate(words)}
        self._sources = [self._spell(source) for source in last]

    def __len__(self) -> int:
        return len(self._units)

    def find(self, line: str) -> list[MemoryMatch]:
        """Returns the unit of an equal source, else the most similar units, the best first.

        Raises ConfigError without the extra `memory`, which compares lines.
        """
        read = self._normalize(line)
        if not read:
            return []
        if read in self._whole:
            source, target = self._whole[read]
            return [MemoryMatch(source, target, 1.0)]
        process, levenshtein = _import_rapidfuzz()
        found = process.extract(
            self._spell(read), self._sources, scorer=levenshtein.normalized_similarity,
            score_cutoff=LEAST_SIMILARITY, limit=MOST_MATCHES,
        )  # fmt: skip
        return [
            MemoryMatch(source, target, min(similarity, NEARLY_EQUAL))
            for _, similarity, (source, target) in ((*each[:2], self._units[each[2]]) for each in found)
        ]

    def _normalize(self, text: str) -> str:
        """Returns a text as the model's tokenizer normalizes it, or else in Unicode's NFC."""
        if isinstance(self._tokenizer, SentencePieceTokenizer):
            return self._tokenizer.normalize(text).replace(SPACE_MARK, " ").strip()
        return normalize(text, "nfc")

    def _spell(self, text: str) -> str:
        """Returns a character for each word of a text: rapidfuzz compares texts faster than lists."""
        return "".join(self._characters.get(word, _UNKNOWN) for word in _split(text))


@lru_cache(maxsize=2)
def _open(path: str, state: object, languages: Languages, tokenizer: Any) -> TranslationMemory:
    return TranslationMemory(read_memory(path, languages), tokenizer)


def _import_rapidfuzz() -> tuple[Any, Any]:
    try:
        from rapidfuzz import process
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise ConfigError("`memory=` requires the extra `memory`", format_install_command("memory")) from error
    return process, Levenshtein


def translate_with_memory(
    translator: Any, sources: Sequence[str], options: SearchOptions, translate: Translate
) -> list[Translation]:
    """Returns the translations of lines, reused from the memory of the options where it has them.

    A forced prefix, and a line's own terms, apply to the lines that are searched: a unit without them is not reused.

    Args:
        translate: translates lines with options without a memory.

    Raises the errors of `read_memory`, and of `translate`.
    """
    path, options = options.memory, replace(options, memory=None)
    assert path is not None
    _import_rapidfuzz()  # an error at once, not at the first line that is not equal
    config = translator.configure(options)
    languages = find_direction(config, translator.tokenizers, translator.languages, translator.pairs)
    file = str(resolve_memory(path))
    memory = _open(file, identify_memory(file), languages, translator.tokenizers.source)
    matches = [memory.find(line) for line in sources]
    reused = [
        number
        for number, of_line in enumerate(matches)
        if of_line and of_line[0].similarity == 1 and _is_allowed(options, number, of_line[0].target)
    ]
    whole = [(sources[number], matches[number][0].target) for number in reused]
    found: dict[int, Translation] = {}
    for number, one in zip(reused, _reuse(translator, whole, config), strict=True):
        found[number] = _note_matches(one, matches[number], "whole")
    terms = _find_terms(translator, sources, matches, found.keys(), options)
    for number, one in _translate_with_terms(sources, terms, options, translate):
        found[number] = _note_matches(one, matches[number], "terms")
    if rest := [number for number in range(len(sources)) if number not in found]:
        searched = translate([sources[number] for number in rest], options.select(rest))
        for number, one in zip(rest, searched, strict=True):
            found[number] = _note_matches(one, matches[number], "")
    return [found[number] for number in range(len(sources))]


def _note_matches(
    found: Translation, matches: Sequence[MemoryMatch], use: Literal["whole", "terms", ""]
) -> Translation:
    """Returns a translation with its matches, the first of which is used as `use` says."""
    if not matches:
        return found
    return replace(found, matches=(replace(matches[0], use=use), *matches[1:]))


def _is_allowed(options: SearchOptions, number: int, target: str) -> bool:
    """Returns True if a stored translation has what the options require of the line."""
    prefix = options.prefixes[number] if options.prefixes else ""
    return target.startswith(prefix) and all(term in target for term in _required(options, number))


def _required(options: SearchOptions, number: int) -> Sequence[str]:
    return options.constraints[number] if options.constraints and number < len(options.constraints) else ()


def _reuse(translator: Any, units: Sequence[tuple[str, str]], config: DecodeConfig) -> list[Translation]:
    """Returns stored translations, with the score that the model gives them; 0 for one that it cannot read."""
    if not units:
        return []
    segmenter, targets = translator.segmenter, [" ".join(target.splitlines()) for _, target in units]
    pairs = list(zip(*segmenter.encode_pairs([source for source, _ in units], targets), strict=True))
    fitting = [pair for pair in pairs if not segmenter.find_too_long(*pair, config)]
    scores = iter(translator.engine.scores([src for src, _ in fitting], [tgt for _, tgt in fitting], config))
    found = []
    for (source, _), target, (src, tgt) in zip(units, targets, pairs, strict=True):
        fits = not segmenter.find_too_long(src, tgt, config)
        score = next(scores) if fits else 0.0
        sentence = Sentence(source, target, score, len(src), [(src, tgt)] if fits else [])
        found.append(Translation(target, score, translator.tokenizers.target.tokens(tgt), sentences=[sentence]))
    return [replace(one, alternatives=[one]) for one in found]


def _find_terms(
    translator: Any,
    sources: Sequence[str],
    matches: Sequence[Sequence[MemoryMatch]],
    reused: Any,
    options: SearchOptions,
) -> dict[int, list[str]]:
    """Returns the terms of each line whose best match agrees with it in words of its translation."""
    engine, config = translator.engine, translator.configure(options)
    if (
        options.search is not None or options.beam_groups is not None or config.beam_size == 1
        or "constraints" in engine.lacks or "trace" in engine.lacks
    ):  # fmt: skip
        return {}
    chosen = [
        number
        for number, of_line in enumerate(matches)
        if of_line
        and of_line[0].similarity >= LEAST_USED
        and number not in reused
        and not (options.prefixes and options.prefixes[number])
    ]
    if not chosen:
        return {}
    units = [matches[number][0] for number in chosen]
    changes = [find_changed(unit.source, sources[number]) for number, unit in zip(chosen, units, strict=True)]
    known = [place for place, changed in enumerate(changes) if changed]
    stored = _reuse(translator, [(units[place].source, units[place].target) for place in known], config)
    aligned = translator.aligner.align_all(
        [(units[place].source, one) for place, one in zip(known, stored, strict=True)], config
    )
    lines = translator.segmenter.segment([sources[chosen[place]] for place in known], config).lines
    found = {}
    for place, one, alignment, line in zip(known, stored, aligned, lines, strict=True):
        pieces = [piece for segment in line for piece in segment.pieces]
        terms = find_agreeing(one.text, alignment, changes[place])
        if len(pieces) == 1 and terms and _can_write(translator, terms, translator.segmenter.limit(pieces[0], config)):
            found[chosen[place]] = terms
    return found


def _can_write(translator: Any, terms: Sequence[str], room: int) -> bool:
    """Returns True if the vocabulary has the terms, and a translation has room for them."""
    try:
        return sum(translator.write_term(term).least for term in terms) < room
    except DataError:
        return False


def _translate_with_terms(
    sources: Sequence[str], terms: Mapping[int, Sequence[str]], options: SearchOptions, translate: Translate
) -> Iterator[tuple[int, Translation]]:
    """Yields the lines with terms and their translations; a flagged translation is left out."""
    if not terms:
        return
    numbers = [*terms]
    required = [[*_required(options, number), *terms[number]] for number in numbers]
    given = replace(options.select(numbers), constraints=required)
    try:
        found = translate([sources[number] for number in numbers], given)
    except PellucidError:  # terms of the options leave no room for these
        return
    yield from ((number, one) for number, one in zip(numbers, found, strict=True) if not one.flags)


def split_units(text: str) -> list[Span]:
    """Returns the words and marks of a text as ranges; for scripts without spaces between words, its characters."""
    found: list[Span] = []
    for start, end in word_spans(text):
        if writes_spaces(text[start:end]):
            found.append((start, end))
        else:
            cuts = [place for place in range(start, end) if place == start or not is_combining(text[place])]
            found += pairwise([*cuts, end])
    return found


def _split(text: str) -> list[str]:
    return [text[start:end] for start, end in split_units(text)]


def find_changed(source: str, line: str) -> list[Span]:
    """Returns the ranges of a unit's source that a line has replaced or lacks; none if the line has further words."""
    _, levenshtein = _import_rapidfuzz()
    spans = split_units(source)
    units = [_split(text) for text in (source, line)]
    changed, added = list[Span](), False
    for near, group in groupby(levenshtein.opcodes(*units), lambda step: step.tag != "equal"):
        steps = list(group)
        if not near:
            continue
        here = [span for step in steps for span in spans[step.src_start : step.src_end]]
        added = added or not here
        changed += here
    return [] if added else changed


def find_agreeing(text: str, alignment: "WordAlignment", changed: Sequence[Span]) -> list[str]:
    """Returns the runs of words of a translation that translate unchanged words of its source.

    None if the alignment is not known, or a changed word has no word of the translation.
    """
    agreeing: list[tuple[Span, bool]] = []
    covered = set[Span]()
    for part in alignment.parts:
        if not part.known:
            return []
        columns = [n for n, (a, b) in enumerate(part.sources) if any(a < end and start < b for start, end in changed)]
        for span, weights in zip(part.targets, part.weights, strict=True):
            total = max(float(weights.sum()), 1e-9)
            best = int(weights.argmax()) if len(weights) else -1
            agrees = best not in columns and float(weights[columns].sum()) <= MOST_CHANGED * total
            agreeing.append((span, agrees))
            if best in columns:
                covered.update(one for one in changed if _overlap(one, part.sources[best]))
    if not set(changed) <= covered:
        return []
    found = []
    for agrees, group in groupby(agreeing, lambda each: each[1]):
        spans = [span for span, _ in group]
        words = sum(any(map(str.isalnum, text[start:end])) for start, end in spans)
        if agrees and words >= FEWEST_WORDS:
            found.append(text[spans[0][0] : spans[-1][1]])
    return found


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
