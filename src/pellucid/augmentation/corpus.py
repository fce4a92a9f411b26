"""Synthetic pairs of a text of one language, in a folder: the lines, what the model writes for them, what is kept.

The folder holds `mono.txt`, the lines as they were read; the model's translations as they came, which a stopped command
goes on with; `train.src` and `train.tgt`, the pairs; where they are asked for, `copied.txt`, the lines that are their
own source; and `augmented.json`, which is written last and says of what, and by which rules, all of it was made.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pellucid.augmentation.noise import Noise
from pellucid.config import DataConfig, SamplingConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.lines import existing, fingerprint, origin, read_mended_lines
from pellucid.distillation.record import difference, digest_of, digests_of, is_whole, read_record
from pellucid.distillation.selection import REASONS, Reason, Selection, judge
from pellucid.distillation.sides import read_side, write_sides
from pellucid.distillation.teaching import Candidate, Drawing, Teaching, open_teacher, read_translations, translations
from pellucid.errors import ConfigError, DataError, argument, did_you_mean, shown
from pellucid.files.writing import refusals_in_words, replacing, write_json
from pellucid.tasks.translator import Translator

FORMAT = "pellucid-augmented/1"
RECORD = "augmented.json"
OF_RECORD = {"files", "sha256", "counts"}
MONO, SIDES, COPIED = "mono.txt", ("train.src", "train.tgt"), "copied.txt"

Direction = Literal["back", "forward"]
"""back: the lines are targets, and the model writes their sources; forward: they are sources, and it writes targets."""
TAGS: dict[Direction, str] = {"back": "<bt>", "forward": ""}
"""The word before each source, where nobody says otherwise: "Tagged back-translation" (Caswell et al. 2019)."""
GUARDS = ("loop", "copy", "numbers", "length", "mismatch")
"""The names of flags by which translations may be left out."""


class NothingLeftError(DataError):
    """Is raised where none of a model's translations is kept."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Says what pairs are made of, and how."""

    models: tuple[str, ...]
    """The model that translates; of several, which write as one, the first one's settings hold."""
    input: str
    """The file of lines, plain or compressed; "-": standard input."""
    direction: Direction = "back"
    teaching: Teaching = field(default_factory=Teaching)
    drawing: Drawing | None = None
    """Draws translations; None: a beam looks for the best."""
    selection: Selection = field(default_factory=Selection)
    guards: tuple[str, ...] = ("loop", "copy")
    """The flags by which a translation is left out."""
    noise: Noise = field(default_factory=Noise)
    """The noise that is put on the sources, whoever wrote them."""
    tag: str | None = None
    """A word before each synthetic source; "": none; None: as `TAGS` has it."""
    copies: bool = False
    """True: the lines are pairs of their own, too, as source and target (Currey et al. 2017)."""
    seed: int = 1
    """Decides the noise, from (seed, number of the line, number of its translation)."""
    on_bad_utf8: OnBadUtf8 = "error"

    def __post_init__(self) -> None:
        if not self.models:
            raise ConfigError("no model is given", "name a run folder, or a model's, that translates the lines")
        if not self.input:
            raise ConfigError(
                "`input=` is not given", "name the text of one language, a line each; `-` is standard input"
            )
        DataConfig(on_bad_utf8=self.on_bad_utf8)  # these two say what is allowed
        SamplingConfig(seed=self.seed)
        for flag in self.guards:
            if flag not in GUARDS:
                raise ConfigError(
                    f"{argument('guards', shown(flag))} is unknown{did_you_mean(flag, GUARDS)}",
                    f"choose of {', '.join(GUARDS)}",
                )
        if self.direction == "forward" and self.copies:
            raise ConfigError(
                "`copies` is for sources that a model wrote, and with `direction=forward` it writes targets",
                "leave it out",
            )
        if self.tag:
            try:
                DataConfig(symbols=(self.tag,))
            except ConfigError as error:
                raise ConfigError(
                    f"{argument('tag', shown(self.tag))} is no symbol: one is a word without a space in it",
                    "write it as in <bt>",
                ) from error

    @property
    def label(self) -> str:
        """Returns the word before each source; empty for none."""
        return TAGS[self.direction] if self.tag is None else self.tag

    @property
    def table(self) -> dict[str, Any]:
        """Returns it as the record has it, but for the lines; a model by its content."""
        drawn = {"draws": self.drawing.draws, **asdict(self.drawing.sampling)} if self.drawing else {}
        table = {
            "teachers": {name: digest_of(Path(name)) for name in self.models},
            "direction": self.direction, **self.teaching.deciding, "sample": self.drawing is not None, **drawn,
            **asdict(self.selection), "guards": list(self.guards), **asdict(self.noise), "seed": self.seed,
            "tag": self.label, "copies": self.copies, "on_bad_utf8": self.on_bad_utf8,
        }  # fmt: skip
        as_stored: dict[str, Any] = json.loads(json.dumps(table))  # with lists, not tuples
        return as_stored


@dataclass(frozen=True)
class Augmented:
    """The synthetic pairs, ready to be trained on."""

    folder: Path
    counts: Mapping[str, int]
    """Lines that were read, pairs, copies, and what was left out, by the reason."""

    @property
    def sides(self) -> tuple[Path, Path]:
        """Returns the files of sources and targets."""
        return self.folder / SIDES[0], self.folder / SIDES[1]


def augment(
    folder: Path,
    request: Request,
    *,
    held_out: Collection[str] = (),
    fresh: bool = False,
    device: str = "auto",
    dtype: str | None = None,
    say: Callable[[str], object] = print,
) -> Augmented:
    """Returns the pairs in `folder`, made first where they are not there; what was begun is gone on with.

    Args:
        held_out: lines that are left out, as those to validate and to test on.
        fresh: makes pairs of another request anew. Translations that are there are used in any case.
        say: is told what is done and what is left out, a line each.

    Raises ConfigError where the folder has pairs of another request, or something else; DataError for lines that cannot
    be read and where nothing is left; what Translator.load raises for a model.
    """
    asked = request.table
    record = read_record(folder / RECORD, FORMAT, OF_RECORD)
    if record is None and folder.exists() and not _is_ours(folder):
        what = "a file" if not folder.is_dir() else "not empty and holds no synthetic pairs"
        raise ConfigError(f"`{folder}` is {what}, not a folder for them", "name another `out=`")
    if record is not None and not fresh:
        _check_same(folder, record, asked)
    # A text or a model that cannot be opened is said before anything is written.
    if request.input != "-":
        existing(Path(request.input))
    translator = None if record is not None else open_teacher(request.models, request.teaching, device, dtype)
    with refusals_in_words(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / MONO) as temporary:
            lines = _copy_lines(temporary, request, held_out, say)
            asked["input"] = [fingerprint(temporary)]
            if record is not None and not fresh:
                _check_same(folder, record, asked)
        copied = not request.copies or (folder / COPIED).is_file()
        if record is not None and not difference(record["request"], asked) and is_whole(folder, record) and copied:
            say(f"`{folder}` has {record['counts']['pairs']:,} pairs of these lines already")
            return Augmented(folder, record["counts"])
        if translator is None:
            translator = open_teacher(request.models, request.teaching, device, dtype)
        return _make(folder, request, asked, translator, lines, say)


def _check_same(folder: Path, record: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raises ConfigError where the pairs in a folder are not those that are asked for."""
    if other := difference(record["request"], asked):
        raise ConfigError(
            f"the corpus in `{folder}` {other}",
            "repeat the command that made it, name another `out=`, or have it made anew with `fresh=True`",
        )


def _is_ours(folder: Path) -> bool:
    """Tells whether a folder is empty, or one in which pairs were begun."""
    names = [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else ["file"]
    return not names or MONO in names


def _copy_lines(
    place: Path, request: Request, held_out: Collection[str], say: Callable[[str], object]
) -> dict[str, int]:
    """Writes the lines of the input, with an empty one for each that is left out; returns how many there are of each.

    So line n stays line n, and a draw of it is what it would be without the others.
    """
    counts = {"lines": 0, "empty": 0, "held_out": 0, "not_utf8": 0}
    with place.open("w", encoding="utf-8", newline="\n") as file:
        for line in read_mended_lines(request.input, request.on_bad_utf8, lambda *_: None):
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
    words = {"empty": "empty", "held_out": "of the text to validate or test on", "not_utf8": "not UTF-8"}
    left_out = [f"{counts[name]:,} {what}" for name, what in words.items() if counts[name]]
    say(
        f"{counts['lines']:,} lines in {origin(request.input)}"
        + (f"; left out: {', '.join(left_out)}" if left_out else "")
    )
    if not counts["lines"] - sum(counts[name] for name in words):
        raise DataError(
            f"no line of {origin(request.input)} is left to be translated",
            "look at the text: " + ("all lines are left out" if counts["lines"] else "it is empty"),
        )
    return counts


def _make(
    folder: Path,
    request: Request,
    asked: Mapping[str, Any],
    translator: Translator,
    lines: Mapping[str, int],
    say: Callable[[str], object],
) -> Augmented:
    (folder / RECORD).unlink(missing_ok=True)  # from here on what lies there is not what it says
    guards = [flag for flag in request.guards if not (flag == "copy" and request.selection.keep_copies)]
    name = " + ".join(request.models)
    file = translations(
        translator, name, folder / MONO, say, verb="augment", drawing=request.drawing, flagged=bool(guards)
    )
    counts = _select(folder, request, file, guards, say)
    copies = 0
    if request.copies:
        copies = write_sides([folder / COPIED], ((line,) for line in read_side(folder / MONO) if line))
        say(f"copies: {copies:,} lines in `{folder / COPIED}`, which are their own sources")
    else:
        (folder / COPIED).unlink(missing_ok=True)
    files = {"train": SIDES}
    record: dict[str, Any] = {
        "format": FORMAT, "request": asked, "files": files, "sha256": digests_of(folder, files),
        "counts": {**lines, **counts, "copies": copies},
    }  # fmt: skip
    write_json(folder / RECORD, record)
    return Augmented(folder, record["counts"])


def _select(
    folder: Path, request: Request, file: Path, guards: Collection[str], say: Callable[[str], object]
) -> dict[str, int]:
    """Writes the pairs of what is kept, and returns and says how much that is, and what is left out."""
    seen_flags = Counter[str]()

    def judged() -> Iterator[tuple[str, list[Candidate]]]:
        for line, candidates in zip(read_side(folder / MONO), read_translations(file), strict=True):
            others = [each for each in candidates if request.selection.keep_copies or each.text.strip() != line.strip()]
            seen_flags.update(flag for flag in guards for each in others if flag in each.flags)
            yield line, candidates if line else []  # of what is left out nothing is judged

    try:
        found = judge(judged(), request.selection, guards)
    except ValueError as error:  # zip's
        raise DataError(
            f"`{file}` has not as many lines as `{folder / MONO}`", "remove the file: it is translated again"
        ) from error
    left_out: dict[Reason, int] = {**dict.fromkeys(REASONS, 0), **found.counts}
    written = 0

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal written
        kept = iter(found.kept)
        tag = f"{request.label} " if request.label else ""
        for number, (line, candidates) in enumerate(
            zip(read_side(folder / MONO), read_translations(file), strict=True)
        ):
            seen = set[str]()
            for rank, candidate in enumerate(candidates if line else []):
                if not next(kept):
                    continue
                if (text := candidate.text.strip()) in seen:
                    left_out["repeated"] += 1
                    continue
                seen.add(text)
                written += 1
                source, target = (line.strip(), text) if request.direction == "forward" else (text, line.strip())
                if request.noise:
                    source = request.noise.on(source, np.random.default_rng([request.seed, number, rank]))
                yield f"{tag}{source}", target

    write_sides([folder / side for side in SIDES], pairs())
    if found.worst is not None and found.counts["score"]:
        say(f"the lowest {found.counts['score']:,} translations are below {found.worst:.3f} a token")
    words = REASONS | {"flag": f"flagged ({', '.join(f'{name} {count:,}' for name, count in seen_flags.items())})"}
    reasons = ", ".join(f"{count:,} {words[reason]}" for reason, count in left_out.items() if count)
    say(f"translations: {written:,} of {len(found.kept):,} are kept" + (f"; left out: {reasons}" if reasons else ""))
    if not written:
        raise NothingLeftError(
            f"nothing is left of {len(found.kept):,} translations: {reasons or 'there were none'}",
            f"look at them in `{file}`; `guards=`, `drop_worst=` and `length_ratio=` say what is left out",
        )
    sides = ("the lines", "the model's") if request.direction == "forward" else ("the model's", "the lines")
    places = [f"`{folder / name}` ({what})" for name, what in zip(SIDES, sides, strict=True)]
    say(f"corpus: {written:,} pairs, sources in {places[0]}, targets in {places[1]}")
    return {"pairs": written, **{f"left_out_{reason}": count for reason, count in left_out.items()}}
