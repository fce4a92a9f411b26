"""`pellucid evaluate`."""

from typing import TYPE_CHECKING, Annotated

import tyro

from pellucid.cli.options import (
    BeamSize,
    Device,
    Dtype,
    LengthPenalty,
    Revision,
    SourceLanguage,
    TargetLanguage,
    at_revision,
    flag,
    optional,
)

if TYPE_CHECKING:
    from pellucid.evaluation.evaluate import HeldOutFiles
    from pellucid.evaluation.label_scores import LabelScores
    from pellucid.evaluation.text_scores import TextScores

SYSTEM = "a run folder, a model folder, or a text file of translations; - is standard input"


def evaluate(
    model: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="MODEL", help=f"{SYSTEM}; others: as --against", help_behavior_hint="(required)"),
    ],
    /,
    *,
    ref: Annotated[
        tuple[str, ...],
        optional("FILE", "the reference translations of the test, again for another set; or its labels", "none"),
        tyro.conf.UseAppendAction,
    ] = (),
    tgt: Annotated[tuple[str, ...], optional("FILE", "the same as --ref", "none"), tyro.conf.UseAppendAction] = (),
    src: Annotated[str | None, optional("FILE", "its source sentences, or its texts, for a model", "none")] = None,
    test: Annotated[bool, flag("the test set that the run's recipe names, in place of --src, --ref")] = False,
    data_dir: Annotated[str, optional("FOLDER", "with --test: where it lies", "PELLUCID_DATA")] = "",
    against: Annotated[
        tuple[str, ...],
        optional("MODEL", "what to compare with, as MODEL; again for another", "nothing"),
        tyro.conf.UseAppendAction,
    ] = (),
    tokenize: Annotated[
        str,
        optional(
            "NAME",
            "how BLEU cuts text: 13a, zh, char, intl, none, ja-mecab, ko-mecab, flores200; auto: by the script of the "
            "references",
            "auto",
        ),
    ] = "auto",
    ter: Annotated[bool, flag("compute the translation edit rate, too, which may take minutes")] = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    text: Annotated[
        str | None, optional("WORD", "of a language model: score lines, or a running text", "as it was trained")
    ] = None,
    json: Annotated[bool, flag("print one JSON object")] = False,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Translate a test set and print sacreBLEU, chrF and chrF++, each with signature and 95 % confidence interval; with
    --against, compare two models on the same test by approximate randomization. Of a classifier it prints accuracy and
    F1, of a language model the loss a token, perplexity and bits a byte of a text.

    example: pellucid evaluate run --test
    example: pellucid evaluate run --src test.de --ref test.en
    example: pellucid evaluate run --against other-run --src test.de --ref test.en
    example: pellucid evaluate classifier --src test.tsv
    """
    import sys
    from json import dumps

    from pellucid.errors import ConfigError
    from pellucid.evaluation.comparison import compare_outputs
    from pellucid.evaluation.evaluate import HeldOutFiles, recipe_test, translate_test
    from pellucid.evaluation.measure import task_in
    from pellucid.evaluation.scores import score_corpus
    from pellucid.evaluation.tokenization import AUTO, bleu_metric
    from pellucid.process import keep_freed_memory

    keep_freed_memory()
    if not model:
        raise ConfigError("no model is given", f"name {SYSTEM}")
    systems = [at_revision(model[0], revision), *model[1:], *against]
    task = task_in(systems[0])
    if test and (src or ref or tgt):
        raise ConfigError("`--test` stands in place of --src and --ref", "leave --test out, or the files")
    if data_dir and not test:
        raise ConfigError("`--data-dir` says where the test set of --test lies", "add --test")
    if test:
        files = recipe_test(systems, data_dir=data_dir or None, alone=task == "generate")
        print(f"test set: {files}", file=sys.stderr)
    else:
        files = HeldOutFiles(src, (*ref, *tgt))
    if task != "translate":
        translating = {
            "--against": systems[1:], "--src-lang": src_lang, "--tgt-lang": tgt_lang, "--beam-size": beam_size,
            "--length-penalty": length_penalty, "--ter": ter, "--tokenize": tokenize != AUTO,
        }  # fmt: skip
        for option in (name for name, value in translating.items() if value not in (None, False, [])):
            raise ConfigError(f"`{option}` is for translators, and `{systems[0]}` is none", f"leave {option} out")
        found = _measured(task, systems[0], files, text, device, dtype)
        print(dumps(found.to_json()) if json else _shown(found.report()))
        return 0
    if not (files.refs or files.is_one_file):
        raise ConfigError("the reference translations are not given: `--ref FILE`", "name their file")
    if ter and len(systems) > 1:
        raise ConfigError("`--ter` is not compared, but scored", "leave --ter out, or the other systems")
    if tokenize != AUTO:
        bleu_metric(tokenize)  # before a model translates for minutes
    outputs, references = translate_test(
        systems, files, device=device, dtype=dtype, beam_size=beam_size,
        length_penalty=length_penalty, source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    if len(systems) == 1:
        scores = score_corpus(outputs[0], references, tokenize=tokenize, ter=ter)
        print(dumps(scores.to_json()) if json else _shown(scores.report()))
        return 0
    a = systems[0]
    found_all = {
        b: compare_outputs(outputs[0], output, references, tokenize=tokenize)
        for b, output in zip(systems[1:], outputs[1:], strict=True)
    }
    tables = [{"a": a, "b": b, **comparison.to_json()} for b, comparison in found_all.items()]
    if json:
        print(dumps(tables[0] if len(tables) == 1 else {"comparisons": tables}))
        return 0
    print(_shown("\n\n".join(comparison.report(a, b) for b, comparison in found_all.items())))
    if len(tables) > 1:
        print(f"\n{len(tables)} comparisons: of 20 of systems that do not differ, one has a p below 0.05")
    return 0


def _shown(report: str) -> str:
    """A report as it goes to standard output: on a narrow terminal a signature stands below its score."""
    from pellucid.cli.terminal import fitted, is_fitted

    return fitted(report, 4) if is_fitted() else report


def _measured(
    task: str, model: str, files: "HeldOutFiles", text: str | None, device: str, dtype: str | None
) -> "LabelScores | TextScores":
    """The scores of a model that does not translate."""
    from pellucid.errors import ConfigError
    from pellucid.evaluation.measure import measure_labels, measure_text

    if files.src is None:
        raise ConfigError(f"`{model}` needs a text to be scored on", "name its file with --src")
    option, value, other = (
        ("--ref", files.refs, "a language model") if task == "generate" else ("--text", text, "an encoder")
    )
    if value:
        raise ConfigError(f"`{option}` means nothing to `{model}`, {other}", f"leave {option} out")
    if task == "generate":
        return measure_text(model, files.src, text, device=device, dtype=dtype)
    return measure_labels(model, files, device=device, dtype=dtype)
