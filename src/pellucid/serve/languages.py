"""The languages of a server: codes as clients write them, names, and the detection of the language of a text."""

import re
import tomllib
from collections.abc import Collection, Iterable
from functools import cache, cached_property
from importlib import resources
from typing import Any

from pellucid.data.translation_memory import THREE_LETTERS
from pellucid.errors import ConfigError

_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,3}")
_ALIASES = {
    "nb": ("no",), "no": ("nb",), "nn": ("no", "nb"), "pb": ("pt-br", "pt"), "zt": ("zh-hant", "zh"),
    "zh-cn": ("zh-hans", "zh"), "zh-sg": ("zh-hans", "zh"), "zh-tw": ("zh-hant", "zh"), "zh-hk": ("zh-hant", "zh"),
    "iw": ("he",), "ji": ("yi",), "in": ("id",), "tl": ("fil",), "fil": ("tl",),
}  # fmt: skip
"""Other codes of a language, in the order in which they are tried."""


def normalize_code(code: str) -> str:
    """Returns a code in lower case with hyphens and two letters where there are two: `deu_Latn` is `de-latn`."""
    language, _, rest = code.strip().replace("_", "-").lower().partition("-")
    language = THREE_LETTERS.get(language, language)
    return f"{language}-{rest}" if rest and rest != "xx" else language


def display_code(code: str) -> str:
    """Returns a normalized code as it is listed: `pt-BR`, `zh-Hans`."""
    language, *rest = code.split("-")
    return "-".join([language, *(part.title() if len(part) == 4 else part.upper() for part in rest)])


def find_code(code: str, known: Collection[str]) -> str | None:
    """Returns the code among `known`, which are normalized, that a client's code means; None if it is none.

    A script or region that is not there falls back to the language, then to the language with another region.
    """
    if not _CODE.fullmatch(code.strip()):
        return None
    wanted = normalize_code(code)
    language = wanted.partition("-")[0]
    for each in (wanted, *_ALIASES.get(wanted, ()), language, *_ALIASES.get(language, ())):
        if each in known:
            return each
    return next((each for each in sorted(known) if each.partition("-")[0] == language), None)


@cache
def _names() -> dict[str, str]:
    table = tomllib.loads((resources.files("pellucid.serve") / "languages.toml").read_text(encoding="utf-8"))
    return {code: str(name) for code, name in table.items()}


def language_name(code: str) -> str:
    """Returns the English name of a language by its normalized code; the code itself if it is unknown."""
    names, (language, *rest) = _names(), code.split("-")
    name = names.get(code) or names.get(language, display_code(code))
    shown = ", ".join(display_code(f"x-{part}")[2:] for part in rest)
    return name if code in names or not shown else f"{name} ({shown})"


class Detector:
    """Finds the language of a text among the languages that are served.

    Without the extra `langid`, and for languages that it does not know, it is the only source language.
    """

    def __init__(self, sources: Iterable[str], languages: Iterable[str]) -> None:
        self._sources, self._languages = sorted(set(sources)), sorted(set(languages))

    @cached_property
    def _identifier(self) -> Any:
        from pellucid.data.identification import Identifier

        try:
            return Identifier(self._languages)
        except ConfigError:
            return None

    def detect(self, text: str) -> tuple[str, float]:
        """Returns the normalized code of a language and the probability, 0 to 1; ("en", 0) for a text of no letters."""
        if not any(map(str.isalpha, text)):
            return "en", 0.0
        if self._identifier is None:
            return self._sources[0], 1.0 if len(self._languages) == 1 else 0.5
        code, probability = self._identifier.identify(text)
        return find_code(code, self._languages) or self._sources[0], probability
