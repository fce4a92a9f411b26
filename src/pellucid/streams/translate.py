"""`pellucid translate`: lines from a stream through a translator, in their order, a stretch at a time."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

from pellucid.config import SamplingConfig
from pellucid.config.tables import to_table
from pellucid.process import keep_freed_memory
from pellucid.streams.identity import identity
from pellucid.streams.streams import Stream, answer_lines, opened
from pellucid.tasks.translator import LongText, Translation, Translator, too_long_text
from pellucid.text.tokenizer import UnknownShare
from pellucid.text.training_text import TrainingText


@dataclass(frozen=True)
class SearchOptions:
    """What the command line may set of a search; None: as the model has it."""

    beam_size: int | None = None
    n_best: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None
    batch_tokens: int | None = None
    segment: str | None = None


class TextNotes:
    """Counts, over all of a stream, the lines and sentences that are longer than what the model was trained on."""

    def __init__(self, text: TrainingText | None) -> None:
        """`text`: what the model's training lines were; None: not known, and nothing is said."""
        self.text = text or TrainingText()
        self.cut = self.too_long = self.longest = 0

    def add(self, found: Iterable[Translation]) -> None:
        """Takes the translations of some lines into account."""
        for translation in found:
            lengths = [sentence.length for sentence in translation.sentences]
            self.cut += len(lengths) > 1 and self.text.is_too_long(sum(lengths))
            self.too_long += sum(map(self.text.is_too_long, lengths))
            self.longest = max([self.longest, *lengths])

    def lines(self) -> list[str]:
        """Returns what there is to say at the end, a line each."""
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
    with warnings.catch_warnings(), opened(stream) as source:
        warnings.simplefilter("ignore", LongText)  # it is said once, at the end
        translator = Translator.load(folder, device, dtype, source_language, target_language)
        notes = TextNotes(translator.text)
        unknown = UnknownShare(translator.tokenizers.source)
        given = {name: value for name, value in asdict(search).items() if value is not None}

        def answer(lines: list[str], place: int) -> Iterator[str]:
            unknown.look_at(lines)
            if sampling is None:
                found = translator.translate(lines, **given)
            else:
                found = translator.sample(lines, sampling, search.max_length, first_place=place, segment=search.segment)
            notes.add(found)
            return (_as_json(translation) if as_json else translation.text for translation in found)

        drawing = None if sampling is None else asdict(sampling)
        settings = {**to_table(translator.decode), **given, "sampling": drawing, "as_json": as_json}
        settings["text"] = to_table(notes.text)  # by which lines are cut
        command = partial(identity, "translate", translator.model, translator.tokenizers, settings)
        answer_lines(stream, source, answer, command=command, nothing=("", "null" if as_json else ""))
    for note in notes.lines():
        print(f"note: {note}", file=sys.stderr)


def _as_json(translation: Translation) -> str:
    def table(t: Translation) -> dict[str, object]:
        return {"text": t.text, "score": round(t.score, 5), "tokens": t.tokens}

    whole, others = table(translation), [table(t) for t in translation.alternatives]
    if len(translation.sentences) > 1:
        whole["sentences"] = [
            {"source": s.source, "text": s.text, "score": round(s.score, 5)} for s in translation.sentences
        ]
    return json.dumps(whole | ({"alternatives": others} if len(others) > 1 else {}), ensure_ascii=False)
