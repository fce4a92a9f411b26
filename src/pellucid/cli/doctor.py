"""`pellucid doctor`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import RECIPES, Device, Dtype, Revision, Settings, optional
from pellucid.cli.text_options import DataDir, Sources, Targets, ValidSources, ValidTargets, text
from pellucid.terminal import log_line

if TYPE_CHECKING:
    from pellucid.data.doctor import CorpusCheck


def doctor(
    model: Annotated[
        str,
        tyro.conf.Positional,
        optional("[MODEL]", "run folder or model folder to check, instead of a corpus", "none"),
    ] = "",
    /,
    *,
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSources = (),
    valid_tgt: ValidTargets = (),
    test_src: Annotated[str, text("source sentences of the test set, to find in the training text")] = "",
    test_tgt: Annotated[str, text("their translations")] = "",
    recipe: Annotated[
        str, tyro.conf.arg(metavar="RECIPE", help="a shipped recipe or a TOML file, for texts and settings"), RECIPES
    ] = "default",
    data_dir: DataDir = "",
    set: Settings = (),
    verify_resume: Annotated[
        str,
        optional(
            "RECIPE", "train a small version of RECIPE, kill it at random times, and compare the results", "not checked"
        ),
        RECIPES,
    ] = "",
    num_kills: Annotated[int | None, optional("N", "with --verify-resume: number of kills", "3")] = None,
    max_minutes: Annotated[float | None, optional("N", "with --verify-resume: time limit in minutes", "10")] = None,
    revision: Revision = None,
    device: Device = "cpu",
    dtype: Dtype = None,
) -> int:
    """Check a corpus before training, the mathematics of a model, or whether an interrupted training resumes exactly.

    Each check prints a line: ok, note, BAD or n/a (nothing to check), with the first place of an issue or the figure,
    and what to do. The exit status is 1 if a check is BAD, else 0.

    example: pellucid doctor --src train.de --tgt train.en --test-src test.de --test-tgt test.en
    example: pellucid doctor run
    example: pellucid doctor --verify-resume multi30k-de-en --data-dir data --set model.d_model=64
    """
    _check(model, verify_resume, {
        "src": src, "tgt": tgt, "valid-src": valid_src, "valid-tgt": valid_tgt, "test-src": test_src,
        "test-tgt": test_tgt, "recipe": recipe if recipe != "default" else "", "data-dir": data_dir, "set": set,
    }, {"num-kills": num_kills, "max-minutes": max_minutes}, {"revision": revision, "dtype": dtype})  # fmt: skip
    if model:
        from pellucid.model_checks.examine import open_subject, run_checks

        return _report(run_checks(open_subject(model, device=device, dtype=dtype, revision=revision)))
    if verify_resume:
        from pellucid.model_checks.resume import verify_resume as verify

        limits: dict[str, Any] = {"num_kills": num_kills, "max_minutes": max_minutes}
        return _report(verify(
            verify_resume, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, overrides=set, data_dir=data_dir,
            device=device, log_line=log_line, **{name: value for name, value in limits.items() if value is not None},
        ))  # fmt: skip
    from pellucid.data.doctor import check_corpus as examine

    return _report(examine(
        src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, test_src=test_src, test_tgt=test_tgt,
        recipe=recipe, overrides=set, data_dir=data_dir,
    ))  # fmt: skip


def _report(checks: Iterable["CorpusCheck"]) -> int:
    """Prints each check as it is done; returns the exit status."""
    import os
    import shutil
    import sys

    from pellucid.cli.arguments import rename_parameters

    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size().columns if terminal else 0
    bad = False
    for check in checks:
        words = rename_parameters(check.to_text(colour, width), doctor)
        print(words.replace("set `data.", "`--set data."), flush=True)
        bad = bad or check.level == "BAD"
    return int(bad)


def _check(
    model: str, recipe: str, of_texts: dict[str, object], of_resuming: dict[str, object], of_models: dict[str, object]
) -> None:
    """Raises ConfigError for options that do not go together."""
    from pathlib import Path

    from pellucid.errors import ConfigError

    if Path(model).is_file():
        raise ConfigError(
            f"`{model}` is a file, but a model is a folder", "name the files of a corpus by --src and --tgt"
        )
    if model and recipe:
        raise ConfigError(
            f"a model (`{model}`) and --verify-resume cannot be checked together",
            "run the command twice, with one each",
        )
    kinds = {"a model": (of_texts | of_resuming) if model else {}, "a corpus": {} if model else of_models}
    if not model and not recipe:
        kinds["a corpus"] = of_models | of_resuming
    if recipe:
        unlike = {name: of_texts[name] for name in ("test-src", "test-tgt", "recipe")}
        kinds = {"a recipe with --verify-resume": of_models | unlike}
    for kind, options in kinds.items():
        for name, value in options.items():
            if value not in (None, "", ()):
                raise ConfigError(f"--{name} has no effect when checking {kind}", "leave it out")
