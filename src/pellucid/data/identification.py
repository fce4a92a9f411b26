"""Identifies the language of a line by py3langid (the extra `langid`), whose model covers about a hundred languages."""

from collections.abc import Iterable
from typing import Any

from pellucid.errors import ConfigError, did_you_mean, format_install_command, format_value


class Identifier:
    """A language identifier, of some languages by their codes or of all. Raises ConfigError if the extra is missing."""

    def __init__(self, languages: Iterable[str] = ()) -> None:
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError as error:
            raise ConfigError(
                "identifying languages requires py3langid, which is not installed",
                f"{format_install_command('langid')}; without languages the check uses the usual letters of each side",
            ) from error
        self._identifier: Any = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self._names = [str(name) for name in self._identifier.labels]
        if known := sorted({*languages} & {*self._names}):
            self._identifier.set_languages(known)

    def check(self, name: str) -> None:
        """Raises ConfigError for an unknown language code."""
        if name not in self._names:
            raise ConfigError(
                f"unknown language `{format_value(name)}`{did_you_mean(name, self._names)}",
                f"choose one of {', '.join(sorted(self._names))}",
            )

    def identify(self, text: str) -> tuple[str, float]:
        """Returns the code of the most probable language of a text, and its probability."""
        name, probability = self._identifier.classify(text)
        return str(name), float(probability)
