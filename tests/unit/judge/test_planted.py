"""Every single mistake of each table and every pair, planted: what computes something else is named, by its name."""

import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.judge import attention, heads, layers, loss, masks, norm, positions, schedule, search
from pellucid.judge.check import check
from pellucid.judge.conventions import Conventions
from pellucid.judge.findings import Finding
from pellucid.judge.variants import Axes, Choices, is_same, list_variants
from tests.unit.judge.planting import DecoderLayer, EncoderLayer, Heads, causal_mask, group, make_file

KEEP = Conventions(mask="keep")


def name(part: Any, exercise: str, **others: Any) -> set[str]:
    """The mistakes that the judge names, in a file with `others`."""
    (finding,) = check(make_file(**{exercise: part}, **others), exercise)
    return set(finding.mistakes)


def report(cases: Iterable[tuple[Choices, list[set[str]], set[str]]], least: int) -> None:
    """Asserts that each planted choice got one of its right names, and that there were at least so many."""
    seen = list(cases)
    wrong = [(dict(choices), found) for choices, names, found in seen if found not in names]
    assert not wrong
    assert len(seen) >= least


@pytest.mark.slow
def test_attention() -> None:
    q, k, v, mask = attention.make_inputs(4)
    width = attention.H * attention.K

    def plant(choices: Choices) -> Any:
        return lambda q, k, v, mask: attention.attend(q, k, v, mask, choices, width)

    cases = group(attention.AXES, lambda choices: attention.attend(q, k, v, mask, choices, width))
    report(((c, names, name(plant(c), "attention", causal_mask=causal_mask)) for c, names in cases), 100)


def name_heads(choices: Choices) -> set[str]:
    """The mistakes of several heads; without the projection of values that keys replace, which is never used."""
    found = name(Heads(choices), "MultiHeadAttention", causal_mask=causal_mask)
    return found - {"unused-part"} if choices.get("values") == "k" else found


def list_heads() -> list[tuple[Choices, list[set[str]]]]:
    """The choices between the projections."""
    q, k, v = heads.make_inputs()
    mask = heads.list_shapes()[0].full
    return list(group(heads.AXES, lambda choices: heads.compute_heads(q, k, v, mask, choices)))


@pytest.mark.slow
def test_single_mistakes_of_several_heads() -> None:
    report(((c, names, name_heads(c)) for c, names in list_heads() if len(c) == 1), 19)


@pytest.mark.slow
def test_pairs_of_mistakes_of_several_heads() -> None:
    report(((c, names, name_heads(c)) for c, names in list_heads() if len(c) == 2), 130)


def test_causal_mask() -> None:
    def plant(choices: Choices) -> set[str]:
        return set(masks.judge_causal_mask(lambda n: masks.compute_causal(choices), KEEP).mistakes)

    report(((c, names, plant(c)) for c, names in group(masks.CAUSAL_AXES, masks.compute_causal)), 10)


def test_padding_mask() -> None:
    ids = torch.tensor([[7, 2, 5, 4, 6, 3], [8, 9, 2, 3, 3, 3]])

    def plant(choices: Choices) -> set[str]:
        def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
            return masks.compute_padding(ids, pad_id, choices)[:, None]

        return set(masks.judge_padding_mask(padding_mask, KEEP).mistakes)

    cases = group(masks.PADDING_AXES, lambda choices: masks.compute_padding(ids, 3, choices))
    report(((c, names, plant(c)) for c, names in cases), 12)


def test_positional_encoding() -> None:
    def plant(choices: Choices) -> set[str]:
        return name(lambda length, d_model: positions.compute_table(choices), "positional_encoding")

    cases = group(positions.AXES, positions.compute_table, partial(is_same, rtol=1e-4, atol=1e-4))
    report(((c, names, plant(c)) for c, names in cases), 55)


def test_layer_norm() -> None:
    generator = torch.Generator().manual_seed(1)
    x, gamma, beta = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((3, 4, 6), (6,), (6,))
    )

    def plant(choices: Choices) -> set[str]:
        def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
            return norm.compute_norm(x, gamma, beta, choices).nan_to_num(0.0)  # equal features are 0 / 0 otherwise

        return name(layer_norm, "LayerNorm")

    cases = group(
        norm.AXES, lambda choices: norm.compute_norm(x, gamma, beta, choices), partial(is_same, rtol=1e-3, atol=1e-4)
    )
    report(((c, names, plant(c)) for c, names in cases), 60)


@pytest.mark.parametrize(
    ("exercise", "layer", "write", "axes", "least"),
    [
        ("EncoderLayer", EncoderLayer, layers.write_encoder, layers.ENCODER_AXES, 45),
        pytest.param(
            "DecoderLayer", DecoderLayer, layers.write_decoder, layers.DECODER_AXES, 120, marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_layer(exercise: str, layer: Any, write: Any, axes: Axes, least: int, placement: str) -> None:
    def name_layer(choices: Choices) -> set[str]:
        found = name(layer(write(placement, choices), layers.D), exercise)
        return found - {"unused-part"}  # the planted layer has all parts, whether its flow reads them or not

    # A flow may be a mistake before the parts, and another one after them.
    flows: dict[str, list[Choices]] = {}
    for style, choices in itertools.product(("post", "pre"), list_variants(axes)):
        if (flow := write(style, choices)) is not None:
            flows.setdefault(layers.format_flow(flow), []).append(choices)
    cases = []
    for choices in list_variants(axes):
        flow = write(placement, choices)
        alike = flows[layers.format_flow(flow)] if flow is not None else [{}]
        fewest = min(map(len, alike))
        if fewest:
            names = [{axes[axis][value] for axis, value in each.items()} for each in alike if len(each) == fewest]
            cases.append((choices, names, name_layer(choices)))
    report(cases, least)


@pytest.mark.slow
def test_loss() -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(3, 6, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(1, 5, (3, 6), generator=generator)
    targets[0, 4:], targets[1, 5:] = 0, 0
    axes = {axis: values for axis, values in loss.AXES.items() if axis != "shift"}

    def compute(choices: Choices, logits: Tensor = logits, targets: Tensor = targets, smoothing: float = 0.1) -> Any:
        return loss.compute_loss(logits, targets, smoothing, "mean", "all", False, choices)

    def plant(choices: Choices) -> set[str]:
        return name(lambda logits, targets, smoothing: compute(choices, logits, targets, smoothing), "loss")

    report(((c, names, plant(c)) for c, names in group(axes, compute)), 50)


@pytest.mark.slow
def test_learning_rate() -> None:
    def plant(choices: Choices) -> set[str]:
        rates = dict(zip(schedule.STEPS, schedule.compute_rates(choices).tolist(), strict=True))
        return name(lambda step, d_model, warmup: rates.get(step, 0.0), "learning_rate")

    report(((c, names, plant(c)) for c, names in group(schedule.AXES, schedule.compute_rates)), 60)


@pytest.mark.parametrize(
    ("kind", "axes", "least"), [("greedy", search.GREEDY_AXES, 30), ("beam", search.BEAM_AXES, 35)]
)
def test_search(kind: str, axes: Axes, least: int) -> None:
    words = search.BoundaryIds(5, 6)

    def compute(choices: Choices) -> list[list[int]] | None:
        found = search.search_all(words, kind, "stay", "none", tuple(choices.items()))
        return found if any(found) else None  # nothing at all is no search

    def is_alike(a: list[list[int]], b: list[list[int]]) -> bool:
        return search.is_same_search(a, b, words, takes_end=True)

    def plant(choices: Choices) -> set[str]:
        if kind == "greedy":
            return name(lambda model, bos, eos, max_length: search.search_greedily(model, choices), kind)
        return name(lambda model, bos, eos, beam_size, max_length: search.search_beam(model, choices), kind)

    report(((c, names, plant(c)) for c, names in group(axes, compute, is_alike)), least)


def test_all_right_beam_searches_agree_on_the_models_of_the_judge() -> None:
    for norm_of_scores in search.NORMS:
        found = [search.search_all(search.BoundaryIds(5, 6), "beam", style, norm_of_scores) for style in search.STYLES]
        assert found[0] == found[1] == found[2]


def test_a_finding_of_two_mistakes_has_both() -> None:
    finding = Finding("attention", False, ("no-scale", "mask-ignored"))
    assert [line.partition(": ")[2].partition(":")[0] for line in finding.list_lines()] == ["no-scale", "mask-ignored"]
