"""Identifies the language of a line, by py3langid (the extra `langid`), which brings its model of some hundred."""

from typing import Any

from pellucid.errors import ConfigError, did_you_mean, install, shown


class Identifier:
    """An identifier of languages. Raises ConfigError where the extra is not installed."""

    def __init__(self) -> None:
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError as error:
            raise ConfigError(
                "to identify languages, py3langid must be installed",
                f"{install('langid')}; without languages it goes by the letters that are usual on each side",
            ) from error
        self._identifier: Any = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self._names = [str(name) for name in self._identifier.labels]

    def check(self, name: str) -> None:
        """Raises ConfigError for the code of a language that is not known."""
        if name not in self._names:
            raise ConfigError(
                f"no language `{shown(name)}` is known{did_you_mean(name, self._names)}",
                f"choose one of {', '.join(sorted(self._names))}",
            )

    def identify(self, text: str) -> tuple[str, float]:
        """Returns the code of the most probable language of a text, and its probability."""
        name, probability = self._identifier.classify(text)
        return str(name), float(probability)
