"""A teacher's translations of a text, in a file that a stopped command goes on with: a line of JSON for each line.

The file is named by what decides it (the teacher's weights and tokenizers, the search, the text): one that is there is
finished, whichever student asked for it first.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.config import SamplingConfig
from pellucid.config.decode import MOST_SEED
from pellucid.config.tables import to_table
from pellucid.errors import ConfigError, DataError, argument
from pellucid.files.reading import sha256_of
from pellucid.streams.streams import Stream, answering, identity, opened
from pellucid.tasks.guards import flags_of
from pellucid.tasks.translator import MOST_DRAWS, LongText, Translation, Translator, confidence_settings
from pellucid.text.training_text import TrainingText

STRETCH = 512
"""Lines that are translated together, and that a kill may cost: a file is the same, byte for byte, after one."""


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


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The way in which translations are drawn, where no search looks for the best.

    Draw i of a line is the one that `Translator.sample` gives it with the seed `sampling.seed` + i.
    """

    sampling: SamplingConfig
    draws: int = 1
    """Draws of each line."""

    def __post_init__(self) -> None:
        if not 1 <= self.draws <= MOST_DRAWS:
            raise ConfigError(
                f"{argument('draws', self.draws)} must be from 1 to {MOST_DRAWS:,}",
                "1 to 4 are usual; each is a search",
            )


@dataclass(frozen=True)
class Candidate:
    """A translation of a line by a teacher."""

    text: str
    score: float
    """The sum of its tokens' log-probabilities."""
    length: int
    """Its tokens, end tokens included."""
    flags: tuple[str, ...] = ()
    """The names of what is odd about it, `tasks.guards.Flag`s, where that was asked for."""


def open_teacher(names: Sequence[str], teaching: Teaching, device: str, dtype: str | None) -> Translator:
    """Opens a teacher: a model, or an ensemble of several.

    Raises what Translator.load raises, and ConfigError for a search that cannot be.
    """
    spoken = teaching.source_language, teaching.target_language
    translator = Translator.load(names[0], device, dtype, *spoken, ensemble=names[1:])
    given = {name: getattr(teaching, name) for name in ("n_best", "beam_size", "length_penalty", "batch_tokens")}
    translator.decode = replace(translator.decode, **{key: value for key, value in given.items() if value is not None})
    return translator


def translations(
    translator: Translator,
    name: str,
    text: Path,
    say: Callable[[str], object],
    *,
    verb: str = "distill",
    drawing: Drawing | None = None,
    flagged: bool = False,
) -> Path:
    """Returns the file of a teacher's translations of `text`, beside it; translates what of it is not there yet.

    Args:
        verb: the command that asks for them.
        drawing: draws them; None: a beam looks for the best.
        flagged: says of each what is odd about it.

    Raises ConfigError where another process is writing it, DataError where it cannot be written.
    """
    cut_by = to_table(translator.text or TrainingText())
    asked = {"drawing": asdict(drawing) if drawing else None, **confidence_settings(translator, asked=flagged)}
    command = identity(verb, translator, {**to_table(translator.decode), "text": cut_by, **asked})
    decided = json.dumps([command, sha256_of(text)], sort_keys=True)
    path = text.with_name(f"teacher-{hashlib.sha256(decided.encode()).hexdigest()[:12]}.jsonl")
    if path.is_file():
        say(f"`{path}` has the translations of `{name}` already")
        return path
    way = f"with a beam of {translator.decode.beam_size}"
    if drawing:
        way = f"drawing {drawing.draws:,} of each line with the seed {drawing.sampling.seed}"
    say(f"`{name}` translates {text.name} into `{path}`, {way}")
    stream = Stream(str(text), str(path))
    with warnings.catch_warnings(), opened(stream) as source:
        warnings.simplefilter("ignore", LongText)  # what a teacher cannot do well has a low score
        with answering(stream, source, command=partial(dict, command), nothing=("", "[]"), stretch=STRETCH) as answers:
            for place, lines in answers:
                found = _found(translator, lines, place, drawing)
                tables = ([_candidate(translator, line, each, flagged) for each in of_line]
                          for line, of_line in zip(lines, found, strict=True))  # fmt: skip
                answers.write(json.dumps(of_line, ensure_ascii=False) for of_line in tables)
    return path


def _found(
    translator: Translator, lines: Sequence[str], place: int, drawing: Drawing | None
) -> Iterable[Sequence[Translation]]:
    """Returns the translations of each line, of which `place` came before."""
    if drawing is None:
        return [each.alternatives for each in translator.translate(lines)]
    draws = []
    for number in range(drawing.draws):
        sampling = replace(drawing.sampling, seed=(drawing.sampling.seed + number) % MOST_SEED)
        draws.append(translator.answer(lines, place, sampling=sampling))
    return zip(*draws, strict=True)


def _candidate(translator: Translator, line: str, found: Translation, flagged: bool) -> dict[str, Any]:
    """Returns what is written of a translation of a line."""
    length = len(found.tokens) + len(found.sentences)
    table = asdict(Candidate(found.text, round(found.score, 5), length))
    del table["flags"]
    if not flagged:
        return table
    pieces = [piece for sentence in found.sentences for piece in sentence.pieces]
    lengths = sum(len(source) for source, _ in pieces), sum(len(target) for _, target in pieces)
    mean = found.score / length if length else None
    flags = flags_of(line, found.text, lengths, mean, translator.calibration)
    return table | {"flags": [flag.name for flag in flags]}


def read_translations(path: Path) -> Iterator[list[Candidate]]:
    """Yields the candidates of each line. Raises DataError where the file is not as it was written."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield [
                    Candidate(str(c["text"]), float(c["score"]), int(c["length"]), tuple(map(str, c.get("flags", ()))))
                    for c in json.loads(line)
                ]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"line {number:,} of `{path}` holds no translations", "remove the file: it is translated again"
                ) from error
