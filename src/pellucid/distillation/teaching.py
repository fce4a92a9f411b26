"""A teacher's translations of a text, in a file that a stopped command goes on with: a line of JSON for each line.

The file is named by what decides it (the teacher's weights and tokenizers, the search, the text): one that is there is
finished, whichever student asked for it first.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.config.tables import to_table
from pellucid.errors import DataError
from pellucid.files.reading import sha256_of
from pellucid.streams.streams import Stream, answering, identity, opened
from pellucid.tasks.translator import LongText, Translation, Translator
from pellucid.text.training_text import TrainingText


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """The way in which teachers translate. None: as each teacher's own settings have it."""

    n_best: int = 1
    """Translations of each line."""
    beam_size: int | None = None
    length_penalty: float | None = None
    batch_tokens: int | None = None
    source_language: str | None = None
    """The code of the source's language, for teachers of many."""
    target_language: str | None = None

    @property
    def deciding(self) -> dict[str, Any]:
        """Returns what of it decides the translations."""
        return {name: value for name, value in asdict(self).items() if name != "batch_tokens"}


@dataclass(frozen=True)
class Candidate:
    """A translation of a line by a teacher."""

    text: str
    score: float
    """The sum of its tokens' log-probabilities."""
    length: int
    """Its tokens, end tokens included."""


def open_teacher(names: Sequence[str], teaching: Teaching, device: str, dtype: str | None) -> Translator:
    """Opens a teacher: a model, or an ensemble of several.

    Raises what Translator.load raises, and ConfigError for a search that cannot be.
    """
    spoken = teaching.source_language, teaching.target_language
    translator = Translator.load(names[0], device, dtype, *spoken, ensemble=names[1:])
    given = {name: getattr(teaching, name) for name in ("n_best", "beam_size", "length_penalty", "batch_tokens")}
    translator.decode = replace(translator.decode, **{key: value for key, value in given.items() if value is not None})
    return translator


def translations(translator: Translator, name: str, text: Path, say: Callable[[str], object]) -> Path:
    """Returns the file of a teacher's translations of `text`, beside it; translates what of it is not there yet.

    Raises ConfigError where another process is writing it, DataError where it cannot be written.
    """
    cut_by = to_table(translator.text or TrainingText())
    command = identity("distill", translator, {**to_table(translator.decode), "text": cut_by})
    decided = json.dumps([command, sha256_of(text)], sort_keys=True)
    path = text.with_name(f"teacher-{hashlib.sha256(decided.encode()).hexdigest()[:12]}.jsonl")
    if path.is_file():
        say(f"`{path}` has the translations of `{name}` already")
        return path
    beam = translator.decode.beam_size
    say(f"`{name}` translates {text.name} into `{path}`, with a beam of {beam}")
    stream = Stream(str(text), str(path))
    with warnings.catch_warnings(), opened(stream) as source:
        warnings.simplefilter("ignore", LongText)  # what a teacher cannot do well has a low score
        with answering(stream, source, command=partial(dict, command), nothing=("", "[]")) as answers:
            for _, lines in answers:
                answers.write(map(_as_line, translator.translate(lines)))
    return path


def _as_line(translation: Translation) -> str:
    found = [
        asdict(Candidate(each.text, round(each.score, 5), len(each.tokens) + len(each.sentences)))
        for each in translation.alternatives
    ]
    return json.dumps(found, ensure_ascii=False)


def read_translations(path: Path) -> Iterator[list[Candidate]]:
    """Yields the candidates of each line. Raises DataError where the file is not as it was written."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield [Candidate(str(c["text"]), float(c["score"]), int(c["length"])) for c in json.loads(line)]
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"line {number:,} of `{path}` holds no translations", "remove the file: it is translated again"
                ) from error
