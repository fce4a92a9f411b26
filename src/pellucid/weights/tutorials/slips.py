"""A tutorial's slips as they compute: in the weights where those can hold them, else in the masks."""

from collections.abc import Iterable

import torch
from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.model.cache import DecoderCache
from pellucid.model.families import SequenceClassifier
from pellucid.model.masks import causal_mask, padding_mask
from pellucid.model.transformer import Transformer
from pellucid.weights.tensors import parameters, set_parameters
from pellucid.weights.tutorials.layouts import Slip


class AsWritten(Transformer):
    """A Transformer with the masks that a tutorial's text applies where it means others.

    It computes logits. It does not translate: a target word that was trained beside the words behind it, or a source
    that is hidden by the target's length, leaves nothing to search for.
    """

    sees_all = False
    """Targets see the words that follow them."""
    hides_sources = False
    """A target word sees of the source what does not stand behind its own place."""

    def states(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Returns what the output projection sees, (B, T, D), under the masks of the slip."""
        if memory is None:
            memory = self.encode(src, src_mask)  # the encoder has its own masks
        length, places = tgt.size(1), src.size(1)
        if self.sees_all and tgt_mask is None:
            tgt_mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=tgt.device)
        if self.hides_sources:
            shown = causal_mask(max(length, places), tgt.device)[..., :length, :places]  # (1, 1, T, S)
            allowed = padding_mask(src, self.config.pad_id) if src_mask is None else src_mask
            src_mask = shown if allowed is None else shown & allowed
        return super().states(src, tgt, src_mask, tgt_mask, memory)

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Raises ConfigError: such a model does not translate."""
        raise ConfigError(
            "a model with the masks of a tutorial's slip computes logits, and does not translate",
            "import it with as_written=False, and train it on",
        )


def write_into_weights(slips: Iterable[Slip], tensors: dict[str, Tensor]) -> None:
    """Changes tensors, by our names, so that they compute the slips that weights can hold."""
    for slip in slips:
        for name in list(tensors):
            if slip.weights == "cross-attention is self-attention" and ".cross_attn." in name:
                tensors[name] = tensors[name.replace(".cross_attn.", ".self_attn.")]
            elif slip.weights == "outputs go through the queries" and ".out_proj." in name:
                queries = tensors[name.replace(".out_proj.", ".qkv_proj.")]
                tensors[name] = queries[: len(tensors[name])]


def with_masks(slips: Iterable[Slip], model: Transformer | SequenceClassifier) -> Transformer | SequenceClassifier:
    """Returns the model with the masks of slips that ours does not have; the same model where there are none."""
    masks = {slip.mask for slip in slips} & {"all is seen", "sources are hidden"}
    if not masks or not isinstance(model, Transformer):
        return model
    written = AsWritten(model.config)
    set_parameters(written, parameters(model), "the model")
    for side in ("src_embedding", "tgt_embedding"):
        getattr(written, side).max_positions = getattr(model, side).max_positions
    written.sees_all, written.hides_sources = "all is seen" in masks, "sources are hidden" in masks
    return written
