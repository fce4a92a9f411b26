"""Settings of OpusFilter and OpusCleaner as ours: the filters that say the same become rules and limits.

What has no counterpart here is refused by name, each filter and each parameter, or told where it only moves files:
nothing is dropped in silence.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.data.faults import Fault
from pellucid.data.judging import Limits
from pellucid.errors import ConfigError, DataError, install, quoted, shown
from pellucid.files.reading import MOST_SETTINGS_BYTES

Parameters = Mapping[str, Any]
Say = Callable[[str], object]
"""Is given what there is to say of a file, a sentence each."""
UNITS = {"word": "words", "char": "characters", "character": "characters"}
KANA = {"Hiragana": "Kana", "Katakana": "Kana"}
OF_FILES = frozenset(
    {"opus_read", "concatenate", "download", "head", "tail", "slice", "split", "unzip", "write", "product", "subset"}
)
"""Steps of OpusFilter that fetch and move files, which is not done here."""
REWRITING = frozenset(
    {"deescape_tsv", "deescape-special-chars", "detokenizer", "fix_elitr_eca", "fix_quotes", "fix_sent_final_punct",
     "fix_un_chinese", "fix_wiki", "normalize_whitespace", "opusfilter/WhitespaceNormalizer"}
)  # fmt: skip
"""Filters of OpusCleaner that rewrite text, which is not done here: a tokenizer evens most of it out."""


def read_opusfilter(path: Path, say: Say) -> tuple[Limits, frozenset[Fault]]:
    """Returns the limits and rules of an OpusFilter configuration, a YAML file.

    Raises ConfigError where it has filters that are not known here, and where PyYAML is not installed.
    """
    table = _yaml(path)
    steps = table.get("steps") if isinstance(table, dict) else None
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ConfigError(f"`{shown(path)}` has no list of `steps`", "give a configuration of OpusFilter")
    reading = _Reading(path, say)
    for step in steps:
        kind, parameters = str(step.get("type", "")), step.get("parameters") or {}
        if kind == "remove_duplicates":
            reading.repeats(parameters)
        elif kind == "filter":
            for name, settings in _filters(path, parameters.get("filters") or []):
                reading.opusfilter(name, settings)
        elif kind in OF_FILES:
            reading.tell(f"step {kind} is not done here: it moves files")
        else:
            reading.refused.append(f"step {kind}")
    return reading.found()


def read_opuscleaner(path: Path, say: Say) -> tuple[Limits, frozenset[Fault]]:
    """Returns the limits and rules of an OpusCleaner pipeline, a JSON file. Raises ConfigError as above."""
    try:
        table = json.loads(_text(path))
    except ValueError as error:
        raise ConfigError(f"`{shown(path)}` is not JSON: {error}", "give a .filters.json of OpusCleaner") from error
    filters = table.get("filters") if isinstance(table, dict) else None
    if not isinstance(filters, list) or not all(isinstance(each, dict) and "filter" in each for each in filters):
        raise ConfigError(f"`{shown(path)}` has no list of `filters`", "give a .filters.json of OpusCleaner")
    reading = _Reading(path, say)
    for each in filters:
        name, parameters = str(each["filter"]), each.get("parameters") or {}
        if name.startswith("opusfilter/") and name not in REWRITING:
            reading.opusfilter(name.removeprefix("opusfilter/"), parameters)
        elif name in REWRITING:
            reading.tell(f"{name} is not done here: it rewrites text")
        else:
            reading.opuscleaner(name, {key: value for key, value in parameters.items() if key != "DEBUG"})
    return reading.found()


@dataclass
class _Reading:
    """The limits and rules that have been read so far, and what is refused."""

    path: Path
    say: Say
    limits: dict[str, Any] = field(default_factory=dict)
    rules: set[Fault] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def found(self) -> tuple[Limits, frozenset[Fault]]:
        """Returns what was read. Raises ConfigError where something is not known here, or nothing was read."""
        if self.refused:
            raise ConfigError(
                f"`{shown(self.path)}` asks for what is not known here: {', '.join(map(shown, self.refused))}",
                "leave that out of a copy of the file, or do it with the other program",
            )
        if not self.rules:
            raise ConfigError(f"`{shown(self.path)}` has no filter", "leave it out")
        return Limits(**self.limits), frozenset(self.rules)

    def tell(self, text: str) -> None:
        """Says something of the file."""
        self.say(f"`{shown(self.path)}`: {text}")

    def take(self, name: str, given: Parameters, known: Parameters) -> dict[str, Any] | None:
        """Returns the parameters of a filter with their defaults; None where some are not known, which is noted.

        One value for all sides stands as itself; a list of equal ones is one.
        """
        unknown = [f"{name}.{key}" for key in given if key not in known]
        values = {**known, **given}
        for key, value in values.items():
            if isinstance(value, list) and not isinstance(known.get(key), list | tuple):
                values[key] = value[0] if value and all(each == value[0] for each in value) else value
        for key, value in values.items():
            standard = known.get(key)
            numbers = isinstance(standard, int | float) and not isinstance(standard, bool)
            right = isinstance(value, int | float) if numbers else isinstance(value, type(standard))
            if key in given and key in known and standard is not None and not right:
                unknown.append(f"{name}.{key} = {quoted(value)}")
        self.refused += unknown
        return None if unknown else values

    def set(self, *rules: Fault, **limits: Any) -> None:
        """Adds rules and limits. What was set to another value by a filter before is refused."""
        self.rules |= set(rules)
        for name, value in limits.items():
            if self.limits.setdefault(name, value) != value:
                self.refused.append(f"{name} = {value} beside {self.limits[name]}")

    def repeats(self, given: Parameters) -> None:
        """Takes OpusFilter's step that removes what occurs twice."""
        known = {"inputs": [], "outputs": [], "compare": "all", "hash": "", "lowercase": False, "letters_only": False}
        if values := self.take("remove_duplicates", given, known):
            if values["compare"] != "all":
                self.refused.append(f"remove_duplicates.compare = {quoted(values['compare'])}")
            self.set("duplicate")
            if values["lowercase"] or values["letters_only"]:
                self.set("near_duplicate")

    def opusfilter(self, name: str, given: Parameters) -> None:
        """Takes a filter of OpusFilter."""
        known = OPUSFILTER.get(name)
        if known is None:
            self.refused.append(name)
            return
        values = self.take(name, {key: value for key, value in given.items() if key != "name"}, known)
        if values is None:
            return
        if "unit" in values and values["unit"] not in UNITS:
            self.refused.append(f"{name}.unit = {quoted(values['unit'])}")
            return
        match name:
            case "LengthFilter":
                self.set("empty", "too_long", "too_short", length_unit=UNITS[values["unit"]],
                         min_words=int(values["min_length"]), max_words=int(values["max_length"]))  # fmt: skip
            case "LengthRatioFilter":
                self.set("ratio", max_ratio=float(values["threshold"]), ratio_unit=UNITS[values["unit"]])
            case "LongWordFilter":
                self.set("long_word", max_word_length=int(values["threshold"]) - 1)
            case "HtmlTagFilter":
                self.set("markup")
            case "NonZeroNumeralsFilter":
                self.tell("NonZeroNumeralsFilter: whole numbers of two digits and more are compared, not digits")
                self.set("numbers", min_agreement=float(values["threshold"]))
            case "RepetitionFilter":
                self.set("repetition", max_repetitions=int(values["threshold"]))
            case "AlphabetRatioFilter":
                self.tell("AlphabetRatioFilter: spaces are not counted")
                self.set("letters", min_letters=float(values["threshold"]), letters_of="characters")
            case "CharacterScoreFilter":
                parts = values["thresholds"]
                if len(values["scripts"]) != 2 or len(set(map(float, parts))) > 1:
                    self.refused.append(f"{name} with {values['scripts']} and {values['thresholds']}")
                else:
                    scripts = [KANA.get(script, str(script)) for script in values["scripts"]]
                    self.set(
                        "script", scripts=(scripts[0], scripts[1]), max_foreign=1 - float(parts[0] if parts else 1)
                    )
            case _:
                self.languages(name, values["languages"])

    def opuscleaner(self, name: str, given: Parameters) -> None:
        """Takes a filter of OpusCleaner's own."""
        known = OPUSCLEANER.get(name)
        if known is None:
            self.refused.append(name)
            return
        values = self.take(name, given, known)
        if values is None:
            return
        match name:
            case "max_length":
                self.set("empty", "too_long", "too_short", length_unit="words",
                         min_words=int(values["MINLENGTH"]), max_words=int(values["MAXLENGTH"]))  # fmt: skip
            case "max_word_length":
                self.set("long_word", max_word_length=int(values["MAXWORDLENGTH"]))
            case "src_trg_ratio":
                if values["LOG"] or not 0 < values["RATIO"] < 1:
                    self.refused.append(f"src_trg_ratio with {values}")
                else:
                    self.set("ratio", max_ratio=1 / values["RATIO"], ratio_unit="words")
            case "num_mismatch":
                self.tell("num_mismatch: half of the numbers must agree, whatever its RATIO")
                self.set("numbers")
            case "url_mismatch":
                self.set("address")
            case "remove_empty_lines":
                self.set("empty")
            case _:
                self.languages(name, [values["LANG1"], values["LANG2"]])

    def languages(self, name: str, languages: Any) -> None:
        """Takes a filter that identifies languages."""
        if not isinstance(languages, list) or len(languages) != 2:
            self.refused.append(f"{name} with {quoted(languages)}")
            return
        self.tell(f"{name}: py3langid identifies the languages here, where it is sure of another by 0.9")
        self.set("language", languages=(str(languages[0]), str(languages[1])))


OPUSFILTER: Mapping[str, Parameters] = {
    "LengthFilter": {"min_length": 1, "max_length": 100, "unit": "word", "pass_empty": False},
    "LengthRatioFilter": {"threshold": 3, "unit": "word"},
    "LongWordFilter": {"threshold": 40},
    "HtmlTagFilter": {},
    "CharacterScoreFilter": {"scripts": [], "thresholds": []},
    "LanguageIDFilter": {
        "languages": [], "id_method": "langid", "thresholds": [], "fasttext_model_path": "", "langid_languages": []
    },
    "NonZeroNumeralsFilter": {"threshold": 0.5, "require_all": True},
    "RepetitionFilter": {"threshold": 2, "min_length": 3, "max_length": 100},
    "AlphabetRatioFilter": {"threshold": 0.75, "exclude_whitespace": False},
}  # fmt: skip
"""The filters of OpusFilter that are known, with their parameters at OpusFilter's defaults."""
OPUSCLEANER: Mapping[str, Parameters] = {
    "max_length": {"MAXLENGTH": 150, "MINLENGTH": 1},
    "max_word_length": {"MAXWORDLENGTH": 150},
    "src_trg_ratio": {"RATIO": 0.6, "LOG": False},
    "num_mismatch": {"RATIO": 1.0},
    "url_mismatch": {},
    "remove_empty_lines": {},
    "fasttext_filter": {"FASTTEXT_MODEL_TYPE": "nllb", "LANG1": "en", "LANG2": "en"},
}
"""The same of OpusCleaner."""


def _filters(path: Path, filters: Any) -> list[tuple[str, Parameters]]:
    """Returns the filters of a step: each a table of one name with its parameters."""
    found: list[tuple[str, Parameters]] = []
    for each in filters if isinstance(filters, list) else [filters]:
        names = [key for key in each if key != "module"] if isinstance(each, dict) else []
        if len(names) != 1 or not isinstance(each[names[0]] or {}, dict):
            raise ConfigError(f"`{shown(path)}` has a filter {quoted(each)}", "each must be `Name: {parameters}`")
        found.append((str(names[0]), each[names[0]] or {}))
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_SETTINGS_BYTES).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"`{shown(path)}` is not UTF-8 text", "name the file of settings") from error
    except OSError as error:
        raise DataError(f"cannot read `{shown(path)}`: {error.strerror}", "check the path") from error


def _yaml(path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError("to read YAML, PyYAML must be installed", install("opusfilter")) from error
    loader: Any = type("Loader", (yaml.SafeLoader,), {})
    # What OpusFilter puts in by its variables, `!var` and `!varstr`, is taken for text.
    loader.add_multi_constructor("!", lambda _, suffix, node: f"!{suffix} {node.value}")
    try:
        return yaml.load(_text(path), loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(
            f"`{shown(path)}` is not YAML: {str(error)[:200]}", "give a configuration of OpusFilter"
        ) from error
