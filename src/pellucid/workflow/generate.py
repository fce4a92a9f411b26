"""`pellucid generate`: prompts from a stream, each written with what a language model adds, in their order."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pellucid.data.corpus import read_lines
from pellucid.tasks.language_model import Generation, LanguageModel
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.streams import stretches, writer


def generate_stream(
    folder: str,
    input_path: str,
    output_path: str,
    *,
    max_new_tokens: int,
    drawing: Mapping[str, Any],
    batch_tokens: int | None,
    as_json: bool,
    device: str,
    dtype: str | None,
) -> None:
    """Continues the lines of a file, or of standard input for "-", to a file or standard output.

    `drawing` are the options of LanguageModel.generate that decide how tokens are drawn.
    """
    keep_freed_memory()
    model = LanguageModel.load(folder, device, dtype)
    with writer(output_path) as file:
        number = 0
        for lines in stretches(read_lines(input_path), at_once=input_path == "-" and sys.stdin.isatty()):
            found = model.generate(
                lines, max_new_tokens=max_new_tokens, batch_tokens=batch_tokens, first_place=number, **drawing
            )
            number += len(lines)
            for generation in found:
                file.write((_as_json(generation) if as_json else generation.prompt + generation.text) + "\n")
            file.flush()


def _as_json(generation: Generation) -> str:
    return json.dumps(asdict(generation) | {"score": round(generation.score, 5)}, ensure_ascii=False)
