"""The faults that a corpus can have: each counted, with the first place where it stands, and what to do about it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Fault = Literal[
    "lines", "shift", "utf8", "mojibake", "lost", "control", "line_break", "empty", "too_long", "copy", "duplicate",
    "valid", "test", "near_duplicate", "script", "language", "ratio", "too_short", "long_word", "letters", "repetition",
    "markup", "address", "numbers", "decomposed", "spaces", "invisible", "wide", "quotes",
]  # fmt: skip

TITLES: Mapping[Fault, str] = {
    "lines": "different numbers of lines",
    "shift": "lines that do not belong together",
    "utf8": "not UTF-8",
    "mojibake": "UTF-8 encoded twice, as Ã¼ for ü",
    "lost": "U+FFFD, where a character was lost",
    "control": "control characters",
    "line_break": "line break within a JSON string",
    "empty": "empty side",
    "too_long": "too long",
    "copy": "target equal to source",
    "duplicate": "pair that occurred before",
    "valid": "validation sentences in the training text",
    "test": "test sentences in the training text",
    "near_duplicate": "pair that occurred before but for case and punctuation",
    "script": "another script than the side's",
    "language": "another language than the side's",
    "ratio": "unusual ratio of lengths",
    "too_short": "too short",
    "long_word": "endless word",
    "letters": "hardly a letter",
    "repetition": "the same again and again",
    "markup": "markup",
    "address": "addresses, on one side alone or all there is",
    "numbers": "numbers that differ",
    "decomposed": "letters and accents apart (not NFC)",
    "spaces": "spaces other than one plain one",
    "invisible": "zero-width characters and soft hyphens",
    "wide": "full-width letters and marks",
    "quotes": "straight and typographic quotation marks",
}
"""The faults that are looked for, in the order in which they are reported."""

ADVICE: Mapping[Fault, str] = {
    "lines": "mend the files there: line n of one must be the translation of line n of the other",
    "shift": "look at both files there: a line may be missing in one of them, and one too many further on",
    "utf8": "convert the file, or set data.on_bad_utf8",
    "mojibake": "the file was read as Latin-1 and written as UTF-8: undo that",
    "lost": "take the text from where it was still whole",
    "control": "remove them; U+000D is the line end of old systems, and ends no line here",
    "line_break": "it is read as a space",
    "empty": "such pairs are never trained on; many of them may mean that the files do not belong together",
    "too_long": "raise data.max_length, or set data.on_too_long",
    "copy": "where the task is translation, set data.on_copy to skip",
    "duplicate": "where they are there by accident, set data.on_duplicate to skip",
    "valid": "take them out of the training text, or the validation flatters the model",
    "test": "take them out of the training text, or the test flatters the model",
    "near_duplicate": "they are no harm by themselves; many of them are text from a machine",
    "script": "lines of another language, or words that nobody translated",
    "language": "sides exchanged, lines of another language, or words that nobody translated",
    "ratio": "a part of a sentence is missing, or the sides do not belong together",
    "too_short": "headings and single words; lower the limit if they are wanted",
    "long_word": "codes and paths, or words whose spaces were lost",
    "letters": "tables, codes and rulers; they teach no language",
    "repetition": "text from a machine, or a model that did not end",
    "markup": "take the text from before it was put into a page, or undo the markup",
    "address": "the sides may not belong together; a line that is an address teaches no language",
    "numbers": "the sides may not belong together",
    "decomposed": 'data.normalize decides: "nfc" composes them, in training and in use',
    "spaces": 'data.normalize decides: "nfc" makes each run of them one space, in training and in use',
    "invisible": 'data.normalize decides: "nfc" removes them but where a script needs them',
    "wide": 'where they mean the same as plain ones, data.normalize = "nmt_nfkc" makes them so',
    "quotes": "a model learns both; choose one where its output is to have one",
}

OF_PAIRS: tuple[Fault, ...] = (
    "utf8", "mojibake", "lost", "control", "empty", "too_long", "valid", "test", "copy", "duplicate", "script",
    "markup", "address", "letters", "repetition", "long_word", "too_short", "language", "ratio", "numbers",
    "near_duplicate",
)  # fmt: skip
"""The faults of a single pair, which `pellucid clean` takes out, what is most certain first. All others are of a whole
file, or a way of spelling, which a tokenizer evens out."""


@dataclass(frozen=True)
class Finding:
    """A fault, how often it occurs, and where first: `path`, `line` (from 1), and what there is to say of it."""

    fault: Fault
    count: int
    path: str
    line: int
    detail: str = ""
    of: str = "lines"
    """The things that are counted: a plural, and what goes on from there; or "of 100 sentences"."""
    effect: str = ""
    """The effect on what has the fault: kept, left out."""

    def __str__(self) -> str:
        if self.fault in ("lines", "shift"):
            return f"{TITLES[self.fault]}: {self.detail}"
        noun, _, rest = self.of.partition(" ")
        unit = f"{noun.removesuffix('s') if self.count == 1 else noun} {rest}".rstrip()
        what = f"{TITLES[self.fault]}: {self.count:,} {unit}" + (f", {self.effect}" if self.effect else "")
        return f"{what}; first in line {self.line:,} of `{self.path}`" + (f": {self.detail}" if self.detail else "")

    def to_json(self) -> dict[str, Any]:
        """Returns the finding as corpus.json has it."""
        return asdict(self)
