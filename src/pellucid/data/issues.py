"""The issues that a corpus can have: each with its count, its first place, and a remedy."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

IssueKind = Literal[
    "lines", "shift", "utf8", "mojibake", "lost", "control", "line_break", "empty", "too_long", "copy", "duplicate",
    "valid", "test", "near_duplicate", "script", "language", "ratio", "too_short", "long_word", "letters", "repetition",
    "markup", "address", "numbers", "decomposed", "spaces", "invisible", "wide", "quotes", "others", "sides", "heading",
    "columns", "quoted", "segment", "variants",
]  # fmt: skip

TITLES: Mapping[IssueKind, str] = {
    "lines": "different numbers of lines",
    "shift": "lines that do not belong together",
    "others": "parts of a file that are not read",
    "sides": "source and target identified by their order",
    "heading": "a line of headings",
    "columns": "rows with another number of columns",
    "quoted": "cells in quotation marks, as spreadsheets write them",
    "segment": "translation units whose texts have no <seg>",
    "variants": "translation units with several texts of a language",
    "utf8": "not UTF-8",
    "mojibake": "UTF-8 encoded twice, as Ã¼ for ü",
    "lost": "U+FFFD, where a character was lost",
    "control": "control characters",
    "line_break": "line break within a JSON string",
    "empty": "empty side",
    "too_long": "too long",
    "copy": "target equal to source",
    "duplicate": "duplicate pair",
    "valid": "validation sentences in the training text",
    "test": "test sentences in the training text",
    "near_duplicate": "duplicate pair except for case and punctuation",
    "script": "another script than the side's",
    "language": "another language than the side's",
    "ratio": "unusual ratio of lengths",
    "too_short": "too short",
    "long_word": "very long word",
    "letters": "few letters",
    "repetition": "repetition",
    "markup": "markup",
    "address": "addresses, on one side only or as the whole line",
    "numbers": "numbers that differ",
    "decomposed": "decomposed letters and accents (not NFC)",
    "spaces": "spaces other than a single plain space",
    "invisible": "zero-width characters and soft hyphens",
    "wide": "full-width letters and marks",
    "quotes": "straight and typographic quotation marks",
}
"""The issues that are checked for, in the order in which they are reported."""

ADVICE: Mapping[IssueKind, str] = {
    "lines": "repair the files at this line: line n of one must be the translation of line n of the other",
    "shift": "compare both files at this line: a line may be missing in one, and a later line superfluous",
    "others": "none if these parts are not needed; otherwise select them with `data.jsonl_keys`, or as files",
    "sides": "select source and target with `data.jsonl_keys`",
    "heading": "none: a line of headings is not a pair",
    "columns": "a tab within a text splits the text: check the rows, and write each pair in the same number of columns",
    "quoted": 'save the table without quotes: a quote is written as "" in it, and the quotes become part of the text',
    "segment": "put the text of each <tuv> into a <seg>, as TMX has it",
    "variants": "to select another text, name its region in `data.jsonl_keys`",
    "utf8": "convert the file, or set `data.on_bad_utf8=replace`",
    "mojibake": "the file was read as Latin-1 and written as UTF-8",
    "lost": "replace the file by an undamaged copy",
    "control": "another encoding or program left them",
    "line_break": "it is read as a space",
    "empty": "such pairs are skipped in training; many of them may mean that the files do not belong together",
    "too_long": "raise `data.max_length`, or set `data.on_too_long=cut`",
    "copy": "untranslated lines teach a model to copy: set `data.on_copy=skip`",
    "duplicate": "if the duplicates are unintended, set `data.on_duplicate=skip`",
    "valid": "with these sentences in the training text the validation score is too high",
    "test": "with these sentences in the training text the test score is too high",
    "near_duplicate": "they are harmless by themselves; many of them point to machine-generated text",
    "script": "lines of another language, or untranslated words",
    "language": "exchanged sides, lines of another language, or untranslated words",
    "ratio": "a part of a sentence is missing, or the sides do not belong together",
    "too_short": "headings and single words; lower the limit if they are wanted",
    "long_word": "codes and paths, or words whose spaces are missing",
    "letters": "tables, codes and rules; a model learns no language from them",
    "repetition": "machine-generated text, or the output of a model that did not stop",
    "markup": "the text comes from a web page, or was escaped by a tokenizer (Moses)",
    "address": "the sides may not belong together; a model learns no language from an address",
    "numbers": "the sides may not belong together",
    "decomposed": '`data.normalize = "nfc"` composes them, in training and in use',
    "spaces": '`data.normalize = "nfc"` replaces each run of them by one space, in training and in use',
    "invisible": '`data.normalize = "nfc"` removes them except where a script needs them',
    "wide": 'if they mean the same as plain ones, `data.normalize = "nmt_nfkc"` replaces them',
    "quotes": "a model learns both; use one kind if the output should have only one",
}

OF_PAIRS: tuple[IssueKind, ...] = (
    "utf8", "mojibake", "lost", "control", "empty", "too_long", "valid", "test", "copy", "duplicate", "script",
    "markup", "address", "letters", "repetition", "long_word", "too_short", "language", "ratio", "numbers",
    "near_duplicate",
)  # fmt: skip
"""The issues of a single pair, which `pellucid clean` filters, most certain first. All others concern a whole file, or
a Unicode variant, which a tokenizer normalizes."""


OF_CONTAINERS: frozenset[IssueKind] = frozenset(
    ("others", "sides", "heading", "columns", "quoted", "segment", "variants")
)
"""The issues of a file with both sides: content that was not read, or was read in another form."""

EFFECTS: Mapping[str, str] = {
    "heading": "left out", "columns": "", "segment": "read as empty", "variants": "one of them read",
    "others": "", "sides": "",
}  # fmt: skip
"""The effects of issues that no setting determines."""


class IssueCallback(Protocol):
    """Callback called with each issue that is found or repaired in reading; `line` 0 means the whole file."""

    def __call__(self, fault: IssueKind, path: str, line: int, detail: str, of: str = "lines") -> None: ...


def ignore_issue(fault: IssueKind, path: str, line: int, detail: str, of: str = "lines") -> None:
    """Ignores the issue, for a second reading of a file."""


@dataclass(frozen=True)
class Issue:
    """An issue, its count, its first place (`path`, `line` from 1), and a detail."""

    fault: IssueKind
    count: int
    path: str
    line: int
    detail: str = ""
    of: str = "lines"
    """The things that are counted: a plural noun, with an optional continuation; or "of 100 sentences"."""
    effect: str = ""
    """The effect on the lines or pairs that have the issue: kept, left out."""

    def __str__(self) -> str:
        if self.fault in ("lines", "shift"):
            return f"{TITLES[self.fault]}: {self.detail}"
        noun, _, rest = self.of.partition(" ")
        unit = f"{noun.removesuffix('s') if self.count == 1 else noun} {rest}".rstrip()
        what = f"{TITLES[self.fault]}: {self.count:,} {unit}" + (f", {self.effect}" if self.effect else "")
        place = f"first in line {self.line:,} of" if self.line else "first in"
        return f"{what}; {place} `{self.path}`" + (f": {self.detail}" if self.detail else "")

    def to_json(self) -> dict[str, Any]:
        """Returns the finding as corpus.json has it."""
        return asdict(self)
