"""One running text as a corpus: files one behind the other, their line ends included."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pellucid.config import DataConfig
from pellucid.data.faults import Finding
from pellucid.data.given import GivenText
from pellucid.data.lines import fingerprint, read_mended_lines
from pellucid.errors import ConfigError, DataError

CHUNK = 1_000_000  # characters that are encoded at a time


@dataclass(frozen=True)
class RunningCorpus:
    """The text to train on, and the text to validate on: read anew each time, in chunks of whole lines."""

    data: DataConfig
    characters: int
    """The length of the training text."""
    valid_characters: int

    findings: tuple[Finding, ...] = ()
    given: Mapping[str, GivenText] = field(default_factory=dict)
    """The texts that were handed over instead of files, by "train" and "valid"; empty: they are files."""

    def __len__(self) -> int:
        return self.characters

    def train(self) -> Iterator[tuple[str, str]]:
        """Returns the chunks of the training text, each twice, as one whose target it is itself."""
        lines = _lines(self.data, self.given, "train")
        return ((chunk, chunk) for chunk in _chunks(_characters(lines, 0, self.characters)))

    @property
    def valid(self) -> Iterator[tuple[str, str]]:
        """The chunks of the validation text, each twice."""
        apart = bool(self.data.valid_src) or "valid" in self.given
        start = 0 if apart else self.characters
        lines = _lines(self.data, self.given, "valid" if apart else "train")
        return ((chunk, chunk) for chunk in _chunks(_characters(lines, start, start + self.valid_characters)))

    @cached_property
    def digests(self) -> dict[str, list[str]]:
        """The SHA-256 of each text that is trained or validated on, by the setting that names it."""
        if self.given:
            names = {"train": "src", "valid": "valid_src"}
            return {name: [self.given[part].digests[0]] for part, name in names.items() if part in self.given}
        texts = {name: self.data.files(name) for name in ("src", "valid_src")}
        return {name: [fingerprint(path) for path in paths] for name, paths in texts.items() if paths}

    def report(self) -> str:
        """Returns what was read, in a line."""
        names = ", ".join(f"`{path}`" for path in self.data.files("src")) or str(self.given["train"])
        valid = f"`{self.data.valid_src}`" if self.data.valid_src else "the last tenth of it"
        valid = str(self.given["valid"]) if "valid" in self.given else valid
        return (
            f"texts: {self.characters:,} characters of running text in {names} to train on; to validate on "
            f"{self.valid_characters:,}, {valid}"
        )


def open_running(data: DataConfig, given: Mapping[str, GivenText] | None = None) -> RunningCorpus:
    """Reads the running text of `data.src`, or what is `given`; without another to validate on, a tenth is held out.

    Raises ConfigError for settings that a running text has no use for, DataError for a text that cannot be read, or is
    shorter than some blocks.
    """
    given = given or {}
    if not given and (data.files("tgt") or data.files("valid_tgt") or not data.files("src")):
        raise ConfigError("a running text is `data.src` alone", "give `data.src`, and no `data.tgt`")
    if data.weights or data.temperature:
        what = f"weights` ({list(data.weights)}) mean" if data.weights else f"temperature` ({data.temperature:g}) means"
        raise ConfigError(f"`data.{what} nothing to a running text", 'set `data.text = "lines"`')
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
            "give a longer text",
        )
    return RunningCorpus(data, train, valid, given=given)


def _lines(data: DataConfig, given: Mapping[str, GivenText], part: str) -> Iterator[str]:
    """Yields the lines of a text with their ends; each text that is handed over ends a line."""
    if given:
        for text, _ in given[part].pairs(data.on_bad_utf8):
            if text is not None:
                yield from (f"{line}\n" for line in text.removesuffix("\n").split("\n"))
        return
    for path in data.files("src" if part == "train" else "valid_src"):
        for line in read_mended_lines(path, data.on_bad_utf8, lambda *_: None):
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
    """Yields lines together."""
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
