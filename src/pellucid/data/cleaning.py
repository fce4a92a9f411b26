"""Takes out of a corpus the pairs that `pellucid doctor` names, by the same judge, and reports each with its reason."""

import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, cast

from filelock import FileLock, Timeout

from pellucid.config import DataConfig
from pellucid.config.tasks import TrainedTask
from pellucid.data.faults import ADVICE, OF_PAIRS, TITLES, Fault
from pellucid.data.health import inspect
from pellucid.data.judging import Flaw, Judge, Limits
from pellucid.data.lines import read_mended_lines
from pellucid.data.parallel import ParallelText, parallel_texts
from pellucid.data.prepare import held_out_sources
from pellucid.data.survey import EVERY, survey
from pellucid.errors import ConfigError, DataError, argument, did_you_mean, shown
from pellucid.files.compression import writer
from pellucid.files.writing import output, refusals_in_words, replacing, writable

FORMAT = "pellucid-clean/1"
RECORD = "clean.json"
REPORT = "taken-out.tsv"
LOCK = ".clean.lock"
COLUMNS = ("file", "line", "rule", "detail", "also", "source", "target")
RULES: tuple[Fault, ...] = (*OF_PAIRS, "shift")
"""The rules that can be chosen: the faults of pairs, and the look for lines that do not belong together."""
Progress = Callable[[int, float | None], object]
"""Is told how many pairs are done, and which part that is; None while the texts are read for the first time."""


def rules_named(names: Sequence[str]) -> frozenset[Fault]:
    """Returns rules by their names, several in one word with commas between. Raises ConfigError for unknown ones."""
    found = set[Fault]()
    for name in chain.from_iterable(word.split(",") for word in names):
        rule = next((rule for rule in RULES if rule == name.strip()), None)
        if rule is None:
            raise ConfigError(
                f"there is no rule `{shown(name.strip())}`{did_you_mean(name, RULES)}", f"choose of {', '.join(RULES)}"
            )
        found.add(rule)
    return frozenset(found)


@dataclass
class Cleaned:
    """The outcome of a cleaning."""

    texts: str
    pairs: int = 0
    kept: int = 0
    counts: Counter[Fault] = field(default_factory=Counter)
    """Pairs with each fault; one that has several counts with each."""
    first: Counter[Fault] = field(default_factory=Counter)
    """Pairs by the first of their faults, in the order of `faults.OF_PAIRS`; their sum is what was taken out."""
    report: str = ""
    """The file that names them; empty where none was written."""

    @property
    def taken_out(self) -> int:
        """Returns how many pairs were taken out."""
        return self.pairs - self.kept

    def in_words(self) -> str:
        """Returns the summary as lines: what was read, how many pairs each rule names, what is left."""
        lines = [f"{self.pairs:,} pairs in {self.texts}"]
        width = max((len(f"{count:,}") for count in self.counts.values()), default=0)
        lines += [f"  {self.counts[rule]:>{width},}  {rule}: {TITLES[rule]}" for rule in OF_PAIRS if self.counts[rule]]
        part = f" ({100 * self.kept / self.pairs:.1f} %)" if self.pairs else ""
        where = f"; `{self.report}` says which and why" if self.report and self.taken_out else ""
        return "\n".join([*lines, f"{self.kept:,} kept{part}, {self.taken_out:,} taken out{where}"])


def clean(
    data: DataConfig,
    out: Path | None,
    *,
    task: TrainedTask = "translate",
    limits: Limits | None = None,
    rules: frozenset[Fault] = frozenset(RULES),
    report: str | Path = "",
    fresh: bool = False,
    progress: Progress = lambda pairs, share: None,
) -> Cleaned:
    """Reads the training texts twice: to see what is usual in them, and to write those pairs that no rule names.

    Args:
        out: the folder that gets a file of the same name for each text; None: nothing is written but the report.
        rules: those by which pairs are taken out, of `RULES`.
        report: a file that gets a row for each pair that is taken out, as JSON lines where it ends in .jsonl, else as
            TSV; empty: `taken-out.tsv` in `out`.
        fresh: whether files that are there already are replaced.

    Raises ConfigError where a text is not named or `out` cannot be used, DataError where the texts have not as many
    lines as each other or do not belong together from some line on.
    """
    if data.text == "running" and task == "generate":
        raise ConfigError("a running text has no lines that could be taken out", "clean it as lines: `data.text`")
    texts = parallel_texts(data, alone=task == "generate")
    files = [path for text in texts for path in (text.src, text.tgt) if path]
    for path in files:
        if Path(path).exists() and not Path(path).is_file():
            raise DataError(f"`{shown(Path(path))}` cannot be read twice: it is no file", "write the text to a file")
    data = replace(data, on_bad_utf8="replace")
    held_out = held_out_sources(data)
    cleaned = Cleaned(" and ".join(map(str, texts)))
    with ExitStack() as stack:
        folder = stack.enter_context(_held(out)) if out else None
        written = [folder / _name_of(path) for path in files] if folder else []
        _check_places(files, written, folder, report, fresh)
        # What is entered first takes its place last: where the record is, all else is.
        record = stack.enter_context(replacing(folder / RECORD)) if folder else None
        place = Path(report) if report else folder / REPORT if folder else None
        rows = stack.enter_context(_report(place)) if place else None
        cleaned.report = str(place or "")
        streams = iter([stack.enter_context(_lines_to(path)) for path in written])
        writers = {
            text: _Writer(text, [next(streams) for _ in range(2 if text.tgt else 1)] if folder else [])
            for text in texts
        }

        def told(text: ParallelText, line: int, source: str, target: str, flaws: Sequence[Flaw]) -> None:
            if cleaned.pairs % EVERY == 0:
                progress(cleaned.pairs, cleaned.pairs / max(usual.pairs, 1))
            cleaned.pairs += 1
            writers[text].take(source, target, keep=not flaws)
            if not flaws:
                cleaned.kept += 1
                return
            kinds = list(dict.fromkeys(sorted((flaw.fault for flaw in flaws), key=OF_PAIRS.index)))
            cleaned.counts.update(kinds)
            cleaned.first[kinds[0]] += 1
            if rows:
                detail = next(flaw.detail for flaw in flaws if flaw.fault == kinds[0])
                rows((text.src, line, kinds[0], detail, ",".join(kinds[1:]), source, "" if text.alone else target))

        usual = survey(texts, data.on_bad_utf8, lambda pairs: progress(pairs, None))
        judge = Judge(
            data, held_out, usual, limits or Limits(), rules, alone=task == "generate", labelled=task == "classify"
        )
        seen = inspect(texts, data, held_out, judge, told)
        seen.check()
        if "shift" in rules and (shift := seen.of("shift")):
            raise DataError(str(shift), f"{ADVICE['shift']}; where they do belong together, leave out the rule shift")
        if record:
            table = {"format": FORMAT, "pairs": cleaned.pairs, "kept": cleaned.kept, "taken_out": dict(cleaned.counts),
                     "rules": [rule for rule in RULES if rule in rules], "limits": asdict(judge.limits),
                     "texts": files}  # fmt: skip
            record.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return cleaned


@dataclass
class _Writer:
    """Writes what is kept of a text, in the form that it has: two files of lines, or one with both sides."""

    text: ParallelText
    streams: list[IO[bytes]]

    def __post_init__(self) -> None:
        whole = bool(self.streams) and not self.text.tgt
        # A row may have more columns, an object more keys, than the two that are looked at.
        self._rows = read_mended_lines(self.text.src, "replace", lambda *_: None) if whole else None

    def take(self, source: str, target: str, keep: bool) -> None:
        """Takes the next pair, and writes it where it is kept."""
        sides = (source, target) if self._rows is None else (next(self._rows, "") or "",)
        if keep:
            for stream, side in zip(self.streams, sides, strict=False):
                stream.write(f"{side}\n".encode())


def _name_of(path: str) -> str:
    if path.endswith((".xz", ".bz2")):
        raise DataError(
            f"cannot write `{shown(Path(path).name)}`: only plain text, .gz and .zst are written", "convert it"
        )
    return Path(path).name


def _check_places(
    files: Sequence[str], written: Sequence[Path], folder: Path | None, report: str | Path, fresh: bool
) -> None:
    """Raises ConfigError where something would be written over a text, or, unless that is asked for, what is there."""
    places = [*written, *([folder / RECORD] if folder else []), *([Path(report)] if report else [])]
    if str(report) == "-":
        raise ConfigError(f"{argument('report', '-')} is not a file", "name one, as in `taken-out.tsv`")
    if folder and not report:
        places.append(folder / REPORT)
    for place, count in Counter(places).items():
        if count > 1:
            raise ConfigError(f"`{shown(place)}` would be written twice", "give the files different names")
        if place.exists() and any(os.path.samefile(place, file) for file in files if Path(file).exists()):
            raise ConfigError(f"`{shown(place)}` would be written over itself", "name another folder by `out=`")
        if place.is_file() and not fresh:
            raise ConfigError(
                f"`{shown(place)}` is there already", "name another place, or have it replaced by `fresh=True`"
            )


@contextmanager
def _held(out: Path) -> Iterator[Path]:
    """Holds the folder for this process, and makes it where it is not there; what stays empty goes again.

    Raises ConfigError where another process cleans into it, DataError where it cannot be a folder.
    """
    made = not out.exists()
    with refusals_in_words(out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(
            f"another process is cleaning into `{shown(out)}`", "wait until it has ended, or choose another `out=`"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):  # a disk that knows no locks keeps nobody out
            raise
    try:
        yield out
    finally:
        with suppress(OSError):
            (out / LOCK).unlink(missing_ok=True)
        lock.release()
        if made:
            with suppress(OSError):
                out.rmdir()


@contextmanager
def _lines_to(path: Path) -> Iterator[IO[bytes]]:
    """Opens a text for output, compressed where its name says so; it is there only when all of it is."""
    target = writable(path)
    with refusals_in_words(path), replacing(target) as temporary, temporary.open("wb") as file:
        if path.suffix in (".gz", ".zst"):
            with writer(file, path.suffix) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield file


@contextmanager
def _report(path: Path) -> Iterator[Callable[[Sequence[object]], object]]:
    """Opens the report; what is yielded writes a row."""
    with output(path) as file:
        if path.suffix == ".jsonl":

            def as_json(row: Sequence[object]) -> None:
                file.write(json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False).encode() + b"\n")

            yield as_json
        else:
            file.write("\t".join(COLUMNS).encode() + b"\n")
            yield lambda row: file.write("\t".join(map(_cell, row)).encode() + b"\n")


def _cell(value: object) -> str:
    """Returns a value as a cell of TSV has it: what would end the cell or the row is escaped."""
    text = str(value).replace("\\", "\\\\") if isinstance(value, str) else str(value)
    return text.translate({9: "\\t", 10: "\\n", 13: "\\r"})
