"""`pellucid doctor`: each check of a corpus, passed or not."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pellucid.config import DataConfig
from pellucid.data.faults import ADVICE, TITLES, Fault
from pellucid.data.health import HeldOut, inspect
from pellucid.data.parallel import ParallelText, held_out_text, parallel_texts
from pellucid.errors import DataError
from pellucid.workflow.prepare import held_out_sources

GREEN, RED, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"


@dataclass(frozen=True)
class Check:
    """A line of the report: what was looked at, and what was found, if it did not pass."""

    passed: bool
    text: str
    advice: str = ""

    def in_words(self, colour: bool) -> str:
        """The line, with what to do below it."""
        mark = "ok  " if self.passed else "BAD "
        mark = f"{GREEN if self.passed else RED}{mark}{PLAIN}" if colour else mark
        below = f"\n-> {self.advice}" if self.advice else ""
        return f"{mark} {(self.text + below).replace(chr(10), chr(10) + ' ' * 5)}"


def check_corpus(data: DataConfig) -> Iterator[Check]:
    """The checks of the training texts and, where one is given, of the validation text.

    Raises ConfigError where a text is not named.
    """
    valid = held_out_text(data, "valid")
    yield from _checks(parallel_texts(data), data, lambda: held_out_sources(data))
    if valid:
        yield from _checks([valid], replace(data, on_copy="keep", on_duplicate="keep"), dict)


def _checks(texts: Sequence[ParallelText], data: DataConfig, held_out: Callable[[], HeldOut]) -> Iterator[Check]:
    try:
        sources = held_out()
        # Bad lines are counted to the end, even if training would stop at the first one.
        policy = "replace" if data.on_bad_utf8 == "error" else data.on_bad_utf8
        seen = inspect(texts, replace(data, on_bad_utf8=policy), sources)
    except DataError as error:
        yield Check(False, str(error), error.hint)
        return
    names = " and ".join(map(str, texts))
    if not len(seen.used):
        yield Check(False, f"{names}: no pair in it", "give files with a sentence a line")
        return
    yield Check(True, f"{len(seen.used):,} pairs in {names}")
    for fault in TITLES:
        finding = seen.of(fault)
        if finding:
            if fault == "utf8" and data.on_bad_utf8 == "error":
                finding = replace(finding, effect="training stops there")
            yield Check(False, str(finding), ADVICE[fault])
        elif _applies(fault, texts, sources):
            yield Check(True, f"{TITLES[fault]}: none")


def _applies(fault: Fault, texts: Sequence[ParallelText], held_out: HeldOut) -> bool:
    """Whether a check has been made at all."""
    if fault in ("lines", "shift"):
        return any(text.tgt for text in texts)
    if fault == "line_break":
        return any(text.is_json for text in texts)
    return fault not in ("valid", "test") or fault in held_out
