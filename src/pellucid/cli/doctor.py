"""`pellucid doctor`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import RECIPES, Device, Dtype, Revision, Settings, optional
from pellucid.cli.texts import DataDir, Sources, Targets, ValidSources, ValidTargets, text

if TYPE_CHECKING:
    from pellucid.data.doctor import Check


def doctor(
    model: Annotated[
        str,
        tyro.conf.Positional,
        optional("[MODEL]", "a run folder or a model folder, to be examined in place of a corpus", "none"),
    ] = "",
    /,
    *,
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSources = (),
    valid_tgt: ValidTargets = (),
    test_src: Annotated[str, text("source sentences of the test, to look for in the training text")] = "",
    test_tgt: Annotated[str, text("their translations")] = "",
    recipe: Annotated[
        str, tyro.conf.arg(metavar="RECIPE", help="whose texts and settings are taken"), RECIPES
    ] = "default",
    data_dir: DataDir = "",
    set: Settings = (),
    verify_resume: Annotated[
        str,
        optional("RECIPE", "train RECIPE in small, kill it at random, and compare what it comes to", "not done"),
        RECIPES,
    ] = "",
    kills: Annotated[int | None, optional("N", "with --verify-resume: how often", "3")] = None,
    minutes: Annotated[float | None, optional("N", "with --verify-resume: the most that it may take", "10")] = None,
    revision: Revision = None,
    device: Device = "cpu",
    dtype: Dtype = None,
) -> int:
    """Look at a corpus before it is paid for, at the mathematics of a model, or at whether a killed training goes on
    exactly: a line for each check, ok, note, BAD or n/a (nothing to look at), with the first place or the figure and
    what to do. Exit status 1 when something is BAD, else 0.

    example: pellucid doctor --src train.de --tgt train.en --test-src test.de --test-tgt test.en
    example: pellucid doctor run
    example: pellucid doctor --verify-resume multi30k-de-en --data-dir data --set model.d_model=64
    """
    _check(model, verify_resume, {
        "src": src, "tgt": tgt, "valid-src": valid_src, "valid-tgt": valid_tgt, "test-src": test_src,
        "test-tgt": test_tgt, "recipe": recipe if recipe != "default" else "", "data-dir": data_dir, "set": set,
    }, {"kills": kills, "minutes": minutes}, {"revision": revision, "dtype": dtype})  # fmt: skip
    if model:
        from pellucid.examining.examine import checks_of, subject_of

        return _report(checks_of(subject_of(model, device=device, dtype=dtype, revision=revision)))
    if verify_resume:
        from pellucid.data.download import say
        from pellucid.examining.resume import verify_resume as verify

        limits: dict[str, Any] = {"kills": kills, "minutes": minutes}
        return _report(verify(
            verify_resume, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, overrides=set, data_dir=data_dir,
            device=device, say=say, **{name: value for name, value in limits.items() if value is not None},
        ))  # fmt: skip
    from pellucid.data.doctor import doctor as examine

    return _report(examine(
        src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, test_src=test_src, test_tgt=test_tgt,
        recipe=recipe, overrides=set, data_dir=data_dir,
    ))  # fmt: skip


def _report(checks: Iterable["Check"]) -> int:
    """Prints each check as it is done; returns the exit status."""
    import os
    import shutil
    import sys

    from pellucid.cli.arguments import as_options

    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size().columns if terminal else 0
    bad = False
    for check in checks:
        print(as_options(check.in_words(colour, width), doctor), flush=True)
        bad = bad or check.level == "BAD"
    return int(bad)


def _check(
    model: str, recipe: str, of_texts: dict[str, object], of_resuming: dict[str, object], of_models: dict[str, object]
) -> None:
    """Raises ConfigError for options that do not go together."""
    from pathlib import Path

    from pellucid.errors import ConfigError

    if Path(model).is_file():
        raise ConfigError(f"`{model}` is a file, and a model is a folder", "a corpus is named by --src and --tgt")
    if model and recipe:
        raise ConfigError(f"a model (`{model}`) and --verify-resume are given", "give the command twice, with one each")
    kinds = {"a model": (of_texts | of_resuming) if model else {}, "a corpus": {} if model else of_models}
    if not model and not recipe:
        kinds["a corpus"] = of_models | of_resuming
    if recipe:
        unlike = {name: of_texts[name] for name in ("test-src", "test-tgt", "recipe")}
        kinds = {"--verify-resume": of_models | unlike}
    for what, options in kinds.items():
        for name, value in options.items():
            if value not in (None, "", ()):
                raise ConfigError(f"--{name} means nothing where {what} is looked at", "leave it out")
