"""One continuous text as a corpus: concatenated files, line ends included."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pellucid.config import DataConfig
from pellucid.data.in_memory import InMemoryText
from pellucid.data.issues import Issue
from pellucid.data.lines import hash_path, read_lines_lenient
from pellucid.errors import ConfigError, DataError

CHUNK = 1_000_000  # characters encoded at a time


@dataclass(frozen=True)
class ContinuousText:
    """The training and the validation text: read anew each time, in chunks of whole lines."""

    data: DataConfig
    characters: int
    """The length of the training text."""
    valid_characters: int

    findings: tuple[Issue, ...] = ()
    given: Mapping[str, InMemoryText] = field(default_factory=dict)
    """The texts that were passed instead of files, by "train" and "valid"; if empty, they are files."""

    def __len__(self) -> int:
        return self.characters

    def train(self) -> Iterator[tuple[str, str]]:
        """Returns the chunks of the training text, each as source and target."""
        lines = _lines(self.data, self.given, "train")
        return ((chunk, chunk) for chunk in _chunks(_characters(lines, 0, self.characters)))

    @property
    def valid(self) -> Iterator[tuple[str, str]]:
        """The chunks of the validation text, each as source and target."""
        apart = bool(self.data.valid_src) or "valid" in self.given
        start = 0 if apart else self.characters
        lines = _lines(self.data, self.given, "valid" if apart else "train")
        return ((chunk, chunk) for chunk in _chunks(_characters(lines, start, start + self.valid_characters)))

    @cached_property
    def digests(self) -> dict[str, list[str]]:
        """The SHA-256 of each training and validation text, by the setting that names it."""
        if self.given:
            names = {"train": "src", "valid": "valid_src"}
            return {name: [self.given[part].digests[0]] for part, name in names.items() if part in self.given}
        texts = {name: self.data.files(name) for name in ("src", "valid_src")}
        return {name: [hash_path(path) for path in paths] for name, paths in texts.items() if paths}

    def report(self) -> str:
        """Returns a line that describes the texts."""
        names = ", ".join(f"`{path}`" for path in self.data.files("src")) or str(self.given["train"])
        valid = f"`{self.data.valid_src}`" if self.data.valid_src else "the last tenth of the text"
        valid = str(self.given["valid"]) if "valid" in self.given else valid
        return (
            f"texts: {self.characters:,} characters of continuous text in {names} for training; for validation "
            f"{self.valid_characters:,}, {valid}"
        )


def open_continuous_text(data: DataConfig, given: Mapping[str, InMemoryText] | None = None) -> ContinuousText:
    """Reads the continuous text of `data.src`, or of `given`. Without a validation text, the last tenth is held out.

    Raises ConfigError for settings that do not apply to a continuous text, DataError for a text that cannot be read, or
    is too short.
    """
    given = given or {}
    if not given and (data.files("tgt") or data.files("valid_tgt") or not data.files("src")):
        raise ConfigError(
            "a continuous text is a source alone (`data.src`)", "set `data.src`, and leave `data.tgt` out"
        )
    if data.corpus_weights or data.sampling_temperature:
        what = (
            f"corpus_weights` ({list(data.corpus_weights)}) have"
            if data.corpus_weights
            else f"sampling_temperature` ({data.sampling_temperature:g}) has"
        )
        raise ConfigError(f"`data.{what} no effect on a continuous text", 'set `data.text = "lines"`')
    total = sum(map(len, _lines(data, given, "train")))
    if data.valid_src or "valid" in given:
        train, valid = total, sum(map(len, _lines(data, given, "valid")))
    else:
        train = int(0.9 * total)
        valid = total - train
    if min(train, valid) < 2:
        paths = [str(text) for text in given.values()] or [
            f"`{p}`" for p in (*data.files("src"), *data.files("valid_src")) if p
        ]
        raise DataError(
            f"{' and '.join(paths)} {'has' if len(paths) == 1 else 'have'} {train:,} characters to train on and "
            f"{valid:,} to validate on: too few",
            "use a longer text",
        )
    return ContinuousText(data, train, valid, given=given)


def _lines(data: DataConfig, given: Mapping[str, InMemoryText], part: str) -> Iterator[str]:
    """Yields the lines of a text with their ends; each text of `given` ends with a line end."""
    if given:
        for text, _ in given[part].pairs(data.on_bad_utf8):
            if text is not None:
                yield from (f"{line}\n" for line in text.removesuffix("\n").split("\n"))
        return
    for path in data.files("src" if part == "train" else "valid_src"):
        for line in read_lines_lenient(path, data.on_bad_utf8, lambda *_: None):
            if line is not None:
                yield f"{line}\n"


def _characters(lines: Iterable[str], start: int, end: int) -> Iterator[str]:
    """Yields the text's characters from `start` to `end`, by lines; the first and the last may be parts."""
    place = 0
    for line in lines:
        if place < end and place + len(line) > start:
            yield line[max(0, start - place) : end - place]
        place += len(line)
        if place >= end:
            return


def _chunks(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines joined into chunks."""
    gathered: list[str] = []
    size = 0
    for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= CHUNK:
            yield "".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield "".join(gathered)
