"""The terms that translations must hold, from texts to what a search takes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from pellucid.decoding.terms import Spelling, Term
from pellucid.errors import DataError, shown
from pellucid.text.glossary import Glossary, has_words, is_whole_word, spellings
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


def term_of(tokenizer: CompleteTokenizer, choices: Sequence[str]) -> Term:
    """Returns the term that any of the `choices` fulfils. Raises DataError for what the vocabulary cannot write."""
    return _term(tokenizer, tuple(choices))


@lru_cache(maxsize=1 << 16)
def _term(tokenizer: CompleteTokenizer, choices: tuple[str, ...]) -> Term:
    written: list[Spelling] = []
    for text in choices:
        sought, beginning, others = spellings(tokenizer, text.strip())
        if any(tokenizer.unk_id in ids for ids in sought) or not all(sought):
            raise DataError(
                f"the model's vocabulary cannot write the term `{shown(text)}`",
                "leave it out, or spell it by characters that the training text has",
            )
        written += [Spelling(tuple(ids)) for ids in sought]
        written += [Spelling(tuple(ids), starts=True) for ids in beginning if tokenizer.unk_id not in ids]
        written += [Spelling(tuple(ids), sought=False) for ids in others]
    return Term(tuple(dict.fromkeys(written)), whole=all(map(is_whole_word, choices)))


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
