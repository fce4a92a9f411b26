"""`pellucid translate`."""

from typing import Annotated, Any, Literal

from pellucid.cli.options import (
    BeamSize,
    Device,
    Dtype,
    FreshOutput,
    Input,
    LengthPenalty,
    Model,
    OnBadLines,
    Output,
    Revision,
    SourceLanguage,
    TargetLanguage,
    Text,
    at_revision,
    flag,
    optional,
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
    max_length: Annotated[int | None, optional("N", "most tokens of a translation")] = None,
    batch_tokens: Annotated[int | None, optional("N", "source tokens at a time, beams included")] = None,
    segment: Annotated[
        Literal["auto", "off"] | None, optional("MODE", "cut lines into sentences (auto) or not (off)", "auto")
    ] = None,
    json: Annotated[bool, flag("a JSON object a line, with score, tokens, sentences, alternatives")] = False,
    sample: Annotated[bool, flag("draw translations instead of searching for the best")] = False,
    temperature: Annotated[float | None, optional("X", "with --sample: below 1 sharper, above 1 flatter", "1")] = None,
    top_k: Annotated[int | None, optional("N", "with --sample: from the N most probable tokens", "all")] = None,
    top_p: Annotated[float | None, optional("X", "with --sample: from the fewest tokens of probability X", "1")] = None,
    seed: Annotated[int | None, optional("N", "with --sample: decides the draws", "1")] = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Translate a text, or the lines of a file: as many lines come out as went in, in their order.

    example: pellucid translate run "Ein Hund läuft."
    example: pellucid translate run < input.de > output.en
    example: pellucid translate m2m100_418M --src-lang de --tgt-lang fr < input.de > output.fr
    """
    from pellucid.config import SamplingConfig
    from pellucid.errors import ConfigError
    from pellucid.streams.streams import text_stream
    from pellucid.streams.translate import SearchOptions, translate_stream

    model = at_revision(model, revision)

    if (n_best or 1) > 1 and not json:
        raise ConfigError(f"`--n-best {n_best}` needs --json: plain output has one line a sentence", "add --json")
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    searching = {"beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty}
    for name in _given(searching if sample else drawing):
        option = f"--{name.replace('_', '-')}"
        if sample:
            raise ConfigError(f"`{option}` means nothing with --sample", f"leave {option} out")
        raise ConfigError(f"`{option}` means nothing without --sample", "add --sample, which draws translations")
    translate_stream(
        model, text_stream(text, input, output, on_bad_utf8, fresh),
        SearchOptions(beam_size, n_best, length_penalty, max_length, batch_tokens, segment),
        SamplingConfig(**_given(drawing)) if sample else None, as_json=json, device=device, dtype=dtype,
        source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    return 0


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
