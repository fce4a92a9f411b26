"""A corpus that models write, in a folder with a record of its request, which is written last.

An interrupted command is resumed. A command of the same request uses the corpus; one of another request is rejected.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.config import DataConfig
from pellucid.config.tables import rename_options, rename_override
from pellucid.data.lines import hash_path
from pellucid.data.prepare import TEXTS
from pellucid.errors import ConfigError, DataError, format_quoted
from pellucid.files.reading import TABLE, TEXT, Kind, make_list_kind
from pellucid.files.records import RecordFormat, find_changed_keys, find_damaged
from pellucid.files.writing import atomic_path
from pellucid.run.init_from import hash_weights
from pellucid.synthetic_data.selection import REASONS, Reason, TranslationFilter, filter_translations
from pellucid.synthetic_data.teacher_translation import read_translations, select_decisive_options
from pellucid.tasks.search_options import SearchOptions


@dataclass(frozen=True, kw_only=True)
class CorpusFormat:
    """A kind of corpus, with a record `NOUN.json`."""

    noun: str
    begun: str
    """The beginning of the name of the first file that is written."""
    holds: str
    """The name of the content in messages."""
    option: str = "out"
    """The option that names the folder."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The kind of each value of the record that other corpora do not have."""

    @property
    def _format(self) -> RecordFormat:
        common = {"request": TABLE, "files": TABLE, "sha256": make_list_kind(TEXT), "counts": TABLE}
        return RecordFormat(f"pellucid-{self.noun}/1", {**common, **self.kinds})

    def get_record(self, folder: Path) -> Path:
        """Returns the path of a corpus' record."""
        return folder / f"{self.noun}.json"

    def read(self, folder: Path, asked: Mapping[str, Any], *, fresh: bool) -> dict[str, Any] | None:
        """Returns the record of the corpus in a folder; None if there is none.

        Raises ConfigError if the folder holds other files or, unless `fresh`, a corpus of another request.
        """
        record = self._format.read(self.get_record(folder))
        if record is None:
            check_folder(folder, self.begun, self.holds, self.option)
        elif not fresh:
            check_request("corpus", folder, record["request"], asked, self.option)
        return record

    def write(
        self, folder: Path, asked: Mapping[str, Any], files: Mapping[str, Sequence[str]], **facts: Any
    ) -> dict[str, Any]:
        """Writes the record of a corpus of `files`, by their part. Raises DataError for a missing file."""
        hashes = [hash_path(folder / name) for name in _names_of(files)]
        return self._format.write(self.get_record(folder), request=asked, files=files, sha256=hashes, **facts)


class NothingLeftError(DataError):
    """Raised if none of the models' translations passes the filter."""


class Selection:
    """The translations of a text that pass the filter. An empty line has none."""

    def __init__(
        self,
        lines: Path,
        translated: Mapping[str, Path],
        rules: TranslationFilter,
        log_line: Callable[[str], object],
        flags: Collection[str] = (),
    ) -> None:
        """Filters translations, a file by each model's name. Raises DataError for a file with other lines."""
        self.lines: Path = lines
        self.files: list[Path] = [*translated.values()]
        self.log_line: Callable[[str], object] = log_line
        self.written: int = 0
        self._keeps = list[npt.NDArray[np.bool_]]()
        self._left_out, self._flagged = Counter[Reason](), Counter[str]()
        for name, file in translated.items():
            both = zip(read_side(lines), read_translations(file), strict=True)
            try:
                found = filter_translations(((line, each if line else []) for line, each in both), rules, flags)
            except ValueError as error:  # raised by zip
                raise DataError(
                    f"`{file}` and `{lines}` differ in their numbers of lines", "remove the file to translate it again"
                ) from error
            self._keeps.append(found.kept)
            self._left_out.update(found.counts)
            self._flagged.update(found.flagged)
            if found.worst is not None and (low := found.counts["score"]):
                log_line(f"`{name}`: the lowest {low:,} translations are below {found.worst:.3f} per token")

    def rows(
        self, originals: Iterable[str | None] = repeat(None)
    ) -> Iterator[tuple[str, str | None, list[tuple[int, str]]]]:
        """Yields each line, its original, and its other translations, each with its rank among all candidates."""
        keeps = [iter(each) for each in self._keeps]
        every = zip(read_side(self.lines), originals, *map(read_translations, self.files), strict=False)
        for line, original, *found in every:
            new = dict[str, int]()
            pairs = ((each, next(kept)) for candidates, kept in zip(found, keeps, strict=True) for each in candidates)
            for rank, (candidate, is_kept) in enumerate(pairs if line else ()):
                text = candidate.text.strip()
                if is_kept and (text in new or (original is not None and text == original.strip())):
                    self._left_out["repeated"] += 1
                elif is_kept:
                    new[text] = rank
            self.written += len(new)
            yield line, original, [(rank, text) for text, rank in new.items()]

    def report(self, remedy: str) -> dict[str, int]:
        """Logs how many translations were kept and dropped; returns the number of the latter by reason.

        Raises NothingLeftError, with the remedy, if none was kept.
        """
        flags = ", ".join(f"{name} {count:,}" for name, count in self._flagged.items())
        words, left_out = REASONS | {"flag": f"flagged ({flags})"}, self._left_out
        reasons = ", ".join(f"{left_out[reason]:,} {words[reason]}" for reason in REASONS if left_out[reason])
        count = f"of {sum(map(len, self._keeps)):,}"
        self.log_line(
            f"translations: {self.written:,} {count} are kept" + (f"; left out: {reasons}" if reasons else "")
        )
        if not self.written:
            files = ", ".join(f"`{file}`" for file in self.files)
            raise NothingLeftError(
                f"nothing is left {count} translations: {reasons or 'there were none'}",
                f"check them in {files}; {remedy}",
            )
        return {f"left_out_{reason}": left_out[reason] for reason in REASONS}


def make_request_table(
    teachers: Sequence[str], teaching: SearchOptions, selection: TranslationFilter, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the table of a request for its record: models by name and content, and `facts`."""
    table = {
        "teachers": {name: hash_teacher_weights(Path(name)) for name in teachers},
        **select_decisive_options(teaching), **asdict(selection), **facts,
    }  # fmt: skip
    as_stored: dict[str, Any] = json.loads(json.dumps(table))  # with lists, not tuples
    return as_stored


def check_folder(folder: Path, begun: str, holds: str, option: str = "out") -> None:
    """Raises ConfigError if a folder without a record holds files that no killed command left.

    Args:
        begun: the beginning of the name of the first file that a command writes there.
        holds: the name of the command's output in the message.
        option: the option that names the folder.
    """
    if not folder.exists():
        return
    names = [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else ["file"]
    if not folder.is_dir() or (names and not any(name.startswith(begun) for name in names)):
        what = f"not empty and holds no {holds}" if folder.is_dir() else "a file, not a folder"
        raise ConfigError(f"`{folder}` is {what}", f"choose another `{option}=`")


def check_request(
    noun: str, folder: Path, stored: Mapping[str, Any], asked: Mapping[str, Any], option: str = "out"
) -> None:
    """Raises ConfigError if two requests differ.

    Args:
        noun: the content of the folder, created for the request `stored`: "corpus", or a plural such as "rounds".
        option: the option that names the folder.
    """
    if other := describe_difference(stored, asked):
        it, again = "it", "replace it"
        if noun != "corpus":
            other, it = other.replace("is of", "are of").replace("was made", "were made"), "them"
            again = "start over"
        raise ConfigError(
            f"the {noun} in `{folder}` {other}",
            f"repeat the command that made {it}, choose another `{option}=`, or {again} with `fresh=True`",
        )


def describe_difference(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Describes the difference between two requests; empty if they are the same.

    A teacher or a text that no longer exists counts as unchanged; an entry that an earlier version's record lacks
    counts as not requested.
    """
    stored = rename_options(stored)
    if "overrides" in stored:
        stored["overrides"] = [*map(rename_override, stored["overrides"])]
    if stored.get("ensemble", False) != asked.get("ensemble", False):
        ways = ("an ensemble", "teachers one after the other")
        was, is_now = ways if stored.get("ensemble") else ways[::-1]
        return f"is of {was}, this command has {is_now}"
    before, now = stored.get("teachers"), asked.get("teachers")
    if isinstance(before, dict) and isinstance(now, dict) and [*before] != [*now]:  # their order matters
        return f"is of `{'`, `'.join(before)}`, this command has `{'`, `'.join(now)}`"
    for name in find_changed_keys(stored, asked):
        if name not in asked or (name not in stored and not asked[name]):
            continue
        before, now = stored.get(name), asked[name]
        if name == "teachers" and isinstance(before, dict):
            for teacher, digest in now.items():
                if digest and before[teacher] and digest != before[teacher]:
                    return f"was made when `{teacher}` had other weights"
        elif name in (*TEXTS, "input", "reverse_input") and isinstance(before, list):
            if len(before) != len(now) or any(a and b and a != b for a, b in zip(before, now, strict=True)):
                return f"was made of another text than this command's `{name}=`"
        else:
            made = f"with `{name}={format_quoted(before)}`" if name in stored else f"without `{name}=`"
            return f"was made {made}, this command has `{name}={format_quoted(now)}`"
    return ""


def is_complete(folder: Path, record: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Returns True if the record of a corpus is of this request, and its files are complete and match the record."""
    if describe_difference(record["request"], asked):
        return False
    with suppress(OSError, TypeError):
        names, known = _names_of(record["files"]), record["sha256"]  # earlier versions recorded only the training texts
        whole = all((folder / name).is_file() for name in names) and 0 < len(known) <= len(names)
        return whole and find_damaged(folder, dict(zip(names, known, strict=False))) is None
    return False


def _names_of(files: Mapping[str, Collection[str]]) -> list[str]:
    return [name for part in ("train", "valid") for name in files.get(part, ())]


def hash_teacher_weights(teacher: Path) -> str:
    """Returns the hash of a teacher's weights; empty if the folder does not exist."""
    return hash_weights(teacher) if teacher.is_dir() else ""


def digests_of_texts(data: DataConfig) -> dict[str, list[str]]:
    """Returns the hashes of all texts that a corpus names, by the setting that names them."""
    return {name: [digest_of_text(path) for path in data.files(name)] for name in TEXTS}


def digest_of_text(path: str) -> str:
    """Returns a text's hash; empty if no text is named or the file no longer exists."""
    with suppress(DataError):
        return hash_path(path) if path else ""
    return ""


def write_sides(paths: Sequence[Path], rows: Iterable[tuple[str, ...]]) -> int:
    """Writes the sides of pairs atomically, one file per side; returns the number of lines per file.

    The first side is renamed into place first.
    """
    number = 0
    with ExitStack() as stack:
        temporaries = [stack.enter_context(atomic_path(path)) for path in reversed(paths)][::-1]
        files = [stack.enter_context(t.open("w", encoding="utf-8", newline="\n")) for t in temporaries]
        for row in rows:
            number += 1
            for file, text in zip(files, row, strict=True):
                file.write(f"{text}\n")
        for file in files:  # before they are renamed
            file.close()
    return number


def read_side(path: Path) -> Iterator[str]:
    """Yields the lines of a side, without line ends."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")
