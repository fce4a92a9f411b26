"""`pellucid translate`: lines from a stream through a translator, in their order, a stretch at a time."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

from pellucid.data.corpus import read_lines
from pellucid.decoding.sampling import SamplingConfig
from pellucid.errors import DataError
from pellucid.tasks.translator import Translation, Translator
from pellucid.weights.files import replacing
from pellucid.workflow.process import keep_freed_memory

STRETCH = 2048  # lines translated together: enough to sort by length, few enough to see output soon
FIRST_STRETCH = 64


@dataclass(frozen=True)
class SearchOptions:
    """What the command line may set of a search; None: as the model has it."""

    beam_size: int | None = None
    n_best: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None
    batch_tokens: int | None = None


def translate_stream(
    folder: str,
    input_path: str,
    output_path: str,
    search: SearchOptions,
    sampling: SamplingConfig | None,
    *,
    as_json: bool,
    device: str,
    dtype: str | None,
) -> None:
    """Translates the lines of a file, or of standard input for "-", to a file or standard output."""
    keep_freed_memory()
    translator = Translator.load(folder, device, dtype)
    with _writer(output_path) as file:
        number = 0
        for lines in _stretches(read_lines(input_path), at_once=input_path == "-" and sys.stdin.isatty()):
            if sampling is None:
                given = {name: value for name, value in asdict(search).items() if value is not None}
                found = translator.translate(lines, **given)
            else:
                found = translator.sample(lines, sampling, search.max_length, first_place=number)
            number += len(lines)
            for translation in found:
                file.write((_as_json(translation) if as_json else translation.text) + "\n")
            file.flush()


def _stretches(lines: Iterable[str], at_once: bool) -> Iterator[list[str]]:
    """The lines in stretches; `at_once`: each by itself, for somebody who waits for an answer."""
    stream = iter(lines)
    size = 1 if at_once else FIRST_STRETCH
    while stretch := list(islice(stream, size)):
        yield stretch
        size = 1 if at_once else STRETCH


@contextmanager
def _writer(path: str) -> Iterator[TextIO]:
    """Standard output as UTF-8, or a file that is there only when all of it is.

    Raises DataError where no file can be written there.
    """
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
        return
    target = Path(path).resolve()  # so that a link stays, and what it points to is replaced
    if target.is_dir() or not target.parent.is_dir():
        reason = "it is a folder" if target.is_dir() else f"there is no folder `{target.parent}`"
        raise DataError(f"cannot write to `{path}`: {reason}", "name a file in a folder that exists")
    if target.exists() and not target.is_file():  # a pipe or a device takes what comes: there is nothing to replace
        with target.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def _as_json(translation: Translation) -> str:
    def table(t: Translation) -> dict[str, object]:
        return {"text": t.text, "score": round(t.score, 5), "tokens": t.tokens}

    others = [table(t) for t in translation.alternatives]
    return json.dumps(table(translation) | ({"alternatives": others} if len(others) > 1 else {}), ensure_ascii=False)
