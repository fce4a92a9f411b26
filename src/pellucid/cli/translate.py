"""`pellucid translate`."""

from typing import Annotated, Any

from pellucid.cli.options import (
    BeamSize,
    Device,
    Engine,
    EngineDtype,
    FreshOutput,
    Input,
    LengthPenalty,
    Members,
    Model,
    OnBadLines,
    Output,
    Revision,
    Segment,
    SourceLanguage,
    TargetLanguage,
    Text,
    ThreadsOfAWorker,
    Workers,
    at_revision,
    flag,
    on_engine,
    optional,
    prepare_process,
)


def translate(
    model: Model,
    text: Text = None,
    /,
    *,
    input: Input = "-",
    output: Output = "-",
    on_bad_utf8: OnBadLines = "error",
    fresh: FreshOutput = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    beam_size: BeamSize = None,
    n_best: Annotated[int | None, optional("N", "translations a line; more than one need --json")] = None,
    length_penalty: LengthPenalty = None,
    diverse_groups: Annotated[
        int | None, optional("N", "with --n-best: part the beam into N groups that avoid each other's words", "one")
    ] = None,
    diversity: Annotated[
        float | None, optional("X", "with --diverse-groups: nats that a word of an earlier group costs", "1")
    ] = None,
    max_length: Annotated[int | None, optional("N", "most tokens of a translation")] = None,
    min_length: Annotated[int | None, optional("N", "fewest tokens of a sentence's translation", "none")] = None,
    no_repeat_ngram: Annotated[
        int | None, optional("N", "no N tokens in a row stand in a sentence's translation twice", "they may")
    ] = None,
    prefix: Annotated[
        str | None, optional("FILE", "what each translation begins with, one a line; empty: nothing", "none")
    ] = None,
    alternatives: Annotated[
        int | None,
        optional("N", "with --json: the best translation behind each of the N most probable next tokens", "none"),
    ] = None,
    terms: Annotated[
        str | None,
        optional("FILE", "source term, tab, translation in each line: to be used where the source term stands", "none"),
    ] = None,
    line_terms: Annotated[
        str | None, optional("FILE", "what each translation must hold, one line each, with tabs between terms", "none")
    ] = None,
    rerank: Annotated[
        str | None,
        optional("FILE", "choose among the n best as a file of `pellucid rerank` says", "by the score alone"),
    ] = None,
    batch_tokens: Annotated[int | None, optional("N", "source tokens at a time, beams included")] = None,
    segment: Segment = None,
    json: Annotated[bool, flag("a JSON object a line: score, tokens, probabilities, flags, sentences, ...")] = False,
    sample: Annotated[bool, flag("draw translations instead of searching for the best")] = False,
    mbr: Annotated[
        int | None, optional("N", "draw N translations, and give the one most like all of them, by chrF", "none")
    ] = None,
    temperature: Annotated[float | None, optional("X", "with --sample: below 1 sharper, above 1 flatter", "1")] = None,
    top_k: Annotated[int | None, optional("N", "with --sample: from the N most probable tokens", "all")] = None,
    top_p: Annotated[float | None, optional("X", "with --sample: from the fewest tokens of probability X", "1")] = None,
    epsilon: Annotated[
        float | None, optional("X", "with --sample: from the tokens of probability X or more, as in 0.02", "0")
    ] = None,
    seed: Annotated[int | None, optional("N", "with --sample: decides the draws", "1")] = None,
    revision: Revision = None,
    ensemble: Members = (),
    engine: Engine = "torch",
    device: Device = "auto",
    dtype: EngineDtype = None,
    threads: ThreadsOfAWorker = None,
    workers: Workers = 1,
    input_dir: Annotated[
        str | None, optional("DIR", "a folder of texts, in place of --input: plain, gzip, Zstandard, Parquet", "none")
    ] = None,
    output_dir: Annotated[
        str | None, optional("DIR", "with --input-dir: where a file of the same name is written for each", "none")
    ] = None,
    worker: Annotated[
        str | None, optional("I/N", "with --input-dir: only every Nth file from the Ith, for a scheduler", "all files")
    ] = None,
    column: Annotated[
        str | None, optional("NAME", "with --input-dir: of Parquet files the column to translate", "the only text")
    ] = None,
    ray: Annotated[
        str | None, optional("ADDRESS", "with --input-dir: by Ray, --workers actors; local starts one here", "without")
    ] = None,
) -> int:
    """Translate a text, the lines of a file, or a folder of files: as many lines come out as went in, in their order.

    example: pellucid translate run "Ein Hund läuft."
    example: pellucid translate run < input.de > output.en
    example: pellucid translate run --workers 2 < input.de > output.en
    example: pellucid translate run --engine ctranslate2 --dtype int8 < input.de > output.en
    example: pellucid translate run --ensemble run-2 run-3 < input.de > output.en
    example: pellucid translate run --mbr 32 --epsilon 0.02 < input.de > output.en
    example: pellucid translate run --prefix begun.en < input.de > output.en
    example: pellucid translate run --prefix begun.en --alternatives 5 --json < input.de
    example: pellucid translate run --beam-size 12 --n-best 4 --diverse-groups 4 --json < input.de
    example: pellucid translate run --terms glossary.tsv < input.de > output.en
    example: pellucid translate run --rerank rerank.json < input.de > output.en
    example: pellucid translate run --input-dir german --output-dir english --workers 4
    example: pellucid translate m2m100_418M --src-lang de --tgt-lang fr < input.de > output.fr
    """
    import sys
    import warnings
    from contextlib import ExitStack

    from pellucid.cli.text_notes import TextNotes
    from pellucid.config import SamplingConfig
    from pellucid.data.terms import read_terms
    from pellucid.errors import ConfigError, DataError
    from pellucid.streams.source import PairSource
    from pellucid.streams.streams import Stream, answering, opened, text_stream
    from pellucid.streams.translating import Translating
    from pellucid.streams.workers import answering_by
    from pellucid.tasks.translator import LongText
    from pellucid.text.tokenizer import UnknownShare

    for option, number in {"n-best": n_best if (n_best or 1) > 1 else None, "alternatives": alternatives}.items():
        if number is not None and not json:
            raise ConfigError(f"`--{option} {number}` needs --json: plain output has one line a sentence", "add --json")
    constraints = _given(min_length=min_length, no_repeat_ngram=no_repeat_ngram)
    searching = constraints | _given(beam_size=beam_size, n_best=n_best, length_penalty=length_penalty)
    searching |= _given(diverse_groups=diverse_groups, diversity=diversity, rerank=rerank, alternatives=alternatives)
    drawing = _given(temperature=temperature, top_k=top_k, top_p=top_p, epsilon=epsilon, seed=seed)
    drawn = "--sample" if mbr is None else "--mbr"  # which draws, too
    sample = sample or mbr is not None
    beside = _given(prefix=prefix, line_terms=line_terms)
    for name in (searching | beside | _given(terms=terms)) if sample else drawing:
        option = f"--{name.replace('_', '-')}"
        if sample:
            raise ConfigError(f"`{option}` means nothing with {drawn}", f"leave {option} out")
        raise ConfigError(f"`{option}` means nothing without --sample", "add --sample, which draws translations")
    options = searching | _given(max_length=max_length, batch_tokens=batch_tokens, segment=segment)
    options |= _given(mbr=mbr, prefixed=True if prefix is not None else None)
    options |= _given(termed=True if line_terms is not None else None)
    if len(beside) > 1:
        raise ConfigError("`--prefix` and `--line-terms` both give something to each line", "leave one of them out")
    if terms is not None:
        options["terms"] = read_terms(terms)
    sampling = SamplingConfig(**drawing) if sample else None

    translating = Translating(
        model=at_revision(model, revision),
        loading={"device": device, "dtype": dtype, "source_language": src_lang, "target_language": tgt_lang}
        | on_engine(engine, threads)
        | {"ensemble": ensemble},
        options=options, sampling=sampling, as_json=json,
    )  # fmt: skip
    if input_dir is not None or output_dir is not None:
        alone = {"TEXT": text, "--input": input, "--output": output, "--prefix": prefix, "--line-terms": line_terms}
        for name, value in alone.items():
            if value not in (None, "-"):
                raise ConfigError(f"{name} is given, and a folder by `--input-dir`", "leave one of them out")
        if input_dir is None or output_dir is None:
            here, lacks = ("input", "output") if output_dir is None else ("output", "input")
            raise ConfigError(f"`--{here}-dir` needs --{lacks}-dir", f"name the folder of the {lacks}s")
        from pellucid.cli.translated_folder import translate_folder
        from pellucid.streams.bulk import BulkTranslation

        bulk = BulkTranslation(translating, input_dir, output_dir, column, on_bad_utf8, fresh)
        return translate_folder(bulk, engine, threads, workers, worker, ray)
    for name, value in {"worker": worker, "column": column, "ray": ray}.items():
        if value is not None:
            raise ConfigError(f"`--{name} {value}` is for folders", "give --input-dir and --output-dir")

    stream = text_stream(text, input, output, on_bad_utf8, fresh)
    each = prepare_process(threads, workers, engine)
    for name, file in {**beside, **_given(terms=terms)}.items():
        if file == "-" and text is None and input == "-":
            raise DataError(
                f"standard input (`-`) can be only one of --input and --{name.replace('_', '-')}", "name the other"
            )
    with warnings.catch_warnings(), ExitStack() as stack:
        source: Any = stack.enter_context(opened(stream))
        for file in beside.values():
            source = PairSource(source, stack.enter_context(opened(Stream(file, output, on_bad_utf8))))
        warnings.simplefilter("ignore", LongText)  # it is said once, at the end
        translator = translating.load()
        notes, unknown = TextNotes(translator.text), UnknownShare(translator.tokenizers.source)
        nothing: Any = translating.nothing if not beside else (("", ""), translating.nothing[1])
        with (
            answering_by(workers, each, translator, translating.load, translating.answering) as answered,
            answering(
                stream, source, command=lambda: translating.identity(translator), nothing=nothing, workers=workers,
            ) as answers,
        ):  # fmt: skip
            for found in answered(unknown.passing(answers), answers.is_ready):
                notes.add(found)
                answers.write(translating.line(each) for each in found)
    for note in notes.lines():
        print(f"note: {note}", file=sys.stderr)
    return 0


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
