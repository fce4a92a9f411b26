"""Which languages a multilingual translator is compared in."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer
from pellucid.tasks.languages import speaking
from pellucid.text.languages import codes_are_special
from pellucid.weights.folder import SavedModel

Languages = tuple[str | None, str | None]
"""The codes of source and target; None: not given."""


def between(saved: SavedModel, languages: Languages = (None, None)) -> tuple[SavedModel, str]:
    """`saved` as it translates between two languages, and which ones, as in "de to fr"; "" where it knows none.

    A language that is not given is the folder's default; where it has none, the first of its codes that the other side
    does not have. Raises ConfigError for a language that is unknown, or means nothing to the model.
    """
    if not isinstance(saved.model, Transformer) or saved.tokenizers is None or not saved.languages:
        if languages != (None, None):
            named = "` and `".join(filter(None, languages))
            raise ConfigError(f"languages are given (`{named}`), but the model knows none", "leave them out")
        return saved, ""
    model = saved.model.config, saved.tokenizers, saved.languages
    decode = speaking(saved.decode, *model, *languages)
    source: str | None = None
    if codes_are_special(saved.tokenizers, saved.languages):
        source = _code(saved.languages, (*decode.source_prefix, *decode.source_suffix))
        target = _code(saved.languages, (saved.model.config.bos_id, *decode.target_prefix))
        first_source = source or next((code for code in saved.languages if code != target), None)
    else:  # OPUS-MT's stand before the source and name the target
        target, first_source = _code(saved.languages, decode.source_prefix), None
    first_target = target or next((code for code in saved.languages if code != first_source), None)
    chosen = None if source else first_source, None if target else first_target
    said = " ".join(filter(None, (first_source, "to", first_target)))
    if chosen != (None, None):
        decode, said = speaking(decode, *model, *chosen), f"{said} (the first that it knows)"
    return replace(saved, decode=decode), said


def _code(languages: Mapping[str, int], ids: Sequence[int]) -> str | None:
    """The language whose code is among ids."""
    return next((code for code, number in languages.items() if number in ids), None)
