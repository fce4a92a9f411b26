"""Repairs the pairs with issues that `pellucid doctor` finds, removes pairs beyond repair, and reports each."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, cast

from pellucid.config import DataConfig
from pellucid.config.tasks import TrainedTask
from pellucid.data.containers import is_container
from pellucid.data.issues import ADVICE, OF_PAIRS, TITLES, IssueKind
from pellucid.data.lines import read_lines_lenient
from pellucid.data.pair_checks import Limits, PairChecker, PairIssue
from pellucid.data.parallel import ParallelText, describe_texts, parallel_texts
from pellucid.data.prepare import read_held_out_sources
from pellucid.data.profile import EVERY, OWN, CorpusProfile, profile_corpus
from pellucid.data.repairs import REPAIRED, Repairs
from pellucid.data.streamed_inspection import inspect_corpus
from pellucid.errors import ConfigError, DataError, did_you_mean, format_argument, format_value
from pellucid.files.compression import writer
from pellucid.files.lock import lock_or_fail
from pellucid.files.writing import atomic_path, check_writable, convert_write_errors, open_output_file

FORMAT = "pellucid-clean/1"
RECORD = "clean.json"
REPORT = "taken-out.tsv"
LOCK = ".clean.lock"
COLUMNS = ("file", "line", "rule", "detail", "also", "source", "target", "repaired_source", "repaired_target")
RULES: tuple[IssueKind, ...] = (*OF_PAIRS, "shift")
"""The rules that can be chosen: the issues of pairs, and the check for misaligned lines."""
Pair = tuple[str, str]
Progress = Callable[[int, float | None], object]
"""Called with the number of pairs done, and their fraction of all pairs; None while the texts are profiled."""


def rules_named(names: Sequence[str]) -> frozenset[IssueKind]:
    """Returns rules by name; a word may hold several, separated by commas. Raises ConfigError for unknown names."""
    found = set[IssueKind]()
    for name in chain.from_iterable(word.split(",") for word in names):
        rule = next((rule for rule in RULES if rule == name.strip()), None)
        if rule is None:
            raise ConfigError(
                f"there is no rule `{format_value(name.strip())}`{did_you_mean(name, RULES)}",
                f"choose from {', '.join(RULES)}",
            )
        found.add(rule)
    return frozenset(found)


@dataclass
class Cleaned:
    """The outcome of a cleaning."""

    texts: str
    pairs: int = 0
    kept: int = 0
    counts: Counter[IssueKind] = field(default_factory=Counter)
    """Pairs with each issue; a pair with several issues counts for each."""
    repaired: Counter[IssueKind] = field(default_factory=Counter)
    """Pairs that were repaired and kept, by issue; a pair with several issues counts for each."""
    repaired_pairs: int = 0
    markup: float = 0.0
    """The fraction of pairs with the same tags on both sides, if it is so large that tags stay; else 0."""
    first: Counter[IssueKind] = field(default_factory=Counter)
    """Removed pairs by their first issue, in the order of `issues.OF_PAIRS`; the sum is the number of removed pairs."""
    report: str = ""
    """The path of the report; empty if none was written."""

    @property
    def taken_out(self) -> int:
        """Returns the number of removed pairs."""
        return self.pairs - self.kept

    def to_text(self) -> str:
        """Returns the summary as lines: the pairs read, the pairs per rule, the pairs kept."""
        lines = [f"{self.pairs:,} pairs in {self.texts}"]
        if self.markup:
            lines.append(f"{100 * self.markup:.0f} % of them have the same tags on both sides; these tags are kept")
        for heading, counts in (("repaired:", self.repaired), ("removed:" if self.repaired else "", self.counts)):
            width = max((len(f"{count:,}") for count in counts.values()), default=0)
            found = [f"  {counts[rule]:>{width},}  {rule}: {TITLES[rule]}" for rule in OF_PAIRS if counts[rule]]
            lines += [heading, *found] if heading and found else found
        part = f" ({100 * self.kept / self.pairs:.1f} %)" if self.pairs else ""
        repaired = f" of which {self.repaired_pairs:,} repaired," if self.repaired_pairs else ""
        is_reported = self.report and (self.taken_out or self.repaired_pairs)
        where = f"; `{self.report}` lists them with the reasons" if is_reported else ""
        return "\n".join([*lines, f"{self.kept:,} kept{part},{repaired} {self.taken_out:,} removed{where}"])


def clean(
    data: DataConfig,
    out: Path | None,
    *,
    task: TrainedTask = "translate",
    limits: Limits | None = None,
    rules: frozenset[IssueKind] = frozenset(RULES),
    report: str | Path = "",
    fresh: bool = False,
    repair: bool = True,
    progress: Progress = lambda pairs, share: None,
) -> Cleaned:
    """Reads the training texts twice: to profile them, and to write the pairs that no rule removes.

    A pair with an issue of `repairs.REPAIRED` is repaired before it is checked. If tags belong to the text, it is
    profiled once more.

    Args:
        out: the folder for the output, a file of the same name for each text; if None, only the report is written.
        rules: the rules of `RULES` by which pairs are removed.
        report: a file with a row for each pair that is removed or repaired, as JSON lines if its name ends in .jsonl,
            else as TSV; default: `taken-out.tsv` in `out`. Repaired text is in the columns `repaired_source` and
            `repaired_target`, which are empty for a removed pair.
        fresh: whether existing files are replaced.
        repair: whether pairs are repaired; if False, they are removed.

    Raises ConfigError if a text is not named or `out` cannot be used, DataError if the sides of a text differ in their
    numbers of lines or are misaligned from some line on.
    """
    if data.text == "continuous" and task == "generate":
        raise ConfigError("a continuous text has no lines that could be removed", "set `data.text=lines`")
    texts = parallel_texts(data, alone=task == "generate")
    files = [path for text in texts for path in (text.src, text.tgt) if path]
    for path in files:
        if Path(path).exists() and not Path(path).is_file():
            raise DataError(
                f"`{format_value(Path(path))}` is not a regular file, and cleaning reads it twice",
                "write the text to a file",
            )
    data = replace(data, on_bad_utf8="replace")
    held_out = read_held_out_sources(data)
    cleaned = Cleaned(describe_texts(texts))
    with ExitStack() as stack:
        folder = stack.enter_context(_lock_folder(out)) if out else None
        written = [folder / name for text in texts for name in _make_file_names(text)] if folder else []
        _check_places(files, written, folder, report, fresh)
        # Contexts exit in reverse order: the record takes its place last, so a folder with a record is complete.
        record = stack.enter_context(atomic_path(folder / RECORD)) if folder else None
        place = Path(report) if report else folder / REPORT if folder else None
        rows = stack.enter_context(_report(place)) if place else None
        cleaned.report = str(place or "")
        streams = iter([stack.enter_context(_lines_to(path)) for path in written])
        writers = {
            text: _Writer(text, [next(streams) for _ in range(2 if text.tgt else 1)] if folder else [])
            for text in texts
        }

        def report_pair(
            text: ParallelText,
            line: int,
            before: Pair,
            pair: Pair,
            flaws: Sequence[PairIssue],
            repaired: Sequence[IssueKind],
        ) -> None:
            if cleaned.pairs % EVERY == 0:
                progress(cleaned.pairs, cleaned.pairs / max(usual.pairs, 1))
            cleaned.pairs += 1
            writers[text].take(pair, keep=not flaws, repaired=bool(repaired))
            cleaned.kept += not flaws
            if not flaws and not repaired:
                return
            kinds = list(dict.fromkeys(sorted((flaw.fault for flaw in flaws), key=OF_PAIRS.index))) or [*repaired]
            sides, detail = slice(0, 1 if text.alone else 2), "repaired"
            if flaws:
                cleaned.counts.update(kinds)
                cleaned.first[kinds[0]] += 1
                detail = next(flaw.detail for flaw in flaws if flaw.fault == kinds[0])
            else:
                cleaned.repaired.update(kinds)
                cleaned.repaired_pairs += 1
            if rows:
                after = ("", "") if flaws else pair
                cells = [side for each in (before, after) for side in [*each[sides], ""][:2]]
                rows((text.src, line, kinds[0], detail, ",".join(kinds[1:]), *cells))

        def read_once(progress: Callable[[int], object]) -> CorpusProfile:
            return profile_corpus(texts, data, progress, repairs)

        repairs = None
        if repair and not rules.isdisjoint(REPAIRED):
            repairs = Repairs(rules, data.normalize, sides=2 if task == "translate" else 1)
        usual = read_once(lambda pairs: progress(pairs, None))
        if repairs and "markup" in rules and usual.markup > OWN:
            cleaned.markup, repairs = usual.markup, replace(repairs, tags=False)
            usual = read_once(lambda pairs: progress(pairs, None))
        judge = PairChecker(
            data, held_out, usual, limits or Limits(), rules, alone=task == "generate", labelled=task == "classify"
        )
        seen = inspect_corpus(texts, data, held_out, judge, report_pair, repairs)
        seen.check()
        if "shift" in rules and (shift := seen.get_finding("shift")):
            raise DataError(str(shift), f"{ADVICE['shift']}; if the lines do belong together, skip the rule shift")
        if record:
            table = {"format": FORMAT, "pairs": cleaned.pairs, "kept": cleaned.kept, "taken_out": dict(cleaned.counts),
                     "repaired": dict(cleaned.repaired),
                     "rules": [rule for rule in RULES if rule in rules], "limits": asdict(judge.limits),
                     "texts": files}  # fmt: skip
            record.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return cleaned


@dataclass
class _Writer:
    """Writes the kept pairs of a text, in the form of the text: two files of lines, or one with both sides. The pairs
    of a container are written as JSON lines.
    """

    text: ParallelText
    streams: list[IO[bytes]]

    def __post_init__(self) -> None:
        whole = bool(self.streams) and not self.text.tgt and not is_container(self.text.src)
        # A row may have more columns, an object more keys, than the two that are checked.
        self._rows = read_lines_lenient(self.text.src, "replace", lambda *_: None) if whole else None

    def take(self, pair: Pair, keep: bool, repaired: bool) -> None:
        """Takes the next pair, and writes it if `keep` is True."""
        written: Sequence[str] = pair
        if self._rows is not None:
            row = next(self._rows, "") or ""
            written = (self.text.replace_sides(row, pair) if repaired and keep else row,)
        elif not self.text.tgt and not self.text.alone:
            written = (json.dumps(dict(zip(("src", "tgt"), pair, strict=True)), ensure_ascii=False),)
        if keep:
            for stream, side in zip(self.streams, written, strict=False):
                stream.write(f"{side}\n".encode())


def _make_file_names(text: ParallelText) -> list[str]:
    """Returns the names of the output files of a text.

    Raises DataError for a compression that cannot be written.
    """
    if not text.tgt and is_container(text.src):
        return [f"{Path(text.src).name}.{'txt' if text.alone else 'jsonl'}"]
    names = [Path(path).name for path in (text.src, text.tgt) if path]
    for name in names:
        if name.endswith((".xz", ".bz2")):
            raise DataError(
                f"cannot write `{format_value(name)}`: the output formats are plain text, .gz and .zst", "convert it"
            )
    return names


def _check_places(
    files: Sequence[str], written: Sequence[Path], folder: Path | None, report: str | Path, fresh: bool
) -> None:
    """Raises ConfigError if the output would replace a text or, unless `fresh` is True, another existing file."""
    places = [*written, *([folder / RECORD] if folder else []), *([Path(report)] if report else [])]
    if str(report) == "-":
        raise ConfigError(f"{format_argument('report', '-')} is not a file", "name a file, as in `taken-out.tsv`")
    if folder and not report:
        places.append(folder / REPORT)
    for place, count in Counter(places).items():
        if count > 1:
            raise ConfigError(f"`{format_value(place)}` would be written twice", "give the files different names")
        if place.exists() and any(os.path.samefile(place, file) for file in files if Path(file).exists()):
            raise ConfigError(f"`{format_value(place)}` would be written over itself", "name another folder by `out=`")
        if place.is_file() and not fresh:
            raise ConfigError(
                f"`{format_value(place)}` already exists", "name another file, or replace it with `fresh=True`"
            )


@contextmanager
def _lock_folder(out: Path) -> Iterator[Path]:
    """Locks the folder for this process. Creates it if it is missing, and then removes it if it stays empty.

    Raises ConfigError if another process cleans into it, DataError if it cannot be a folder.
    """
    made = not out.exists()
    with convert_write_errors(out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
    taken = ConfigError(
        f"another process is cleaning into `{format_value(out)}`", "wait until it has ended, or choose another `out=`"
    )
    try:
        with lock_or_fail(out / LOCK, lambda: taken):
            yield out
    finally:
        if made:
            with suppress(OSError):
                out.rmdir()


@contextmanager
def _lines_to(path: Path) -> Iterator[IO[bytes]]:
    """Opens a text for output, compressed if its ending requires it; the file appears when it is complete."""
    target = check_writable(path)
    with convert_write_errors(path), atomic_path(target) as temporary, temporary.open("wb") as file:
        if path.suffix in (".gz", ".zst"):
            with writer(file, path.suffix) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield file


@contextmanager
def _report(path: Path) -> Iterator[Callable[[Sequence[object]], object]]:
    """Opens the report, and yields a function that writes a row."""
    with open_output_file(path) as file:
        if path.suffix == ".jsonl":

            def as_json(row: Sequence[object]) -> None:
                file.write(json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False).encode() + b"\n")

            yield as_json
        else:
            file.write("\t".join(COLUMNS).encode() + b"\n")
            yield lambda row: file.write("\t".join(map(_cell, row)).encode() + b"\n")


def _cell(value: object) -> str:
    """Returns a value as a TSV cell: characters that would end the cell or the row are escaped."""
    text = str(value).replace("\\", "\\\\") if isinstance(value, str) else str(value)
    return text.translate({9: "\\t", 10: "\\n", 13: "\\r"})
