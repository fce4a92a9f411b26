"""A teacher's translations of a text, in a resumable file: a line of JSON for each line.

The file name is a fingerprint of its inputs (the teacher's weights and tokenizers, the search, the text): an existing
file is complete, whichever student requested it first.
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
from pellucid.config.tables import restore_old_names, to_table
from pellucid.errors import ConfigError, DataError
from pellucid.files.reading import hash_file
from pellucid.streams.streams import LineStream, fingerprint_request, open_input, open_output_stream
from pellucid.tasks.quality_flags import find_flags
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.segmenter import LongTextWarning
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator, confidence_settings
from pellucid.text.training_text import TrainingTextStats

CHUNK_SIZE = 512
"""The lines translated together, at most lost by a kill: the resumed file is the same, byte for byte."""
DECIDING = ("n_best", "beam_size", "length_penalty", "source_language", "target_language")
"""The options of a search that are in the record of a corpus."""


def select_decisive_options(options: SearchOptions) -> dict[str, Any]:
    """Returns the options of a teacher's search that determine its translations, for the record of a corpus."""
    return {name: getattr(options, name) for name in DECIDING} | {"n_best": options.n_best or 1}


def check_teaching(options: SearchOptions, *further: str) -> None:
    """Raises ConfigError for an option that teachers do not take; `further` names additional options that are
    allowed.
    """
    known = (*DECIDING, "batch_tokens", *further)
    for name in (name for name in options.non_defaults if name not in known):
        raise ConfigError(f"`{name}=` is not an option of a teacher", f"the options are {', '.join(known)}")


@dataclass(frozen=True)
class TeacherTranslation:
    """A translation of a line by a teacher."""

    text: str
    score: float
    """The sum of its tokens' log-probabilities."""
    length: int
    """The number of its tokens, end tokens included."""
    flags: tuple[str, ...] = ()
    """The names of its quality flags, `tasks.quality_flags.Flag`s, if they were requested."""


def open_teacher(names: Sequence[str], options: SearchOptions, device: str, dtype: str | None) -> Translator:
    """Opens a teacher, a model or an ensemble of several, with the options as its settings; `n_best` None is 1.

    Raises the errors of Translator.load, and ConfigError for invalid search options.
    """
    spoken = options.source_language, options.target_language
    translator = Translator.load(names[0], device, dtype, *spoken, ensemble=names[1:])
    translator.decode = options.settings(replace(translator.decode, n_best=1))
    return translator


def write_translations(
    translator: Translator,
    name: str,
    text: Path,
    log_line: Callable[[str], object],
    *,
    verb: str = "distill",
    sampling: SamplingConfig | None = None,
    draws: int = 1,
    flagged: bool = False,
) -> Path:
    """Returns the file of a teacher's translations of `text`, next to the text; translates the missing lines.

    Args:
        verb: the command that requests them.
        sampling: the sampling options; None: beam search.
        draws: the samples per line: the i-th is that of `Translator.sample` with the seed `sampling.seed` + i.
        flagged: if True, adds each translation's quality flags.

    Raises ConfigError if another process is writing the file, DataError if it cannot be written.
    """
    cut_by = to_table(translator.text or TrainingTextStats())
    drawing = {"sampling": restore_old_names("sampling", asdict(sampling)), "draws": draws} if sampling else None
    asked = {"drawing": drawing, **confidence_settings(translator, asked=flagged)}
    decode = restore_old_names("decode", to_table(translator.decode))
    command = fingerprint_request(verb, translator, {**decode, "text": cut_by, **asked})
    decided = json.dumps([command, hash_file(text)], sort_keys=True)
    path = text.with_name(f"teacher-{hashlib.sha256(decided.encode()).hexdigest()[:12]}.jsonl")
    if path.is_file():
        log_line(f"`{path}` already has the translations of `{name}`")
        return path
    way = f"with a beam of {translator.decode.beam_size}"
    if sampling:
        way = f"sampling {draws:,} per line with the seed {sampling.seed}"
    log_line(f"`{name}` translates {text.name} into `{path}`, {way}")
    stream = LineStream(str(text), str(path))
    with warnings.catch_warnings(), open_input(stream) as source:
        warnings.simplefilter("ignore", LongTextWarning)  # a teacher's poor translations have low scores
        with open_output_stream(
            stream, source, command=partial(dict, command), nothing=("", "[]"), chunk=CHUNK_SIZE
        ) as answers:
            for place, lines in answers:
                found = _translate_lines(translator, lines, place, sampling, draws)
                tables = ([_candidate(translator, line, each, flagged) for each in of_line]
                          for line, of_line in zip(lines, found, strict=True))  # fmt: skip
                answers.write(json.dumps(of_line, ensure_ascii=False) for of_line in tables)
    return path


def _translate_lines(
    translator: Translator, lines: Sequence[str], place: int, sampling: SamplingConfig | None, draws: int
) -> Iterable[Sequence[Translation]]:
    """Returns the translations of each line, where `place` lines came before."""
    if sampling is None:
        return [each.alternatives for each in translator.translate(lines)]
    seeds = [(sampling.seed + number) % MOST_SEED for number in range(draws)]
    return zip(
        *[translator.process_lines(lines, place, sampling=replace(sampling, seed=seed)) for seed in seeds], strict=True
    )


def _candidate(translator: Translator, line: str, found: Translation, flagged: bool) -> dict[str, Any]:
    """Returns the JSON entry for a translation of a line."""
    length = len(found.tokens) + len(found.sentences)
    table = asdict(TeacherTranslation(found.text, round(found.score, 5), length))
    del table["flags"]
    if not flagged:
        return table
    pieces = [piece for sentence in found.sentences for piece in sentence.pieces]
    lengths = sum(len(source) for source, _ in pieces), sum(len(target) for _, target in pieces)
    mean = found.score / length if length else None
    flags = find_flags(line, found.text, lengths, mean, translator.calibration)
    return table | {"flags": [flag.name for flag in flags]}


def read_translations(path: Path) -> Iterator[list[TeacherTranslation]]:
    """Yields the candidates of each line. Raises DataError if the file is damaged."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield [
                    TeacherTranslation(
                        str(c["text"]), float(c["score"]), int(c["length"]), tuple(map(str, c.get("flags", ())))
                    )
                    for c in json.loads(line)
                ]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"line {number:,} of `{path}` holds no translations", "remove the file to translate it again"
                ) from error
