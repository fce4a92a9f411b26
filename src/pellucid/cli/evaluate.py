"""`pellucid evaluate`."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import (
    BeamSize,
    Device,
    Engine,
    EngineDtype,
    LengthPenalty,
    Members,
    OneEach,
    Revision,
    Segment,
    SourceLanguage,
    TargetLanguage,
    Threads,
    at_revision,
    flag,
    on_engine,
    optional,
    prepare_process,
)

if TYPE_CHECKING:
    from pellucid.config import Task
    from pellucid.evaluation.comet import CometEnvironment, CometScore
    from pellucid.evaluation.held_out import HeldOutFiles
    from pellucid.evaluation.scores import Scores

_LANGUAGES = ("source_language", "target_language")
ANOTHER_SYSTEM = OneEach("for another system, `--against {word}`")
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
        ANOTHER_SYSTEM,
    ] = (),
    tgt: Annotated[
        tuple[str, ...], optional("FILE", "the same as --ref", "none"), tyro.conf.UseAppendAction, ANOTHER_SYSTEM
    ] = (),
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
    comet: Annotated[
        str | None,
        optional("PYTHON", "score by COMET, too, in the environment of this Python, which has unbabel-comet", "none"),
    ] = None,
    comet_model: Annotated[
        str | None,
        optional(
            "NAME", "with --comet: a model on Hugging Face's hub, or a checkpoint's path", "Unbabel/wmt22-comet-da"
        ),
    ] = None,
    comet_download: Annotated[bool, flag("with --comet: download what its model lacks here, some gigabytes")] = False,
    comet_timeout: Annotated[
        float | None, optional("SECONDS", "with --comet: the most that its environment may take", "3600")
    ] = None,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    segment: Segment = None,
    text: Annotated[
        str | None, optional("WORD", "of a language model: score lines, or a running text", "as it was trained")
    ] = None,
    json: Annotated[bool, flag("print one JSON object")] = False,
    revision: Revision = None,
    ensemble: Members = (),
    engine: Engine = "torch",
    device: Device = "auto",
    dtype: EngineDtype = None,
    threads: Threads = None,
) -> int:
    """Translate a test set and print sacreBLEU, chrF and chrF++, each with signature and 95 % confidence interval; with
    --against, compare two models on the same test by approximate randomization; with --comet, score by COMET, too. Of a
    classifier it prints accuracy and F1, of a language model the loss a token, perplexity and bits a byte of a text.

    example: pellucid evaluate run --test
    example: pellucid evaluate run --src test.de --ref test.en
    example: pellucid evaluate run --against other-run --src test.de --ref test.en
    example: pellucid evaluate run --src test.de --ref test.en --comet comet-env/bin/python
    example: pellucid evaluate classifier --src test.tsv
    """
    import sys
    from dataclasses import asdict
    from json import dumps

    from pellucid.errors import ConfigError
    from pellucid.evaluation.comet import comet_score, compare_comet, difference_report
    from pellucid.evaluation.comparison import compare_outputs
    from pellucid.evaluation.held_out import HeldOutFiles, recipe_test
    from pellucid.evaluation.scores import score_corpus
    from pellucid.evaluation.tokenization import AUTO, bleu_metric
    from pellucid.tasks.task import task_in

    prepare_process(threads, engine=engine)
    if comet is None:
        alone = {"--comet-model": comet_model, "--comet-download": comet_download, "--comet-timeout": comet_timeout}
        for option in (name for name, value in alone.items() if value not in (None, False)):
            raise ConfigError(f"`{option}` means nothing without `--comet`", "name COMET's Python with `--comet`")
    if not model:
        raise ConfigError("no model is given", f"name {SYSTEM}")
    systems = [at_revision(model[0], revision), *model[1:], *against]
    task = task_in(systems[0])
    if test and (src or ref or tgt):
        raise ConfigError("`--test` stands in place of --src and --ref", "leave --test out, or the files")
    if data_dir and not test:
        raise ConfigError("`--data-dir` says where the test set of --test lies", "add --test")
    if test:
        files = recipe_test(systems, data_dir=data_dir or None, alone=not task.targets)
        print(f"test set: {files}", file=sys.stderr)
    else:
        files = HeldOutFiles(src, (*ref, *tgt))
    if task.targets != "translations":
        translating = {
            "--against": systems[1:], "--src-lang": src_lang, "--tgt-lang": tgt_lang, "--beam-size": beam_size,
            "--length-penalty": length_penalty, "--segment": segment, "--ter": ter, "--tokenize": tokenize != AUTO,
            "--engine": engine != "torch", "--ensemble": bool(ensemble), "--comet": comet,
        }  # fmt: skip
        for option in (name for name, value in translating.items() if value not in (None, False, [])):
            raise ConfigError(f"`{option}` is for translators, and `{systems[0]}` is none", f"leave {option} out")
        from pellucid.tasks.evaluate import evaluate as evaluate_model

        given = _test_of(task, systems[0], files, text)
        found = evaluate_model(systems[0], device=device, dtype=dtype, **given)
        print(dumps(found.to_json()) if json else _shown(found.report()))
        return 0
    has_references = bool(files.refs or files.is_one_file)
    if not (has_references or comet):
        raise ConfigError("the reference translations are not given: `--ref FILE`", "name their file")
    if not has_references and (ter or tokenize != AUTO):
        option = "--ter" if ter else "--tokenize"
        raise ConfigError(f"`{option}` needs reference translations: `--ref FILE`", f"name them, or leave {option} out")
    if comet and files.src is None:
        raise ConfigError("COMET reads the sources, too, which are not given: `--src FILE`", "name their file")
    if ter and len(systems) > 1:
        raise ConfigError("`--ter` is not compared, but scored", "leave --ter out, or the other systems")
    if tokenize != AUTO:
        bleu_metric(tokenize)  # before a model translates for minutes
    neural = _comet(comet, comet_model, comet_download, comet_timeout, device, threads) if comet else None
    if neural:
        neural.check()  # before a model translates for minutes
    sources, outputs, references = _translate_test(
        systems, files, (device, dtype), on_engine(engine, threads), ensemble, beam_size=beam_size,
        length_penalty=length_penalty, segment=segment, source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    found_neural = neural.score(sources, outputs, references) if neural else None
    if len(systems) == 1:
        scores: list[Scores | CometScore] = []
        if references:
            scores.append(score_corpus(outputs[0], references, tokenize=tokenize, ter=ter))
        single = scores[0].to_json() if scores else {}
        if found_neural:
            scores.append(comet_score(found_neural.systems[0], found_neural.signature))
            single |= {"comet": scores[-1].to_json()}
        print(dumps(single) if json else _shown("\n".join(part.report() for part in scores)))
        return 0
    a = " + ".join([systems[0], *ensemble])
    tables, reports = [], []
    for number, b in enumerate(systems[1:], 1):
        table: dict[str, Any] = {"a": a, "b": b}
        parts = []
        if references:
            comparison = compare_outputs(outputs[0], outputs[number], references, tokenize=tokenize)
            table |= comparison.to_json()
            parts.append(comparison.report(a, b))
        if found_neural:
            lines = found_neural.systems
            difference = compare_comet(lines[0], lines[number], found_neural.signature)
            table |= {"comet": asdict(difference)}
            parts += [*([] if parts else [f"A  {a}\nB  {b}"]), difference_report(difference)]
        tables.append(table)
        reports.append("\n\n".join(parts))
    if json:
        print(dumps(tables[0] if len(tables) == 1 else {"comparisons": tables}))
        return 0
    print(_shown("\n\n".join(reports)))
    if len(tables) > 1:
        print(f"\n{len(tables)} comparisons: of 20 of systems that do not differ, one has a p below 0.05")
    return 0


def _comet(
    python: str, model: str | None, download: bool, timeout: float | None, device: str, threads: int | None
) -> "CometEnvironment":
    """Returns the environment that the options name. Raises ConfigError for a time limit that is none."""
    from pellucid.errors import ConfigError
    from pellucid.evaluation.comet import MOST_SECONDS, WMT22, CometEnvironment

    seconds = MOST_SECONDS if timeout is None else timeout
    if not seconds > 0:
        raise ConfigError(f"`--comet-timeout {seconds:g}` must be above 0 seconds", "leave it out for an hour")
    return CometEnvironment(
        comet=python, comet_model=WMT22 if model is None else model, comet_download=download, comet_timeout=seconds,
        device=device, threads=threads,
    )  # fmt: skip


def _shown(report: str) -> str:
    """Returns a report as it goes to standard output: on a narrow terminal a signature stands below its score."""
    from pellucid.cli.terminal import fitted, is_fitted

    return fitted(report, 4) if is_fitted() else report


def _test_of(task: "Task", model: str, files: "HeldOutFiles", text: str | None) -> dict[str, Any]:
    """Reads the test of a model that does not translate, as `pellucid.evaluate` takes it.

    Raises ConfigError for files or a `text` that are missing, unknown, or mean nothing to the model; DataError for
    files that cannot be read or do not go together.
    """
    from pellucid.data.lines import read_lines
    from pellucid.errors import ConfigError

    if files.src is None:
        raise ConfigError(f"`{model}` needs a text to be scored on", "name its file with --src")
    option, value = ("--text", text) if task.targets else ("--ref", files.refs)
    if value:
        raise ConfigError(f"`{option}` means nothing to `{model}`, {task.noun}", f"leave {option} out")
    if not task.targets:
        if text not in (None, "lines", "running"):
            raise ConfigError(f"`--text {text}` is unknown", "choose one of lines, running")
        return {"texts": list(read_lines(files.src))} | ({} if text is None else {"as_lines": text == "lines"})
    noun = task.noun.partition(" ")[2]
    if not (files.refs or files.is_one_file):
        raise ConfigError(
            f"the {noun} `{model}` needs the right {task.targets} of `{files.src}`",
            "name their file with `--ref`, or give both as the columns of a .tsv file",
        )
    if len(files.refs) > 1:
        raise ConfigError(
            f"the {noun} `{model}` is scored against one file of {task.targets}, not {len(files.refs)}",
            "give --ref once",
        )
    columns = files.read()
    rows = list(zip(columns[files.src], columns[files.refs[0] if files.refs else ""], strict=True))
    if files.is_one_file:  # where a blank line stands for nothing
        rows = [(line, target) for line, target in rows if line.strip()]
    return {"texts": [line for line, _ in rows], "targets": [target.strip() for _, target in rows]}


def _translate_test(
    systems: list[str],
    test: "HeldOutFiles",
    place: tuple[str, str | None],
    engine: dict[str, Any],
    ensemble: tuple[str, ...],
    **options: Any,
) -> tuple[list[str], list[list[str]], list[list[str]]]:
    """Returns the sources of a test set where it has some, its translations by each system, and its sets of references.

    Args:
        systems: run or model folders, which translate; or text files of finished translations, one a line.
        place, engine: as Translator.load takes them: device and type, and what on_engine() returns.
        ensemble: the models that write together with the first system.
        options: as Translator.translate takes them, for the systems that are models; a further one that knows no
            languages is told of none.

    Raises ConfigError where a system is named twice, or a model has no sources; CheckpointError for a folder without a
    model; DataError where the files cannot be read, are empty or differ in length.
    """
    import sys

    from pellucid.errors import ConfigError, argument
    from pellucid.tasks.translator import Translator

    _check_systems(systems, test.src, of_several=bool(ensemble))
    if ensemble and _is_text(systems[0]):
        raise ConfigError(
            f"`--ensemble` names models that write together with `{systems[0]}`, which is a file of translations",
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
            print(f"translating {len(sources):,} sentences with {', '.join([system, *members])}", file=sys.stderr)
        told = options
        if not translator.languages and len(models) > 1:  # beside one of several, which is told
            named = next((name for name in _LANGUAGES if options.get(name) is not None), None)
            if named and system == models[0]:
                raise ConfigError(
                    f"{argument(named, options[named])} means nothing to `{system}`, which knows no languages",
                    "name the model of several languages first, and this one with `--against`",
                )
            told = options | dict.fromkeys(_LANGUAGES)
        outputs.append([translation.text for translation in translator.translate(sources, **told)])
    return sources, outputs, [columns[ref] for ref in (test.refs or ("",)) if ref in columns]


def _check_systems(systems: list[str], src: str | None, *, of_several: bool = False) -> None:
    """Raises ConfigError or CheckpointError for what cannot translate, before another system does so for minutes.

    A first system `of_several` models is another than each of them.
    """
    from pathlib import Path

    from pellucid.errors import CheckpointError, ConfigError
    from pellucid.tasks.task import model_folder
    from pellucid.weights.folder import is_foreign, read_config

    places = [Path(system).resolve() for system in systems]
    for number, (system, place) in enumerate(zip(systems, places, strict=True)):
        if place in places[of_several:number]:
            raise ConfigError(
                f"`{systems[places.index(place)]}` is compared with itself", "name another one with `--against`"
            )
        if _is_text(system):
            continue
        try:
            if not is_foreign(folder := model_folder(system)):
                read_config(folder)
        except CheckpointError as error:
            if Path(system).exists():
                raise
            said = str(error).replace("is not a model folder:", "is neither a model folder nor a file of translations:")
            raise CheckpointError(said, "check the path, to a folder or to a file", error.exit_status) from error
        if src is None:
            raise ConfigError(f"the model `{system}` needs sentences to translate", "name their file with `--src`")


def _is_text(system: str) -> bool:
    """Tells whether a system is a file (or a pipe) of translations rather than a model."""
    from pathlib import Path

    return system == "-" or (Path(system).exists() and not Path(system).is_dir())
