"""`pellucid generate`."""

from typing import TYPE_CHECKING, Annotated

import tyro

from pellucid.cli.options import (
    Device,
    Dtype,
    FreshOutput,
    Input,
    LengthPenalty,
    Model,
    OnBadLines,
    Output,
    Revision,
    Text,
    ThreadsOfAWorker,
    Workers,
    at_revision,
    flag,
    optional,
    prepare_process,
)

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
    max_new_tokens: Annotated[int, tyro.conf.arg(metavar="N", help="most tokens that are added to a prompt")] = 100,
    temperature: Annotated[float | None, optional("X", "draw: below 1 sharper, above 1 flatter", "greedy")] = None,
    top_k: Annotated[int | None, optional("N", "draw from the N most probable tokens", "all")] = None,
    top_p: Annotated[float | None, optional("X", "draw from the fewest tokens of probability X", "1")] = None,
    seed: Annotated[int | None, optional("N", "draw, as this number decides", "1")] = None,
    beam_size: Annotated[int | None, optional("N", "hypotheses kept a step; 1 is greedy", "1")] = None,
    n_best: Annotated[int | None, optional("N", "continuations a line; more than one need --json", "1")] = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: Annotated[int | None, optional("N", "tokens of all texts at a time")] = None,
    json: Annotated[bool, flag("a JSON object a line, with score, tokens, alternatives")] = False,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: ThreadsOfAWorker = None,
    workers: Workers = 1,
) -> int:
    """Continue prompts, one a line: each is written with what follows it, in the order of the input. The text of a
    model of running text may have lines of its own; --json keeps each text on one line.

    Without an option that draws, it is the most probable text that is looked for, with --beam-size by beam search.

    example: pellucid generate run --max-new-tokens 300 --temperature 0.8 --seed 1 < prompts.txt
    example: pellucid generate run --beam-size 5 --n-best 3 --json < prompts.txt
    """
    from functools import partial
    from json import dumps

    from pellucid.config.tables import to_table
    from pellucid.errors import ConfigError
    from pellucid.streams.streams import answering, identity, opened, text_stream
    from pellucid.streams.workers import answering_by
    from pellucid.tasks.language_model import LanguageModel

    if (n_best or 1) > 1 and not json:
        raise ConfigError(f"`--n-best {n_best}` needs --json: plain output has one text a line", "add --json")
    model = at_revision(model, revision)
    stream = text_stream(text, input, output, on_bad_utf8, fresh)
    each = prepare_process(threads, workers)
    with opened(stream) as source:
        load = partial(LanguageModel.load, model, device, dtype)
        writer = load()
        options: GenerateOptions = {
            "max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed,
            "batch_tokens": batch_tokens,
        }  # fmt: skip
        search: GenerateOptions = {"beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty}
        settings = {**to_table(writer.decode), **options, "as_json": json}
        # By itself: a beam that is asked for is not the model's own, even where the number is the same.
        settings |= {"search": given} if (given := {k: v for k, v in search.items() if v is not None}) else {}
        options |= search
        command = partial(identity, "generate", writer, settings)
        with (
            answering_by(workers, each, writer, load, options) as answered,
            answering(
                stream, source, command=command, nothing=("", "null" if json else ""), workers=workers
            ) as answers,
        ):
            for found in answered(iter(answers), answers.is_ready):
                answers.write(
                    dumps(one.to_json(), ensure_ascii=False) if json else one.prompt + one.text for one in found
                )
    return 0
