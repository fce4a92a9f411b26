"""`pellucid distill`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    RECIPES,
    BeamSize,
    Device,
    Dtype,
    LengthPenalty,
    Settings,
    SourceLanguage,
    TargetLanguage,
    Threads,
    flag,
    optional,
    prepare_process,
)
from pellucid.cli.texts import DataDir, OnBadUtf8, Sources, ValidSource, ValidTarget

Teachers = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    optional("TEACHER [TEACHER ...]", "run or model folders, whose translations are learnt", "must be given"),
]
Targets = Annotated[
    tuple[str, ...],
    optional("FILE", "translations that people made, line by line, to be learnt beside the teacher's", "none"),
    tyro.conf.UseAppendAction,
]


def distill(
    teachers: Teachers = (),
    /,
    *,
    out: Annotated[str, optional("FOLDER", "the student's run; the same command resumes", "must be given")] = "",
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSource = "",
    valid_tgt: ValidTarget = "",
    data_dir: DataDir = "",
    without_originals: Annotated[bool, flag("learn the teacher's translations alone; --tgt is to validate on")] = False,
    corpus: Annotated[
        str, optional("FOLDER", "where the translations are kept; several students may share them", "OUT.distilled")
    ] = "",
    recipe: Annotated[
        str, tyro.conf.arg(metavar="RECIPE", help="the student's recipe: a shipped one or a TOML file"), RECIPES
    ] = "student-small",
    budget: Annotated[str, optional("TIME", "how long the student's training may take, as in 15m", "none")] = "",
    set: Settings = (),
    ensemble: Annotated[bool, flag("the teachers write as one, and not one after the other")] = False,
    n_best: Annotated[int, tyro.conf.arg(metavar="N", help="translations of each line by each teacher")] = 1,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: Annotated[int | None, optional("N", "source tokens that a teacher translates at a time")] = None,
    drop_worst: Annotated[
        float, tyro.conf.arg(metavar="X", help="the share of translations to leave out, of the lowest log-probability")
    ] = 0.05,
    length_ratio: Annotated[
        float, tyro.conf.arg(metavar="X", help="how many times longer or shorter than usual a translation may be")
    ] = 2.5,
    keep_copies: Annotated[bool, flag("learn translations that are their source, too")] = False,
    on_bad_utf8: OnBadUtf8 = "",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    fresh: Annotated[bool, flag("start over: the run and the corpus, but not translations that are there")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: Threads = None,
) -> int:
    """Train a small translator on what larger ones write: their translations of --src, then a run as `train` makes it.

    Translating may take longer than training. Stopped in either, the same command goes on; a finished run says so.
    The student has the first teacher's vocabulary, unless --set gives it one of its own: --set data.vocab_size=2000.

    example: pellucid distill run --src train.de --tgt train.en --out student
    example: pellucid distill run run-2 run-3 --ensemble --src train.de --tgt train.en --out student
    example: pellucid distill big other --src mono.de --n-best 2 --out tiny --recipe student-tiny --budget 30m
    """
    import sys
    from dataclasses import replace
    from pathlib import Path

    from pellucid.cli.ranks import check_alone
    from pellucid.cli.train import say_result
    from pellucid.config import Recipe
    from pellucid.data.locate import locate, with_texts
    from pellucid.distillation.corpus import Request, corpus_of, distil
    from pellucid.distillation.selection import Selection
    from pellucid.distillation.student import check_student, student_run
    from pellucid.distillation.teaching import Teaching
    from pellucid.errors import ConfigError
    from pellucid.run.folder import RunFolder

    check_alone("distill")

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    if not out:
        raise ConfigError("--out is not given", "name the folder for the student's run, as in `--out student`")
    loaded = Recipe.load(recipe, [*set, *([f'data.on_bad_utf8="{on_bad_utf8}"'] if on_bad_utf8 else [])])
    data = with_texts(loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt)
    place = corpus_of(Path(out)) if not corpus else Path(corpus)
    check_student(replace(loaded, data=data), Path(out), place, teachers, budget, device)
    finished = None if fresh or place.exists() else RunFolder(Path(out)).result
    if finished is not None:
        say(f"`{place}` is not there any more: what {out} was trained on is not looked at")
        say_result(out, finished)
        return 0
    teaching = Teaching(
        n_best=n_best, beam_size=beam_size, length_penalty=length_penalty, batch_tokens=batch_tokens,
        source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    selection = Selection(drop_worst=drop_worst, length_ratio=length_ratio, keep_copies=keep_copies)
    request = Request(
        teachers=teachers,
        data=locate(data, data_dir or None),
        teaching=teaching,
        selection=selection,
        ensemble=ensemble,
        originals=not without_originals,
    )
    if without_originals and not request.is_parallel:
        raise ConfigError("--without-originals has no effect: there is no --tgt", "leave it out")
    prepare_process(threads)
    distilled = distil(place, request, fresh=fresh, device=device, dtype=dtype, say=say)
    student = replace(loaded, data=request.data)
    run = student_run(student, Path(out), distilled, overrides=set, budget=budget, device=device, fresh=fresh)
    say_result(out, run.train())
    return 0
