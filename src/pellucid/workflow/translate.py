"""`pellucid translate`: lines from a stream through a translator, in their order, a stretch at a time."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

from pellucid.decoding.sampling import SamplingConfig
from pellucid.tables import to_table
from pellucid.tasks.translator import Translation, Translator
from pellucid.text.unknown import UnknownShare
from pellucid.workflow.identity import identity
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.streams import Stream, answer_lines, opened


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
    stream: Stream,
    search: SearchOptions,
    sampling: SamplingConfig | None,
    *,
    as_json: bool,
    device: str,
    dtype: str | None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Translates the lines of a stream, each to a line."""
    keep_freed_memory()
    with opened(stream) as source:
        translator = Translator.load(folder, device, dtype, source_language, target_language)
        unknown = UnknownShare(translator.tokenizers.source)
        given = {name: value for name, value in asdict(search).items() if value is not None}

        def answer(lines: list[str], place: int) -> Iterator[str]:
            unknown.look_at(lines)
            if sampling is None:
                found = translator.translate(lines, **given)
            else:
                found = translator.sample(lines, sampling, search.max_length, first_place=place)
            return (_as_json(translation) if as_json else translation.text for translation in found)

        drawing = None if sampling is None else asdict(sampling)
        settings = {**to_table(translator.decode), **given, "sampling": drawing, "as_json": as_json}
        command = partial(identity, "translate", translator.model, translator.tokenizers, settings)
        answer_lines(stream, source, answer, command=command, nothing=("", "null" if as_json else ""))


def _as_json(translation: Translation) -> str:
    def table(t: Translation) -> dict[str, object]:
        return {"text": t.text, "score": round(t.score, 5), "tokens": t.tokens}

    others = [table(t) for t in translation.alternatives]
    return json.dumps(table(translation) | ({"alternatives": others} if len(others) > 1 else {}), ensure_ascii=False)
