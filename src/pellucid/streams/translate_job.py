"""A request to translate lines: model, search options and output format, picklable for use in any process."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.config.tables import to_table
from pellucid.data.lines import hash_path
from pellucid.data.memory_file import resolve_memory
from pellucid.errors import ConfigError, format_argument
from pellucid.streams.streams import fingerprint_request
from pellucid.tasks.search_options import SearchOptions

if TYPE_CHECKING:
    from pellucid.tasks.translation import Translation
    from pellucid.tasks.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Translating:
    """The model, the search and the format of the answers; can be sent to another process."""

    model: str
    """A folder, or a name on the Hugging Face hub."""
    loading: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of `Translator.load` except the folder."""
    options: SearchOptions = field(default_factory=SearchOptions)
    as_json: bool = False
    codes: tuple[str | None, str | None] = (None, None)
    """The source and target language of a folder with documents: a model of two languages needs none of them."""

    def __post_init__(self) -> None:
        options = self.options
        several = {
            "n_best": (options.n_best or 1) > 1,
            "next_token_alternatives": options.next_token_alternatives is not None,
        }
        for name in (name for name, is_given in several.items() if is_given and not self.as_json):
            option = format_argument(name, getattr(self.options, name))
            raise ConfigError(
                f"{option} requires `json=True`: plain output has one line per sentence", "add `json=True`"
            )

    def load(self) -> "Translator":
        """Loads the translator. Raises the errors of `Translator.load`, and of `open_reranker` if `rerank` is set."""
        from pellucid.tasks.translator import Translator

        translator = Translator.load(self.model, **self.loading)
        if translator.languages and any(self.codes):
            source, target = self.codes
            translator.decode = translator.configure(SearchOptions(source_language=source, target_language=target))
        if self.options.rerank is not None:
            from pellucid.tasks.reranking import open_reranker  # it imports numpy

            open_reranker(self.options.rerank, translator)
        return translator

    @property
    def answering(self) -> dict[str, Any]:
        """The options of `Translator.process_lines`."""
        return {**self.options.non_defaults, "confidence": self.as_json}

    @property
    def nothing(self) -> tuple[str, str]:
        """The line that replaces a skipped one, and the output written for it."""
        return "", "null" if self.as_json else ""

    def identity(self, translator: "Translator") -> dict[str, Any]:
        """Returns the settings that determine the answers in addition to the lines, as JSON values."""
        from pellucid.tasks.translator import confidence_settings
        from pellucid.text.training_text import TrainingTextStats

        sampling = self.options.sampling
        settings = {
            **to_table(translator.decode), **self.options.non_defaults,
            "sampling": asdict(sampling) if sampling else None,
            "as_json": self.as_json, "text": to_table(translator.text or TrainingTextStats()),  # used to segment lines
            **confidence_settings(translator, asked=self.as_json or self.options.min_confidence is not None),
        }  # fmt: skip
        if self.options.rerank is not None:
            from pellucid.tasks.reranking import read_reranking

            settings["rerank"] = read_reranking(str(self.options.rerank))  # by content, not by path
        if self.options.memory is not None:
            settings["memory"] = hash_path(resolve_memory(self.options.memory))
        return fingerprint_request("translate", translator, settings)

    def line(self, translation: "Translation") -> str:
        """Returns the output line of a translation, whose line breaks become spaces in plain output."""
        if self.as_json:
            return json.dumps(translation.to_json(), ensure_ascii=False)
        return " ".join(translation.text.split()) if "\n" in translation.text else translation.text
