"""The chunked loss is PyTorch's cross-entropy, in value and in every gradient."""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.training import loss
from pellucid.training.loss import projected_cross_entropy, smoothed_cross_entropy

B, T, D, V = 3, 5, 7, 11


def problem(bias: bool) -> tuple[Tensor, Tensor, nn.Linear]:
    """States, targets with padding at the end of two rows, and a projection, in double precision."""
    states = torch.randn(B, T, D, dtype=torch.double, requires_grad=True)
    targets = torch.randint(1, V, (B, T))
    targets[0, 3:] = 0
    targets[2, 1:] = 0
    return states, targets, nn.Linear(D, V, bias=bias).double()


def gradients(value: Tensor, states: Tensor, projection: nn.Linear) -> list[Tensor]:
    return list(torch.autograd.grad(value, [states, *projection.parameters()]))


@pytest.fixture(params=[1, 2, 3, 4, 7, 1000], ids="{} rows a chunk".format)
def _rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Nine words: chunks that divide them and chunks that do not, one that is too small for a row, one that holds all.
    monkeypatch.setattr(loss, "CHUNK_LOGITS", request.param * V - 1)
    return


@pytest.mark.usefixtures("_rows")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("bias", [True, False])
def test_value_and_gradients_are_pytorchs(smoothing: float, bias: bool) -> None:
    states, targets, projection = problem(bias)
    found = projected_cross_entropy(states, targets, projection, smoothing, pad_id=0)
    plain = F.cross_entropy(
        projection(states).flatten(0, 1), targets.flatten(), ignore_index=0, label_smoothing=smoothing, reduction="sum"
    )
    assert found.item() == pytest.approx(plain.item(), rel=1e-6)
    # An upstream factor must reach all gradients.
    ours, theirs = gradients(3 * found, states, projection), gradients(3 * plain, states, projection)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_single_precision_states_give_single_precision_gradients() -> None:
    states = torch.randn(B, T, D, requires_grad=True)
    projection = nn.Linear(D, V)
    found = projected_cross_entropy(states, torch.randint(1, V, (B, T)), projection)
    assert {g.dtype for g in gradients(found, states, projection)} == {torch.float32}


def test_padding_changes_nothing_and_gets_no_gradient() -> None:
    states, targets, projection = problem(bias=True)
    other = states.detach().clone()
    other[targets == 0] = 1e3
    other.requires_grad_()
    first = projected_cross_entropy(states, targets, projection, 0.1, pad_id=0)
    second = projected_cross_entropy(other, targets, projection, 0.1, pad_id=0)
    assert first.item() == second.item()
    for gradient in (gradients(first, states, projection)[0], gradients(second, other, projection)[0]):
        assert (gradient[targets == 0] == 0).all()
        assert (gradient[targets != 0] != 0).any(dim=-1).all()


def test_without_a_pad_id_every_target_counts() -> None:
    states, targets, projection = problem(bias=True)
    found = projected_cross_entropy(states, targets, projection, 0.1, pad_id=None)
    plain = smoothed_cross_entropy(projection(states).flatten(0, 1), targets.flatten(), 0.1)
    assert found.item() == pytest.approx(plain.item(), rel=1e-6)
    assert found.item() > projected_cross_entropy(states, targets, projection, 0.1, pad_id=0).item()


@pytest.mark.usefixtures("_rows")
def test_a_tied_matrix_gets_the_sum_of_both_gradients() -> None:
    ids, targets = torch.randint(1, V, (B, T)), torch.randint(1, V, (B, T))
    embedding = nn.Embedding(V, D).double()
    projection = nn.Linear(D, V, bias=False).double()
    projection.weight = embedding.weight
    ours = torch.autograd.grad(projected_cross_entropy(embedding(ids), targets, projection, 0.1), embedding.weight)
    logits = projection(embedding(ids)).flatten(0, 1)
    theirs = torch.autograd.grad(smoothed_cross_entropy(logits, targets.flatten(), 0.1), embedding.weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("frozen", ["states", "weight", "bias"])
def test_what_is_frozen_gets_no_gradient(frozen: str) -> None:
    states, targets, projection = problem(bias=True)
    tensors = {"states": states, "weight": projection.weight, "bias": projection.bias}
    tensors[frozen].requires_grad_(False)
    projected_cross_entropy(states, targets, projection, 0.1).backward()
    assert {name for name, tensor in tensors.items() if tensor.grad is None} == {frozen}


def test_without_gradients_the_value_is_the_same() -> None:
    states, targets, projection = problem(bias=True)
    with torch.inference_mode():
        alone = projected_cross_entropy(states, targets, projection, 0.1)
    assert alone.item() == projected_cross_entropy(states, targets, projection, 0.1).item()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_by_hand(smoothing: float) -> None:
    """Three words with probabilities 1/2, 1/4, 1/4, of which the first is right."""
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    mean = -(math.log(1 / 2) + 2 * math.log(1 / 4)) / 3
    expected = -(1 - smoothing) * math.log(1 / 2) + smoothing * mean
    targets = torch.tensor([0])
    assert smoothed_cross_entropy(logits, targets, smoothing).item() == pytest.approx(expected)
    identity = nn.Linear(3, 3, bias=False)
    identity.weight.data = torch.eye(3)
    found = projected_cross_entropy(logits[None], targets[None], identity, smoothing, pad_id=None)
    assert found.item() == pytest.approx(expected)


def test_the_smoothed_loss_is_lowest_at_the_smoothed_distribution() -> None:
    smoothing, size = 0.3, 4
    best = torch.full((1, size), smoothing / size)
    best[0, 1] += 1 - smoothing
    logits = best.log().requires_grad_()
    smoothed_cross_entropy(logits, torch.tensor([1]), smoothing).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6
