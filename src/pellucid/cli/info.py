"""`pellucid info`."""

from typing import Annotated

from pellucid.cli.options import (
    Device,
    Dtype,
    Model,
    Revision,
    SourceLanguage,
    TargetLanguage,
    add_revision,
    flag,
    optional,
)


def info(
    model: Model,
    /,
    *,
    tensors: Annotated[bool, flag("list all tensors with their shapes")] = False,
    shapes: Annotated[str, optional("TEXT", "print each step of a forward pass for this text", "none")] = "",
    target: Annotated[str, optional("TEXT", "with --shapes: translation of the text", "the model's translation")] = "",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print a summary of a model: task, shape, vocabulary and size; for a run also its training data and scores. With
    --tensors, list the tensors. With --shapes, print a forward pass for a text step by step, from the ids to the most
    probable tokens, with shapes and numbers.

    example: pellucid info run
    example: pellucid info run --tensors
    example: pellucid info run --shapes "Ein Hund läuft."
    """
    from pellucid.errors import ConfigError, escape_message
    from pellucid.run.info import describe
    from pellucid.streams.source import check_is_text
    from pellucid.tasks.task import open_model
    from pellucid.views.model_summary import list_parameters, summarize_pass

    given = {"--target": target, "--src-lang": src_lang, "--tgt-lang": tgt_lang}
    for option in (name for name, value in given.items() if value and not shapes):
        raise ConfigError(f"`{option}` requires --shapes", f"leave {option} out, or add --shapes TEXT")
    if tensors and shapes:
        raise ConfigError("`--tensors` and `--shapes` exclude each other", "leave one out")
    for text in (shapes, target):
        check_is_text(text, "give one line of the text")
    model = add_revision(model, revision)
    saved = open_model(model, device, dtype)
    if shapes:
        lines = summarize_pass(saved, shapes, target, src_lang, tgt_lang)
    else:
        lines = list_parameters(saved.model) if tensors else describe(model, saved)
    print(escape_message("\n".join(lines)))
    return 0
