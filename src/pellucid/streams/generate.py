"""`pellucid generate`: prompts from a stream, each written with what a language model adds, in their order."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pellucid.config.tables import to_table
from pellucid.process import keep_freed_memory
from pellucid.streams.identity import identity
from pellucid.streams.streams import Stream, answer_lines, opened
from pellucid.tasks.language_model import Generation, LanguageModel
from pellucid.text.tokenizers import Tokenizers


def generate_stream(
    folder: str,
    stream: Stream,
    *,
    max_new_tokens: int,
    drawing: Mapping[str, Any],
    batch_tokens: int | None,
    as_json: bool,
    device: str,
    dtype: str | None,
) -> None:
    """Continues the lines of a stream.

    `drawing` are the options of LanguageModel.generate that decide how tokens are drawn.
    """
    keep_freed_memory()
    with opened(stream) as source:
        model = LanguageModel.load(folder, device, dtype)

        def answer(lines: list[str], place: int) -> Iterator[str]:
            found = model.generate(
                lines, max_new_tokens=max_new_tokens, batch_tokens=batch_tokens, first_place=place, **drawing
            )
            return (_as_json(text) if as_json else text.prompt + text.text for text in found)

        written = {"max_new_tokens": max_new_tokens, **drawing, "as_json": as_json}
        settings = {**to_table(model.decode), **written}
        tokenizers = Tokenizers(model.tokenizer, model.tokenizer)
        command = partial(identity, "generate", model.model, tokenizers, settings)
        answer_lines(stream, source, answer, command=command, nothing=("", "null" if as_json else ""))


def _as_json(generation: Generation) -> str:
    def table(one: Generation) -> dict[str, object]:
        return {
            "prompt": one.prompt,
            "text": one.text,
            "score": round(one.score, 5),
            "tokens": one.tokens,
            "ended": one.ended,
        }

    others = [table(one) for one in generation.alternatives]
    return json.dumps(table(generation) | ({"alternatives": others} if len(others) > 1 else {}), ensure_ascii=False)
