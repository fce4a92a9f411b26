"""The terms that translations must hold, from texts to what a search takes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from pellucid.decoding.terms import Spelling, Term
from pellucid.errors import DataError, shown
from pellucid.text.glossary import Glossary, Spellings, has_words, is_whole_word
from pellucid.text.tokenizer import CompleteTokenizer

Terms = Mapping[str, str] | Iterable[tuple[str, str]]
"""Source terms, each with a translation that is written where it occurs."""


def glossary_of(terms: Terms) -> Glossary:
    """Returns the glossary of pairs. Raises DataError for what is no pair of texts, and for an empty side."""
    if isinstance(terms, str) or not isinstance(terms, Iterable):
        raise DataError(f"`terms` is {shown(terms)}, and no pairs of texts", 'give [("Hund", "dog"), ...], or a dict')
    pairs = []
    for number, pair in enumerate(terms.items() if isinstance(terms, Mapping) else terms, start=1):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(
                f"term {number} is {shown(pair)}, and no pair of a source term and its translation",
                'give [("Hund", "dog"), ...]',
            )
        for side, text in zip(("source term", "translation"), pair, strict=True):
            if not isinstance(text, str) or not has_words(text):
                raise DataError(f"term {number} has no {side}: {shown(text)}", "leave the pair out, or fill it in")
        pairs.append((str(pair[0]), str(pair[1])))
    return _glossary(tuple(pairs))


@lru_cache(maxsize=4)
def _glossary(pairs: tuple[tuple[str, str], ...]) -> Glossary:
    return Glossary(pairs)


class TermWriter:
    """Turns terms into what a search looks for, by one tokenizer; what it has made once it keeps."""

    def __init__(self, tokenizer: CompleteTokenizer) -> None:
        self._spellings = Spellings(tokenizer)
        self._unknown = tokenizer.unk_id
        self._made: dict[tuple[str, ...], Term] = {}

    @property
    def continues(self) -> frozenset[int]:
        """The tokens that continue the word before them."""
        return self._spellings.continuing

    def term(self, choices: tuple[str, ...]) -> Term:
        """Returns the term that any of the `choices` fulfils. Raises DataError for what cannot be written."""
        if choices not in self._made:
            self._made[choices] = self._term(choices)
        return self._made[choices]

    def _term(self, choices: tuple[str, ...]) -> Term:
        written: list[Spelling] = []
        for text in choices:
            inside, beginning, others = self._spellings.of(text.strip())
            if self._unknown in inside or not inside:
                raise DataError(
                    f"the model's vocabulary cannot write the term `{shown(text)}`",
                    "leave it out, or spell it by characters that the training text has",
                )
            whole = is_whole_word(text.strip())
            written.append(Spelling(tuple(inside), whole=whole))
            written += [Spelling(tuple(ids), starts=True, whole=whole) for ids in beginning if self._unknown not in ids]
            written += [Spelling(tuple(ids), sought=False, whole=whole) for ids in others]
        return Term(tuple(dict.fromkeys(written)))


def terms_of_lines(line_terms: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """Returns the terms that each of `count` lines must hold. Raises DataError for another number, and for no texts."""
    if isinstance(line_terms, str) or not isinstance(line_terms, Sequence):
        raise DataError(f"`line_terms` is {shown(line_terms)}, and no list", 'give a list for each line: [["dog"], []]')
    if len(line_terms) != count:
        raise DataError(f"{count} sources and {len(line_terms)} lists of terms: each source has one", "none is []")
    found = []
    for number, texts in enumerate(line_terms, start=1):
        if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
            raise DataError(f"the terms of line {number} are {shown(texts)}, and no list of texts", 'give ["dog"]')
        found.append([text for text in texts if text.strip()])
    return found
