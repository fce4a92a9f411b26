"""`pellucid train`."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.main import COMMAND, STARTED
from pellucid.cli.options import RECIPES, Device, Settings, flag, mandatory, optional
from pellucid.cli.ranks import is_restarted, report_once, should_start_ranks, start_ranks
from pellucid.cli.text_options import DataDir, OnBadUtf8, Sources, Targets, ValidSources, ValidTargets
from pellucid.terminal import log_line, show

if TYPE_CHECKING:
    from pellucid.run.folder import RunResult
    from pellucid.synthetic_data.teachers import TeacherBudget

LOW_BLEU = 5
"""The validation BLEU below which a translator's outputs are of no use, and more training is recommended."""


def train(
    recipe: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[RECIPE]", help="name of a shipped recipe, or a TOML file"),
        RECIPES,
    ] = "default",
    /,
    *,
    out: Annotated[str, mandatory("FOLDER", "run folder; the same command resumes there")] = "",
    budget: Annotated[
        str, optional("TIME", "total time limit, as in 15m; the other settings are chosen to fit", "none")
    ] = "",
    dry_run: Annotated[bool, flag("with --budget: only print the plan, without training")] = False,
    teachers: Annotated[
        int | None,
        optional(
            "N", "with --budget: train N teacher models first, then this run on their ensemble translations", "none"
        ),
    ] = None,
    back_teachers: Annotated[
        int,
        optional(
            "N", "with --teachers: also train N models of the reverse direction, and add their back-translations", "0"
        ),
    ] = 0,
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSources = (),
    valid_tgt: ValidTargets = (),
    on_bad_utf8: OnBadUtf8 = "",
    data_dir: DataDir = "",
    offline: Annotated[bool, flag("do not download: the recipe's texts must be on this machine")] = False,
    init_from: Annotated[
        str, optional("MODEL", "run or model folder to initialize from (fine-tuning)", "random weights")
    ] = "",
    src_lang: Annotated[
        tuple[str, ...],
        optional(
            "CODE",
            "language of the sources, for the model's description and a multilingual model's tags; may be repeated, "
            "once per corpus",
            "from the recipe, or the names of the texts, as in train.de",
        ),
        tyro.conf.UseAppendAction,
    ] = (),
    tgt_lang: Annotated[
        tuple[str, ...], optional("CODE", "the same for the targets", "the same"), tyro.conf.UseAppendAction
    ] = (),
    add_language: Annotated[
        tuple[str, ...],
        optional("CODE", "a language of these that is new to the model of --init-from; may be repeated", "none"),
        tyro.conf.UseAppendAction,
    ] = (),
    set: Settings = (),
    fresh: Annotated[bool, flag("start again: remove an earlier run from the folder")] = False,
    device: Device = "auto",
    ranks: Annotated[
        int | None, optional("N", "distributed training: number of processes on this machine, started by torchrun", "1")
    ] = None,
    max_restarts: Annotated[
        int, optional("N", "if a process fails, restart from the last checkpoint, at most N times", "0")
    ] = 0,
) -> int:
    """Train a model and write it to a run folder. To resume an interrupted run, run the same command again, or give
    only --out; a finished run is not changed.

    example: pellucid train --src train.de --tgt train.en --out run
    example: pellucid train --src train.de --tgt train.en --out run --budget 15m
    example: pellucid train --src train.de --tgt train.en --out run --budget 1h --teachers 3
    example: pellucid train --src train.de --tgt train.en --out run --budget 3h --teachers 3 --back-teachers 2
    example: pellucid train multi30k-de-en --data-dir data --out run --set train.steps=500
    example: pellucid train --src train.de --tgt train.en --out run --ranks 2
    example: pellucid train --init-from run --src new.de --tgt new.en --out tuned --set train.steps=2000
    example: pellucid train --init-from run --add-language cs --src cs --tgt en --src-lang cs --tgt-lang en --out more
    example: pellucid train --init-from nllb --src-lang deu_Latn --tgt-lang fra_Latn --src a.de --tgt a.fr --out tuned
    """
    from dataclasses import replace
    from pathlib import Path

    from pellucid.config import Recipe
    from pellucid.data.locate import override_paths, resolve_paths
    from pellucid.run.folder import RunFolder
    from pellucid.run.run import Run
    from pellucid.synthetic_data.teachers import TeacherBudget

    _check(out, budget, dry_run)
    if teachers is not None or back_teachers:
        _check_teachers(teachers, ranks, max_restarts, src_lang or tgt_lang)
    if should_start_ranks(ranks, max_restarts) and not dry_run:
        return start_ranks(COMMAND, ranks, max_restarts)
    with report_once():
        _check_recipe(recipe, src, tgt)
        of_corpora: dict[str, Any] = {"src_lang": src_lang, "tgt_lang": tgt_lang, "add_language": add_language}
        one_pair = (
            not add_language and max(len(src_lang), len(tgt_lang)) < 2
        )  # one language pair of an existing multilingual model
        named = any(
            (recipe != "default", set, src, tgt, valid_src, valid_tgt, on_bad_utf8, init_from, budget, not one_pair)
        )
        loaded = None if named else RunFolder(Path(out)).recipe
        if loaded is None:
            loaded = Recipe.load(recipe, [*set, *([f'data.on_bad_utf8="{on_bad_utf8}"'] if on_bad_utf8 else [])])
            data = override_paths(loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt)
            if not one_pair:
                data = replace(data, **{name: codes for name, codes in of_corpora.items() if codes})
            loaded = replace(loaded, data=data)
        split = TeacherBudget.load(Path(out)) if out and not named else None
        if teachers is not None:
            located = replace(loaded, data=resolve_paths(loaded.data, data_dir or None, fetch=not offline))
            located = replace(located, train=replace(located.train, init_from=init_from or located.train.init_from))
            split = TeacherBudget(
                recipe=located, teachers=teachers, budget=budget, overrides=set, back_teachers=back_teachers
            )
        if split is not None:
            return _train_by_teachers(split, out, dry_run=dry_run, fresh=fresh, device=device)
        options: dict[str, Any] = {
            "overrides": set, "data_dir": data_dir, "offline": offline, "init_from": init_from, "device": device,
        }  # fmt: skip
        if one_pair:
            options |= {"source_language": next(iter(src_lang), None), "target_language": next(iter(tgt_lang), None)}
        if dry_run:
            show(Run(loaded, None, budget=budget, quiet=True, **options).plan)
        else:
            fresh = fresh and not is_restarted()
            run = Run(loaded, out, budget=budget, started=STARTED, fresh=fresh, **options)
            result = run.train()
            if run.ranks.is_first:
                say_result(out, result)
    return 0


def _train_by_teachers(split: "TeacherBudget", out: str, *, dry_run: bool, fresh: bool, device: str) -> int:
    from pathlib import Path

    from pellucid.cli.ranks import check_alone
    from pellucid.synthetic_data.teachers import train_with_teachers

    if dry_run:
        show(split.plan(device))
        return 0
    check_alone("train --teachers")
    say_result(
        out, train_with_teachers(split, Path(out), device=device, fresh=fresh, started=STARTED, log_line=log_line)
    )
    return 0


def _check(out: str, budget: str, dry_run: bool) -> None:
    """Raises ConfigError for options that cannot be combined."""
    from pellucid.errors import ConfigError

    if dry_run and not budget:
        raise ConfigError("--dry-run requires --budget", "add a time, as in `--budget 15m --dry-run`")
    if not out and not dry_run:
        raise ConfigError("--out is missing", "name the run folder, as in `--out run`")


def _check_teachers(teachers: int | None, ranks: int | None, max_restarts: int, languages: tuple[str, ...]) -> None:
    """Raises ConfigError for options that cannot be combined with --teachers."""
    from pellucid.errors import ConfigError

    if teachers is None:
        raise ConfigError("--back-teachers requires --teachers", "add `--teachers 3`")
    if (ranks or 1) > 1 or max_restarts:
        raise ConfigError(
            "--teachers trains in one process, so --ranks and --max-restarts cannot be used",
            "leave one of them out",
        )
    if languages:
        raise ConfigError(
            "--teachers trains for one language pair, so --src-lang and --tgt-lang cannot be used",
            "leave one of them out",
        )


def _check_recipe(recipe: str, src: tuple[str, ...], tgt: tuple[str, ...]) -> None:
    """Raises ConfigError for a text in the place of a recipe: `--src a.de b.en`."""
    from pathlib import Path

    from pellucid.config import list_shipped_recipes
    from pellucid.errors import ConfigError

    if recipe not in list_shipped_recipes() and Path(recipe).suffix != ".toml" and (src or tgt):
        option = "--tgt" if src and not tgt else "--src"
        raise ConfigError(
            f"`{recipe}` is not a recipe: neither a TOML file nor a shipped recipe",
            f"give each text its own option: {option} {recipe}",
        )


def say_result(out: str, result: "RunResult") -> None:
    """Reports the result of a run, the next steps, and whether the texts of a finished run have changed."""

    finished = "already finished, nothing to do;" if result.already_finished else "finished after"
    bleu = "" if result.valid_bleu is None else f", validation BLEU {result.valid_bleu:.2f}"
    if result.valid_accuracy is not None:
        bleu = f", validation accuracy {100 * result.valid_accuracy:.2f} %"
    early = ", ended early by `train.patience`" if result.stopped_early else ""
    kept = f"; the model is {result.kept}" if result.kept else ""
    summary = f"{finished} {result.steps:,} steps{early}, validation loss {result.valid_loss:.3f}{bleu}{kept}"
    log_line(f"{out}: {summary}")
    if not result.already_finished:
        if result.valid_bleu is not None and result.valid_bleu < LOW_BLEU:
            log_line(
                f"note: a BLEU below {LOW_BLEU} is too low for use: train longer (`--budget`, `--set train.steps=`)"
            )
        for line in ("next:", *_next_steps(out)):
            log_line(line)
    for path in result.changed_texts:
        log_line(f"warning: `{path}` has changed since {out} was trained; to train on it, use --fresh")


def _next_steps(out: str) -> list[str]:
    """Returns commands to use the trained model, one per line."""
    from shlex import quote

    from pellucid.tasks.task import detect_task

    run, page = quote(out), quote(f"{out.rstrip('/')}.html")
    return [
        f'  pellucid {detect_task(out).name} {run} "TEXT"',
        f'  pellucid inspect {run} "TEXT" -o look.html',
        f"  pellucid convert {run} {page} --to page",
    ]
