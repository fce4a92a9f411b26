"""`pellucid classify`."""

from typing import Annotated

from pellucid.cli.options import (
    Device,
    Dtype,
    FreshOutput,
    Input,
    Model,
    OnBadLines,
    Output,
    Revision,
    Text,
    at_revision,
    flag,
    optional,
)


def classify(
    model: Model,
    text: Text = None,
    /,
    *,
    input: Input = "-",
    output: Output = "-",
    on_bad_utf8: OnBadLines = "error",
    fresh: FreshOutput = False,
    pairs: Annotated[bool, flag("each line is two texts, with a tab between them")] = False,
    batch_tokens: Annotated[int | None, optional("N", "tokens of all texts at a time")] = None,
    json: Annotated[bool, flag("a JSON object a line, with the probability of each label")] = False,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Label texts, one a line: as many labels come out as lines went in, in their order.

    example: pellucid classify run < texts.txt > labels.txt
    """
    from pellucid.streams.classify import classify_stream
    from pellucid.streams.streams import text_stream

    model = at_revision(model, revision)

    classify_stream(
        model,
        text_stream(text, input, output, on_bad_utf8, fresh),
        pairs=pairs,
        batch_tokens=batch_tokens,
        as_json=json,
        device=device,
        dtype=dtype,
    )
    return 0
