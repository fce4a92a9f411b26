"""`pellucid evaluate`."""

from typing import Annotated

import tyro

from pellucid.cli.options import BeamSize, Device, Dtype, LengthPenalty, optional

SYSTEM = "a run folder, a model folder, or a text file of translations; - is standard input"


def evaluate(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help=SYSTEM)],
    /,
    *,
    ref: Annotated[
        str | None, optional("FILE", "the reference translations of the test, or its labels", "none")
    ] = None,
    src: Annotated[str | None, optional("FILE", "its source sentences, or its texts, for a model", "none")] = None,
    against: Annotated[str | None, optional("MODEL", "what to compare with, as MODEL", "nothing")] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    text: Annotated[
        str | None, optional("WORD", "of a language model: score lines, or a running text", "as it was trained")
    ] = None,
    json: Annotated[bool, tyro.conf.arg(help="print one JSON object")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Translate a test set and print sacreBLEU and chrF, each with signature and 95 % confidence interval; with
    --against, compare two models on the same test by paired bootstrap resampling. Of a classifier it prints accuracy
    and F1, of a language model the loss a token, perplexity and bits a byte of a text.

    example: pellucid evaluate run --src test.de --ref test.en
    example: pellucid evaluate run --against other-run --src test.de --ref test.en
    example: pellucid evaluate classifier --src test.tsv
    """
    from json import dumps

    from pellucid.errors import ConfigError
    from pellucid.evaluation.comparison import compare_outputs
    from pellucid.evaluation.scores import score_corpus
    from pellucid.workflow.evaluate import translate_test
    from pellucid.workflow.measure import measure_labels, measure_text, task_in
    from pellucid.workflow.process import keep_freed_memory

    keep_freed_memory()
    task = task_in(model)
    if task in ("classify", "generate"):
        if src is None:
            raise ConfigError(f"`{model}` needs a text to be scored on", "name its file with --src")
        if against is not None:
            raise ConfigError("--against compares translators alone", "evaluate one model after the other")
        found = (
            measure_labels(model, src, ref, device=device, dtype=dtype)
            if task == "classify"
            else measure_text(model, src, text, device=device, dtype=dtype)
        )
        print(dumps(found.to_json()) if json else found.report())
        return 0
    if ref is None:
        raise ConfigError("the reference translations are not given: `--ref FILE`", "name their file")
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
