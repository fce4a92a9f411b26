"""The translation of a folder, as `pellucid translate --input-dir` does it: what is said of it, and its exit status."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.cli.arguments import as_options
from pellucid.cli.options import prepare_process
from pellucid.cli.verbs import command_of
from pellucid.errors import ConfigError, argument, legible, shown

if TYPE_CHECKING:
    from pellucid.streams.bulk import BulkTranslation, Outcome

MOST_NAMED = 5
"""Files that a sentence names."""


def translate_folder(
    bulk: "BulkTranslation", engine: str, threads: int | None, workers: int, worker: str | None, ray: str | None
) -> int:
    """Translates the files of a folder; returns 1 where some of them could not be.

    Raises ConfigError for options that do not go together, and for outputs of another command; DataError for folders
    that cannot be used.
    """
    from pellucid.cli.text_notes import TextNotes
    from pellucid.streams.bulk import BulkWork, to_be_done
    from pellucid.streams.progress import LineProgress
    from pellucid.streams.shards import Share, strays
    from pellucid.tasks.translator import LongText
    from pellucid.text.tokenizer import UnknownShare

    share = Share.of(worker) if worker else None
    if ray and share:
        raise ConfigError(
            f"{argument('worker', worker)} is for schedulers, and Ray shares the files out by itself", "leave it out"
        )
    every = bulk.shards()
    shards = bulk.shards(share)
    target = Path(bulk.output_dir)
    if left := strays(target, every):
        _say(f"note: {_files(len(left))} in `{shown(target)}` without an input now: {_named(left)}")
    if ray:
        from pellucid.streams.bulk_ray import translate_by_ray

        return _told(_shown(translate_by_ray(bulk, ray, workers, threads), len(shards)), len(shards), 0)
    each = prepare_process(threads, workers, engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LongText)  # it is said once, at the end
        translator = bulk.translating.load()
        notes, unknown = TextNotes(translator.text), UnknownShare(translator.tokenizers.source)
        if len(shards) > sum(shard.recorded() is None for shard in shards):
            _say(f"looking at what is there in `{shown(target)}`")
        todo, reasons = to_be_done(shards, bulk.command(translator), bulk.fresh)
        for reason, count in reasons.items():
            if reason:
                _say(f"{_files(count)} translated again: {reason}")
        work = BulkWork(bulk, translator, todo, LineProgress(shown=True), _say, unknown.look_at, notes.add)
        status = _told(work.outcomes(workers, each), len(shards), len(shards) - len(todo))
    for note in notes.lines():
        _say(f"note: {note}")
    return status


def _told(outcomes: "Iterable[Outcome]", count: int, done: int) -> int:
    """Says how the files ended, of which so many were done before; returns the exit status."""
    states = Counter({"done before": done})
    lines, failed = 0, list[str]()
    try:
        for outcome in outcomes:
            states[outcome.state] += 1
            lines += outcome.lines
            if outcome.state == "failed":
                failed.append(outcome.name)
                hint = f" ({outcome.hint})" if outcome.hint else ""
                _say(as_options(f"failed: {outcome.error}{hint}", command_of("translate")))
    finally:
        of = f"{count:,} file{'s' if count != 1 else ''}"
        first = f"{states['translated']:,} translated ({lines:,} lines)" if states["translated"] else "none translated"
        others = [f"{states[state]:,} {state}" for state in ("done before", "held by another process") if states[state]]
        left = count - states.total()
        others += [f"{left:,} not done: the same command goes on with them"] if left else []
        _say(f"{of}: {', '.join([first, *others])}" + (f", {len(failed):,} failed" if failed else ""))
    if failed:
        _say(f"failed: {_named(failed)}; the same command tries them again")
    return int(bool(failed))


def _shown(outcomes: "Iterable[Outcome]", count: int) -> "Iterator[Outcome]":
    """Yields how files ended, with their progress: what goes on within one, other machines know."""
    from pellucid.streams.progress import LineProgress

    lines = 0
    with LineProgress(shown=True) as progress:
        progress.begin(0, 0.0)
        for number, outcome in enumerate(outcomes, start=1):
            lines += outcome.lines
            progress.update(lines, number / count)
            yield outcome


def _files(count: int) -> str:
    return f"{count:,} file is" if count == 1 else f"{count:,} files are"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(f"`{shown(name)}`" for name in names[:MOST_NAMED]) + more


def _say(text: str) -> None:
    print(legible(text), file=sys.stderr)
