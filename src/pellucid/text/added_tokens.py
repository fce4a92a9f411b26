"""Added tokens: strings that a Hugging Face tokenizer matches in a text before its model segments the rest."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class AddedToken:
    """A string that is one token anywhere in a text, as `AddedToken` of the library `tokenizers`."""

    content: str
    lstrip: bool = False
    """If True, the token includes the white space before it."""
    rstrip: bool = False
    """If True, the token includes the white space after it."""
    single_word: bool = False
    """If True, the token does not match within a word."""


class AddedTokens:
    """The added tokens of a tokenizer, and the segmentation options for the text between them."""

    def __init__(
        self, tokens: Sequence[AddedToken] = (), *, one_prefix: bool = False, keeps_spaces: bool = False
    ) -> None:
        """Takes the tokens.

        Args:
            tokens: the strings, none of them empty.
            one_prefix: if True, only the first part of a text is prefixed with a space (Llama); else each part is.
            keeps_spaces: if True, a space before an added token is a separate piece, and a space after it belongs to
                the next word (NLLB, mBART-50); else the model decides.
        """
        self.tokens: tuple[AddedToken, ...] = tuple(tokens)
        self.one_prefix = one_prefix
        self.keeps_spaces = keeps_spaces
        self._by_content = {token.content: token for token in self.tokens}
        sizes: dict[str, set[int]] = {}
        for token in self.tokens:
            sizes.setdefault(token.content[0], set()).add(len(token.content))
        self._sizes = {first: sorted(found, reverse=True) for first, found in sizes.items()}
        self._first = re.compile(f"[{''.join(map(re.escape, sizes))}]") if sizes else None

    def split(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yields the parts of a text in their order, and whether each is an added token.

        Of tokens that begin at the same index, the longest matches. A part between tokens may be empty.
        """
        begin = 0
        for start, end, token in self._find(text):
            if start < begin:
                continue
            part = text[begin:start]
            yield part.rstrip() if token.lstrip else part, False
            yield token.content, True
            space = _SPACE.match(text, end) if token.rstrip else None
            begin = space.end() if space else end
        yield text[begin:], False

    def _find(self, text: str) -> Iterator[tuple[int, int, AddedToken]]:
        """Yields the start and the end of each added token in a text; they may overlap."""
        for match in self._first.finditer(text) if self._first else ():
            start = match.start()
            for size in self._sizes[match[0]]:
                token = self._by_content.get(text[start : start + size])
                if token is not None and not (token.single_word and _is_in_word(text, start, start + size)):
                    yield start, start + size, token
                    break

    def to_table(self) -> dict[str, Any]:
        """Returns the table that from_table() reads."""
        return {
            "tokens": [asdict(token) for token in self.tokens],
            "one_prefix": self.one_prefix,
            "keeps_spaces": self.keeps_spaces,
        }

    @classmethod
    def from_table(cls, table: Any) -> "AddedTokens":
        """Returns the tokens of a table that to_table() wrote; none for None. Raises ValueError for anything else."""
        if table is None:
            return cls()
        switches = {field.name for field in fields(AddedToken)} - {"content"}
        listed = [
            AddedToken(str(token["content"]), **{name: token[name] is True for name in switches})
            for token in table["tokens"]
        ]
        if not all(token.content for token in listed):
            raise ValueError("it has an added token without text")
        return cls(listed, one_prefix=table["one_prefix"] is True, keeps_spaces=table["keeps_spaces"] is True)


def _is_in_word(text: str, start: int, end: int) -> bool:
    """Returns True if a word character directly precedes `start` or follows `end` in a text."""
    around = text[max(0, start - 1) : start] + text[end : end + 1]
    return re.search(r"\w", around) is not None
