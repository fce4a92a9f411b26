"""One running text as a corpus: files one behind the other, their line ends included."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pellucid.config import DataConfig
from pellucid.data.faults import Finding
from pellucid.data.lines import read_mended_lines
from pellucid.errors import ConfigError, DataError

CHUNK = 1_000_000  # characters that are encoded at a time


@dataclass(frozen=True)
class RunningCorpus:
    """The text to train on, and the text to validate on: read anew from disk each time, in chunks of whole lines."""

    data: DataConfig
    characters: int
    """Of the training text."""
    valid_characters: int

    findings: tuple[Finding, ...] = ()

    def __len__(self) -> int:
        return self.characters

    def train(self) -> Iterator[tuple[str, str]]:
        """The chunks of the training text, each twice, as one whose target it is itself."""
        return ((chunk, chunk) for chunk in _chunks(_characters(self._train_lines(), 0, self.characters)))

    @property
    def valid(self) -> Iterator[tuple[str, str]]:
        """Those of the validation text."""
        start = 0 if self.data.valid_src else self.characters
        lines = _lines([self.data.valid_src], self.data) if self.data.valid_src else self._train_lines()
        return ((chunk, chunk) for chunk in _chunks(_characters(lines, start, start + self.valid_characters)))

    def report(self) -> str:
        """What was read, in a line."""
        names = ", ".join(f"`{path}`" for path in self.data.files("src"))
        valid = f"`{self.data.valid_src}`" if self.data.valid_src else "the last tenth of it"
        return (
            f"texts: {self.characters:,} characters of running text in {names} to train on; to validate on "
            f"{self.valid_characters:,}, {valid}"
        )

    def _train_lines(self) -> Iterator[str]:
        return _lines(self.data.files("src"), self.data)


def open_running(data: DataConfig) -> RunningCorpus:
    """The running text of `data.src`; where there is no other to validate on, its last tenth is held out.

    Raises ConfigError for settings that a running text has no use for, DataError for a text that cannot be read, or is
    shorter than some blocks.
    """
    if data.files("tgt") or data.files("valid_tgt") or not data.files("src"):
        raise ConfigError("a running text is `data.src` alone", "give `data.src`, and no `data.tgt`")
    if data.weights:
        raise ConfigError(
            f"`data.weights` ({list(data.weights)}) mean nothing to a running text", 'set `data.text = "lines"`'
        )
    total = sum(map(len, _lines(data.files("src"), data)))
    if data.valid_src:
        train, valid = total, sum(map(len, _lines([data.valid_src], data)))
    else:
        train = int(0.9 * total)
        valid = total - train
    if min(train, valid) < 2:
        names = " and ".join(f"`{path}`" for path in (*data.files("src"), data.valid_src) if path)
        raise DataError(
            f"{names} {'has' if not data.valid_src else 'have'} {train:,} characters to train on and {valid:,} to "
            "validate on: too few",
            "give a longer text",
        )
    return RunningCorpus(data, train, valid)


def _lines(paths: Iterable[str], data: DataConfig) -> Iterator[str]:
    """The lines of the files with their ends."""
    for path in paths:
        for line in read_mended_lines(path, data.on_bad_utf8, lambda *_: None):
            if line is not None:
                yield f"{line}\n"


def _characters(lines: Iterable[str], start: int, end: int) -> Iterator[str]:
    """The text's characters from `start` to `end`, by lines; the first and the last may be parts."""
    place = 0
    for line in lines:
        if place < end and place + len(line) > start:
            yield line[max(0, start - place) : end - place]
        place += len(line)
        if place >= end:
            return


def _chunks(lines: Iterable[str]) -> Iterator[str]:
    """Lines together."""
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
