"""`pellucid train`."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.main import COMMAND, STARTED
from pellucid.cli.options import RECIPES, Device, Settings, flag, optional
from pellucid.cli.ranks import is_restarted, one_voice, start_ranks, starts_ranks
from pellucid.cli.texts import DataDir, OnBadUtf8, Sources, Targets, ValidSources, ValidTargets

if TYPE_CHECKING:
    from pellucid.augmentation.teachers import SplitBudget
    from pellucid.run.folder import RunResult


def train(
    recipe: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[RECIPE]", help="a shipped recipe's name or a TOML file"),
        RECIPES,
    ] = "default",
    /,
    *,
    out: Annotated[str, optional("FOLDER", "the run folder; the same command resumes there", "must be given")] = "",
    budget: Annotated[str, optional("TIME", "how long all of it may take, as in 15m; the rest follows", "none")] = "",
    plan: Annotated[bool, flag("with --budget: print the plan, and train nothing")] = False,
    teachers: Annotated[
        int | None, optional("N", "with --budget: train so many first, and the run on what they write together", "none")
    ] = None,
    back_teachers: Annotated[
        int, optional("N", "with --teachers: as many of the other direction, whose sources the run learns, too", "0")
    ] = 0,
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSources = (),
    valid_tgt: ValidTargets = (),
    on_bad_utf8: OnBadUtf8 = "",
    data_dir: DataDir = "",
    offline: Annotated[bool, flag("never connect: a recipe's texts must be on this machine")] = False,
    init_from: Annotated[str, optional("MODEL", "a run or model folder to go on from", "random weights")] = "",
    src_lang: Annotated[
        tuple[str, ...],
        optional("CODE", "the language of the sources, for a model of several; again for another corpus"),
        tyro.conf.UseAppendAction,
    ] = (),
    tgt_lang: Annotated[tuple[str, ...], optional("CODE", "the same of the targets"), tyro.conf.UseAppendAction] = (),
    add_language: Annotated[
        tuple[str, ...],
        optional("CODE", "one of them that the model of --init-from does not know yet", "none"),
        tyro.conf.UseAppendAction,
    ] = (),
    set: Settings = (),
    fresh: Annotated[bool, flag("start over: remove an earlier run from the folder")] = False,
    device: Device = "auto",
    ranks: Annotated[
        int | None, optional("N", "processes that train together on this machine, started by torchrun", "1")
    ] = None,
    max_restarts: Annotated[
        int, optional("N", "where a rank fails, go on from the last checkpoint, so many times", "0")
    ] = 0,
) -> int:
    """Train a translator into a run folder. The same command resumes, or --out alone; on a finished run it says so.

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

    from pellucid.augmentation.teachers import SplitBudget
    from pellucid.config import Recipe
    from pellucid.data.locate import locate, with_texts
    from pellucid.run.folder import RunFolder
    from pellucid.run.run import Run

    _check(out, budget, plan)
    if teachers is not None or back_teachers:
        _check_teachers(teachers, ranks, max_restarts, src_lang or tgt_lang)
    if starts_ranks(ranks, max_restarts) and not plan:
        return start_ranks(COMMAND, ranks, max_restarts)
    with one_voice():
        _check_recipe(recipe, src, tgt)
        of_corpora: dict[str, Any] = {"src_lang": src_lang, "tgt_lang": tgt_lang, "add_language": add_language}
        one_pair = not add_language and max(len(src_lang), len(tgt_lang)) < 2  # of a model that knows it
        named = any(
            (recipe != "default", set, src, tgt, valid_src, valid_tgt, on_bad_utf8, init_from, budget, not one_pair)
        )
        loaded = None if named else RunFolder(Path(out)).recipe
        if loaded is None:
            loaded = Recipe.load(recipe, [*set, *([f'data.on_bad_utf8="{on_bad_utf8}"'] if on_bad_utf8 else [])])
            data = with_texts(loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt)
            if not one_pair:
                data = replace(data, **{name: codes for name, codes in of_corpora.items() if codes})
            loaded = replace(loaded, data=data)
        split = SplitBudget.begun(Path(out)) if out and not named else None
        if teachers is not None:
            located = replace(loaded, data=locate(loaded.data, data_dir or None, fetch=not offline))
            located = replace(located, train=replace(located.train, init_from=init_from or located.train.init_from))
            split = SplitBudget(
                recipe=located, teachers=teachers, budget=budget, overrides=set, back_teachers=back_teachers
            )
        if split is not None:
            return _train_by_teachers(split, out, plan=plan, fresh=fresh, device=device)
        options: dict[str, Any] = {
            "overrides": set, "data_dir": data_dir, "offline": offline, "init_from": init_from, "device": device,
        }  # fmt: skip
        if one_pair:
            options |= {"source_language": next(iter(src_lang), None), "target_language": next(iter(tgt_lang), None)}
        if plan:
            print(Run(loaded, None, budget=budget, quiet=True, **options).plan)
        else:
            fresh = fresh and not is_restarted()
            run = Run(loaded, out, budget=budget, started=STARTED, fresh=fresh, **options)
            result = run.train()
            if run.ranks.is_first:
                say_result(out, result)
    return 0


def _train_by_teachers(split: "SplitBudget", out: str, *, plan: bool, fresh: bool, device: str) -> int:
    import sys
    from functools import partial
    from pathlib import Path

    from pellucid.augmentation.teachers import train_by_teachers
    from pellucid.cli.ranks import check_alone

    if plan:
        print(split.plan(device))
        return 0
    check_alone("train --teachers")
    say = partial(print, file=sys.stderr)
    say_result(out, train_by_teachers(split, Path(out), device=device, fresh=fresh, started=STARTED, say=say))
    return 0


def _check(out: str, budget: str, plan: bool) -> None:
    """Raises ConfigError for options that do not go together."""
    from pellucid.errors import ConfigError

    if plan and not budget:
        raise ConfigError("--plan needs a time to plan for", "add --budget, as in `--budget 15m --plan`")
    if not out and not plan:
        raise ConfigError("--out is not given", "name the folder for the run, as in `--out run`")


def _check_teachers(teachers: int | None, ranks: int | None, max_restarts: int, languages: tuple[str, ...]) -> None:
    """Raises ConfigError for options that do not go together with --teachers."""
    from pellucid.errors import ConfigError

    if teachers is None:
        raise ConfigError("--back-teachers write beside teachers, and --teachers is not given", "add `--teachers 3`")
    if (ranks or 1) > 1 or max_restarts:
        raise ConfigError(
            "--teachers trains them in one process, and --ranks or --max-restarts starts others",
            "leave one of them out",
        )
    if languages:
        raise ConfigError(
            "--teachers trains them for one pair of languages, and --src-lang and --tgt-lang are for several",
            "leave one of them out",
        )


def _check_recipe(recipe: str, src: tuple[str, ...], tgt: tuple[str, ...]) -> None:
    """Raises ConfigError for a text that stands where a recipe may stand: `--src a.de b.en`."""
    from pathlib import Path

    from pellucid.config import shipped_recipes
    from pellucid.errors import ConfigError

    if recipe not in shipped_recipes() and Path(recipe).suffix != ".toml" and (src or tgt):
        option = "--tgt" if src and not tgt else "--src"
        raise ConfigError(
            f"`{recipe}` is not a recipe: neither a TOML file nor a shipped recipe",
            f"each text has an option of its own: {option} {recipe}",
        )


def say_result(out: str, result: "RunResult") -> None:
    """Says what the run came to, and what the reader should know of a finished one."""
    import sys

    finished = "already finished, nothing to do;" if result.already_finished else "finished after"
    bleu = "" if result.valid_bleu is None else f", validation BLEU {result.valid_bleu:.2f}"
    if result.valid_accuracy is not None:
        bleu = f", validation accuracy {100 * result.valid_accuracy:.2f} %"
    early = ", ended early by `train.patience`" if result.stopped_early else ""
    kept = f"; the model is {result.kept}" if result.kept else ""
    summary = f"{finished} {result.steps:,} steps{early}, validation loss {result.valid_loss:.3f}{bleu}{kept}"
    print(f"{out}: {summary}", file=sys.stderr)
    for path in result.changed_texts:
        print(f"warning: `{path}` is not what {out} was trained on; to train on it, use --fresh", file=sys.stderr)
