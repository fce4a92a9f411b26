"""A tutorial's slips: which of them a model was trained with, and how they are computed, in the weights or in the
masks.
"""

import logging
from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor

from pellucid.errors import ConfigError, did_you_mean, format_argument, format_value
from pellucid.model.cache import DecoderCache
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.masks import causal_mask, padding_mask
from pellucid.model.transformer import Transformer
from pellucid.weights.tensors import parameters, set_parameters
from pellucid.weights.tutorials.evidence import SlipFinding, find_training
from pellucid.weights.tutorials.layouts import LAYOUTS, SLIP_NAMES, Slip, nearest_spelling

log: logging.Logger = logging.getLogger(__name__)

Imported = Transformer | SequenceClassifier | DecoderOnly
"""The models that tutorials build."""
Asked = bool | str | Collection[str] | None
"""The slips to reproduce, by name: True or "all", False or "none"; None: found in the weights."""


def choose_slips(asked: Asked, layout: str, tensors: Mapping[str, Tensor]) -> list[Slip]:
    """Returns the slips of a layout to reproduce for a model, and logs the reason if the weights show one.

    A module that the code never uses keeps its initialization, while its neighbors leave theirs: such a slip is found
    in the weights. Masks leave no such trace: unless named, they count as applied.

    Raises ConfigError for a name that is unknown or of another layout, and if the weights do not decide.
    """
    names, found = slip_names(asked), find_slips(layout, tensors)
    known = [slip.name for slip, _ in found]
    named = [] if names is None or set(names) == set(SLIP_NAMES) else names
    if wrong := [name for name in named if name not in known]:
        there = f"it has {', '.join(f'`{name}`' for name in known)}" if known else "it has none"
        raise ConfigError(f"the code of `{layout}` has no slip `{wrong[0]}` in this spelling", there)
    chosen = []
    for slip, finding in found:
        untrained = finding is not None and finding.verdict == "never trained"
        if names is None and finding is not None and finding.verdict == "unclear":
            raise ConfigError(
                f"{finding.said}. The code of `{layout}`, or a copy of it, {slip.text}",
                f"give {format_argument('as_written', slip.name)} if the model was trained with code that does this, "
                f"{format_argument('as_written', 'none')} if not",
            )
        if slip.name in names if names is not None else untrained:
            chosen.append(slip)
        _log(slip, finding if untrained else None, layout, slip in chosen)
    return chosen


def find_slips(layout: str, tensors: Mapping[str, Tensor]) -> list[tuple[Slip, SlipFinding | None]]:
    """Returns the slips of a layout's code, each with the finding in the weights; None if they cannot show it."""
    if layout not in LAYOUTS:
        return []
    found = []
    for slip in nearest_spelling(layout, tensors).slips:
        unused, used = (
            [name for name in tensors if f".{module}." in name and name.endswith(("weight", "bias"))]
            for module in (slip.unused, slip.used)
        )
        finding = find_training(slip.unused, unused, slip.used, used, tensors) if slip.unused else None
        found.append((slip, finding))
    return found


def _log(slip: Slip, finding: SlipFinding | None, layout: str, is_chosen: bool) -> None:
    """Logs how a slip is read, if that needs an explanation; `finding` is what the weights show of it."""
    if is_chosen:
        reason = f"{finding.said}. " if finding is not None else ""
        log.warning("%sThe model is imported as its code computes: it %s", reason, slip.text)
    elif finding is not None:
        asked = format_argument("as_written", slip.name)
        log.warning(
            "%s. The code that trained it %s. Without this, as here, the output is nonsense: import it with %s",
            finding.said, slip.text, asked,
        )  # fmt: skip
    elif slip.mask in _TOLD:
        log.warning("the code of `%s` %s: %s", layout, slip.text, _TOLD[slip.mask])


_TOLD = {
    "padding is seen": "a model that was trained with it gives the same output for one text, and here in every batch",
    "sources are hidden": "a model that was trained with it has never seen complete sources, and sees them here",
}
"""The effects of mask slips that nothing detects: a model without its masks is detected by its outputs."""


def slip_names(asked: Asked) -> list[str] | None:
    """Returns the requested names, True for all existing ones; None if the weights decide.

    Raises ConfigError for an unknown name.
    """
    if asked is None:
        return None
    if isinstance(asked, str):
        asked = [name.strip() for name in asked.split(",") if name.strip()]
        if asked in (["all"], ["none"]):
            asked = asked == ["all"]
        elif not asked:
            raise ConfigError("`as_written=` names no slip", f"name some of {', '.join(SLIP_NAMES)}, all, or none")
    if isinstance(asked, bool):
        return list(SLIP_NAMES) if asked else []
    for name in asked:
        if name not in SLIP_NAMES:
            raise ConfigError(
                f"unknown slip `{format_value(name)}`{did_you_mean(str(name), SLIP_NAMES)}",
                f"name some of {', '.join(SLIP_NAMES)}, all, or none",
            )
    return list(asked)


class AsWritten(Transformer):
    """A Transformer with the masks that a tutorial's code applies instead of the intended ones.

    It computes logits. It does not translate: a target word trained with the words after it visible, or a source hidden
    by the target's length, leaves nothing to search for.
    """

    sees_all = False
    """Targets see the words that follow them."""
    hides_sources = False
    """If True, a target word sees only the source up to its own position."""

    def states(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Returns the input of the output projection, (B, T, D), under the masks of the slip."""
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
            "a model with the masks of a tutorial's slip computes logits, but does not translate",
            "import it without the slip `masks`, and train it on",
        )


def write_into_weights(slips: Iterable[Slip], tensors: dict[str, Tensor]) -> None:
    """Changes tensors, by Pellucid's names, so that they compute the slips that weights can express."""
    for slip in slips:
        for name in list(tensors):
            if slip.name == "cross-attention" and ".cross_attn." in name:
                tensors[name] = tensors[name.replace(".cross_attn.", ".self_attn.")]
            elif slip.name == "output" and ".out_proj." in name:
                queries = tensors[name.replace(".out_proj.", ".qkv_proj.")]
                tensors[name] = queries[: len(tensors[name])]


def add_masks(slips: Iterable[Slip], model: Imported) -> Imported:
    """Returns the model with the masks of slips that Pellucid lacks; the same model if there are none."""
    masks = {slip.mask for slip in slips} & {"all is seen", "sources are hidden"}
    if not masks or not isinstance(model, Transformer):
        return model
    written = AsWritten(model.config)
    set_parameters(written, parameters(model), "the model")
    for side in ("src_embedding", "tgt_embedding"):
        getattr(written, side).max_positions = getattr(model, side).max_positions
    written.sees_all, written.hides_sources = "all is seen" in masks, "sources are hidden" in masks
    return written
