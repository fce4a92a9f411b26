"""`pellucid evaluate`."""

from typing import TYPE_CHECKING, Annotated

import tyro

from pellucid.cli.options import BeamSize, Device, Dtype, LengthPenalty, SourceLanguage, TargetLanguage, optional

if TYPE_CHECKING:
    from pellucid.evaluation.label_scores import LabelScores
    from pellucid.evaluation.text_scores import TextScores

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
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
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
    from pellucid.workflow.measure import task_in
    from pellucid.workflow.process import keep_freed_memory

    keep_freed_memory()
    task = task_in(model)
    if task != "translate":
        translating = {
            "--against": against, "--src-lang": src_lang, "--tgt-lang": tgt_lang, "--beam-size": beam_size,
            "--length-penalty": length_penalty,
        }  # fmt: skip
        for option in (name for name, value in translating.items() if value is not None):
            raise ConfigError(f"`{option}` is for translators, and `{model}` is none", f"leave {option} out")
        found = _measured(task, model, src, ref, text, device, dtype)
        print(dumps(found.to_json()) if json else found.report())
        return 0
    if ref is None:
        raise ConfigError("the reference translations are not given: `--ref FILE`", "name their file")
    outputs, references = translate_test(
        [model] if against is None else [model, against], src, ref, device=device, dtype=dtype, beam_size=beam_size,
        length_penalty=length_penalty, source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    if against is None:
        scores = score_corpus(outputs[0], references)
        print(dumps(scores.to_json()) if json else scores.report())
        return 0
    a, b = outputs
    comparison = compare_outputs(a, b, references)
    print(dumps({"a": model, "b": against, **comparison.to_json()}) if json else comparison.report(model, against))
    return 0


def _measured(
    task: str, model: str, src: str | None, ref: str | None, text: str | None, device: str, dtype: str | None
) -> "LabelScores | TextScores":
    """The scores of a model that does not translate."""
    from pellucid.errors import ConfigError
    from pellucid.workflow.measure import measure_labels, measure_text

    if src is None:
        raise ConfigError(f"`{model}` needs a text to be scored on", "name its file with --src")
    option, value, other = ("--ref", ref, "a language model") if task == "generate" else ("--text", text, "an encoder")
    if value is not None:
        raise ConfigError(f"`{option}` means nothing to `{model}`, {other}", f"leave {option} out")
    if task == "generate":
        return measure_text(model, src, text, device=device, dtype=dtype)
    return measure_labels(model, src, ref, device=device, dtype=dtype)
