"""`pellucid evaluate`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import (
    Device,
    Engine,
    EngineDtype,
    Members,
    RepeatedOption,
    Revision,
    SourceLanguage,
    TargetLanguage,
    Threads,
    add_revision,
    flag,
    make_engine_arguments,
    optional,
    prepare_process,
)
from pellucid.cli.search_options import BeamSize, LengthPenalty, Segment
from pellucid.terminal import log_line, show

if TYPE_CHECKING:
    from pellucid.config import Task
    from pellucid.evaluation.comet import CometScore
    from pellucid.evaluation.held_out import HeldOutFiles
    from pellucid.evaluation.scores import Scores

_LANGUAGES = ("source_language", "target_language")
ANOTHER_SYSTEM = RepeatedOption("for another system, `--baseline {word}`")
SYSTEM = "a run folder, a model folder, or a text file of translations; - is standard input"


def evaluate(
    model: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="MODEL",
            help=f"{SYSTEM}; further models are compared as with --baseline",
            help_behavior_hint="(required)",
        ),
    ],
    /,
    *,
    ref: Annotated[
        tuple[str, ...],
        optional(
            "FILE", "reference translations or labels of the test set; may be repeated for several references", "none"
        ),
        tyro.conf.UseAppendAction,
        ANOTHER_SYSTEM,
    ] = (),
    tgt: Annotated[
        tuple[str, ...], optional("FILE", "the same as --ref", "none"), tyro.conf.UseAppendAction, ANOTHER_SYSTEM
    ] = (),
    src: Annotated[
        str | None, optional("FILE", "source sentences or texts of the test set, required for a model", "none")
    ] = None,
    test: Annotated[bool, flag("use the test set of the run's recipe, instead of --src and --ref")] = False,
    data_dir: Annotated[
        str, optional("FOLDER", "with --test: folder of the test set", "the environment variable PELLUCID_DATA")
    ] = "",
    baseline: Annotated[
        tuple[str, ...],
        optional("MODEL", "baseline to compare with: a model or a file of translations; may be repeated", "none"),
        tyro.conf.UseAppendAction,
    ] = (),
    tokenize: Annotated[
        str,
        optional(
            "NAME",
            "tokenizer of BLEU: 13a, zh, char, intl, none, ja-mecab, ko-mecab, flores200; auto: by the script of the "
            "references",
            "auto",
        ),
    ] = "auto",
    ter: Annotated[bool, flag("also compute the translation edit rate, which may take minutes")] = False,
    comet: Annotated[
        str | None, optional("FILE", "COMET scores of the same translations, written by comet-score --to_json", "none")
    ] = None,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    segment: Segment = None,
    text: Annotated[
        str | None,
        optional(
            "WORD", "language model: score separate lines (lines) or one continuous text (continuous)", "as in training"
        ),
    ] = None,
    json: Annotated[bool, flag("print one JSON object")] = False,
    revision: Revision = None,
    ensemble: Members = (),
    engine: Engine = "auto",
    device: Device = "auto",
    dtype: EngineDtype = None,
    threads: Threads = None,
) -> int:
    """Translate a test set and print BLEU, chrF and chrF++ (sacreBLEU), each with signature and 95 % confidence
    interval. With --baseline, compare models on the same test set by approximate randomization. With --comet, also
    report COMET scores. For a classifier, print accuracy and F1; for a language model, the loss per token, perplexity
    and bits per byte of a text.

    example: pellucid evaluate run --test
    example: pellucid evaluate run --src test.de --ref test.en
    example: pellucid evaluate run --baseline other-run --src test.de --ref test.en
    example: pellucid evaluate out.en --ref test.en --comet scores.json
    example: pellucid evaluate classifier --src test.tsv
    """
    from json import dumps

    from pellucid.errors import ConfigError
    from pellucid.evaluation.comet import CometFile
    from pellucid.evaluation.held_out import HeldOutFiles, recipe_test
    from pellucid.evaluation.tokenization import AUTO, bleu_metric
    from pellucid.tasks.task import detect_task

    prepare_process(threads, engine=engine)
    if not model:
        raise ConfigError("MODEL is missing", f"name {SYSTEM}")
    systems = [add_revision(model[0], revision), *model[1:], *baseline]
    task = detect_task(systems[0])
    if test and (src or ref or tgt):
        raise ConfigError("`--test` replaces --src and --ref", "leave out --test, or --src and --ref")
    if data_dir and not test:
        raise ConfigError("`--data-dir` requires --test", "add --test")
    if test:
        files = recipe_test(systems, data_dir=data_dir or None, alone=not task.targets)
        log_line(f"test set: {files}")
    else:
        files = HeldOutFiles(src, (*ref, *tgt))
    if task.targets != "translations":
        translating = {
            "--baseline": systems[1:], "--src-lang": src_lang, "--tgt-lang": tgt_lang, "--beam-size": beam_size,
            "--length-penalty": length_penalty, "--segment": segment, "--ter": ter, "--tokenize": tokenize != AUTO,
            "--engine": engine != "auto", "--ensemble": bool(ensemble), "--comet": comet,
        }  # fmt: skip
        for option in (name for name, value in translating.items() if value not in (None, False, [])):
            raise ConfigError(
                f"`{option}` is for translators, but `{systems[0]}` is not a translator", f"leave {option} out"
            )
        from pellucid.tasks.evaluate import evaluate as evaluate_model

        given = _read_test(task, systems[0], files, text)
        found = evaluate_model(systems[0], device=device, dtype=dtype, **given)
        print(dumps(found.to_json())) if json else show(found.report(), 4)
        return 0
    has_references = bool(files.refs or files.is_one_file)
    if not (has_references or comet):
        raise ConfigError("the reference translations are missing: `--ref FILE`", "name the file of references")
    if not has_references and (ter or tokenize != AUTO):
        option = "--ter" if ter else "--tokenize"
        raise ConfigError(
            f"`{option}` requires reference translations: `--ref FILE`", f"add --ref, or leave {option} out"
        )
    if ter and len(systems) > 1:
        raise ConfigError("`--ter` cannot be used in a comparison", "leave --ter out, or evaluate one system at a time")
    if tokenize != AUTO:
        bleu_metric(tokenize)  # before the translation, which takes minutes
    comet_file = CometFile.read(comet) if comet else None  # before the translation, too
    outputs, references = _translate_test(
        systems, files, (device, dtype), make_engine_arguments(engine, threads), ensemble, beam_size=beam_size,
        length_penalty=length_penalty, segment=segment, source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    comet_lines = [comet_file.find(*one) for one in zip(outputs, systems, strict=True)] if comet_file else []
    if len(systems) == 1:
        _print_scores(outputs[0], references, comet_lines, tokenize, ter=ter, json=json)
    else:
        names = [" + ".join([systems[0], *ensemble]), *systems[1:]]
        _print_comparisons(names, outputs, references, comet_lines, tokenize, json=json)
    return 0


def _print_scores(
    outputs: list[str],
    references: list[list[str]],
    comet_lines: Sequence[Sequence[float]],
    tokenize: str,
    *,
    ter: bool,
    json: bool,
) -> None:
    """Prints the scores of one system."""
    from json import dumps

    from pellucid.evaluation.comet import comet_score
    from pellucid.evaluation.scores import score_corpus

    scores: list[Scores | CometScore] = []
    if references:
        scores.append(score_corpus(outputs, references, tokenize=tokenize, ter=ter))
    table = scores[0].to_json() if scores else {}
    if comet_lines:
        scores.append(comet_score(comet_lines[0]))
        table |= {"comet": scores[-1].to_json()}
    print(dumps(table)) if json else show("\n".join(part.report() for part in scores), 4)


def _print_comparisons(
    names: Sequence[str],
    outputs: list[list[str]],
    references: list[list[str]],
    comet_lines: Sequence[Sequence[float]],
    tokenize: str,
    *,
    json: bool,
) -> None:
    """Prints the comparison of the first system with each other one."""
    from dataclasses import asdict
    from json import dumps

    from pellucid.evaluation.comet import compare_comet, difference_report
    from pellucid.evaluation.comparison import compare_outputs

    a, tables, reports = names[0], [], []
    for number, b in enumerate(names[1:], 1):
        table: dict[str, Any] = {"a": a, "b": b}
        parts = []
        if references:
            comparison = compare_outputs(outputs[0], outputs[number], references, tokenize=tokenize)
            table |= comparison.to_json()
            parts.append(comparison.report(a, b))
        if comet_lines:
            difference = compare_comet(comet_lines[0], comet_lines[number])
            table |= {"comet": asdict(difference)}
            parts += [*([] if parts else [f"A  {a}\nB  {b}"]), difference_report(difference)]
        tables.append(table)
        reports.append("\n\n".join(parts))
    if json:
        print(dumps(tables[0] if len(tables) == 1 else {"comparisons": tables}))
        return
    show("\n\n".join(reports), 4)
    if len(tables) > 1:
        print(f"\n{len(tables)} comparisons: of 20 comparisons of equally good systems, one has p below 0.05 by chance")


def _read_test(task: "Task", model: str, files: "HeldOutFiles", text: str | None) -> dict[str, Any]:
    """Reads the test set of a classifier or language model, as arguments of `pellucid.evaluate`.

    Raises ConfigError for files or a `text` that are missing, unknown, or do not apply to the model; DataError for
    files that cannot be read or do not match.
    """
    from pellucid.data.lines import read_lines
    from pellucid.errors import ConfigError

    if files.src is None:
        raise ConfigError(f"the text to score `{model}` on is missing: `--src FILE`", "name the file of the text")
    option, value = ("--text", text) if task.targets else ("--ref", files.refs)
    if value:
        raise ConfigError(f"`{option}` has no effect on `{model}`, {task.noun}", f"leave {option} out")
    if not task.targets:
        if text not in (None, "lines", "continuous"):
            raise ConfigError(f"`--text {text}` is unknown", "choose one of lines, continuous")
        return {"texts": list(read_lines(files.src))} | ({} if text is None else {"as_lines": text == "lines"})
    noun = task.noun.partition(" ")[2]
    if not (files.refs or files.is_one_file):
        raise ConfigError(
            f"the {task.targets} of `{files.src}` are missing: the {noun} `{model}` is scored against them",
            "name their file with `--ref`, or use a .tsv file with both columns",
        )
    if len(files.refs) > 1:
        raise ConfigError(
            f"the {noun} `{model}` is scored against one file of {task.targets}, not {len(files.refs)}",
            "give --ref once",
        )
    columns = files.read()
    rows = list(zip(columns[files.src], columns[files.refs[0] if files.refs else ""], strict=True))
    if files.is_one_file:  # a blank line in it is no example
        rows = [(line, target) for line, target in rows if line.strip()]
    return {"texts": [line for line, _ in rows], "targets": [target.strip() for _, target in rows]}


def _translate_test(
    systems: list[str],
    test: "HeldOutFiles",
    place: tuple[str, str | None],
    engine: dict[str, Any],
    ensemble: tuple[str, ...],
    **options: Any,
) -> tuple[list[list[str]], list[list[str]]]:
    """Returns the translations of a test set by each system, and its sets of references.

    Args:
        systems: run or model folders, which translate; or text files of finished translations, one per line.
        place, engine: arguments of Translator.load: device and type, and the result of make_engine_arguments().
        ensemble: the models that form an ensemble with the first system.
        options: arguments of Translator.translate, for the systems that are models; a further model without languages
            is called without languages.

    Raises ConfigError if a system is named twice, or a model has no sources; CheckpointError for a folder without a
    model; DataError if the files cannot be read, are empty or differ in length.
    """
    import sys

    from pellucid.errors import ConfigError, format_argument
    from pellucid.tasks.translator import Translator

    _check_systems(systems, test.src, of_several=bool(ensemble))
    if ensemble and _is_text(systems[0]):
        raise ConfigError(
            f"`--ensemble` requires a model, but `{systems[0]}` is a file of translations",
            "name a model, or leave --ensemble out",
        )
    columns = test.read([*filter(_is_text, systems)])
    models = [system for system in systems if not _is_text(system)]
    sources = columns[test.src] if test.src else []
    outputs = []
    for number, system in enumerate(systems):
        if _is_text(system):
            outputs.append(columns[system])
            continue
        members = ensemble if number == 0 else ()
        translator = Translator.load(system, *place, **engine, ensemble=members)
        if sys.stderr.isatty():
            log_line(f"translating {len(sources):,} sentences with {', '.join([system, *members])}")
        arguments = options
        if not translator.languages and len(models) > 1:  # compared with a multilingual model, which needs languages
            named = next((name for name in _LANGUAGES if options.get(name) is not None), None)
            if named and system == models[0]:
                raise ConfigError(
                    f"{format_argument(named, options[named])} has no effect on `{system}`, which has no languages",
                    "name the multilingual model first, and this one with `--baseline`",
                )
            arguments = options | dict.fromkeys(_LANGUAGES)
        outputs.append([translation.text for translation in translator.translate(sources, **arguments)])
    return outputs, [columns[ref] for ref in (test.refs or ("",)) if ref in columns]


def _check_systems(systems: list[str], src: str | None, *, of_several: bool = False) -> None:
    """Raises ConfigError or CheckpointError for systems that cannot translate, before another one does so for minutes.

    With `of_several`, the first system is an ensemble, so a later system may be its first member alone.
    """
    from pathlib import Path

    from pellucid.errors import CheckpointError, ConfigError
    from pellucid.tasks.task import resolve_model
    from pellucid.weights.folder import is_hugging_face_folder, read_config

    places = [Path(system).resolve() for system in systems]
    for number, (system, place) in enumerate(zip(systems, places, strict=True)):
        if place in places[of_several:number]:
            raise ConfigError(
                f"`{systems[places.index(place)]}` is compared with itself", "name another model with `--baseline`"
            )
        if _is_text(system):
            continue
        try:
            if not is_hugging_face_folder(folder := resolve_model(system)):
                read_config(folder)
        except CheckpointError as error:
            if Path(system).exists():
                raise
            said = str(error).replace("is not a model folder:", "is neither a model folder nor a file of translations:")
            raise CheckpointError(said, "check the path to the folder or file", error.exit_status) from error
        if src is None:
            raise ConfigError(
                f"the source sentences for `{system}` are missing: `--src FILE`", "name the file of source sentences"
            )


def _is_text(system: str) -> bool:
    """Returns True if a system is a file (or a pipe) of translations rather than a model."""
    from pathlib import Path

    return system == "-" or (Path(system).exists() and not Path(system).is_dir())
