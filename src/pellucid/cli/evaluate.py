"""`pellucid evaluate`."""

from typing import Annotated

import tyro

from pellucid.cli.options import BeamSize, Device, Dtype, LengthPenalty, optional

SYSTEM = "a run folder, a model folder, or a text file of translations; - is standard input"


def evaluate(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help=SYSTEM)],
    /,
    *,
    ref: Annotated[str, tyro.conf.arg(metavar="FILE", help="the reference translations of the test")],
    src: Annotated[str | None, optional("FILE", "its source sentences, for a model to translate", "none")] = None,
    against: Annotated[str | None, optional("MODEL", "what to compare with, as MODEL", "nothing")] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    json: Annotated[bool, tyro.conf.arg(help="print one JSON object")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Translate a test set and print sacreBLEU and chrF, each with signature and 95 % confidence interval; with
    --against, compare two models on the same test by paired bootstrap resampling.

    example: pellucid evaluate run --src test.de --ref test.en
    example: pellucid evaluate run --against other-run --src test.de --ref test.en
    """
    from json import dumps

    from pellucid.evaluation.comparison import compare_outputs
    from pellucid.evaluation.scores import score_corpus
    from pellucid.workflow.evaluate import translate_test
    from pellucid.workflow.process import keep_freed_memory

    keep_freed_memory()
    systems = [model] if against is None else [model, against]
    options = {"beam_size": beam_size, "length_penalty": length_penalty}
    outputs, references = translate_test(systems, src, ref, device=device, dtype=dtype, **options)
    if against is None:
        scores = score_corpus(outputs[0], references)
        print(dumps(scores.to_json()) if json else scores.report())
        return 0
    a, b = outputs
    comparison = compare_outputs(a, b, references)
    print(dumps({"a": model, "b": against, **comparison.to_json()}) if json else comparison.report(model, against))
    return 0
