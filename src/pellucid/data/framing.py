"""The ids that stand around every text: the start and the end, codes of languages, whatever a foreign model has."""

from dataclasses import dataclass
from typing import Self

from pellucid.config import DecodeConfig, ModelConfig


@dataclass(frozen=True)
class Framing:
    """The ids around the texts of an encoder-decoder or a decoder alone: the same in training as when it is used."""

    before_source: tuple[int, ...]
    behind_source: tuple[int, ...]
    """The end token, if sources have one, and what stands behind it."""
    before_target: tuple[int, ...]
    """The ids that the decoder starts with, at least one. All but the first are predicted, too, and count in the loss,
    as in transformers' own training, where a language's code is part of the labels.
    """

    @classmethod
    def of(cls, decode: DecodeConfig, model: ModelConfig) -> Self:
        """Returns the framing of a model that is used with `decode`; what stands before a decoder's texts is its
        `source_prefix`.
        """
        if model.family == "decoder":
            return cls((), (), decode.source_prefix or (model.bos_id,))
        end = (model.eos_id,) if decode.source_end else ()
        return cls(decode.source_prefix, (*end, *decode.source_suffix), (model.bos_id, *decode.target_prefix))

    @property
    def of_source(self) -> int:
        """Returns how many ids a source has beside its own."""
        return len(self.before_source) + len(self.behind_source)

    @property
    def of_target(self) -> int:
        """Returns how many ids the decoder reads beside a target's own; as many as it writes, its end included."""
        return len(self.before_target)
