"""`pellucid distill`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    RECIPES,
    Device,
    Dtype,
    Settings,
    SourceLanguage,
    TargetLanguage,
    Threads,
    flag,
    mandatory,
    optional,
    prepare_process,
)
from pellucid.cli.search_options import BeamSize, LengthPenalty
from pellucid.cli.text_options import DataDir, DropWorst, LengthRatio, OnBadUtf8, Sources, ValidSource, ValidTarget
from pellucid.terminal import log_line

Teachers = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    mandatory("TEACHER [TEACHER ...]", "run or model folders of the teachers"),
]
Targets = Annotated[
    tuple[str, ...],
    optional(
        "FILE", "human translations, line by line: training data in addition to the teachers' translations", "none"
    ),
    tyro.conf.UseAppendAction,
]


def distill(
    teachers: Teachers = (),
    /,
    *,
    out: Annotated[str, mandatory("FOLDER", "run folder of the student; the same command resumes")] = "",
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSource = "",
    valid_tgt: ValidTarget = "",
    data_dir: DataDir = "",
    teacher_only: Annotated[
        bool, flag("train only on the teachers' translations, and use --tgt only for validation")
    ] = False,
    corpus: Annotated[
        str,
        optional(
            "FOLDER", "where the teachers' translations are stored; several students can share them", "OUT.distilled"
        ),
    ] = "",
    recipe: Annotated[
        str, tyro.conf.arg(metavar="RECIPE", help="the student's recipe: a shipped one or a TOML file"), RECIPES
    ] = "student-small",
    budget: Annotated[str, optional("TIME", "time limit of the student's training, as in 15m", "none")] = "",
    set: Settings = (),
    ensemble: Annotated[bool, flag("the teachers translate together as an ensemble, instead of separately")] = False,
    n_best: Annotated[int, tyro.conf.arg(metavar="N", help="translations per line and teacher")] = 1,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: Annotated[int | None, optional("N", "source tokens per batch of a teacher")] = None,
    drop_worst: DropWorst = 0.05,
    length_ratio: LengthRatio = 2.5,
    keep_copies: Annotated[bool, flag("keep translations that are equal to their source")] = False,
    on_bad_utf8: OnBadUtf8 = "",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    fresh: Annotated[bool, flag("start the run and its corpus again, but keep existing translations")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: Threads = None,
) -> int:
    """Knowledge distillation: larger models (the teachers) translate --src, then a small model (the student) is trained
    on their translations, as by `train`.

    Translating may take longer than training. If the command is interrupted, run the same command again to resume. The
    student has the vocabulary of the first teacher, unless --set changes it, as in --set data.vocab_size=2000.

    example: pellucid distill run --src train.de --tgt train.en --out student
    example: pellucid distill run run-2 run-3 --ensemble --src train.de --tgt train.en --out student
    example: pellucid distill big other --src mono.de --n-best 2 --out tiny --recipe student-tiny --budget 30m
    """
    from dataclasses import replace
    from pathlib import Path

    from pellucid.cli.ranks import check_alone
    from pellucid.cli.train import say_result
    from pellucid.config import Recipe
    from pellucid.data.locate import override_paths, resolve_paths
    from pellucid.errors import ConfigError
    from pellucid.run.folder import RunFolder
    from pellucid.synthetic_data.distillation import DistillRequest, distill_corpus, get_corpus_folder
    from pellucid.synthetic_data.selection import TranslationFilter
    from pellucid.synthetic_data.student import check_student, student_run
    from pellucid.tasks.search_options import SearchOptions

    check_alone("distill")

    if not out:
        raise ConfigError("--out is missing", "name the run folder of the student, as in `--out student`")
    loaded = Recipe.load(recipe, [*set, *([f'data.on_bad_utf8="{on_bad_utf8}"'] if on_bad_utf8 else [])])
    data = override_paths(loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt)
    place = get_corpus_folder(Path(out)) if not corpus else Path(corpus)
    check_student(replace(loaded, data=data), Path(out), place, teachers, budget, device)
    finished = None if fresh or place.exists() else RunFolder(Path(out)).result
    if finished is not None:
        log_line(f"`{place}` is missing: whether the training data of {out} has changed is not checked")
        say_result(out, finished)
        return 0
    teaching = SearchOptions(
        n_best=n_best, beam_size=beam_size, length_penalty=length_penalty, batch_tokens=batch_tokens,
        source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    selection = TranslationFilter(drop_worst=drop_worst, length_ratio=length_ratio, keep_copies=keep_copies)
    request = DistillRequest(
        teachers=teachers,
        data=resolve_paths(data, data_dir or None),
        teaching=teaching,
        selection=selection,
        ensemble=ensemble,
        originals=not teacher_only,
    )
    if teacher_only and not request.is_parallel:
        raise ConfigError("--teacher-only has no effect without --tgt", "leave it out")
    prepare_process(threads)
    distilled = distill_corpus(place, request, fresh=fresh, device=device, dtype=dtype, log_line=log_line)
    student = replace(loaded, data=request.data)
    run = student_run(student, Path(out), distilled, overrides=set, budget=budget, device=device, fresh=fresh)
    say_result(out, run.train())
    return 0
