"""The special ids around every text: start, end, language codes, and others that a Hugging Face model has."""

from dataclasses import dataclass
from typing import Self

from pellucid.config import DecodeConfig, ModelConfig


@dataclass(frozen=True)
class TextFrame:
    """The ids around the texts of an encoder-decoder or a decoder-only model, the same in training and inference."""

    source_prefix: tuple[int, ...]
    source_suffix: tuple[int, ...]
    """The end token, if sources have one, and the ids after it."""
    target_prefix: tuple[int, ...]
    """The ids that the decoder starts with, at least one. All but the first are predicted, too, and count in the loss,
    as in the training of transformers, where the language code is part of the labels.
    """

    @classmethod
    def from_config(cls, decode: DecodeConfig, model: ModelConfig) -> Self:
        """Returns the framing of a model that is used with `decode`. The texts of a decoder-only model have the
        `source_prefix` before them.
        """
        if model.family == "decoder":
            return cls((), (), decode.source_prefix or (model.bos_id,))
        end = (model.eos_id,) if decode.add_source_eos else ()
        return cls(decode.source_prefix, (*end, *decode.source_suffix), (model.bos_id, *decode.target_prefix))

    @property
    def of_source(self) -> int:
        """Returns the number of ids that are added to a source."""
        return len(self.source_prefix) + len(self.source_suffix)

    @property
    def of_target(self) -> int:
        """Returns the number of ids added to a target in decoder input; equal in decoder output, with the end token."""
        return len(self.target_prefix)
