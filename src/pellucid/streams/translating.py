"""A translation of lines as it was asked for: said once, and done alike by whatever process is given it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.config import SamplingConfig
from pellucid.config.tables import to_table
from pellucid.streams.streams import identity

if TYPE_CHECKING:
    from pellucid.tasks.translator import Translation, Translator


@dataclass(frozen=True, kw_only=True)
class Translating:
    """The model, the search and the form of the answers; another process may be sent it."""

    model: str
    """A folder, or a name on the hub."""
    loading: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of `Translator.load` beside the folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of `Translator.translate` that are not the model's own."""
    sampling: SamplingConfig | None = None
    as_json: bool = False

    def load(self) -> "Translator":
        """Opens the translator. Raises what `Translator.load` raises, and `load_reranker` where one is named."""
        from pellucid.tasks.translator import Translator

        translator = Translator.load(self.model, **self.loading)
        if "rerank" in self.options:
            translator._reranker(self.options["rerank"])
        return translator

    @property
    def answering(self) -> dict[str, Any]:
        """The options of `Translator.answer`."""
        return {**self.options, "sampling": self.sampling, "confidence": self.as_json}

    @property
    def nothing(self) -> tuple[str, str]:
        """The line that stands for one that is left out, and what is written for it."""
        return "", "null" if self.as_json else ""

    def identity(self, translator: "Translator") -> dict[str, Any]:
        """Returns what decides the answers beside the lines, as JSON has it."""
        from pellucid.tasks.translator import confidence_settings
        from pellucid.text.training_text import TrainingText

        settings = {
            **to_table(translator.decode), **self.options, "sampling": asdict(self.sampling) if self.sampling else None,
            "as_json": self.as_json, "text": to_table(translator.text or TrainingText()),  # by which lines are cut
            **confidence_settings(translator, asked=self.as_json),
        }  # fmt: skip
        if "rerank" in settings:
            from pellucid.tasks.reranking import reranking_in  # it brings numpy

            settings["rerank"] = reranking_in(settings["rerank"])  # what it says, wherever it lies
        return identity("translate", translator, settings)

    def line(self, translation: "Translation") -> str:
        """Returns what is written for a translation."""
        return json.dumps(translation.to_json(), ensure_ascii=False) if self.as_json else translation.text
