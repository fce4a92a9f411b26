"""`pellucid translate`."""

from typing import Annotated, Any

import tyro

from pellucid.cli.options import (
    Device,
    Engine,
    EngineDtype,
    FreshOutput,
    Input,
    Members,
    Model,
    OnBadLines,
    Output,
    Revision,
    SourceLanguage,
    TargetLanguage,
    ThreadsOfAWorker,
    Workers,
    add_revision,
    flag,
    make_engine_arguments,
    optional,
    prepare_process,
)
from pellucid.cli.search_options import add_search_options, make_search_options


@add_search_options(after="tgt_lang")
def translate(
    model: Model,
    text: Annotated[
        str | None,
        tyro.conf.Positional,
        optional("[TEXT]", "a text, or a document (with --output or --in-place)", "the lines of --input"),
    ] = None,
    /,
    *,
    input: Input = "-",
    output: Output = "-",
    on_bad_utf8: OnBadLines = "error",
    fresh: FreshOutput = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    prefix: Annotated[
        str | None,
        optional("FILE", "forced beginnings of the translations, one per line; an empty line forces nothing", "none"),
    ] = None,
    terms: Annotated[
        str | None,
        optional(
            "FILE",
            "glossary, per line: source term, tab, translation that must be used for the term; or .csv, or .tbx",
            "none",
        ),
    ] = None,
    constraints: Annotated[
        str | None,
        optional("FILE", "phrases that each translation must contain: one line per source line, tab-separated", "none"),
    ] = None,
    json: Annotated[
        bool, flag("print a JSON object per line: score, tokens, probabilities, quality flags, sentences, ...")
    ] = False,
    revision: Revision = None,
    ensemble: Members = (),
    engine: Engine = "auto",
    device: Device = "auto",
    dtype: EngineDtype = None,
    threads: ThreadsOfAWorker = None,
    workers: Workers = 1,
    input_dir: Annotated[
        str | None,
        optional(
            "DIR",
            "folder of input files, instead of --input: lines, plain, gzip, Zstandard, Parquet, or documents",
            "none",
        ),
    ] = None,
    output_dir: Annotated[
        str | None,
        optional("DIR", "with --input-dir: output folder, with a file of the same name for each input", "none"),
    ] = None,
    worker: Annotated[
        str | None,
        optional("I/N", "with --input-dir: only every Nth file from the Ith, for a job of a scheduler", "all files"),
    ] = None,
    column: Annotated[
        str | None, optional("NAME", "with --input-dir: column of Parquet files to translate", "the only text column")
    ] = None,
    report: Annotated[
        str | None,
        optional("FILE", "JSON file of the totals of each file or document, and of the flagged texts", "none"),
    ] = None,
    in_place: Annotated[bool, flag("with a document: replace the document by its translation")] = False,
    ray: Annotated[
        str | None,
        optional(
            "ADDRESS", "with --input-dir: Ray cluster to use, with --workers actors; local starts one here", "no Ray"
        ),
    ] = None,
    **search: Any,
) -> int:
    """Translate a text, a document, the lines of a file, or a folder of files. The output has one line per input line,
    in the order of the input; a document becomes a document of the same kind: docx, xlsx, pptx, odt, epub, html, md,
    txt, po, xliff, tmx, json, yaml, properties, srt or vtt.

    example: pellucid translate run "Ein Hund läuft."
    example: pellucid translate run report.docx -o report.en.docx
    example: pellucid translate run --input-dir site.de --output-dir site.en --report flagged.json
    example: pellucid translate run < input.de > output.en
    example: pellucid translate run --workers 2 < input.de > output.en
    example: pellucid translate run --engine ctranslate2 --dtype int8 < input.de > output.en
    example: pellucid translate run --ensemble run-2 run-3 < input.de > output.en
    example: pellucid translate run --mbr 32 --epsilon-cutoff 0.02 < input.de > output.en
    example: pellucid translate run --prefix begun.en --next-token-alternatives 5 --json < input.de
    example: pellucid translate run --terms glossary.tsv < input.de > output.en
    example: pellucid translate run --keep "[A-Z]+-[0-9]+" < input.de > output.en
    example: pellucid translate run --rerank rerank.json < input.de > output.en
    example: pellucid translate m2m100_418M --src-lang de --tgt-lang fr < input.de > output.fr
    """
    from pellucid.cli.translate_document import check_lines, is_document_name, translate_document_file
    from pellucid.cli.translate_lines import translate_lines
    from pellucid.data.terms import read_terms
    from pellucid.errors import ConfigError, DataError
    from pellucid.streams.streams import text_stream
    from pellucid.streams.translate_job import Translating
    from pellucid.tasks.flag_report import check_report

    options = make_search_options(
        search, prefixed=prefix is not None, terms=None if terms is None else read_terms(terms, (src_lang, tgt_lang)),
        termed=constraints is not None,
    )  # fmt: skip
    translating = Translating(
        model=add_revision(model, revision),
        loading={"device": device, "dtype": dtype, "source_language": src_lang, "target_language": tgt_lang}
        | make_engine_arguments(engine, threads)
        | {"ensemble": ensemble},
        options=options, as_json=json,
    )  # fmt: skip
    of_lines = {
        "prefix": prefix, "constraints": constraints, "next_token_alternatives": options.next_token_alternatives,
        "n_best": (options.n_best or 1) > 1, "sample": options.sample, "mbr": options.mbr,
    }  # fmt: skip
    if in_place and output != "-":
        raise ConfigError(f"`--in-place` and `--output {output}` name two outputs", "leave one of them out")
    if is_document_name(text, str(text) if in_place else output):
        prepare_process(threads, workers, engine)
        others = of_lines | {
            "input": input != "-", "input_dir": input_dir, "output_dir": output_dir,
            "worker": worker, "column": column, "ray": ray, "workers": workers > 1, "fresh": fresh,
        }  # fmt: skip
        spoken = {"source_language": src_lang, "target_language": tgt_lang}
        out = None if in_place else output
        return translate_document_file(translating, str(text), out, report, spoken, others)
    check_lines(input)
    if in_place:
        raise ConfigError("`--in-place` has no effect without a document", "give a document")
    if report is not None:
        check_report(report, [name for name in (input, output) if name != "-"])
    parallel = _drop_none(prefix=prefix, constraints=constraints)
    if input_dir is not None or output_dir is not None:
        alone = {"TEXT": text, "--input": input, "--output": output, "--prefix": prefix, "--constraints": constraints}
        for name, value in alone.items():
            if value not in (None, "-"):
                raise ConfigError(f"{name} cannot be used with `--input-dir`", "leave one of them out")
        if input_dir is None or output_dir is None:
            given, missing = ("input", "output") if output_dir is None else ("output", "input")
            raise ConfigError(f"`--{given}-dir` requires --{missing}-dir", f"name the folder of the {missing}s")
        from pellucid.cli.translate_folder import prepare_documents, translate_folder
        from pellucid.streams.folder_translation import BulkTranslation

        bulk = BulkTranslation(translating, input_dir, output_dir, column, on_bad_utf8, fresh)
        bulk = prepare_documents(bulk, (src_lang, tgt_lang), of_lines | {"json": json})
        return translate_folder(bulk, engine, threads, workers, worker, ray, report)
    for name, value in {"worker": worker, "column": column, "ray": ray}.items():
        if value is not None:
            raise ConfigError(f"`--{name} {value}` requires --input-dir", "add --input-dir and --output-dir")

    stream = text_stream(text, input, output, on_bad_utf8, fresh)
    each = prepare_process(threads, workers, engine)
    for name, file in {**parallel, **_drop_none(terms=terms)}.items():
        if file == "-" and text is None and input == "-":
            raise DataError(
                f"standard input (`-`) can be only one of --input and --{name.replace('_', '-')}",
                "name a file for the other",
            )
    translate_lines(
        translating, stream, [*parallel.values()], "-" if text else input, report, workers=workers, threads=each
    )
    return 0


def _drop_none(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
