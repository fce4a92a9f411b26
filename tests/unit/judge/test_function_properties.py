"""Masks, positions, losses, schedules and searches that no variant explains: the property that fails, and its place.

Each is planted alone. Right parts get no name, even where the judge does not know them as a variant.
"""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.judge import search
from pellucid.judge.check import check
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import MISTAKES
from pellucid.judge.positions import compute_table
from pellucid.judge.variants import Variants
from tests.unit.judge.planting import causal_mask, make_file
from tests.unit.judge.test_styles import (
    ATTENTIONS,
    LOSSES,
    RATES,
    STYLES,
    beam_lists,
    beam_with_penalty,
    greedy_last,
    greedy_list,
    greedy_tensor,
    write_attention,
    write_loss,
    write_rate,
)


@pytest.fixture(autouse=True)
def _without_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not change a judgement."""
    monkeypatch.setattr("pellucid.judge.check.SECONDS", 300.0)


def judge(part: Any, exercise: str, **others: Any) -> Finding:
    (finding,) = check(make_file(**{exercise: part}, **others), exercise)
    return finding


# Masks.


def show_one_later(n: int) -> Tensor:
    mask = causal_mask(n)
    mask[1, 3] = True
    return mask


def hide_a_row(n: int) -> Tensor:
    mask = causal_mask(n)
    mask[2] = False
    return mask


def show_a_window(n: int) -> Tensor:
    """Right in another model: the last two positions alone."""
    return causal_mask(n).triu(-1)


def pad_all_but_one(ids: Tensor, pad_id: int) -> Tensor:
    mask = (ids != pad_id)[:, None, None, :].expand(-1, 1, ids.size(1), -1).clone()
    mask[1, 0, 2, 4] = True
    return mask


def hide_the_third(ids: Tensor, pad_id: int) -> Tensor:
    mask = (ids != pad_id)[:, None, None, :].clone()
    mask[0, ..., 2] = False
    return mask


def hide_padding_and_future(ids: Tensor, pad_id: int) -> Tensor:
    """The mask of a target, which is right."""
    return (ids != pad_id)[:, None, None, :] & causal_mask(ids.size(1))


# Positions.


def repeat_positions(length: int, d_model: int) -> Tensor:
    return compute_table({})[torch.arange(length) % 4]


def scale_positions_by_length(length: int, d_model: int) -> Tensor:
    return compute_table({})[:length] ** 3 / length


def draw_positions(length: int, d_model: int) -> Tensor:
    return torch.randn(length, d_model)


def square_positions(length: int, d_model: int) -> Tensor:
    """A table of its own, which tells positions apart."""
    return compute_table({})[:length] ** 3


def make_module(add: Callable[[Tensor], Tensor]) -> type[nn.Module]:
    """A class of positions that takes embeddings."""

    class Positions(nn.Module):
        def __init__(self, d_model: int, max_len: int) -> None:
            super().__init__()

        def forward(self, x: Tensor) -> Tensor:
            return add(x)

    return Positions


def add_the_same(x: Tensor) -> Tensor:
    return x + compute_table({})[3]


def add_by_sentence(x: Tensor) -> Tensor:
    return x + compute_table({})[: x.size(1)] * x.mean()


def add_from_the_end(x: Tensor) -> Tensor:
    return x + compute_table({})[: x.size(1)].flip(0)


def add_and_drop(x: Tensor) -> Tensor:
    return F.dropout(x + compute_table({})[: x.size(1)], 0.1)


def add_and_normalize(x: Tensor) -> Tensor:
    """The embeddings of BERT, which are right."""
    return F.layer_norm(x + compute_table({})[: x.size(1)], x.shape[-1:])


# Loss.


def count_words(logits: Tensor, targets: Tensor, pad_id: int, power: float = 1.0) -> Tensor:
    """A loss that no variant is: the square root of the mean."""
    each = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none") * (targets != pad_id)
    return each.sum().abs() ** 0.5 * power


def count_some_padding(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    return count_words(logits, targets, pad_id) + 0.1 * logits[targets == pad_id].softmax(-1)[:, 0].sum()


def leave_out_a_word(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    return count_words(logits[:, :3], targets[:, :3], pad_id)


def leave_out_the_softmax(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    hit = logits.gather(-1, targets[..., None]).squeeze(-1) - 0.5 * logits.sum(-1)
    return -(hit * (targets != pad_id)).sum()


def weigh_the_first_sentence(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    return count_words(logits, targets, pad_id) + count_words(logits[:1], targets[:1], pad_id)


def turn_the_sign(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    return count_words(logits, targets, pad_id, power=-1.0)


def drop_logits(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    return count_words(F.dropout(logits), targets, pad_id)


# Learning rate.


def sink_below_zero(step: int, d_model: int, warmup: int) -> float:
    return min(step / warmup, 1.0) * (1 - step / 50)


def fall_at_first(step: int, d_model: int, warmup: int) -> float:
    return 1 / (1 + step)


def rise_afterwards(step: int, d_model: int, warmup: int) -> float:
    return float(step / warmup if step < warmup else 1 + 0.01 * (step - warmup))


def draw_a_rate(step: int, d_model: int, warmup: int) -> float:
    return float(torch.rand(()))


def cosine(step: int, d_model: int, warmup: int) -> float:
    """Right in another training."""
    return step / warmup if step < warmup else 0.5 + 0.5 * float(torch.tensor((step - warmup) / 100 * 3.14).cos())


def cosine_with_its_own_warmup(step: int) -> float:
    return min(step / 2000, 1.0)


class CountingRate:
    """A schedule that counts its steps itself, which is right."""

    def __init__(self, d_model: int, warmup: int) -> None:
        self.count, self.warmup = 0, warmup

    def __call__(self) -> float:
        self.count += 1
        return min(self.count / self.warmup, 2.0)


# Searches.


def sample(step: Any, bos: int, eos: int, max_length: int) -> list[int]:
    ids = [bos]
    while len(ids) <= max_length and (len(ids) == 1 or ids[-1] != eos):
        ids.append(int(torch.multinomial(step(ids).softmax(-1), 1)))
    return ids


def take_the_third(step: Any, bos: int, eos: int, max_length: int) -> list[int]:
    ids = [bos]
    while len(ids) <= max_length and (len(ids) == 1 or ids[-1] != eos):
        ranked = step(ids).topk(3).indices.tolist()
        ids.append(ranked[2] if len(ids) == 3 else ranked[0])
    return ids


def forget_the_greatest_length(step: Any, bos: int, eos: int, max_length: int) -> list[int]:
    ids = [bos]
    while len(ids) == 1 or ids[-1] != eos:
        ids.append(int(step(ids).argmax() if len(ids) != 2 else step(ids).topk(2).indices[1]))
    return ids


def write_behind_the_end(step: Any, bos: int, eos: int, max_length: int) -> list[int]:
    return [*take_the_third(step, bos, eos, max_length), eos, 3, 4]


def keep_every_hypothesis(step: Any, bos: int, eos: int, beam_size: int, max_length: int) -> list[int]:
    """A beam whose hypotheses are never cut to its size."""
    beams: list[tuple[float, list[int]]] = [(0.0, [bos])]
    for _ in range(max_length):
        grown: list[tuple[float, list[int]]] = []
        for score, ids in beams:
            best = step(ids).log_softmax(-1).topk(beam_size)
            pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            grown += [(score, ids)] if ids[-1] == eos else [(score + value, [*ids, id]) for value, id in pairs]
        beams = grown
    return max(beams)[1]


def return_a_middle_hypothesis(step: Any, bos: int, eos: int, beam_size: int, max_length: int) -> list[int]:
    """A beam of which not the best is returned, and of whose scores each token has a part."""
    beams: list[tuple[float, list[int]]] = [(0.0, [bos])]
    for _ in range(max_length):
        grown: list[tuple[float, list[int]]] = []
        for score, ids in beams:
            if ids[-1] == eos:
                grown.append((score, ids))
                continue
            logs = step(ids).log_softmax(-1).tolist()
            grown += [(score * 0.3 + value + 0.2 * id, [*ids, id]) for id, value in enumerate(logs)]
        beams = sorted(grown, reverse=True)[:beam_size]
    return beams[1][1]


STOPPED = 4


def greedy_with_its_own_words(model: Any, max_length: int) -> list[int]:
    """A greedy search whose start and end the judge cannot know."""
    ids = [3]
    while len(ids) < max_length and ids[-1] != STOPPED:
        ids.append(int(model(ids).argmax()))
    return ids


def greedy_with_its_own_end(model: Any, bos: int, max_length: int) -> list[int]:
    """The same with a known start; it takes a word for the end that is not the judge's."""
    ids = [bos]
    while len(ids) < max_length and (len(ids) == 1 or ids[-1] != STOPPED):
        ids.append(int(model(ids).argmax()))
    return ids[:-1]


PLANTED = [
    (show_one_later, "causal_mask", ("property-mask-future",)),
    (hide_a_row, "causal_mask", ("property-mask-blind",)),
    (pad_all_but_one, "padding_mask", ("property-mask-padding",)),
    (hide_the_third, "padding_mask", ("property-mask-word",)),
    (repeat_positions, "positional_encoding", ("property-positions-distinct",)),
    (scale_positions_by_length, "positional_encoding", ("property-positions-length",)),
    (draw_positions, "positional_encoding", ("property-repeatable",)),
    (make_module(add_the_same), "positional_encoding", ("property-positions-distinct",)),
    (make_module(add_by_sentence), "positional_encoding", ("property-batch",)),
    (make_module(add_from_the_end), "positional_encoding", ("property-positions-length",)),
    (make_module(add_and_drop), "positional_encoding", ("property-repeatable",)),
    (count_some_padding, "loss", ("property-loss-pads",)),
    (leave_out_a_word, "loss", ("property-loss-words",)),
    (leave_out_the_softmax, "loss", ("property-loss-softmax",)),
    (weigh_the_first_sentence, "loss", ("property-loss-order",)),
    (turn_the_sign, "loss", ("property-loss-sign",)),
    (drop_logits, "loss", ("property-repeatable",)),
    (sink_below_zero, "learning_rate", ("property-rate-negative",)),
    (fall_at_first, "learning_rate", ("property-rate-warmup",)),
    (rise_afterwards, "learning_rate", ("property-rate-decay",)),
    (draw_a_rate, "learning_rate", ("property-repeatable",)),
    (sample, "greedy", ("property-repeatable",)),
    (take_the_third, "greedy", ("property-greedy-choice",)),
    (forget_the_greatest_length, "greedy", ("property-search-length", "property-greedy-choice")),
    (write_behind_the_end, "greedy", ("property-search-end", "property-search-length", "property-greedy-choice")),
    (keep_every_hypothesis, "beam", ("property-beam-size",)),
    pytest.param(return_a_middle_hypothesis, "beam", ("property-beam-choice",), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("part", "exercise", "mistakes"), PLANTED)
def test_a_property_that_fails(part: Any, exercise: str, mistakes: tuple[str, ...]) -> None:
    others = {"causal_mask": causal_mask} if exercise == "padding_mask" else {}
    finding = judge(part, exercise, **others)
    assert (finding.right, finding.mistakes) == (False, mistakes)
    assert all(finding.details)
    for language in ("en", "ko"):
        assert all(detail in finding.describe(language) for detail in finding.details)


def test_each_property_is_planted() -> None:
    planted = {id for case in PLANTED for id in getattr(case, "values", case)[2]}
    of_attention = {"property-heads", "property-pointwise", "property-hidden", "property-visible", "property-weights"}
    assert planted | of_attention == {id for id in MISTAKES if id.startswith("property-")}


def test_the_place_is_the_first_that_differs() -> None:
    def place(part: Any, exercise: str) -> str:
        return judge(part, exercise).details[0]

    assert place(show_one_later, "causal_mask") == "[1, 3]"
    assert place(hide_a_row, "causal_mask") == "[2]"
    assert judge(pad_all_but_one, "padding_mask", causal_mask=causal_mask).details == ("[1, 2, 4]",)
    assert place(repeat_positions, "positional_encoding") == "[0] = [4]"
    assert place(leave_out_a_word, "loss") == "[0, 3]"
    assert place(sink_below_zero, "learning_rate") == "[90]: -0.8"
    assert place(fall_at_first, "learning_rate") == "[1]: 0.5 >= [10]: 0.09091"
    assert place(take_the_third, "greedy").startswith("[2]: ")


@pytest.mark.parametrize(
    ("part", "exercise"),
    [
        (show_a_window, "causal_mask"),
        (hide_padding_and_future, "padding_mask"),
        (square_positions, "positional_encoding"),
        (make_module(add_and_normalize), "positional_encoding"),
        (count_words, "loss"),
        (cosine, "learning_rate"),
        (cosine_with_its_own_warmup, "learning_rate"),
        (CountingRate, "learning_rate"),
        (greedy_with_its_own_words, "greedy"),
        (greedy_with_its_own_end, "greedy"),
    ],
)
def test_an_unknown_part_whose_properties_hold_stays_unknown(part: Any, exercise: str) -> None:
    others = {"causal_mask": causal_mask} if exercise == "padding_mask" else {}
    assert judge(part, exercise, **others).is_unknown


MASKS: dict[str, Callable[[Tensor], Any]] = {
    "keep": lambda seen: seen,
    "keep as numbers": lambda seen: seen.float(),
    "hide": lambda seen: ~seen,
    "hide as integers": lambda seen: (~seen).long(),
    "add": lambda seen: torch.zeros(seen.shape).masked_fill(~seen, -torch.inf),
    "add a large number": lambda seen: (~seen) * -1e9,
    "array": lambda seen: seen.numpy(),
}


def write_mask(generator: random.Random) -> Any:
    """A right mask of the future in one style."""
    form, axes = MASKS[generator.choice([*MASKS])], generator.randrange(3)
    return lambda n: form(causal_mask(n)[(None,) * axes])


def write_padding(generator: random.Random) -> Any:
    """A right mask of padding in one style."""
    form = MASKS[generator.choice([*MASKS])]
    shape = generator.choice(((1, 1), (1,), (), "full"))
    hides_future = generator.random() < 0.2

    def padding_mask(ids: Tensor, pad_id: int) -> Any:
        seen = ids != pad_id
        if shape == "full" or hides_future:
            full = seen[:, None].expand(-1, ids.size(1), -1)
            return form(full & causal_mask(ids.size(1)) if hides_future else full)
        return form(seen.view(len(ids), *shape, ids.size(1)))

    return padding_mask


def write_table(generator: random.Random) -> Any:
    """Right positions in one style."""
    choices = {"order": "halves"} if generator.random() < 0.5 else {}
    table = compute_table(choices).to(generator.choice((torch.float32, torch.float64)))
    factor, by_batch = generator.choice((1.0, 10**0.5)), generator.random() < 0.5
    return generator.choice((
        lambda length, d_model: table[:length],
        lambda d_model, max_len: table[None, :max_len].numpy(),
        make_module(lambda x: factor * x + (table[: x.size(0), None] if by_batch else table[: x.size(1)])),
        make_module(lambda x: table[: x.size(1)][None]),
    ))  # fmt: skip


def write_beam(style: str, norm: str) -> Any:
    """A right beam search in one style."""

    def beam(step: Any, bos: int, eos: int, beam_size: int, max_length: int) -> list[int]:
        return [bos, *search.search_beam(step, {}, style, norm)]

    return beam


@pytest.mark.slow
def test_no_property_of_200_right_variants_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is made to know no variant, so that it looks at the properties of parts that are right."""
    monkeypatch.setattr(Variants, "find", lambda *given, **named: None)
    monkeypatch.setattr("pellucid.judge.search.is_same_search", lambda *given: False)
    generator = random.Random(40)
    parts: list[tuple[Any, str]] = [(part, name) for name in ("causal_mask", "padding_mask", "positional_encoding")
                                    for part in STYLES[name]]  # fmt: skip
    parts += [(write_loss(*style), "loss") for style in LOSSES]
    parts += [(write_rate(*style), "learning_rate") for style in RATES]
    parts += [(write_beam(*style), "beam") for style in itertools.product(search.STYLES, search.NORMS)]
    parts += [(beam_lists, "beam"), (beam_with_penalty, "beam")]
    parts += [(greedy_list, "greedy"), (greedy_tensor, "greedy"), (greedy_last, "greedy")]
    parts += [(write_attention(*style), "attention") for style in generator.sample(ATTENTIONS, 40)]
    parts += [(write_mask(generator), "causal_mask") for _ in range(40)]
    parts += [(write_padding(generator), "padding_mask") for _ in range(40)]
    parts += [(write_table(generator), "positional_encoding") for _ in range(40)]
    assert len(parts) >= 200
    named = [(exercise, found.mistakes, found.details) for part, exercise in parts
             if not (found := judge(part, exercise)).is_unknown]  # fmt: skip
    assert named == []
