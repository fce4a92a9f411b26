"""Checks a corpus before training, and reports the result of each check."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from pellucid.config import DataConfig, Recipe
from pellucid.data.inspection import Inspection
from pellucid.data.issues import ADVICE, OF_CONTAINERS, OF_PAIRS, TITLES, Issue, IssueKind
from pellucid.data.locate import override_paths, resolve_paths
from pellucid.data.pair_checks import HeldOut, PairChecker
from pellucid.data.parallel import ParallelText, describe_texts, get_held_out_text, parallel_texts
from pellucid.data.prepare import read_held_out_sources
from pellucid.data.profile import OWN, CorpusProfile, profile_corpus
from pellucid.data.repairs import REPAIRED
from pellucid.data.streamed_inspection import inspect_corpus
from pellucid.errors import DataError

Level = Literal["ok", "note", "BAD", "n/a"]
GREEN, YELLOW, RED, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
COLOURS: dict[Level, str] = {"ok": GREEN, "note": YELLOW, "BAD": RED, "n/a": PLAIN}
INDENT = " " * 5

SPOILS: Mapping[IssueKind, float] = {
    "lines": 0.0, "shift": 0.0, "utf8": 0.01, "mojibake": 0.01, "lost": 0.01, "empty": 0.1, "too_long": 0.1,
    "copy": 0.1, "duplicate": 0.5, "valid": 0.01, "test": 0.01, "near_duplicate": 0.5, "script": 0.05, "language": 0.05,
    "ratio": 0.05, "long_word": 0.05, "letters": 0.1, "repetition": 0.05, "markup": 0.1, "address": 0.1, "numbers": 0.1,
    "columns": 0.1, "quoted": 0.05, "segment": 0.1,
}  # fmt: skip
"""The fraction of the pairs, of the copied characters or of the held-out sentences above which an issue spoils a
training or its evaluation. An issue without an entry never does."""


@dataclass(frozen=True)
class CorpusCheck:
    """A line of the report: the check, its result and its level.

    "ok": no issue. "note": worth knowing. "BAD": it stops or spoils a training.
    "n/a", for a model: there is nothing to check.
    """

    level: Level
    text: str
    advice: str = ""

    def to_text(self, colour: bool, width: int = 0) -> str:
        """Returns the line with the advice below it, wrapped at `width` characters if that is above 0."""
        mark = f"{COLOURS[self.level]}{self.level:<4}{PLAIN}" if colour else f"{self.level:<4}"
        lines = [*self.text.split("\n"), *([f"-> {self.advice}"] if self.advice else [])]
        if width > 0:
            lines = list(chain.from_iterable(map(partial(_wrap_line, width=width - len(INDENT)), lines)))
        return f"{mark} {f'{chr(10)}{INDENT}'.join(lines)}"


def _wrap_line(line: str, width: int) -> list[str]:
    """Returns a line wrapped into several; a line of a table is unchanged, since its columns are aligned."""
    if " | " in line:
        return [line]
    indent = "   " if line.startswith("-> ") else ""
    return textwrap.wrap(line, max(width, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def check_corpus(
    *,
    src: str | Sequence[str] = (),
    tgt: str | Sequence[str] = (),
    valid_src: str | Sequence[str] = (),
    valid_tgt: str | Sequence[str] = (),
    test_src: str = "",
    test_tgt: str = "",
    recipe: Recipe | str | Path = "default",
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> list[CorpusCheck]:
    """Checks a corpus for issues, and returns each check with its level: "ok", "note" or "BAD".

        checks = pellucid.check_corpus(src="train.de", tgt="train.en")
        [check for check in checks if check.level == "BAD"]                 # issues that stop or spoil a training

    Args:
        src, tgt: the files of the sentences and of their translations, or several of each.
        valid_src, valid_tgt, test_src, test_tgt: held-out files, which are also searched for in the training text.
        recipe: the recipe whose texts and settings apply where no others are given.
        overrides: `section.key=value` settings that override a named recipe's; a Recipe has them already.
        data_dir: a folder that is searched for the recipe's texts after the paths themselves.

    Raises ConfigError if a text is not named, DataError if a file is not found. Issues are returned as checks.
    """
    loaded = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe, list(overrides))
    data = override_paths(
        loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, test_src=test_src, test_tgt=test_tgt
    )
    return list(iter_corpus_checks(resolve_paths(data, data_dir), labelled=loaded.task == "classify"))


def iter_corpus_checks(data: DataConfig, labelled: bool = False) -> Iterator[CorpusCheck]:
    """Yields the checks of the training texts and, if one is given, of the validation text.

    Args:
        labelled: whether the targets are labels.

    Raises ConfigError if a text is not named.
    """
    valid = get_held_out_text(data, "valid")
    yield from _checks(parallel_texts(data), data, lambda: read_held_out_sources(data), labelled)
    if valid:
        yield from _checks([valid], replace(data, on_copy="keep", on_duplicate="keep"), dict, labelled)


def set_count_all_bad_lines(data: DataConfig) -> DataConfig:
    """Returns settings with which all bad lines are counted, even if training would stop at the first one."""
    return replace(data, on_bad_utf8="replace" if data.on_bad_utf8 == "error" else data.on_bad_utf8)


def _checks(
    texts: Sequence[ParallelText], data: DataConfig, held_out: Callable[[], HeldOut], labelled: bool
) -> Iterator[CorpusCheck]:
    try:
        sources, counting = held_out(), set_count_all_bad_lines(data)
        usual = profile_corpus(texts, counting)
        seen = inspect_corpus(texts, counting, sources, PairChecker(counting, sources, usual, labelled=labelled))
    except DataError as error:
        yield CorpusCheck("BAD", str(error), error.hint)
        return
    names = describe_texts(texts)
    if not len(seen.used):
        yield CorpusCheck("BAD", f"{names}: no pair in it", "use files with one sentence per line")
        return
    yield CorpusCheck("ok", f"{len(seen.used):,} pairs in {names}")
    for fault in TITLES:
        finding = seen.get_finding(fault)
        if finding:
            if fault == "utf8" and data.on_bad_utf8 == "error":
                finding = replace(finding, effect="training stops there")
            yield CorpusCheck(_level(finding, data, seen, sources, usual), str(finding), _advice(fault))
        elif _applies(fault, texts, sources, labelled):
            yield CorpusCheck("ok", f"{TITLES[fault]}: none")
        if fault == "markup" and usual.markup > OWN:
            share = f"{100 * usual.markup:.0f} % of the pairs"
            yield CorpusCheck(
                "note",
                f"the same markup on both sides: {share}, so it is part of the text",
                "if it is not, remove it first: a model learns to write it, and `pellucid clean` keeps it",
            )


def _advice(fault: IssueKind) -> str:
    """Returns the advice about an issue, including `pellucid clean` if it repairs or removes such pairs."""
    if fault in REPAIRED:
        return f"`pellucid clean` repairs or removes them; {ADVICE[fault]}"
    return f"{ADVICE[fault]}; `pellucid clean` removes them" if fault in OF_PAIRS else ADVICE[fault]


def _level(finding: Issue, data: DataConfig, seen: Inspection, held_out: HeldOut, usual: CorpusProfile) -> Level:
    """Returns the level of a finding, by the fraction of the text that it affects."""
    fault = finding.fault
    if fault == "utf8" and data.on_bad_utf8 == "error":
        return "BAD"
    if fault not in SPOILS or (finding.effect == "left out" and fault in ("copy", "duplicate")):
        return "note"
    if fault == "copy":
        return "BAD" if usual.copied > SPOILS[fault] else "note"
    of = len(held_out[fault][1]) if fault in held_out else len(seen.used)
    count: float = finding.count
    if fault == "markup" and usual.markup <= OWN:  # translated unchanged, which does no harm
        count -= usual.markup * of
    return "BAD" if count > SPOILS[fault] * of else "note"


def _applies(fault: IssueKind, texts: Sequence[ParallelText], held_out: HeldOut, labelled: bool) -> bool:
    """Returns True if the check was made."""
    if fault in ("lines", "shift"):
        return any(text.tgt for text in texts)
    if fault == "line_break":
        return any(text.is_json for text in texts)
    if fault in OF_CONTAINERS:  # reported only if there is something to report
        return False
    if fault == "too_short":  # only `pellucid clean` has a limit
        return False
    if labelled and fault in ("ratio", "numbers"):
        return False
    return fault not in ("valid", "test") or fault in held_out
