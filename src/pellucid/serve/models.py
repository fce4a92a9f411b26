"""The models of a server: their language pairs, and the models in memory, which are loaded on first use."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError, ConfigError, format_list, format_value
from pellucid.serve.languages import find_code, normalize_code
from pellucid.tasks.task import detect_task, resolve_model
from pellucid.tasks.translator import Translator
from pellucid.text.foreign_files import SETTINGS, ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.language_codes import codes_are_special, language_ids
from pellucid.weights.folder import is_hugging_face_folder, read_config

_NAMED = re.compile(r"(?:([A-Za-z0-9_]{1,20})-([A-Za-z0-9_]{1,20})=)?(.+)", re.DOTALL)
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
IN_MEMORY = 1.5
"""The memory of a model in bytes of its weights' files, with the buffers of its first passes."""

Pair = tuple[str, str]
"""The normalized codes of source and target."""


@dataclass(eq=False)
class ServedModel:
    """A model folder with the pairs that it translates."""

    name: str
    """The folder, or the name on the hub, as the caller wrote it."""
    folder: Path
    pairs: dict[Pair, Pair] = field(default_factory=dict)
    """The pairs, each with the codes for `Translator.translate`; empty codes for a model without codes."""
    translator: Translator | None = None
    users: int = 0
    used: float = 0.0
    """The time of the last use."""


@dataclass(frozen=True)
class Leg:
    """A translation by one model."""

    model: ServedModel
    pair: Pair

    @property
    def options(self) -> dict[str, Any]:
        """The language options of `Translator.translate`."""
        source, target = self.model.pairs[self.pair]
        return {name: code for name, code in (("source_language", source), ("target_language", target)) if code}


class ModelPool:
    """The models of a server.

    Args:
        pivot: the language through which a missing pair is translated; empty: none.
        loading: the arguments of `Translator.load`.
        available: returns the bytes of memory that are free; None: unknown.

    Raises ConfigError for a model without a language pair, two models of one pair, or a pivot that no model has;
    CheckpointError if a folder has no model.
    """

    def __init__(
        self,
        models: Sequence[str | Path],
        pivot: str = "",
        loading: Mapping[str, Any] | None = None,
        available: "Callable[[], int | None] | None" = None,
    ) -> None:
        if isinstance(models, str | Path) or not models:
            raise ConfigError("a server requires a list of models", 'pass model folders, as in ["de-en=run"]')
        self.models: list[ServedModel] = [read_model(str(model)) for model in models]
        self.loading: dict[str, Any] = dict(loading or {})
        self._available = available or available_memory
        self._lock = threading.Lock()
        self.by_pair: dict[Pair, ServedModel] = {}
        for model in self.models:
            for pair in model.pairs:
                if pair in self.by_pair:
                    raise ConfigError(
                        f"`{format_value(self.by_pair[pair].name)}` and `{format_value(model.name)}` both translate "
                        f"{'-'.join(pair)}",
                        "leave one of them out",
                    )
                self.by_pair[pair] = model
        self.sources: list[str] = sorted({source for source, _ in self.by_pair})
        self.targets: list[str] = sorted({target for _, target in self.by_pair})
        self.languages: list[str] = sorted({*self.sources, *self.targets})
        self.pivot: str = ""
        if pivot:
            found = find_code(pivot, set(self.sources) & set(self.targets))
            if found is None:
                raise ConfigError(
                    f"`pivot={format_value(pivot)}` is not both the target of a model and the source of another",
                    f"the models have {format_list('-'.join(pair) for pair in sorted(self.by_pair))}",
                )
            self.pivot = found

    def find(self, source: str, target: str) -> list[Leg] | None:
        """Returns the one or two models of a pair of normalized codes; None if it is not translated."""
        if (source, target) in self.by_pair:
            return [Leg(self.by_pair[source, target], (source, target))]
        first, second = (source, self.pivot), (self.pivot, target)
        if self.pivot and first in self.by_pair and second in self.by_pair:
            return [Leg(self.by_pair[first], first), Leg(self.by_pair[second], second)]
        return None

    def targets_of(self, source: str) -> list[str]:
        """Returns the languages into which a language is translated."""
        return [target for target in self.targets if target != source and self.find(source, target)]

    @contextmanager
    def use(self, model: ServedModel) -> Iterator[Translator]:
        """Yields the translator of a model, which is loaded if it is not in memory.

        If memory is short, the models that were not used for the longest time are removed first.
        """
        with self._lock:
            if model.translator is None:
                self._make_room(model)
                model.translator = Translator.load(model.folder, **self.loading)
            model.users += 1
            translator = model.translator
        try:
            yield translator
        finally:
            with self._lock:
                model.users -= 1
                model.used = time.monotonic()

    def _make_room(self, model: ServedModel) -> None:
        needed = IN_MEMORY * sum(path.stat().st_size for pattern in _WEIGHTS for path in model.folder.glob(pattern))
        idle = sorted((each for each in self.models if each.translator and not each.users), key=lambda each: each.used)
        for each in idle:
            free = self._available()
            if free is None or free >= needed:
                return
            each.translator = None


def read_model(name: str) -> ServedModel:
    """Returns a model with its pairs, by its description alone. Raises the errors of ModelPool."""
    match = _NAMED.fullmatch(name)
    if match is None:
        raise ConfigError("the name of a model is empty", "name a model folder, as in `de-en=run`")
    source, target, place = match.groups()
    if source and Path(name).exists() and not Path(place).exists():
        source, target, place = None, None, name
    folder = resolve_model(place)
    task = detect_task(folder)
    if folder.is_dir() and task.name != "translate":
        raise CheckpointError(f"`{format_value(folder)}` holds {task.noun}, not a translator", f"use {task.use}")
    pairs, codes = _read_languages(folder)
    given = None if source is None else (source, target)
    return ServedModel(place, folder, _choose_pairs(place, pairs, codes, given))


def _read_languages(folder: Path) -> tuple[list[Pair], list[str] | None]:
    """Returns the pairs in a folder's description, and the codes of a model that translates between any two.

    The codes of a model with codes for the target alone are returned as pairs with an empty source.
    """
    if not is_hugging_face_folder(folder):
        table = read_config(folder)
        text = table.get("text")
        stated = text.get("pairs", []) if isinstance(text, dict) else []
        pairs = [(a, b) for a, dash, b in (str(pair).partition("-") for pair in stated) if dash]
        languages = table.get("languages") or {}
        tagged = pairs and languages
        if not languages or tagged:
            return pairs, [] if tagged else None
        return pairs, [*map(str, languages)]
    files = ForeignFiles(folder)
    tokenizers = load_hugging_face_tokenizers(files)
    found = language_ids(tokenizers) if tokenizers is not None else {}
    if found and tokenizers is not None:
        if codes_are_special(tokenizers, found):
            return [], [*found]
        return [("", code) for code in found], []
    sides = [files.table(SETTINGS).get(name) for name in ("source_lang", "target_lang")]
    return ([(str(sides[0]), str(sides[1]))] if all(sides) else []), None


def _choose_pairs(
    name: str, pairs: Sequence[Pair], codes: list[str] | None, given: tuple[str, str | None] | None
) -> dict[Pair, Pair]:
    """Returns the pairs of a model by their normalized codes, each with the model's own codes."""
    found: dict[Pair, Pair] = {}
    if codes:  # between any two of them
        by_code = {normalize_code(code): code for code in reversed(codes)}
        found = {(a, b): (by_code[a], by_code[b]) for a in by_code for b in by_code if a != b}
    elif codes is not None:  # tags, or codes for the target alone
        found = {(normalize_code(a), normalize_code(b)): (a, b) for a, b in pairs}
    else:
        found = {(normalize_code(a), normalize_code(b)): ("", "") for a, b in pairs}
    if given is None:
        if not found or any(not source for source, _ in found):
            raise ConfigError(
                f"`{format_value(Path(name))}` does not state its language pair",
                f"write the pair before it, as in `de-en={format_value(Path(name))}`",
            )
        return found
    source, target = normalize_code(given[0]), normalize_code(str(given[1]))
    if codes is None:
        return {(source, target): ("", "")}
    for (a, b), own in found.items():
        if a in ("", source) and b == target:
            return {(source, target): own}
    raise ConfigError(
        f"`{format_value(Path(name))}` does not translate {given[0]}-{given[1]}",
        f"its pairs are {format_list('-'.join(pair).lstrip('-') for pair in sorted(found))}",
    )


def available_memory() -> int | None:
    """Returns the bytes of memory that a process can use without swapping, on Linux; None: unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None
