"""Checks a corpus before anything is trained on it, and says of each check how it came out."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from pellucid.config import DataConfig, Recipe
from pellucid.data.faults import ADVICE, TITLES, Fault, Finding
from pellucid.data.health import Inspection, inspect
from pellucid.data.judging import HeldOut, Judge
from pellucid.data.locate import locate, with_texts
from pellucid.data.parallel import ParallelText, held_out_text, parallel_texts
from pellucid.data.prepare import held_out_sources
from pellucid.data.survey import survey
from pellucid.errors import DataError

Level = Literal["ok", "note", "BAD", "n/a"]
GREEN, YELLOW, RED, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
COLOURS: dict[Level, str] = {"ok": GREEN, "note": YELLOW, "BAD": RED, "n/a": PLAIN}
INDENT = " " * 5

SPOILS: Mapping[Fault, float] = {
    "lines": 0.0, "shift": 0.0, "utf8": 0.01, "mojibake": 0.01, "lost": 0.01, "empty": 0.1, "too_long": 0.1,
    "copy": 0.1, "duplicate": 0.5, "valid": 0.01, "test": 0.01, "near_duplicate": 0.5, "script": 0.05, "language": 0.05,
    "ratio": 0.05, "long_word": 0.05, "letters": 0.1, "repetition": 0.05, "markup": 0.1, "address": 0.1, "numbers": 0.1,
}  # fmt: skip
"""A larger part than this of the pairs, or of the sentences held out, spoils a training or what it is measured by. What
is not named here does not, however often it occurs."""


@dataclass(frozen=True)
class Check:
    """A line of the report: what was looked at, what was found, and how bad that is.

    "ok": nothing was found. "note": worth knowing. "BAD": it stops a training, or spoils it.
    "n/a", of a model: there is nothing to look at.
    """

    level: Level
    text: str
    advice: str = ""

    def in_words(self, colour: bool, width: int = 0) -> str:
        """Returns the line with what to do below it, in lines of at most `width` characters where that is above 0."""
        mark = f"{COLOURS[self.level]}{self.level:<4}{PLAIN}" if colour else f"{self.level:<4}"
        lines = [*self.text.split("\n"), *([f"-> {self.advice}"] if self.advice else [])]
        if width > 0:
            lines = list(chain.from_iterable(map(partial(_wrapped, width=width - len(INDENT)), lines)))
        return f"{mark} {f'{chr(10)}{INDENT}'.join(lines)}"


def _wrapped(line: str, width: int) -> list[str]:
    """Returns a line as several; one of a table stays as it is, since its columns mean something."""
    if " | " in line:
        return [line]
    behind = "   " if line.startswith("-> ") else ""
    return textwrap.wrap(line, max(width, 20), subsequent_indent=behind, break_long_words=False, break_on_hyphens=False)


def doctor(
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
) -> list[Check]:
    """Looks for what is wrong in a corpus, and returns each check with its level: "ok", "note" or "BAD".

        checks = pellucid.doctor(src="train.de", tgt="train.en")
        [check for check in checks if check.level == "BAD"]                 # what stops or spoils a training

    Args:
        src, tgt: the files of the sentences and of their translations, or several of each.
        valid_src, valid_tgt, test_src, test_tgt: those held out, which are looked for in the training text, too.
        recipe: whose texts and settings are taken where nothing else is given.
        overrides: `section.key=value` settings that win over a named recipe's; a Recipe has them already.
        data_dir: where the recipe's texts are looked for, after the paths as they are.

    Raises ConfigError where a text is not named, DataError where one is nowhere. What is wrong in a text is a check.
    """
    loaded = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe, list(overrides))
    data = with_texts(
        loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, test_src=test_src, test_tgt=test_tgt
    )
    return list(check_corpus(locate(data, data_dir), labelled=loaded.task == "classify"))


def check_corpus(data: DataConfig, labelled: bool = False) -> Iterator[Check]:
    """Yields the checks of the training texts and, where one is given, of the validation text.

    Args:
        labelled: whether the targets are labels.

    Raises ConfigError where a text is not named.
    """
    valid = held_out_text(data, "valid")
    yield from _checks(parallel_texts(data), data, lambda: held_out_sources(data), labelled)
    if valid:
        yield from _checks([valid], replace(data, on_copy="keep", on_duplicate="keep"), dict, labelled)


def counted_to_the_end(data: DataConfig) -> DataConfig:
    """Returns settings by which bad lines are counted to the end, even if training would stop at the first one."""
    return replace(data, on_bad_utf8="replace" if data.on_bad_utf8 == "error" else data.on_bad_utf8)


def _checks(
    texts: Sequence[ParallelText], data: DataConfig, held_out: Callable[[], HeldOut], labelled: bool
) -> Iterator[Check]:
    try:
        sources, counting = held_out(), counted_to_the_end(data)
        usual = survey(texts, counting.on_bad_utf8)
        seen = inspect(texts, counting, sources, Judge(counting, sources, usual, labelled=labelled))
    except DataError as error:
        yield Check("BAD", str(error), error.hint)
        return
    names = " and ".join(map(str, texts))
    if not len(seen.used):
        yield Check("BAD", f"{names}: no pair in it", "give files with a sentence a line")
        return
    yield Check("ok", f"{len(seen.used):,} pairs in {names}")
    for fault in TITLES:
        finding = seen.of(fault)
        if finding:
            if fault == "utf8" and data.on_bad_utf8 == "error":
                finding = replace(finding, effect="training stops there")
            yield Check(_level(finding, data, seen, sources), str(finding), ADVICE[fault])
        elif _applies(fault, texts, sources, labelled):
            yield Check("ok", f"{TITLES[fault]}: none")


def _level(finding: Finding, data: DataConfig, seen: Inspection, held_out: HeldOut) -> Level:
    """Returns how bad a finding is, by the part of the text that it is of."""
    fault = finding.fault
    if fault == "utf8" and data.on_bad_utf8 == "error":
        return "BAD"
    if fault not in SPOILS or (finding.effect == "left out" and fault in ("copy", "duplicate")):
        return "note"
    of = len(held_out[fault][1]) if fault in held_out else len(seen.used)
    return "BAD" if finding.count > SPOILS[fault] * of else "note"


def _applies(fault: Fault, texts: Sequence[ParallelText], held_out: HeldOut, labelled: bool) -> bool:
    """Tells whether a check has been made at all."""
    if fault in ("lines", "shift"):
        return any(text.tgt for text in texts)
    if fault == "line_break":
        return any(text.is_json for text in texts)
    if fault == "too_short":  # there is no limit unless `pellucid clean` is given one
        return False
    if labelled and fault in ("ratio", "numbers"):
        return False
    return fault not in ("valid", "test") or fault in held_out
