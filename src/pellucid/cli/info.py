"""`pellucid info`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, Dtype, Model, SourceLanguage, TargetLanguage


def info(
    model: Model,
    /,
    *,
    walk: Annotated[str, tyro.conf.arg(metavar="TEXT", help="print each step of a pass for this text")] = "",
    target: Annotated[str, tyro.conf.arg(metavar="TEXT", help="with --walk: its translation; else the model's")] = "",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """List a model's parameters with their shapes, or walk through a real pass from the ids to the logits.

    example: pellucid info run
    example: pellucid info run --walk "Ein Hund läuft."
    """
    from pellucid.errors import ConfigError
    from pellucid.inspection.walk import list_parameters, walk_pass
    from pellucid.tasks.saved import open_model

    given = {"--target": target, "--src-lang": src_lang, "--tgt-lang": tgt_lang}
    for option in (name for name, value in given.items() if value and not walk):
        raise ConfigError(f"`{option}` means nothing without --walk", f"leave {option} out, or add --walk TEXT")
    saved = open_model(model, device, dtype)
    lines = walk_pass(saved, walk, target, src_lang, tgt_lang) if walk else list_parameters(saved.model)
    print("\n".join(lines))
    return 0
