"""`pellucid evaluate`."""

from typing import Annotated

import tyro

from pellucid.cli.options import BeamSize, Device, Dtype, LengthPenalty, Model


def evaluate(
    model: Model,
    /,
    *,
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences of the test")],
    ref: Annotated[str, tyro.conf.arg(metavar="FILE", help="their reference translations")],
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    json: Annotated[bool, tyro.conf.arg(help="print one JSON object")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Translate a test set and print sacreBLEU and chrF, each with signature and 95 % confidence interval.

    example: pellucid evaluate run --src test.de --ref test.en
    """
    from json import dumps

    from pellucid.data.corpus import read_pairs
    from pellucid.tasks.translator import Translator
    from pellucid.workflow.evaluate import evaluate as evaluate_translator
    from pellucid.workflow.process import keep_freed_memory

    keep_freed_memory()
    sources, references = zip(*read_pairs(src, ref), strict=True)
    translator = Translator.load(model, device, dtype)
    scores = evaluate_translator(translator, sources, references, beam_size=beam_size, length_penalty=length_penalty)
    print(dumps(scores.to_json()) if json else scores.report())
    return 0
