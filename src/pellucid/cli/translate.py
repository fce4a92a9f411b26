"""`pellucid translate`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, Dtype, Input, Model, Output

Sampling = Annotated[bool, tyro.conf.arg(help="draw translations instead of searching for the best")]


def translate(
    model: Model,
    /,
    *,
    input: Input = "-",
    output: Output = "-",
    beam_size: Annotated[int | None, tyro.conf.arg(help="hypotheses kept a step; 1 is greedy")] = None,
    n_best: Annotated[int | None, tyro.conf.arg(help="translations a line; more than one need --json")] = None,
    length_penalty: Annotated[float | None, tyro.conf.arg(help="rank by log-probability / length ** this")] = None,
    max_length: Annotated[int | None, tyro.conf.arg(help="most tokens; twice the source's + 50")] = None,
    batch_tokens: Annotated[int | None, tyro.conf.arg(help="source tokens at a time, beams included")] = None,
    json: Annotated[bool, tyro.conf.arg(help="a JSON object a line, with score, tokens and alternatives")] = False,
    sample: Sampling = False,
    temperature: Annotated[float, tyro.conf.arg(help="with --sample: below 1 sharper")] = 1.0,
    top_k: Annotated[int, tyro.conf.arg(help="with --sample: from so many most probable tokens; 0 all")] = 0,
    top_p: Annotated[float, tyro.conf.arg(help="with --sample: from the fewest tokens of this probability")] = 1.0,
    seed: Annotated[int, tyro.conf.arg(help="with --sample: decides the draws")] = 1,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Translate lines: as many lines come out as went in, in their order.

    example: pellucid translate run < input.de > output.en
    """
    from pellucid.decoding.sampling import SamplingConfig
    from pellucid.errors import ConfigError
    from pellucid.workflow.translate import SearchOptions, translate_stream

    if (n_best or 1) > 1 and not json:
        raise ConfigError(f"`--n-best {n_best}` needs --json: plain output has one line a sentence", "add --json")
    search = SearchOptions(beam_size, n_best, length_penalty, max_length, batch_tokens)
    sampling = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed) if sample else None
    translate_stream(model, input, output, search, sampling, as_json=json, device=device, dtype=dtype)
    return 0
