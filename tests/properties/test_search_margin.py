"""The margin that a search reports is a promise: log-probabilities that change less give the same ids."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import SearchResult
from tests.unit.decoding.models import EOS, PAD, Script, beam_found, greedy_found, random_script, scripted, source_batch

VOCAB_SIZE, LIMIT = 7, 5
STEPS = LIMIT + 1
SOURCE = source_batch([[3]])


def run(script: Script, config: DecodeConfig, change: float = 0.0, seed: int = 0) -> SearchResult:
    """The search with each log-probability changed by at most `change`, mostly by all of it."""
    generator = np.random.default_rng(seed)

    def disturb(logits: Tensor) -> Tensor:
        # The sum over the vocabulary moves as well, so each logit may change by half as much.
        noise = np.clip(generator.normal(size=logits.shape), -0.5, 0.5) * change
        return logits + torch.from_numpy(noise).float()

    model = scripted(script, VOCAB_SIZE, disturb=disturb)
    search = greedy_found(model, SOURCE, config) if config.beam_size == 1 else beam_found(model, SOURCE, config)
    return search[0]


def ids(found: SearchResult) -> list[list[int]]:
    return [hypothesis.ids for hypothesis in found.hypotheses]


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 4),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    clumps=st.booleans(),
    data=st.data(),
)
@settings(max_examples=60)
def test_a_change_below_the_margin_changes_nothing(
    seed: int, width: int, length_penalty: float, clumps: bool, data: st.DataObject
) -> None:
    n_best = data.draw(st.integers(1, width))
    config = DecodeConfig(beam_size=width, n_best=n_best, length_penalty=length_penalty, max_length=LIMIT)
    script = random_script(seed, VOCAB_SIZE, sharpness=1.5, clumps=clumps)
    found = run(script, config)
    assert found.margin >= 0
    change = 0.99 * min(found.margin, 10.0) / (2 * STEPS) - 1e-6  # less the rounding of single precision
    for attempt in range(3):
        assert ids(run(script, config, max(change, 0.0), seed=attempt)) == ids(found)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 3])
def test_the_margin_is_not_too_small_to_be_of_use(width: int) -> None:
    config = DecodeConfig(beam_size=width, n_best=width, max_length=LIMIT)
    scripts = [random_script(seed, VOCAB_SIZE) for seed in range(60)]
    found = [run(script, config) for script in scripts]
    margins = [f.margin for f in found]
    assert sum(margin > 1e-3 for margin in margins) > 50
    changed = [
        ids(run(script, config, change=20 * f.margin / STEPS, seed=1)) != ids(f)
        for script, f in zip(scripts, found, strict=True)
        if math.isfinite(f.margin)
    ]
    assert sum(changed) > len(changed) / 10


Table = dict[tuple[int, ...], dict[int, float]]
NEXT: Table = {(3,): {EOS: 0, 3: -1, 4: -2.2, 5: -3.6}, (4,): {3: 0.4, 4: -3, 5: -4.5, 6: -6}}
POOR: Table = {(3,): {PAD: 3, EOS: 0, 3: -1, 5: -4}, (4,): {PAD: 3, EOS: -0.5, 3: -1.5, 5: -5}}
LONG: Table = {(3,): {3: 0}, (3, 3): {3: 0}, (3, 3, 3): {EOS: 0}, (4,): {PAD: 10, 5: -1, 6: -2}}
NEIGHBOURS = {
    # The end token is first by a hair before two others; behind both of them it would not finish.
    "three at the edge": (POOR, {EOS: 0.01, 3: 0, 4: -0.01, 5: -5}, {EOS: -0.02, 3: 0, 4: -0.01, 5: -5}, 1.0),
    # It is third by a hair: a little more probable, it would finish.
    "refused": (NEXT, {EOS: -0.01, 3: 0.01, 4: 0, 5: -5}, {EOS: 0.02, 3: 0.01, 4: 0, 5: -5}, 0.0),
    # A change moves the rank of a short hypothesis more than that of a long one.
    "ranks of two lengths": (LONG, {EOS: -0.6931, 3: -2.7568, 4: -0.829}, {EOS: -0.688, 3: -2.7568, 4: -0.835}, 1.0),
    # What still lives loses nothing more: a little more probable, it would have come out first.
    "the early exit": (LONG, {EOS: 0.01, 3: 0, 4: -5}, {EOS: -0.01, 3: 0, 4: -5}, 0.0),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_margin_knows_its_neighbours(name: str) -> None:
    """Two first steps that differ little and lead to different ids: the margins must say that they are so near."""
    later, *starts, length_penalty = NEIGHBOURS[name]
    config = DecodeConfig(beam_size=2, max_length=LIMIT, length_penalty=length_penalty)
    scripts = [written({**later, (): start}) for start in starts]
    first, second = (run(script, config) for script in scripts)
    steps = [torch.tensor(script((), ())).log_softmax(dim=0) for script in scripts]
    assert ids(first) != ids(second)
    assert first.margin <= 2 * float((steps[0] - steps[1]).abs().max())


def written(table: Table) -> Script:
    """The script of a table; what it leaves out is improbable, the end most of all."""

    def logits(source: tuple[int, ...], target: tuple[int, ...]) -> list[float]:
        given = {EOS: -40.0, **table.get(target, {3: 0.0})}
        return [given.get(token, -20.0 - token) for token in range(VOCAB_SIZE)]

    return logits
