"""Direct attribution: what each head and each feed-forward network adds to the logit of a word.

Logits are a sum of what all parts of a stack have written into the residual stream, once the norms on the way are held
at the mean and the deviation that they had: they are linear then (Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits"). What a part does by way of later ones is theirs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.analysis.replay import Replay, Stream
from pellucid.errors import DataError, argument
from pellucid.model.attention import MultiHeadAttention, attention_weights
from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.feed_forward import FeedForward
from pellucid.tasks.task import TextModel
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

KINDS = {"encoder.self_attn": "encoder.self", "decoder.self_attn": "decoder.self", "decoder.cross_attn": "cross"}
"""The kind of attention that a sublayer of a stack is."""
LARGEST_ERROR = 1e-3
"""The most that the sum of all parts may be from the logit in single precision."""
MOST_PARTS = 20_000
"""The most parts of all rows together that a page carries."""


@dataclass(frozen=True, slots=True)
class Part:
    """Names a part of a model, and says what it adds to a logit."""

    name: str
    """"cross layer 1 head 3", "feed forward 2", "embedding" or "biases"."""
    value: float
    attention: str | None = None
    """"encoder.self", "decoder.self" or "cross"; None of what is no attention."""
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True, slots=True)
class Contributions:
    """Holds what each part of a model adds to the logit of a word, or to its lead over another one."""

    row: int
    """The place that was written, from 0; 0 of a classifier."""
    word: Token
    """The token that was written there; of a classifier its label."""
    against: Token | None
    """The word whose logit is taken off; None: none is."""
    total: float
    """The logit as the model computes it, or the difference of the two."""
    parts: tuple[Part, ...]
    """In the order of the pass; "embedding" is the first, "biases" the last."""
    error: float
    """The distance of the sum of the parts from `total`: the rounding, below 1e-3 in single precision."""

    def __repr__(self) -> str:
        strongest = sorted(self.parts, key=lambda part: -abs(part.value))[:3]
        told = ", ".join(f"{part.name} {part.value:+.2f}" for part in strongest)
        against = f" against {self.against.text!r}" if self.against else ""
        return f"Contributions({self.word.text!r}{against}: {self.total:.2f} of {len(self.parts)} parts; {told}, ...)"

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a page takes them."""
        return {
            "row": self.row,
            "word": self.word.to_json(),
            "against": None if self.against is None else self.against.to_json(),
            "total": self.total,
            "parts": [{name: value for name, value in asdict(p).items() if value is not None} for p in self.parts],
            "error": self.error,
        }


def contributions(
    model: TextModel[Any] | Model, trace: Trace, *, row: int | None = None, against: int | str | None = None
) -> Contributions:
    """Returns what each head and each feed-forward network adds to the logit of a word that was written.

        trace = translator.trace("Ein Hund läuft.")
        found = pellucid.contributions(translator, trace, row=1, against="cat")
        max(found.parts, key=lambda part: part.value).name                  # "cross layer 2 head 1"

    A logit by itself says little, since only differences between words count: with `against` it is the lead over
    another word.

    Each norm between a part and the logits is held at the mean and the deviation that it had, and so is the activation
    of a classifier's hidden layer at the ratio of what it gave to what it took. A head adds its share of W^O; the
    biases of W^O, of feed-forward networks, norms and the output projection make one part.

    Args:
        model: a Translator, Classifier or LanguageModel, or a model without a tokenizer: the one that was traced.
        row: the place that was written, from 0; None: the first that is no special token.
        against: the word that it is compared with: an id, a text that is one token, or a label.

    Raises DataError for a row that there is not, what is no single token, a trace of another model or one that came
    from elsewhere, a model that writes nothing, and layers or norms of somebody's own.
    """
    replay = Replay(model, trace)
    if row is None:
        row = next((place for place, token in enumerate(replay.rows) if not token.special), 0)
    other = None if against is None else replay.id_of(against)
    return _of_row(replay, replay.stream(), _checked(row, replay), other)


def against_likeliest(model: TextModel[Any] | Model, trace: Trace, *, row: int | None = None) -> list[Contributions]:
    """Returns the contributions to each row's word, or a single row's, against the likeliest other one.

    Of a long text the first rows, so many that they have at most 20,000 parts together. Raises what `contributions`
    raises.
    """
    replay = Replay(model, trace)
    rows = range(len(replay.out)) if row is None else [_checked(row, replay)]
    stream = replay.stream()
    found: list[Contributions] = []
    for place in rows:
        logits = stream.logits[place].clone()
        logits[replay.out[place]] = -torch.inf
        found.append(_of_row(replay, stream, place, int(logits.argmax())))
        if len(found[0].parts) * (len(found) + 1) > MOST_PARTS:
            break
    return found


def _checked(row: int, replay: Replay) -> int:
    """Returns the number of a row. Raises DataError where there is none."""
    count = len(replay.out)
    if not 0 <= row < count:
        raise DataError(f"{argument('row', row)} must be in 0..{count - 1}", f"{count} tokens were written")
    return row


@torch.inference_mode()
def _of_row(replay: Replay, stream: Stream, row: int, other: int | None) -> Contributions:
    """Returns the contributions to the word of a row, against the word `other` where there is one."""
    chosen = int(replay.out[row])
    direction, constant = _projected(replay, chosen)
    total = float(stream.logits[row, chosen])
    if other is not None:
        of_other, constant_of_other = _projected(replay, other)
        direction, constant = direction - of_other, constant - constant_of_other
        total -= float(stream.logits[row, other])
    parts = _parts(replay, stream, [row], direction[None], constant)
    error = abs(sum(part.value for part in parts) - total)
    named = None if other is None else replay.named([other])[0]
    return Contributions(row, replay.rows[row], named, total, parts, error)


def source_contributions(replay: Replay) -> Tensor:
    """Returns what attention carries from each place that was read straight into the logit of each word: (R, M).

    It is the part of `contributions` that heads of cross-attention add, or of self-attention where there is no other,
    place by place: weight times value, by the head's share of W^O. A word's logit is taken less the mean of all, since
    what is added to all of them changes no probability.

    Raises DataError where one of these attentions is somebody's own.
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
            raise _not_ours(replay, f"{len(replay.stack.layers) - len(carrying)} of {len(replay.stack.layers)} layers")
        for step in carrying:
            block, call = replay.sublayer(step.place), stream.calls.get((replay.reading_attention, step.layer))
            if call is None or not isinstance(block, MultiHeadAttention):
                raise _not_ours(replay, f"layer {step.layer}")
            weights = attention_weights(*call.weights_of)[0].double()[:, step.rows]  # (H, R, M)
            into = _by_head(step.direction, block)  # (R, H, K)
            carried = (weights * torch.einsum("rhk,hmk->hrm", into, call.v.double())).sum(dim=0)  # (R, M)
            found += carried.sum(dim=0, keepdim=True) if replay.writes_classes else carried
        return found.float()


def _not_ours(replay: Replay, which: str) -> DataError:
    return DataError(
        f"the `{replay.reading_attention}` attention of {which} is somebody's own: what it carries is not known",
        'occlusion need not know: `method="occlusion"`',
    )


class _Step(NamedTuple):
    """A sublayer, and the direction in which what it adds counts."""

    place: str
    kind: str | None
    """The attention: "cross"; None of what is none."""
    layer: int
    rows: Tensor
    """The places of the stack that count, (R,)."""
    direction: Tensor
    """(R, D): a logit grows by its product with what is added."""
    added: Tensor
    """(R, D)."""
    constant: Tensor
    """The sum of what the biases of the norm behind the sum add to the logits."""


def _walk(replay: Replay, stream: Stream, rows: Sequence[int], direction: Tensor) -> Iterator[_Step]:
    """Goes back through the stack from directions (R, D) in front of the output projection.

    Yields each sublayer, the last first, and before it a step without a sublayer for what comes behind the last one; at
    last the embedding.
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
    replay: Replay, stream: Stream, rows: Sequence[int], direction: Tensor, constant: Tensor
) -> tuple[Part, ...]:
    """Returns the parts of one logit, in the order of the pass."""
    found: list[list[Part]] = []
    biases = constant
    for step in _walk(replay, stream, rows, direction):
        biases = biases + step.constant
        if step.layer < 0:
            if step.place:
                found.append([Part(step.place, _sum(step.direction, step.added))])
            continue
        block, kind = replay.sublayer(step.place), step.kind
        if kind and isinstance(block, MultiHeadAttention) and step.place in stream.joined:
            into = _by_head(step.direction, block)  # (R, H, K)
            joined = stream.joined[step.place][step.rows].double().view_as(into)
            values = (into * joined).sum(dim=(0, 2)).tolist()
            found.append(
                [
                    Part(f"{kind} layer {step.layer} head {head}", value, kind, step.layer, head)
                    for head, value in enumerate(values)
                ]
            )
            bias: Tensor | None = block.out_proj.bias
        else:
            name = f"{kind} layer {step.layer}" if kind else f"feed forward {step.layer}"
            bias = block.down_proj.bias if isinstance(block, FeedForward) else None
            of_bias = 0.0 if bias is None else _sum(step.direction, bias.double().expand_as(step.direction))
            found.append([Part(name, _sum(step.direction, step.added) - of_bias, kind, step.layer)])
        if bias is not None:
            biases = biases + (step.direction * bias.double()).sum()
    parts = [part for some in reversed(found) for part in some]
    return (*parts, Part("biases", float(biases)))


def frozen(norm: nn.Module, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Takes directions (R, D) back through a norm of the mean and deviation that it had of x (R, D).

    Returns the directions in front of it, and the sum of what its bias adds. Raises DataError for a norm that is
    neither LayerNorm nor RMSNorm.
    """
    if isinstance(norm, nn.Identity):
        return direction, direction.new_zeros(())
    if not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        raise DataError(
            f"a norm of the class {type(norm).__name__} cannot be held at its mean and deviation",
            "LayerNorm and RMSNorm can; occlusion knows no norms: pellucid.attribute(model, trace)",
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


def _through_head(replay: Replay, stream: Stream, direction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Takes the direction of a class, (1, D), back through hidden layer and pooling.

    Returns the places that are pooled (R,), the direction at each (R, D), and what the hidden layer's bias adds.
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
    """Returns the layer that makes the logits."""
    model = replay.model
    return model.head.class_projection if isinstance(model, SequenceClassifier) else model.output_projection


def _projected(replay: Replay, word: int) -> tuple[Tensor, Tensor]:
    """Returns the vector (D,) and the bias () that make the logit of a word, in double precision."""
    last = _last(replay)
    vector = last.weight[word].double()
    return vector, vector.new_zeros(()) if last.bias is None else last.bias[word].double()


def _by_head(direction: Tensor, block: MultiHeadAttention) -> Tensor:
    """Takes directions (R, D) back through W^O: (R, H, K)."""
    return (direction @ block.out_proj.weight.double()).view(len(direction), block.num_heads, -1)


def _norm_first(replay: Replay, place: str) -> bool:
    layer: Any = replay.sublayer(place.rpartition(".")[0])
    return bool(layer.norm_first)


def _sum(direction: Tensor, added: Tensor) -> float:
    return float((direction * added).sum())
