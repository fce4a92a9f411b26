"""`pellucid generate`."""

from typing import TYPE_CHECKING, Annotated

import tyro

from pellucid.cli.options import (
    Device,
    Dtype,
    FreshOutput,
    Input,
    Model,
    OnBadLines,
    Output,
    Revision,
    Text,
    ThreadsOfAWorker,
    Workers,
    add_revision,
    flag,
    optional,
    prepare_process,
)
from pellucid.cli.search_options import LengthPenalty

if TYPE_CHECKING:
    from pellucid.tasks.language_model import GenerateOptions


def generate(
    model: Model,
    text: Text = None,
    /,
    *,
    input: Input = "-",
    output: Output = "-",
    on_bad_utf8: OnBadLines = "error",
    fresh: FreshOutput = False,
    max_new_tokens: Annotated[int, tyro.conf.arg(metavar="N", help="maximum number of new tokens per prompt")] = 100,
    temperature: Annotated[
        float | None, optional("X", "sample with this temperature: below 1 sharper, above 1 flatter", "greedy")
    ] = None,
    top_k: Annotated[int | None, optional("N", "sample from the N most probable tokens", "all")] = None,
    top_p: Annotated[
        float | None, optional("X", "sample from the smallest set of tokens with total probability X", "1")
    ] = None,
    seed: Annotated[int | None, optional("N", "sample with this random seed", "1")] = None,
    beam_size: Annotated[
        int | None, optional("N", "beam size: hypotheses kept per step; 1 is greedy search", "1")
    ] = None,
    n_best: Annotated[int | None, optional("N", "continuations per line; more than one requires --json", "1")] = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: Annotated[int | None, optional("N", "tokens per batch")] = None,
    json: Annotated[bool, flag("print a JSON object per line, with score, tokens, alternatives")] = False,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: ThreadsOfAWorker = None,
    workers: Workers = 1,
) -> int:
    """Generate text: each line of the input is a prompt, and is printed with its continuation, in the order of the
    input. A model of continuous text may generate line ends; --json keeps each text on one line.

    Without --temperature, --top-k, --top-p or --seed the model writes the most probable text: by greedy search, or by
    beam search with --beam-size.

    Special tokens in a prompt, such as </s>, are treated as ordinary text.

    example: pellucid generate run --max-new-tokens 300 --temperature 0.8 --seed 1 < prompts.txt
    example: pellucid generate run --beam-size 5 --n-best 3 --json < prompts.txt
    """
    from functools import partial
    from json import dumps

    from pellucid.config.tables import to_table
    from pellucid.errors import ConfigError
    from pellucid.streams.streams import fingerprint_request, open_input, open_output_stream, text_stream
    from pellucid.streams.workers import run_workers
    from pellucid.tasks.language_model import LanguageModel

    if (n_best or 1) > 1 and not json:
        raise ConfigError(f"`--n-best {n_best}` requires --json: plain output has one text per line", "add --json")
    model = add_revision(model, revision)
    stream = text_stream(text, input, output, on_bad_utf8, fresh)
    each = prepare_process(threads, workers)
    with open_input(stream) as source:
        load = partial(LanguageModel.load, model, device, dtype)
        writer = load()
        options: GenerateOptions = {
            "max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed,
            "batch_tokens": batch_tokens,
        }  # fmt: skip
        search: GenerateOptions = {"beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty}
        settings = {**to_table(writer.decode), **options, "as_json": json}
        # Separate from `settings`: an explicit beam differs from the model's default, even with the same number.
        settings |= {"search": given} if (given := {k: v for k, v in search.items() if v is not None}) else {}
        options |= search
        command = partial(fingerprint_request, "generate", writer, settings)
        with (
            run_workers(workers, each, writer, load, options) as answered,
            open_output_stream(
                stream, source, command=command, nothing=("", "null" if json else ""), workers=workers
            ) as answers,
        ):
            for found in answered(iter(answers), answers.is_ready):
                answers.write(
                    dumps(one.to_json(), ensure_ascii=False) if json else one.prompt + one.text for one in found
                )
    return 0
