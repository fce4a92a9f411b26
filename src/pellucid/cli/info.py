"""`pellucid info`."""

from typing import Annotated

from pellucid.cli.options import (
    Device,
    Dtype,
    Model,
    Revision,
    SourceLanguage,
    TargetLanguage,
    at_revision,
    flag,
    optional,
)


def info(
    model: Model,
    /,
    *,
    tensors: Annotated[bool, flag("list each tensor with its shape")] = False,
    walk: Annotated[str, optional("TEXT", "print each step of a pass for this text", "no walk")] = "",
    target: Annotated[str, optional("TEXT", "with --walk: its translation", "the model's own")] = "",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Say what a model is: its task, shape, vocabulary and size, what a run was trained on and what it came to. Or list
    its tensors; or walk through a real pass from the ids to the most probable tokens, with shapes and numbers.

    example: pellucid info run
    example: pellucid info run --tensors
    example: pellucid info run --walk "Ein Hund läuft."
    """
    from pellucid.errors import ConfigError
    from pellucid.run.info import describe
    from pellucid.tasks.task import open_model
    from pellucid.views.walk import list_parameters, walk_pass

    given = {"--target": target, "--src-lang": src_lang, "--tgt-lang": tgt_lang}
    for option in (name for name, value in given.items() if value and not walk):
        raise ConfigError(f"`{option}` means nothing without --walk", f"leave {option} out, or add --walk TEXT")
    if tensors and walk:
        raise ConfigError("`--tensors` and `--walk` exclude each other", "leave one out")
    model = at_revision(model, revision)
    saved = open_model(model, device, dtype)
    if walk:
        lines = walk_pass(saved, walk, target, src_lang, tgt_lang)
    else:
        lines = list_parameters(saved.model) if tensors else describe(model, saved)
    print("\n".join(lines))
    return 0
