"""Direct logit attribution: the contribution of each head and each feed-forward network to the logit of a token.

Logits are a sum of the contributions of all parts of a stack to the residual stream, if the mean and deviation in each
norm on the way are held fixed, which makes the norms linear (Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits"). The indirect effect of a part through later parts counts as theirs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.analysis.replay import Replay, ResidualStream
from pellucid.errors import DataError, format_argument
from pellucid.model.attention import MultiHeadAttention, attention_weights
from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.feed_forward import FeedForward
from pellucid.tasks.task import TextModel
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

KINDS = {"encoder.self_attn": "encoder.self", "decoder.self_attn": "decoder.self", "decoder.cross_attn": "cross"}
"""The kind of attention of a sublayer."""
LARGEST_ERROR = 1e-3
"""The largest difference between the logit and the sum of all parts, in single precision."""
MOST_PARTS = 20_000
"""The largest number of parts, summed over all rows, in a page."""


@dataclass(frozen=True, slots=True)
class LogitComponent:
    """Names a part of a model and its contribution to a logit."""

    name: str
    """"cross layer 1 head 3", "feed forward 2", "embedding" or "biases"."""
    value: float
    attention: str | None = None
    """"encoder.self", "decoder.self" or "cross"; None if it is not an attention."""
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True, slots=True)
class LogitAttribution:
    """Holds the contribution of each part to the logit of a token, or to its difference from the logit of another."""

    row: int
    """The output position, from 0; 0 for a classifier."""
    word: Token
    """The output token at this position; the label for a classifier."""
    foil: Token | None
    """The token whose logit is subtracted, or None."""
    total: float
    """The logit as the model computes it, or the difference of the two logits."""
    parts: tuple[LogitComponent, ...]
    """In the order of the forward pass; "embedding" is the first, "biases" the last."""
    error: float
    """The difference between the sum of the parts and `total`: rounding, below 1e-3 in single precision."""

    def __repr__(self) -> str:
        strongest = sorted(self.parts, key=lambda part: -abs(part.value))[:3]
        told = ", ".join(f"{part.name} {part.value:+.2f}" for part in strongest)
        against = f" against {self.foil.text!r}" if self.foil else ""
        return f"Contributions({self.word.text!r}{against}: {self.total:.2f} of {len(self.parts)} parts; {told}, ...)"

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON-compatible data for a page."""
        return {
            "row": self.row,
            "word": self.word.to_json(),
            "foil": None if self.foil is None else self.foil.to_json(),
            "total": self.total,
            "parts": [{name: value for name, value in asdict(p).items() if value is not None} for p in self.parts],
            "error": self.error,
        }


def attribute_logits(
    model: TextModel[Any] | Model, trace: Trace, *, row: int | None = None, foil: int | str | None = None
) -> LogitAttribution:
    """Returns the contribution of each head and each feed-forward network to the logit of an output token.

        trace = translator.trace("Ein Hund läuft.")
        found = pellucid.attribute_logits(translator, trace, row=1, foil="cat")
        max(found.parts, key=lambda part: part.value).name                  # "cross layer 2 head 1"

    A single logit says little, since only differences between tokens matter: with `foil` the contributions are to
    the difference from another token's logit.

    In each norm between a part and the logits, mean and deviation are held fixed; in the activation of a classifier's
    hidden layer, the ratio of output to input. A head contributes through its part of W^O; the biases of W^O, of
    feed-forward networks, norms and the output projection form one part.

    Args:
        model: a Translator, Classifier or LanguageModel, or a model without a tokenizer: the one that was traced.
        row: the output position, from 0; None: the first that is not a special token.
        foil: the token to compare with: an id, a text that is one token, or a label.

    Raises DataError for a row out of range, a text that is not a single token, a trace of another model or of another
    library's weights, a model without outputs, and custom layers or norms.
    """
    replay = Replay(model, trace)
    if row is None:
        row = next((place for place, token in enumerate(replay.rows) if not token.special), 0)
    other = None if foil is None else replay.get_id(foil)
    return _attribute_row(replay, replay.stream(), _check_row(row, replay), other)


def attribute_against_runner_up(
    model: TextModel[Any] | Model, trace: Trace, *, row: int | None = None
) -> list[LogitAttribution]:
    """Returns the contributions to each row's token, or to a single row's, against the most probable other token.

    For a long text, only the first rows are returned, with at most 20,000 parts in total. Raises the errors of
    `attribute_logits`.
    """
    replay = Replay(model, trace)
    rows = range(len(replay.out)) if row is None else [_check_row(row, replay)]
    stream = replay.stream()
    found: list[LogitAttribution] = []
    for place in rows:
        logits = stream.logits[place].clone()
        logits[replay.out[place]] = -torch.inf
        found.append(_attribute_row(replay, stream, place, int(logits.argmax())))
        if len(found[0].parts) * (len(found) + 1) > MOST_PARTS:
            break
    return found


def _check_row(row: int, replay: Replay) -> int:
    """Returns the index of a row. Raises DataError if it is out of range."""
    count = len(replay.out)
    if not 0 <= row < count:
        raise DataError(f"{format_argument('row', row)} must be in 0..{count - 1}", f"{count} tokens were generated")
    return row


@torch.inference_mode()
def _attribute_row(replay: Replay, stream: ResidualStream, row: int, other: int | None) -> LogitAttribution:
    """Returns the contributions to the token of a row, against the token `other` if it is not None."""
    chosen = int(replay.out[row])
    direction, constant = _project_word(replay, chosen)
    total = float(stream.logits[row, chosen])
    if other is not None:
        of_other, constant_of_other = _project_word(replay, other)
        direction, constant = direction - of_other, constant - constant_of_other
        total -= float(stream.logits[row, other])
    parts = _parts(replay, stream, [row], direction[None], constant)
    error = abs(sum(part.value for part in parts) - total)
    named = None if other is None else replay.label_ids([other])[0]
    return LogitAttribution(row, replay.rows[row], named, total, parts, error)


def source_contributions(replay: Replay) -> Tensor:
    """Returns the direct contribution of each input position, through attention, to the logit of each output: (R, M).

    It is the contribution of the heads of cross-attention in `attribute_logits`, or of self-attention in a model
    without cross-attention, split by position: weight times value, by the head's part of W^O. The mean of all logits is
    subtracted, since adding a constant to all logits changes no probability.

    Raises DataError if one of these attentions is a custom module.
    """
    stream = replay.stream()
    with torch.inference_mode():
        weight = _last(replay).weight
        mean = weight.mean(dim=0, dtype=torch.float64)  # (D,)
        directions = weight[replay.out].double() - mean  # (R, D)
        found = torch.zeros(len(replay.out), len(replay.read), dtype=torch.float64, device=directions.device)
        steps = _walk(replay, stream, range(len(replay.out)), directions)
        carrying = [step for step in steps if step.kind == replay.reading_attention]
        if len(carrying) < len(replay.stack.layers):
            raise _make_custom_part_error(
                replay, f"{len(replay.stack.layers) - len(carrying)} of {len(replay.stack.layers)} layers"
            )
        for step in carrying:
            block, call = replay.sublayer(step.place), stream.calls.get((replay.reading_attention, step.layer))
            if call is None or not isinstance(block, MultiHeadAttention):
                raise _make_custom_part_error(replay, f"layer {step.layer}")
            weights = attention_weights(call.q, call.k, call.mask, call.bias)[0].double()[:, step.rows]  # (H, R, M)
            into = _split_by_head(step.direction, block)  # (R, H, K)
            carried = (weights * torch.einsum("rhk,hmk->hrm", into, call.v[0].double())).sum(dim=0)  # (R, M)
            found += carried.sum(dim=0, keepdim=True) if replay.writes_classes else carried
        return found.float()


def _make_custom_part_error(replay: Replay, which: str) -> DataError:
    return DataError(
        f"the `{replay.reading_attention}` attention of {which} is custom, so its contributions cannot be computed",
        'use `method="occlusion"`, which does not depend on it',
    )


class _Step(NamedTuple):
    """A sublayer, and the direction along which its output changes the logit."""

    place: str
    kind: str | None
    """The attention, such as "cross"; None for other sublayers."""
    layer: int
    rows: Tensor
    """The positions of the stack that contribute, (R,)."""
    direction: Tensor
    """(R, D): the logit changes by the product of direction and added vector."""
    added: Tensor
    """(R, D)."""
    constant: Tensor
    """The contribution of the biases of the norm after the residual sum."""


def _walk(replay: Replay, stream: ResidualStream, rows: Sequence[int], direction: Tensor) -> Iterator[_Step]:
    """Goes backward through the stack from directions (R, D) at the input of the output projection.

    Yields first a step without a sublayer for the computation after the last sublayer, then each sublayer, last first,
    and finally the embedding.
    """
    if isinstance(replay.model, SequenceClassifier):
        at, direction, constant = _through_head(replay, stream, direction)
    else:
        at, constant = torch.tensor(rows, device=direction.device), direction.new_zeros(())
    last = stream.sums[-1].after
    if replay.stack.norm is not None:
        direction, of_norm = frozen(replay.stack.norm, last[at], direction)
        constant = constant + of_norm
    yield _Step("", None, -1, at, direction, torch.zeros_like(direction), constant)
    for one in reversed(stream.sums):
        constant = direction.new_zeros(())
        if not _norm_first(replay, one.place):
            direction, constant = frozen(one.norm, (one.before + one.added)[at], direction)
        kind = KINDS.get(f"{one.place.partition('.')[0]}.{one.sublayer}")
        yield _Step(one.place, kind, one.layer, at, direction, one.added[at].double(), constant)
    yield _Step("embedding", None, -1, at, direction, stream.embedded[at].double(), direction.new_zeros(()))


def _parts(
    replay: Replay, stream: ResidualStream, rows: Sequence[int], direction: Tensor, constant: Tensor
) -> tuple[LogitComponent, ...]:
    """Returns the parts of one logit, in the order of the forward pass."""
    found: list[list[LogitComponent]] = []
    biases = constant
    for step in _walk(replay, stream, rows, direction):
        biases = biases + step.constant
        if step.layer < 0:
            if step.place:
                found.append([LogitComponent(step.place, _sum(step.direction, step.added))])
            continue
        block, kind = replay.sublayer(step.place), step.kind
        if kind and isinstance(block, MultiHeadAttention) and step.place in stream.joined:
            into = _split_by_head(step.direction, block)  # (R, H, K)
            joined = stream.joined[step.place][step.rows].double().view_as(into)
            values = (into * joined).sum(dim=(0, 2)).tolist()
            found.append(
                [
                    LogitComponent(f"{kind} layer {step.layer} head {head}", value, kind, step.layer, head)
                    for head, value in enumerate(values)
                ]
            )
            bias: Tensor | None = block.out_proj.bias
        else:
            name = f"{kind} layer {step.layer}" if kind else f"feed forward {step.layer}"
            bias = block.down_proj.bias if isinstance(block, FeedForward) else None
            of_bias = 0.0 if bias is None else _sum(step.direction, bias.double().expand_as(step.direction))
            found.append([LogitComponent(name, _sum(step.direction, step.added) - of_bias, kind, step.layer)])
        if bias is not None:
            biases = biases + (step.direction * bias.double()).sum()
    parts = [part for some in reversed(found) for part in some]
    return (*parts, LogitComponent("biases", float(biases)))


def frozen(norm: nn.Module, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Propagates directions (R, D) backward through a norm with the mean and deviation of x (R, D) held fixed.

    Returns the directions at its input, and the sum of its bias's contributions. Raises DataError for a norm that is
    neither LayerNorm nor RMSNorm.
    """
    if isinstance(norm, nn.Identity):
        return direction, direction.new_zeros(())
    if not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        raise DataError(
            f"a norm of the class {type(norm).__name__} cannot be linearized at its mean and deviation",
            "LayerNorm and RMSNorm can; occlusion does not depend on norms: pellucid.attribute(model, trace)",
        )
    smallest, x = torch.finfo(x.dtype).eps, x.double()
    scaled = direction if norm.weight is None else direction * norm.weight.double()
    if isinstance(norm, nn.RMSNorm):
        eps = smallest if norm.eps is None else norm.eps
        return scaled * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt(), direction.new_zeros(())
    centred = scaled - scaled.mean(dim=-1, keepdim=True)
    deviation = (x.var(dim=-1, correction=0, keepdim=True) + norm.eps).sqrt()
    constant = direction.new_zeros(()) if norm.bias is None else (direction * norm.bias.double()).sum()
    return centred / deviation, constant


def _through_head(replay: Replay, stream: ResidualStream, direction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Propagates the direction of a class, (1, D), backward through hidden layer and pooling.

    Returns the pooled positions (R,), the direction at each (R, D), and the contribution of the hidden layer's bias.
    """
    assert isinstance(replay.model, SequenceClassifier)
    head, norm = replay.model.head, replay.model.encoder.norm
    states = stream.sums[-1].after
    states = states if norm is None else norm(states)  # (S, D)
    places = torch.arange(len(states) if head.takes_mean else 1, device=states.device)
    pooled = states[places].double().mean(dim=0)  # (D,)
    constant = direction.new_zeros(())
    if head.hidden is not None and head.activation is not None:
        weight, bias = head.hidden.weight.double(), head.hidden.bias.double()
        inner = weight @ pooled + bias  # (D,)
        ratio = torch.where(inner == 0, 0.0, head.activation(inner) / inner)
        constant = (direction[0] * ratio * bias).sum()
        direction = (direction[0] * ratio)[None] @ weight  # (1, D)
    return places, direction.expand(len(places), -1) / len(places), constant


def _last(replay: Replay) -> nn.Linear:
    """Returns the layer that computes the logits."""
    model = replay.model
    return model.head.class_projection if isinstance(model, SequenceClassifier) else model.output_projection


def _project_word(replay: Replay, word: int) -> tuple[Tensor, Tensor]:
    """Returns the vector (D,) and the bias () of a token's logit, in double precision."""
    last = _last(replay)
    vector = last.weight[word].double()
    return vector, vector.new_zeros(()) if last.bias is None else last.bias[word].double()


def _split_by_head(direction: Tensor, block: MultiHeadAttention) -> Tensor:
    """Propagates directions (R, D) backward through W^O: (R, H, K)."""
    return (direction @ block.out_proj.weight.double()).view(len(direction), block.num_heads, -1)


def _norm_first(replay: Replay, place: str) -> bool:
    layer: Any = replay.sublayer(place.rpartition(".")[0])
    return bool(layer.norm_first)


def _sum(direction: Tensor, added: Tensor) -> float:
    return float((direction * added).sum())
