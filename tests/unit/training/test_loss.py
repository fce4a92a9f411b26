"""The chunked loss is PyTorch's cross-entropy, in value and in every gradient."""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.decoding import scoring
from pellucid.model.fast.linear import Linear
from pellucid.training import loss
from pellucid.training.loss import projected_cross_entropy, projected_r_drop, r_drop_loss, smoothed_cross_entropy

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
    monkeypatch.setattr(scoring, "CHUNK_LOGITS", request.param * V - 1)
    monkeypatch.setattr(scoring, "LEAST_ROWS", 1)
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


def plain_r_drop(
    first: Tensor, second: Tensor, targets: Tensor, projection: nn.Linear, alpha: float, smoothing: float
) -> Tensor:
    """Equations 1 to 4 of Liang et al. 2021 as they stand there, over words that are no padding, by autograd."""
    words = targets.flatten() != 0
    p, q = (projection(states.flatten(0, 1)[words]).log_softmax(dim=-1) for states in (first, second))
    cross_entropies = sum(smoothed_cross_entropy(x, targets.flatten()[words], smoothing) for x in (p, q))
    divergences = (p.exp() * (p - q)).sum(), (q.exp() * (q - p)).sum()
    total: Tensor = cross_entropies + alpha * sum(divergences) / 2
    return total


@pytest.mark.usefixtures("_rows")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_r_drop_is_half_the_papers_formula(smoothing: float, bias: bool, alpha: float) -> None:
    first, targets, projection = problem(bias)
    second = torch.randn_like(first, requires_grad=True)
    found, cross_entropy = projected_r_drop(first, second, targets, projection, alpha, smoothing, pad_id=0)
    plain = plain_r_drop(first, second, targets, projection, alpha, smoothing) / 2
    assert found.dtype == torch.double
    assert found.item() == pytest.approx(plain.item(), rel=1e-12)
    alone = plain_r_drop(first, second, targets, projection, 0.0, smoothing) / 2
    assert cross_entropy.item() == pytest.approx(alone.item(), rel=1e-12)
    assert not cross_entropy.requires_grad
    wanted = [first, second, *projection.parameters()]
    ours, theirs = torch.autograd.grad(3 * found, wanted), torch.autograd.grad(3 * plain, wanted)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_r_drop_of_logits_is_that_of_states(smoothing: float) -> None:
    first, targets, projection = problem(bias=True)
    second, words = torch.randn_like(first), targets.flatten() != 0
    logits = [projection(states.flatten(0, 1)[words]) for states in (first, second)]
    found, cross_entropy = r_drop_loss(*logits, targets.flatten()[words], 5.0, smoothing)
    expected = projected_r_drop(first, second, targets, projection, 5.0, smoothing)
    torch.testing.assert_close((found, cross_entropy), expected)
    assert not cross_entropy.requires_grad


def test_r_drop_of_passes_that_agree_is_the_cross_entropy() -> None:
    states, targets, projection = problem(bias=True)
    twice, _ = projected_r_drop(states, states, targets, projection, 5.0, 0.1)
    once = projected_cross_entropy(states, targets, projection, 0.1)
    assert twice.item() == pytest.approx(once.item(), rel=1e-12)
    torch.testing.assert_close(gradients(twice, states, projection), gradients(once, states, projection))


@pytest.mark.parametrize("passes", [1, 2])
def test_no_more_logits_than_a_chunk_are_held(monkeypatch: pytest.MonkeyPatch, passes: int) -> None:
    monkeypatch.setattr(scoring, "CHUNK_LOGITS", 6 * V)
    monkeypatch.setattr(scoring, "LEAST_ROWS", 1)
    held: list[int] = []
    call = loss._ClosedForm.__call__

    def counted(self: loss._ClosedForm, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        held.append(logits.numel())
        return call(self, logits, targets)

    monkeypatch.setattr(loss._ClosedForm, "__call__", counted)
    states, targets, projection = problem(bias=True)
    if passes == 1:
        projected_cross_entropy(states, targets, projection)
    else:
        projected_r_drop(states, states, targets, projection, 1.0)
    assert max(held) <= 6 * V
    assert sum(held) == passes * 9 * V, "nine words that are no padding"


def test_logits_beyond_the_exponential_function() -> None:
    """The log-sum-exp comes from the softmax; where all but one probability vanish, it must still be exact."""
    logits = torch.tensor([[500.0, -500.0, 0.0], [-1000.0, -1000.5, -999.0]])
    targets = torch.tensor([1, 0])
    identity = nn.Linear(3, 3, bias=False)
    identity.weight.data = torch.eye(3)
    found = projected_cross_entropy(logits[None], targets[None], identity, 0.1, pad_id=None)
    assert found.item() == pytest.approx(smoothed_cross_entropy(logits.double(), targets, 0.1).item(), rel=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_so(bad: float) -> None:
    states, targets, projection = problem(bias=True)
    states.data[0, 0, 0] = bad
    assert not math.isfinite(projected_cross_entropy(states, targets, projection, 0.1).item())


@pytest.mark.parametrize("bias", [True, False])
def test_in_bfloat16_only_the_products_are_rounded(bias: bool) -> None:
    states, targets, _ = problem(bias)
    states = states.detach().float().requires_grad_()
    projection = Linear(D, V, bias=bias)
    exact = projected_cross_entropy(states, targets, projection, 0.1)
    expected = gradients(exact, states, projection)
    projection.compute_dtype = torch.bfloat16
    rounded = projected_cross_entropy(states, targets, projection, 0.1)
    found = gradients(rounded, states, projection)
    assert rounded.dtype == torch.float32
    assert {g.dtype for g in found} == {torch.float32}
    assert rounded.item() != exact.item()
    assert rounded.item() == pytest.approx(exact.item(), rel=1e-2)
    for ours, theirs in zip(found, expected, strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < 1e-2
    projection.eval()
    assert projected_cross_entropy(states, targets, projection, 0.1).item() == exact.item()
