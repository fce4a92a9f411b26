"""A running text in blocks: every token is predicted once an epoch, and batches follow from (seed, epoch) alone."""

import numpy as np
import pytest

from pellucid.config import ModelConfig
from pellucid.data.batching import NO_TARGET, BlockBatchSampler, collate_batch, make_batch_sampler
from pellucid.data.shards import EncodedCorpus, Sentences

TOKENS = np.arange(10, 61).astype(np.uint16)
CONFIG = ModelConfig.decoder(vocab_size=80, num_layers=1, d_model=8, num_heads=2)


def shard(block: int = 8) -> EncodedCorpus:
    """51 tokens, stored as two chunks, which do not show."""
    chunks = Sentences(TOKENS, np.array([0, 20, 51]))
    return EncodedCorpus(chunks, chunks, empty=0, too_long=0, block=block)


@pytest.mark.parametrize("epoch", [0, 1, 5])
@pytest.mark.parametrize("block", [1, 8, 50, 64])
def test_every_token_but_the_first_is_predicted(epoch: int, block: int) -> None:
    whole = shard(block)
    order = make_batch_sampler(whole, 3 * block, seed=4)
    predicted: list[int] = []
    for starts in order.epoch(epoch):
        batch = collate_batch(whole, starts, CONFIG)
        assert batch.tgt_in.shape == batch.tgt_out.shape == (len(starts), block)
        assert batch.src.shape == (len(starts), 0)
        assert len(starts) <= 3
        real = batch.tgt_out != NO_TARGET
        assert batch.num_tokens == int(real.sum())
        assert (batch.tgt_out[real] == batch.tgt_in[real] + 1).all(), "the next token, across the chunks' border too"
        predicted += batch.tgt_out[real].tolist()
    again = len(predicted) - len(set(predicted))
    assert set(predicted) == set(range(11, 61))
    assert again == 0 if epoch == 0 else again < block


def test_epochs_are_cut_from_places_of_their_own() -> None:
    order = BlockBatchSampler(tokens=1000, block=10, batch_tokens=50, seed=1)
    places = [{int(i) % 10 for i in np.concatenate(order.epoch(epoch)) if i} for epoch in range(20)]
    assert places[0] == {0}
    assert all(len(place) == 1 for place in places)
    assert len(set().union(*places)) > 3
    assert all((a == b).all() for a, b in zip(order.epoch(3), order.epoch(3), strict=True))
    other = BlockBatchSampler(tokens=1000, block=10, batch_tokens=50, seed=2)
    assert not all((a == b).all() for a, b in zip(order.epoch(0), other.epoch(0), strict=True))


def test_a_run_goes_on_from_any_place() -> None:
    order = BlockBatchSampler(tokens=101, block=10, batch_tokens=30, seed=1)
    stream = order.iterate_from(0, 0)
    seen = [next(stream) for _ in range(12)]
    epoch, position, _ = seen[6]
    rest = order.iterate_from(epoch, position)
    for expected in seen[7:]:
        found = next(rest)
        assert found[:2] == expected[:2]
        assert (found[2] == expected[2]).all()
