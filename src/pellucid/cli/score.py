"""`pellucid score`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, Dtype, Model


def score(
    model: Model,
    /,
    *,
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences, one a line")],
    tgt: Annotated[str, tyro.conf.arg(metavar="FILE", help="their translations, line by line")],
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print the log-probability of each translation given its source, end token included: one number a line.

    example: pellucid score run --src test.de --tgt test.en > scores.txt
    """
    from pellucid.tasks.translator import Translator
    from pellucid.workflow.evaluate import read_columns

    columns = read_columns([src, tgt])
    for value in Translator.load(model, device, dtype).score(columns[src], columns[tgt]):
        print(f"{value:.4f}")
    return 0
