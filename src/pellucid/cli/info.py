"""`pellucid info`."""

from typing import Annotated

from pellucid.cli.options import Device, Dtype, Model, SourceLanguage, TargetLanguage, optional


def info(
    model: Model,
    /,
    *,
    walk: Annotated[str, optional("TEXT", "print each step of a pass for this text", "no walk")] = "",
    target: Annotated[str, optional("TEXT", "with --walk: its translation", "the model's own")] = "",
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
