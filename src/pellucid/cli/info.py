"""`pellucid info`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, Dtype, Model


def info(
    model: Model,
    /,
    *,
    walk: Annotated[str, tyro.conf.arg(metavar="TEXT", help="print each step of a pass for this sentence")] = "",
    target: Annotated[str, tyro.conf.arg(metavar="TEXT", help="with --walk: its translation; else the model's")] = "",
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """List a model's parameters with their shapes, or walk through a real pass from the ids to the logits.

    example: pellucid info run
    example: pellucid info run --walk "Ein Hund läuft."
    """
    from pellucid.inspection.walk import list_parameters, walk_pass
    from pellucid.tasks.translator import Translator

    translator = Translator.load(model, device, dtype)
    lines = walk_pass(translator, walk, target) if walk else list_parameters(translator.model)
    print("\n".join(lines))
    return 0
