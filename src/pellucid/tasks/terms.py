"""The terms that translations must contain, converted from texts to the token constraints of a search."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from pellucid.decoding.terms import Term, TermTokens
from pellucid.errors import DataError, format_value
from pellucid.text.glossary import Glossary, TermSpellings, has_words, is_whole_word
from pellucid.text.tokenizer import TokenizerBase

Terms = Mapping[str, str] | Iterable[tuple[str, str]]
"""Source terms, each with its required translation."""


def make_glossary(terms: Terms) -> Glossary:
    """Returns the glossary of term pairs. Raises DataError for an element that is no pair of non-empty texts."""
    if isinstance(terms, str) or not isinstance(terms, Iterable):
        raise DataError(
            f"`terms` is {format_value(terms)}, not pairs of strings", 'pass [("Hund", "dog"), ...], or a dict'
        )
    pairs = []
    for number, pair in enumerate(terms.items() if isinstance(terms, Mapping) else terms, start=1):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(
                f"term {number} is {format_value(pair)}, not a pair of a source term and its translation",
                'pass [("Hund", "dog"), ...]',
            )
        for side, text in zip(("source term", "translation"), pair, strict=True):
            if not isinstance(text, str) or not has_words(text):
                raise DataError(
                    f"term {number} has no {side}: {format_value(text)}", "leave the pair out, or fill it in"
                )
        pairs.append((str(pair[0]), str(pair[1])))
    return _glossary(tuple(pairs))


@lru_cache(maxsize=4)
def _glossary(pairs: tuple[tuple[str, str], ...]) -> Glossary:
    return Glossary(pairs)


class TermEncoder:
    """Encodes terms for a search with one tokenizer, and caches them."""

    def __init__(self, tokenizer: TokenizerBase) -> None:
        self._spellings = TermSpellings(tokenizer)
        self._unknown = tokenizer.unk_id
        self._made: dict[tuple[str, ...], Term] = {}

    @property
    def continues(self) -> frozenset[int]:
        """The tokens that continue the word before them."""
        return self._spellings.continuing

    def term(self, choices: tuple[str, ...]) -> Term:
        """Returns the term that any of `choices` satisfies. Raises DataError if the tokenizer cannot encode them."""
        if choices not in self._made:
            self._made[choices] = self._term(choices)
        return self._made[choices]

    def _term(self, choices: tuple[str, ...]) -> Term:
        written: list[TermTokens] = []
        for text in choices:
            inside, beginning, others = self._spellings.spell(text.strip())
            if self._unknown in inside or not inside:
                raise DataError(
                    f"the model's vocabulary cannot write the term `{format_value(text)}`",
                    "leave it out, or spell it with characters of the training text",
                )
            whole = is_whole_word(text.strip())
            written.append(TermTokens(tuple(inside), whole=whole))
            written += [
                TermTokens(tuple(ids), starts=True, whole=whole) for ids in beginning if self._unknown not in ids
            ]
            written += [TermTokens(tuple(ids), sought=False, whole=whole) for ids in others]
        return Term(tuple(dict.fromkeys(written)))


def parse_line_terms(constraints: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """Returns the required terms of each of `count` lines. Raises DataError for another number of lists or for values
    that are not texts."""
    if isinstance(constraints, str) or not isinstance(constraints, Sequence):
        raise DataError(
            f"`constraints` is {format_value(constraints)}, not a list", 'pass one list per line: [["dog"], []]'
        )
    if len(constraints) != count:
        raise DataError(
            f"{count} sources and {len(constraints)} lists of terms: each source needs one", "an empty list is []"
        )
    found = []
    for number, texts in enumerate(constraints, start=1):
        if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
            raise DataError(
                f"the terms of line {number} are {format_value(texts)}, not a list of strings", 'pass ["dog"]'
            )
        found.append([text for text in texts if text.strip()])
    return found
