"""The student's training text: sources, their originals and the teachers' translations of them, in a folder.

The folder is stored next to the run, as `RUN.distilled`, since it is the run's input and not a part of it: restarting
the run does not repeat the translation, and several students can be trained on one corpus. It holds plain text, one
file per side; the teachers' unfiltered translations; the first teacher's tokenizers; and `distilled.json`, written
last, the record of the inputs and rules.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.data.parallel import holds_both_sides, parallel_texts
from pellucid.data.prepare import Corpus, open_corpus, read_held_out_sources
from pellucid.data.streamed_inspection import inspect_corpus
from pellucid.errors import ConfigError, DataError
from pellucid.files.reading import NOTHING, SWITCH, TABLE
from pellucid.files.writing import convert_write_errors
from pellucid.run.card import CODES
from pellucid.synthetic_data.corpus import (
    CorpusFormat,
    Selection,
    digests_of_texts,
    is_complete,
    make_request_table,
    read_side,
    write_sides,
)
from pellucid.synthetic_data.selection import TranslationFilter
from pellucid.synthetic_data.teacher_translation import (
    check_teaching,
    open_teacher,
    write_translations,
)
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair

SOURCE, ORIGINAL = "source", "original"
DISTILLED = CorpusFormat(
    noun="distilled", begun=f"{SOURCE}.", holds="translations", option="corpus",
    kinds={"tokenizer": TABLE | NOTHING, "joint": SWITCH},
)  # fmt: skip
READING = ("on_bad_utf8", "on_copy", "on_duplicate", "tsv_columns", "jsonl_keys", "valid_size")
"""Settings of [data] that decide which lines are read."""


@dataclass(frozen=True)
class DistilledCorpus:
    """A corpus of translations, ready for training."""

    folder: Path
    src: Path
    tgt: Path
    valid: tuple[Path, Path] | None
    """The validation pairs that were split off the originals; None if none were."""
    tokenizers: TokenizerPair | None
    """The first teacher's tokenizers; None if it is multilingual, since its vocabulary is too large for a student."""
    joint: bool
    """True if both sides have the same ids, in one tokenizer or in two, as in Hugging Face models."""
    counts: Mapping[str, int]

    @property
    def original(self) -> Path:
        """Returns the file of the human translations, if the text has them."""
        return self.folder / f"{ORIGINAL}{self.tgt.suffix}"


@dataclass(frozen=True, kw_only=True)
class DistillRequest:
    """The inputs and options of a distilled corpus."""

    teachers: tuple[str, ...]
    data: DataConfig
    """The texts, with their paths resolved: `src`, and optionally `tgt` and validation texts."""
    teaching: SearchOptions
    """The search options of the teachers. None: as in each teacher's own settings; n_best: 1."""
    selection: TranslationFilter
    ensemble: bool = False
    """If True, the teachers translate as an ensemble; if False, one after the other."""
    originals: bool = True
    """If True, the student is also trained on the pairs of the text itself, if it has two sides."""

    def __post_init__(self) -> None:
        check_teaching(self.teaching)
        if not self.teachers:
            raise ConfigError("no teacher is given", "name the run or model folder of a teacher")
        if repeated := next((name for name in self.teachers if self.teachers.count(name) > 1), None):
            raise ConfigError(f"the teacher `{repeated}` is given twice", "name it once")
        if self.ensemble and len(self.teachers) < 2:
            raise ConfigError(
                "`ensemble=True` requires at least two teachers, and one is given", "name another teacher"
            )
        if not self.data.src:
            raise ConfigError("`src=` is not given", "name the text that the teacher translates")
        if self.data.tgt_lang:
            raise ConfigError(
                f"`data.tgt_lang=` ({', '.join(self.data.files('tgt_lang'))}) has no effect: a student is trained on "
                "one language pair",
                "leave it out, and set the teacher's output language with `target_language=`",
            )
        mixing = {
            "corpus_weights": list(self.data.corpus_weights),
            "sampling_temperature": self.data.sampling_temperature,
        }
        for name, value in mixing.items():
            if value:
                raise ConfigError(
                    f"`data.{name}` ({value}) has no effect: a student is trained on one corpus", "leave it out"
                )

    @property
    def is_parallel(self) -> bool:
        """Returns True if the text has two sides."""
        return bool(self.data.tgt) or all(map(holds_both_sides, self.data.files("src")))

    def table(self) -> dict[str, Any]:
        """Returns the request's table for the record: texts and teachers by name and content."""
        facts = {
            **digests_of_texts(self.data), "originals": self.originals,
            **({"ensemble": True} if self.ensemble else {}),  # absent if False, as in older records
            **{name: getattr(self.data, name) for name in READING},
        }  # fmt: skip
        return make_request_table(self.teachers, self.teaching, self.selection, facts)


def get_corpus_folder(run: Path) -> Path:
    """Returns the default folder of the corpus of a student's run."""
    return make_sibling_path(run, "distilled")


def make_sibling_path(run: Path, name: str) -> Path:
    """Returns the folder `RUN.name`, for training inputs of a run that are not part of it."""
    named = run if run.name not in ("", "..") else run.resolve()
    return named.with_name(f"{named.name}.{name}")


def distill_corpus(
    folder: Path,
    request: DistillRequest,
    *,
    fresh: bool = False,
    device: str = "auto",
    dtype: str | None = None,
    log_line: Callable[[str], object] = print,
) -> DistilledCorpus:
    """Returns the corpus in `folder`. Creates it if it does not exist and resumes an interrupted command.

    Args:
        fresh: if True, replaces a corpus of another request. Existing translations are reused in any case.
        log_line: called with each line of the log.

    Raises ConfigError if the folder has a corpus of another request or other files; DataError if texts cannot be read
    or no pair is left; the errors of Translator.load for a teacher.
    """
    asked = request.table()
    record = DISTILLED.read(folder, asked, fresh=fresh)
    if record is not None and is_complete(folder, record, asked):
        return _open_corpus(folder, record)
    # Open all teachers before anything is written or translated, so that errors come first.
    teachers = {
        " + ".join(names): open_teacher(names, request.teaching, device, dtype)
        for names in ([request.teachers] if request.ensemble else [(name,) for name in request.teachers])
    }
    pairs, valid = _read(request, log_line)
    with convert_write_errors(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        return _make(folder, request, asked, teachers, pairs, valid, log_line)


def _make(
    folder: Path,
    request: DistillRequest,
    asked: Mapping[str, Any],
    teachers: Mapping[str, Translator],
    pairs: Iterator[tuple[str, ...]],
    valid: list[tuple[str, str]],
    log_line: Callable[[str], object],
) -> DistilledCorpus:
    names = _names(request)
    source, original = folder / f"{SOURCE}.{names[0]}", folder / f"{ORIGINAL}.{names[1]}"
    DISTILLED.get_record(folder).unlink(missing_ok=True)  # the record no longer matches the files
    lines = write_sides((source, original) if request.is_parallel else (source,), pairs)
    if valid:
        write_sides([folder / f"valid.{name}" for name in names], valid)
    translated = {name: write_translations(teacher, name, source, log_line) for name, teacher in teachers.items()}
    selection = Selection(source, translated, request.selection, log_line)
    with_originals = request.originals and request.is_parallel

    def selected() -> Iterator[tuple[str, str]]:
        for line, human, found in selection.rows(read_side(original) if with_originals else repeat(None)):
            yield from ((line, text) for text in (human, *(text for _, text in found)) if text is not None)

    total = write_sides([folder / f"train.{name}" for name in names], selected())
    left_out = selection.report("lower `drop_worst=`, or raise `length_ratio=`")
    originals = total - selection.written
    including = f", including {originals:,} originals" if with_originals else ""
    log_line(f"corpus: {total:,} pairs in `{folder}`{including}")
    files = {
        "train": [f"train.{name}" for name in names],
        "valid": [f"valid.{name}" for name in names] if valid else [],
    }
    first = next(iter(teachers.values()))
    record = DISTILLED.write(
        folder,
        asked,
        files,
        tokenizer=None if first.languages else first.tokenizers.save(folder),
        joint=first.tokenizers.joint or first.config.tie_embeddings == "all",
        counts={"originals": originals, "translations": selection.written, **left_out, "lines": lines},
    )
    return _open_corpus(folder, record)


def _read(
    request: DistillRequest, log_line: Callable[[str], object]
) -> tuple[Iterator[tuple[str, ...]], list[tuple[str, str]]]:
    """Returns the lines to translate, with their originals if the text has them, and the validation pairs."""
    if request.is_parallel:
        corpus = open_corpus(request.data)
        assert isinstance(corpus, Corpus)
        log_line(corpus.report())
        _check_lines(len(corpus))
        return corpus.train(), [] if request.data.valid_src else corpus.valid
    texts = parallel_texts(request.data, alone=True)
    found = inspect_corpus(texts, request.data, read_held_out_sources(request.data))
    found.check()
    lines = ", ".join(f"{count:,} lines in {text}" for count, text in zip(found.counts, texts, strict=True))
    log_line("\n".join([f"texts: {lines}", *(f"  {finding}" for finding in found.findings)]))
    _check_lines(int(found.used.sum()))
    return (pair[:1] for pair in found.pairs(found.used, request.data.on_bad_utf8)), []


def _check_lines(count: int) -> None:
    if not count:
        raise DataError("no line of the text is left to translate", "check the text: all lines are left out")


def _names(request: DistillRequest) -> tuple[str, str]:
    """Returns the endings of the file names: the languages in the texts' names, or `src` and `tgt`."""
    data = request.data
    sides = (("src", "valid_src"), ("tgt", "valid_tgt"))
    codes = [_code(chain.from_iterable(map(data.files, side))) or side[0] for side in sides]
    return (codes[0], codes[1]) if codes[0] != codes[1] else ("src", "tgt")


def _code(paths: Iterator[str]) -> str:
    found = (Path(path).name.removesuffix(".gz").rpartition(".")[2] for path in paths)
    return next((code for code in found if code in CODES), "")


def _open_corpus(folder: Path, record: Mapping[str, Any]) -> DistilledCorpus:
    src, tgt = (folder / name for name in record["files"]["train"])
    valid = [folder / name for name in record["files"]["valid"]]
    table = record["tokenizer"]
    tokenizers = None if table is None else TokenizerPair.load(folder, table)
    cut_off = (valid[0], valid[1]) if valid else None
    return DistilledCorpus(folder, src, tgt, cut_off, tokenizers, record["joint"], record["counts"])
