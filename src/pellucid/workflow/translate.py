"""`pellucid translate`: lines from a stream through a translator, in their order, a stretch at a time."""

import json
import sys
from dataclasses import asdict, dataclass

from pellucid.data.corpus import read_lines
from pellucid.decoding.sampling import SamplingConfig
from pellucid.tasks.translator import Translation, Translator
from pellucid.text.unknown import UnknownShare
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.streams import stretches, writer


@dataclass(frozen=True)
class SearchOptions:
    """What the command line may set of a search; None: as the model has it."""

    beam_size: int | None = None
    n_best: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None
    batch_tokens: int | None = None


def translate_stream(
    folder: str,
    input_path: str,
    output_path: str,
    search: SearchOptions,
    sampling: SamplingConfig | None,
    *,
    as_json: bool,
    device: str,
    dtype: str | None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Translates the lines of a file, or of standard input for "-", to a file or standard output."""
    keep_freed_memory()
    translator = Translator.load(folder, device, dtype, source_language, target_language)
    unknown = UnknownShare(translator.tokenizers.source)
    with writer(output_path) as file:
        number = 0
        for lines in stretches(read_lines(input_path), at_once=input_path == "-" and sys.stdin.isatty()):
            unknown.look_at(lines)
            if sampling is None:
                given = {name: value for name, value in asdict(search).items() if value is not None}
                found = translator.translate(lines, **given)
            else:
                found = translator.sample(lines, sampling, search.max_length, first_place=number)
            number += len(lines)
            for translation in found:
                file.write((_as_json(translation) if as_json else translation.text) + "\n")
            file.flush()


def _as_json(translation: Translation) -> str:
    def table(t: Translation) -> dict[str, object]:
        return {"text": t.text, "score": round(t.score, 5), "tokens": t.tokens}

    others = [table(t) for t in translation.alternatives]
    return json.dumps(table(translation) | ({"alternatives": others} if len(others) > 1 else {}), ensure_ascii=False)
