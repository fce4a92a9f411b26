"""Synthetic pairs from monolingual text, in a folder: the lines, the model's translations, the selected pairs.

The folder holds `mono.txt`, the lines as they were read; the model's unfiltered translations, from which an interrupted
command resumes; `train.src` and `train.tgt`, the pairs; on request `copied.txt`, the lines that are their own source;
and `augmented.json`, written last, the record of the inputs and rules.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pellucid.config import DataConfig, SamplingConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.lines import check_text_file, format_display_name, hash_path, read_lines_lenient
from pellucid.errors import ConfigError, DataError, did_you_mean, format_argument, format_value
from pellucid.files.writing import atomic_path, convert_write_errors
from pellucid.synthetic_data.corpus import (
    CorpusFormat,
    Selection,
    check_request,
    is_complete,
    make_request_table,
    read_side,
    write_sides,
)
from pellucid.synthetic_data.noise import Noise
from pellucid.synthetic_data.selection import TranslationFilter
from pellucid.synthetic_data.teacher_translation import (
    check_teaching,
    open_teacher,
    write_translations,
)
from pellucid.tasks.search_options import MOST_DRAWS, SearchOptions
from pellucid.tasks.translator import Translator

MONO, SIDES, COPIED = "mono.txt", ("train.src", "train.tgt"), "copied.txt"
AUGMENTED = CorpusFormat(noun="augmented", begun=MONO, holds="synthetic pairs")

Direction = Literal["back", "forward"]
"""back: the lines are targets, and the model writes their sources; forward: they are sources, and the model writes
targets.
"""
TAGS: dict[Direction, str] = {"back": "<bt>", "forward": ""}
"""The default tag before each source: "Tagged back-translation" (Caswell et al. 2019)."""
GUARDS = ("loop", "copy", "numbers", "length", "mismatch")
"""The quality flags by which translations may be dropped."""


@dataclass(frozen=True, kw_only=True)
class AugmentRequest:
    """The inputs and options of a synthetic corpus."""

    models: tuple[str, ...]
    """The model that translates. Several models form an ensemble with the settings of the first."""
    input: str
    """The file of lines, plain or compressed; "-": standard input."""
    direction: Direction = "back"
    teaching: SearchOptions = field(default_factory=SearchOptions)
    """The search options of the model. None: the model's settings; n_best: 1."""
    num_samples: int | None = None
    """The number of translations per line if `teaching` samples them; None: 1."""
    selection: TranslationFilter = field(default_factory=TranslationFilter)
    drop_flagged: tuple[str, ...] = ("loop", "copy")
    """The quality flags by which a translation is dropped."""
    noise: Noise = field(default_factory=Noise)
    """The noise added to the sources, whether the model or a person wrote them."""
    tag: str | None = None
    """A tag before each synthetic source; "": none; None: the default in `TAGS`."""
    add_copies: bool = False
    """If True, each line also becomes a pair with itself as source and target (Currey et al. 2017)."""
    seed: int = 1
    """The seed of the noise, which depends on (seed, number of the line, number of its translation)."""
    on_bad_utf8: OnBadUtf8 = "error"

    def __post_init__(self) -> None:
        if not self.models:
            raise ConfigError("no model is given", "name a run or model folder of a translator")
        if not self.input:
            raise ConfigError(
                "`input=` is not given", "name the monolingual text, one sentence per line; `-` is standard input"
            )
        check_teaching(self.teaching, "sampling")
        DataConfig(on_bad_utf8=self.on_bad_utf8)  # these two constructors raise the errors
        SamplingConfig(seed=self.seed)
        if self.num_samples is not None and self.teaching.sampling is None:
            raise ConfigError("`num_samples=` requires `sample=True`", "add `sample=True`")
        if self.num_samples is not None and not 1 <= self.num_samples <= MOST_DRAWS:
            raise ConfigError(
                f"{format_argument('num_samples', self.num_samples)} must be from 1 to {MOST_DRAWS:,}",
                "1 to 4 are usual; each sample is one decoding pass",
            )
        for flag in self.drop_flagged:
            if flag not in GUARDS:
                raise ConfigError(
                    f"{format_argument('drop_flagged', format_value(flag))} is unknown{did_you_mean(flag, GUARDS)}",
                    f"choose from {', '.join(GUARDS)}",
                )
        if self.direction == "forward" and self.add_copies:
            raise ConfigError(
                "`add_copies` is for synthetic sources, and `direction=forward` makes synthetic targets",
                "leave it out",
            )
        if self.tag:
            try:
                DataConfig(symbols=(self.tag,))
            except ConfigError as error:
                raise ConfigError(
                    f"{format_argument('tag', format_value(self.tag))} is not a symbol: a symbol is a word without "
                    "spaces",
                    "write it like <bt>",
                ) from error

    @property
    def label(self) -> str:
        """Returns the tag before each source, or an empty text for none."""
        return TAGS[self.direction] if self.tag is None else self.tag

    @property
    def table(self) -> dict[str, Any]:
        """Returns the request's table for the record, without the lines; a model is identified by its content."""
        sampling = self.teaching.sampling
        sampled = {"num_samples": self.num_samples or 1, **asdict(sampling)} if sampling else {}
        facts = {
            "direction": self.direction, "sample": sampling is not None, **sampled, "drop_flagged": self.drop_flagged,
            **asdict(self.noise), "seed": self.seed, "tag": self.label, "add_copies": self.add_copies,
            "on_bad_utf8": self.on_bad_utf8,
        }  # fmt: skip
        return make_request_table(self.models, self.teaching, self.selection, facts)


@dataclass(frozen=True)
class SyntheticCorpus:
    """The synthetic pairs, ready for training."""

    folder: Path
    counts: Mapping[str, int]
    """The number of lines read, of pairs, of copies, and of dropped lines by reason."""

    @property
    def sides(self) -> tuple[Path, Path]:
        """Returns the files of sources and targets."""
        return self.folder / SIDES[0], self.folder / SIDES[1]


def augment(
    folder: Path,
    request: AugmentRequest,
    *,
    held_out: Collection[str] = (),
    fresh: bool = False,
    device: str = "auto",
    dtype: str | None = None,
    log_line: Callable[[str], object] = print,
) -> SyntheticCorpus:
    """Returns the pairs in `folder`. Creates them if they do not exist and resumes an interrupted run.

    Args:
        held_out: lines to drop, such as the validation and test sets.
        fresh: if True, replaces the pairs of another request. Existing translations are reused in any case.
        log_line: called with each line of the log.

    Raises ConfigError if the folder has pairs of another request or other files; DataError if lines cannot be read or
    none is left; the errors of Translator.load for a model.
    """
    asked = request.table
    record = AUGMENTED.read(folder, asked, fresh=fresh)
    # Open the text and the model before anything is written, so that errors come first.
    if request.input != "-":
        check_text_file(Path(request.input))
    translator = None if record is not None else open_teacher(request.models, request.teaching, device, dtype)
    with convert_write_errors(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / MONO) as temporary:
            lines = _copy_lines(temporary, request, held_out, log_line)
            asked["input"] = [hash_path(temporary)]
            if record is not None and not fresh:
                check_request("corpus", folder, record["request"], asked)
        copied = not request.add_copies or (folder / COPIED).is_file()
        if record is not None and copied and is_complete(folder, record, asked):
            log_line(f"`{folder}` already has {record['counts']['pairs']:,} pairs of these lines")
            return SyntheticCorpus(folder, record["counts"])
        if translator is None:
            translator = open_teacher(request.models, request.teaching, device, dtype)
        return _make(folder, request, asked, translator, lines, log_line)


def _copy_lines(
    place: Path, request: AugmentRequest, held_out: Collection[str], log_line: Callable[[str], object]
) -> dict[str, int]:
    """Writes the lines of the input, with an empty line for each dropped line; returns the counts of both.

    Line n stays line n, so that samples of a line do not depend on the other lines.
    """
    counts = {"lines": 0, "empty": 0, "held_out": 0, "not_utf8": 0}
    with place.open("w", encoding="utf-8", newline="\n") as file:
        for line in read_lines_lenient(request.input, request.on_bad_utf8, lambda *_: None):
            counts["lines"] += 1
            if line is None:
                counts["not_utf8"] += 1
            elif not line.strip():
                counts["empty"] += 1
            elif line.strip() in held_out:
                counts["held_out"] += 1
            else:
                file.write(line)
            file.write("\n")
    words = {"empty": "empty", "held_out": "of the validation or test text", "not_utf8": "not UTF-8"}
    left_out = [f"{counts[name]:,} {what}" for name, what in words.items() if counts[name]]
    log_line(
        f"{counts['lines']:,} lines in {format_display_name(request.input)}"
        + (f"; left out: {', '.join(left_out)}" if left_out else "")
    )
    if not counts["lines"] - sum(counts[name] for name in words):
        raise DataError(
            f"no line of {format_display_name(request.input)} is left to translate",
            "check the text: " + ("all lines are left out" if counts["lines"] else "it is empty"),
        )
    return counts


def _make(
    folder: Path,
    request: AugmentRequest,
    asked: Mapping[str, Any],
    translator: Translator,
    lines: Mapping[str, int],
    log_line: Callable[[str], object],
) -> SyntheticCorpus:
    AUGMENTED.get_record(folder).unlink(missing_ok=True)  # the record no longer matches the files
    guards = [flag for flag in request.drop_flagged if not (flag == "copy" and request.selection.keep_copies)]
    name = " + ".join(request.models)
    translated = {name: write_translations(
        translator, name, folder / MONO, log_line, verb="augment", sampling=request.teaching.sampling,
        draws=request.num_samples or 1, flagged=bool(guards),
    )}  # fmt: skip
    selection = Selection(folder / MONO, translated, request.selection, log_line, guards)
    tag = f"{request.label} " if request.label else ""

    def pairs() -> Iterator[tuple[str, str]]:
        for number, (line, _, found) in enumerate(selection.rows()):
            for rank, text in found:
                source, target = (line.strip(), text) if request.direction == "forward" else (text, line.strip())
                if request.noise:
                    source = request.noise.apply(source, np.random.default_rng([request.seed, number, rank]))
                yield f"{tag}{source}", target

    written = write_sides([folder / side for side in SIDES], pairs())
    left_out = selection.report("name fewer `drop_flagged=`, lower `drop_worst=`, or raise `length_ratio=`")
    sides = ("the lines", "the model's") if request.direction == "forward" else ("the model's", "the lines")
    places = [f"`{folder / name}` ({what})" for name, what in zip(SIDES, sides, strict=True)]
    log_line(f"corpus: {written:,} pairs, sources in {places[0]}, targets in {places[1]}")
    copies = 0
    if request.add_copies:
        copies = write_sides([folder / COPIED], ((line,) for line in read_side(folder / MONO) if line))
        log_line(f"copies: {copies:,} lines in `{folder / COPIED}`, used as their own sources")
    else:
        (folder / COPIED).unlink(missing_ok=True)
    record = AUGMENTED.write(
        folder, asked, {"train": SIDES}, counts={**lines, "pairs": written, **left_out, "copies": copies}
    )
    return SyntheticCorpus(folder, record["counts"])
