"""The text that a student learns: sources, their originals and the teachers' translations of them, in a folder.

The folder lies beside the run, `RUN.distilled`, since it is what the run is trained on and not a part of it: starting
the run over costs no translation, and several students may learn from one corpus. It holds plain text, a file a side;
the teachers' translations as they came; the first teacher's tokenizers; and `distilled.json`, which is written last
and says of what, and by which rules, all of it was made.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.data.health import inspect
from pellucid.data.parallel import holds_both_sides, parallel_texts
from pellucid.data.prepare import Corpus, held_out_sources, open_corpus
from pellucid.distillation.record import difference, digest_of, digests_of, digests_of_texts, is_whole, read_record
from pellucid.distillation.selection import REASONS, Reason, Selection, judge
from pellucid.distillation.sides import read_side, write_sides
from pellucid.distillation.teaching import Candidate, Teaching, open_teacher, read_translations, translations
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import refusals_in_words, write_json
from pellucid.run.card import CODES
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import Tokenizers

FORMAT = "pellucid-distilled/1"
RECORD, ORIGINAL = "distilled.json", "original"
OF_RECORD = {"files", "sha256", "tokenizer", "joint", "counts"}
READING = ("on_bad_utf8", "on_copy", "on_duplicate", "tsv_columns", "jsonl_keys", "valid_size")
"""Settings of [data] that decide which lines are read."""


@dataclass(frozen=True)
class Distilled:
    """A corpus of translations, ready to be trained on."""

    folder: Path
    src: Path
    tgt: Path
    valid: tuple[Path, Path] | None
    """The pairs to validate on, which were cut off the originals; None where none were."""
    tokenizers: Tokenizers | None
    """The first teacher's; None: it is one of many languages, whose words are too many for a student."""
    joint: bool
    """True where both sides have the same ids, be it in one tokenizer or in two, as models of others have them."""
    counts: Mapping[str, int]

    @property
    def original(self) -> Path:
        """Returns the file of the translations that people made, where the text has them."""
        return self.folder / f"{ORIGINAL}{self.tgt.suffix}"


@dataclass(frozen=True, kw_only=True)
class Request:
    """Says what a corpus is made of, and how."""

    teachers: tuple[str, ...]
    data: DataConfig
    """The texts, with their places found: `src`, perhaps `tgt`, perhaps texts to validate on."""
    teaching: Teaching
    selection: Selection
    ensemble: bool = False
    """True: the teachers write as one, and not one after the other."""
    originals: bool = True
    """True: the pairs of the text itself are learnt, too, where it has two sides."""

    def __post_init__(self) -> None:
        if not self.teachers:
            raise ConfigError("no teacher is given", "name a run folder, or a model's, whose translations are learnt")
        if repeated := next((name for name in self.teachers if self.teachers.count(name) > 1), None):
            raise ConfigError(f"the teacher `{repeated}` is given twice", "name it once")
        if self.ensemble and len(self.teachers) < 2:
            raise ConfigError("`ensemble=True` has teachers write as one, and one is given", "name another, too")
        if not self.data.src:
            raise ConfigError("`src=` is not given", "name the text that the teacher translates")
        if self.data.tgt_lang:
            raise ConfigError(
                f"`data.tgt_lang` ({', '.join(self.data.files('tgt_lang'))}) has no effect: what a student learns is "
                "one pair of languages",
                "leave it out, and name what the teacher writes by `target_language=`",
            )
        mixing = {"weights": list(self.data.weights), "temperature": self.data.temperature}
        for name, value in mixing.items():
            if value:
                raise ConfigError(
                    f"`data.{name}` ({value}) has no effect: what a student learns is one corpus", "leave it out"
                )

    @property
    def is_parallel(self) -> bool:
        """True where the text has two sides."""
        return bool(self.data.tgt) or all(map(holds_both_sides, self.data.files("src")))

    def table(self) -> dict[str, Any]:
        """Returns it as the record has it: texts and teachers by name and content."""
        table = {
            "teachers": {name: digest_of(Path(name)) for name in self.teachers},
            **digests_of_texts(self.data),
            **self.teaching.deciding,
            **asdict(self.selection),
            "originals": self.originals,
            **({"ensemble": True} if self.ensemble else {}),  # records of one that is none have no such line
            **{name: getattr(self.data, name) for name in READING},
        }
        as_stored: dict[str, Any] = json.loads(json.dumps(table))  # with lists, not tuples
        return as_stored


def corpus_of(run: Path) -> Path:
    """Returns the folder of the corpus of a student's run, where none is named."""
    return beside(run, "distilled")


def beside(run: Path, name: str) -> Path:
    """Returns the folder `RUN.name`, of what a run is trained with and is no part of it."""
    named = run if run.name not in ("", "..") else run.resolve()
    return named.with_name(f"{named.name}.{name}")


def distil(
    folder: Path,
    request: Request,
    *,
    fresh: bool = False,
    device: str = "auto",
    dtype: str | None = None,
    say: Callable[[str], object] = print,
) -> Distilled:
    """Returns the corpus in `folder`, made first where it is not there; what was begun is gone on with.

    Args:
        fresh: makes a corpus of another request anew. Translations that are there are used in any case.
        say: is told what is done and what is left out, a line each.

    Raises ConfigError where the folder has a corpus of another request, or something else; DataError for texts that
    cannot be read and where nothing is left; what Translator.load raises for a teacher.
    """
    asked = request.table()
    record = read_record(folder / RECORD, FORMAT, OF_RECORD)
    if record is not None:
        other = difference(record["request"], asked)
        if other and not fresh:
            raise ConfigError(
                f"the corpus in `{folder}` {other}",
                "repeat the command that made it, name another `corpus=`, or have it made anew with `fresh=True`",
            )
        if not other and is_whole(folder, record):
            return _opened(folder, record)
    if record is None and folder.exists() and not _is_ours(folder):
        what = "a file" if not folder.is_dir() else "not empty and holds no translations"
        raise ConfigError(f"`{folder}` is {what}, not a folder for them", "name another `corpus=`")
    # A teacher that cannot be opened is said before anything is written, and before another one has translated.
    teachers = {
        " + ".join(names): open_teacher(names, request.teaching, device, dtype)
        for names in ([request.teachers] if request.ensemble else [(name,) for name in request.teachers])
    }
    pairs, valid = _read(request, say)
    with refusals_in_words(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        return _make(folder, request, asked, teachers, pairs, valid, say)


def _make(
    folder: Path,
    request: Request,
    asked: Mapping[str, Any],
    teachers: Mapping[str, Translator],
    pairs: Iterator[tuple[str, ...]],
    valid: list[tuple[str, str]],
    say: Callable[[str], object],
) -> Distilled:
    names = _names(request)
    source, original = folder / f"source.{names[0]}", folder / f"{ORIGINAL}.{names[1]}"
    (folder / RECORD).unlink(missing_ok=True)  # from here on what lies there is not what it says
    lines = write_sides((source, original) if request.is_parallel else (source,), pairs)
    if valid:
        write_sides([folder / f"valid.{name}" for name in names], valid)
    translated = {name: translations(teacher, name, source, say) for name, teacher in teachers.items()}
    first = next(iter(teachers.values()))
    counts = _select(folder, request, (source, original), translated, names, say) | {"lines": lines}
    files = {
        "train": [f"train.{name}" for name in names],
        "valid": [f"valid.{name}" for name in names] if valid else [],
    }
    record = {
        "format": FORMAT,
        "request": asked,
        "files": files,
        "sha256": digests_of(folder, files),
        "tokenizer": None if first.languages else first.tokenizers.save(folder),
        "joint": first.tokenizers.joint or first.config.tie_embeddings == "all",
        "counts": counts,
    }
    write_json(folder / RECORD, record)
    return _opened(folder, record)


def _read(request: Request, say: Callable[[str], object]) -> tuple[Iterator[tuple[str, ...]], list[tuple[str, str]]]:
    """Returns the lines to be translated, with their originals where the text has them, and pairs to validate on."""
    if request.is_parallel:
        corpus = open_corpus(request.data)
        assert isinstance(corpus, Corpus)
        say(corpus.report())
        _check_lines(len(corpus))
        return corpus.train(), [] if request.data.valid_src else corpus.valid
    texts = parallel_texts(request.data, alone=True)
    found = inspect(texts, request.data, held_out_sources(request.data))
    found.check()
    lines = ", ".join(f"{count:,} lines in {text}" for count, text in zip(found.counts, texts, strict=True))
    say("\n".join([f"texts: {lines}", *(f"  {finding}" for finding in found.findings)]))
    _check_lines(int(found.used.sum()))
    return (pair[:1] for pair in found.pairs(found.used, request.data.on_bad_utf8)), []


def _check_lines(count: int) -> None:
    if not count:
        raise DataError("no line of the text is left to be translated", "look at the text: all lines are left out")


def _select(
    folder: Path,
    request: Request,
    texts: tuple[Path, Path],
    translated: Mapping[str, Path],
    names: tuple[str, str],
    say: Callable[[str], object],
) -> dict[str, int]:
    """Writes the corpus of what is kept, and returns and says how much that is, and what is left out."""
    left_out: dict[Reason, int] = dict.fromkeys(REASONS, 0)
    judged, files = [], [*translated.values()]
    for name, file in translated.items():
        try:
            found = judge(zip(read_side(texts[0]), read_translations(file), strict=True), request.selection)
        except ValueError as error:  # zip's
            raise DataError(
                f"`{file}` has not as many lines as `{texts[0]}`", "remove the file: it is translated again"
            ) from error
        judged.append(found)
        for reason, count in found.counts.items():
            left_out[reason] += count
        if found.worst is not None and found.counts["score"]:
            say(f"`{name}`: the lowest {found.counts['score']:,} translations are below {found.worst:.3f} a token")
    with_originals = request.originals and request.is_parallel
    counts = {"originals": 0, "translations": 0}

    def pairs() -> Iterator[tuple[str, str]]:
        keeps = [iter(each.kept) for each in judged]
        originals: Iterator[str | None] = read_side(texts[1]) if with_originals else iter(lambda: None, "")
        for source, original, *found in zip(
            read_side(texts[0]), originals, *map(read_translations, files), strict=False
        ):
            seen = set[str]()
            if original is not None:
                seen.add(original.strip())
                counts["originals"] += 1
                yield source, original
            for candidate in _kept(found, keeps):
                if (text := candidate.text.strip()) in seen:
                    left_out["repeated"] += 1
                    continue
                seen.add(text)
                counts["translations"] += 1
                yield source, text

    write_sides([folder / f"train.{name}" for name in names], pairs())
    of_all = sum(len(each.kept) for each in judged)
    reasons = ", ".join(f"{count:,} {REASONS[reason]}" for reason, count in left_out.items() if count)
    say(
        f"translations: {counts['translations']:,} of {of_all:,} are learnt"
        + (f"; left out: {reasons}" if reasons else "")
    )
    if not counts["translations"]:
        raise DataError(
            f"nothing is left of {of_all:,} translations: {reasons or 'there were none'}",
            "look at the teacher's translations, or lower `drop_worst=` and raise `length_ratio=`",
        )
    total = counts["originals"] + counts["translations"]
    beside = f", beside {counts['originals']:,} originals" if with_originals else ""
    say(f"corpus: {total:,} pairs in `{folder}`{beside}")
    return counts | {f"left_out_{reason}": count for reason, count in left_out.items()}


def _kept(found: Sequence[Sequence[Candidate]], keeps: Sequence[Iterator[Any]]) -> Iterator[Candidate]:
    """Yields the candidates of a line that are kept, teacher by teacher."""
    for candidates, kept in zip(found, keeps, strict=True):
        yield from [candidate for candidate in candidates if next(kept)]


def _names(request: Request) -> tuple[str, str]:
    """Returns what the files' names end in: the languages as the texts' names have them, or `src` and `tgt`."""
    data = request.data
    sides = (("src", "valid_src"), ("tgt", "valid_tgt"))
    codes = [_code(chain.from_iterable(map(data.files, side))) or side[0] for side in sides]
    return (codes[0], codes[1]) if codes[0] != codes[1] else ("src", "tgt")


def _code(paths: Iterator[str]) -> str:
    found = (Path(path).name.removesuffix(".gz").rpartition(".")[2] for path in paths)
    return next((code for code in found if code in CODES), "")


def _is_ours(folder: Path) -> bool:
    """Tells whether a folder is empty, or one in which a corpus was begun."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else ["."]
    names = [name for name in names if not name.startswith(".") or name == "."]
    return not names or any(name.startswith("source.") for name in names)


def _opened(folder: Path, record: Mapping[str, Any]) -> Distilled:
    src, tgt = (folder / name for name in record["files"]["train"])
    valid = [folder / name for name in record["files"]["valid"]]
    table = record["tokenizer"]
    tokenizers = None if table is None else Tokenizers.load(folder, table)
    cut_off = (valid[0], valid[1]) if valid else None
    return Distilled(folder, src, tgt, cut_off, tokenizers, record["joint"], record["counts"])
