"""`pellucid translate`."""

from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pellucid.tasks.translator import Translation
    from pellucid.text.training_text import TrainingText


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
    max_length: Annotated[int | None, optional("N", "most tokens of a translation")] = None,
    min_length: Annotated[int | None, optional("N", "fewest tokens of a sentence's translation", "none")] = None,
    no_repeat_ngram: Annotated[
        int | None, optional("N", "no N tokens in a row stand in a sentence's translation twice", "they may")
    ] = None,
    prefix: Annotated[
        str | None, optional("FILE", "what each translation begins with, one a line; empty: nothing", "none")
    ] = None,
    batch_tokens: Annotated[int | None, optional("N", "source tokens at a time, beams included")] = None,
    segment: Segment = None,
    json: Annotated[bool, flag("a JSON object a line, with score, tokens, sentences, alternatives")] = False,
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
) -> int:
    """Translate a text, or the lines of a file: as many lines come out as went in, in their order.

    example: pellucid translate run "Ein Hund läuft."
    example: pellucid translate run < input.de > output.en
    example: pellucid translate run --workers 2 < input.de > output.en
    example: pellucid translate run --engine ctranslate2 --dtype int8 < input.de > output.en
    example: pellucid translate run --ensemble run-2 run-3 < input.de > output.en
    example: pellucid translate run --mbr 32 --epsilon 0.02 < input.de > output.en
    example: pellucid translate run --prefix begun.en < input.de > output.en
    example: pellucid translate m2m100_418M --src-lang de --tgt-lang fr < input.de > output.fr
    """
    import sys
    import warnings
    from contextlib import ExitStack
    from dataclasses import asdict
    from functools import partial
    from json import dumps

    from pellucid.config import SamplingConfig
    from pellucid.config.tables import to_table
    from pellucid.errors import ConfigError, DataError
    from pellucid.streams.source import PairSource
    from pellucid.streams.streams import Stream, answering, identity, opened, text_stream
    from pellucid.streams.workers import answering_by
    from pellucid.tasks.translator import LongText, Translator
    from pellucid.text.tokenizer import UnknownShare

    if (n_best or 1) > 1 and not json:
        raise ConfigError(f"`--n-best {n_best}` needs --json: plain output has one line a sentence", "add --json")
    constraints = _given(min_length=min_length, no_repeat_ngram=no_repeat_ngram)
    searching = constraints | _given(beam_size=beam_size, n_best=n_best, length_penalty=length_penalty)
    drawing = _given(temperature=temperature, top_k=top_k, top_p=top_p, epsilon=epsilon, seed=seed)
    drawn = "--sample" if mbr is None else "--mbr"  # which draws, too
    sample = sample or mbr is not None
    for name in (searching | _given(prefix=prefix)) if sample else drawing:
        option = f"--{name.replace('_', '-')}"
        if sample:
            raise ConfigError(f"`{option}` means nothing with {drawn}", f"leave {option} out")
        raise ConfigError(f"`{option}` means nothing without --sample", "add --sample or --mbr, which draw translations")
    options = searching | _given(max_length=max_length, batch_tokens=batch_tokens, segment=segment)
    sampling = SamplingConfig(**drawing) if sample else None

    model = at_revision(model, revision)
    stream = text_stream(text, input, output, on_bad_utf8, fresh)
    each = prepare_process(threads, workers, engine)
    if prefix == "-" and text is None and input == "-":
        raise DataError("standard input (`-`) can be only one of --input and --prefix", "name the other")
    with warnings.catch_warnings(), ExitStack() as stack:
        source: Any = stack.enter_context(opened(stream))
        if prefix is not None:
            source = PairSource(source, stack.enter_context(opened(Stream(prefix, output, on_bad_utf8))))
            options["prefixed"] = True
        warnings.simplefilter("ignore", LongText)  # it is said once, at the end
        how = on_engine(engine, threads) | {"ensemble": ensemble}
        load = partial(Translator.load, model, device, dtype, src_lang, tgt_lang, **how)
        translator = load()
        notes, unknown = TextNotes(translator.text), UnknownShare(translator.tokenizers.source)
        settings = {
            **to_table(translator.decode), **options, "sampling": asdict(sampling) if sampling else None,
            "mbr": mbr,
            "as_json": json, "text": to_table(notes.text),  # by which lines are cut
        }  # fmt: skip
        nothing: Any = "" if prefix is None else ("", "")
        command = partial(identity, "translate", translator, settings)
        with (
            answering_by(workers, each, translator, load, {**options, "sampling": sampling, "mbr": mbr}) as answered,
            answering(
                stream, source, command=command, nothing=(nothing, "null" if json else ""), workers=workers
            ) as answers,
        ):
            for found in answered(unknown.passing(answers), answers.is_ready):
                notes.add(found)
                answers.write(dumps(t.to_json(), ensure_ascii=False) if json else t.text for t in found)
    for note in notes.lines():
        print(f"note: {note}", file=sys.stderr)
    return 0


class TextNotes:
    """Counts, over all of a stream, the lines and sentences that are longer than what the model was trained on."""

    def __init__(self, text: "TrainingText | None") -> None:
        """Takes what the model's training lines were; None: not known, and nothing is said."""
        from pellucid.text.training_text import TrainingText

        self.text: TrainingText = text or TrainingText()
        self.cut: int = 0
        self.too_long: int = 0
        self.longest: int = 0

    def add(self, found: "Iterable[Translation]") -> None:
        """Takes the translations of some lines into account."""
        for translation in found:
            lengths = [sentence.length for sentence in translation.sentences]
            self.cut += len(lengths) > 1 and self.text.is_too_long(sum(lengths))
            self.too_long += sum(map(self.text.is_too_long, lengths))
            self.longest = max([self.longest, *lengths])

    def lines(self) -> list[str]:
        """Returns what there is to say at the end, a line each."""
        from pellucid.tasks.translator import too_long_text

        found = []
        if self.cut:
            are = "line is" if self.cut == 1 else "lines are"
            found.append(
                f"{self.cut:,} {are} longer than nearly all that the model was trained on: the sentences in "
                f"{'it' if self.cut == 1 else 'them'} were translated one by one (--json shows them, --segment off "
                "leaves lines whole)"
            )
        if self.too_long:
            found.append(too_long_text(self.too_long, self.longest, self.text))
        return found


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
