"""The order of an epoch that is too large to sort: everything once, of like length, from any place on."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from pellucid.data import batching, window_order
from pellucid.data.batching import BucketBatchSampler
from pellucid.data.sentences import SentenceLengths
from pellucid.data.window_order import STRIDE, Windows


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_order, "BLOCK", 16)
    monkeypatch.setattr(window_order, "WINDOW", 200)


def lengths_of(pairs: int, seed: int, around: int = 0) -> SentenceLengths:
    lengths = np.random.default_rng(seed).integers(1, 40, pairs)
    return SentenceLengths(np.concatenate([[0], np.cumsum(lengths)]), around)


def order(pairs: int = 1000, batch_tokens: int = 300, in_windows: bool = True, **fields: object) -> BucketBatchSampler:
    sides = lengths_of(pairs, 1), lengths_of(pairs, 2)
    return BucketBatchSampler(*sides, batch_tokens, 1, in_windows=in_windows, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("pairs", [1, 15, 16, 17, 200, 201, 215, 1003])
def test_each_pair_comes_once_an_epoch(pairs: int) -> None:
    for epoch in range(20):
        batches = order(pairs).epoch(epoch)
        assert sorted(np.concatenate(batches).tolist()) == list(range(pairs))
        assert all(map(len, batches))


def test_weights_draw_as_many_as_they_say() -> None:
    corpora = ((300, 2.3), (700, 0.25))
    batches = order(corpora=corpora)
    first, second = (np.concatenate(batches.epoch(epoch)) for epoch in (0, 1))
    for drawn in (first, second):
        times = Counter((drawn % 1000).tolist())
        counts = np.array([times[pair] for pair in range(1000)])
        assert counts[:300].sum() == 690
        assert set(counts[:300].tolist()) == {2, 3}
        assert counts[300:].sum() == 175
        assert len(set(drawn.tolist())) == len(drawn)  # a pair that is drawn again is another draw
    assert set(first.tolist()) != set(second.tolist())  # another part each epoch


def test_it_goes_on_from_each_place_as_if_it_had_not_stopped() -> None:
    whole = list(islice(order().iterate_from(0, 0), 300))
    assert whole[-1][0] >= 2
    for number in range(0, 299, 7):
        epoch, position, _ = whole[number]
        (_, _, expected), (_, _, found) = whole[number + 1], next(order().iterate_from(epoch, position))
        assert expected.tolist() == found.tolist()
    assert whole[0][1] == 1
    assert any(position > STRIDE for _, position, _ in whole)


def test_batches_are_full_and_of_like_length() -> None:
    many, sorted_as_a_whole = order(20_000, 1000), order(20_000, 1000, in_windows=False)
    for batch in many.epoch(0):
        widths = np.maximum(many.src_lengths[batch], many.tgt_lengths[batch]) + 1
        assert widths.max() * len(batch) <= 1000
    assert len(many.epoch(0)) < 1.5 * len(sorted_as_a_whole.epoch(0))


def test_an_epoch_of_one_window_is_the_same_however_its_lengths_are_given() -> None:
    sides = lengths_of(1000, 1, 2), lengths_of(1000, 2, 3)
    arrays = [side[np.arange(1000)] for side in sides]
    batches = [[batch.tolist() for batch in BucketBatchSampler(*given, 300, 1).epoch(2)] for given in (sides, arrays)]
    assert batches[0] == batches[1]
    assert [position for _, position, _ in islice(BucketBatchSampler(*arrays, 300, 1).iterate_from(2, 5), 3)] == [
        6,
        7,
        8,
    ]


def test_a_place_in_one_window_may_be_beyond_the_stride_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "STRIDE", 10)
    whole = [batch.tolist() for batch in order(in_windows=False).epoch(0)]
    assert len(whole) > 30
    assert next(order(in_windows=False).iterate_from(0, 25))[2].tolist() == whole[25]


def test_what_meets_in_a_window_is_from_all_over_and_another_each_epoch() -> None:
    of_epochs = [Windows(10_000, 1), Windows(10_000, 1)]
    first, second = (w.draws(w.blocks(epoch), 0) for epoch, w in enumerate(of_epochs))
    assert 200 <= len(first) <= 215
    assert len({draw // 1000 for draw in first.tolist()}) >= 5
    assert len(set(first.tolist()) & set(second.tolist())) < 100
    assert {draw % 16 for draw in first[:16].tolist()} == set(range(16))


def test_the_ids_around_a_sentence_count() -> None:
    sides = lengths_of(1000, 1, around=2), lengths_of(1000, 2, around=3)
    plain = order()
    for batch in BucketBatchSampler(*sides, 300, 1, in_windows=True).epoch(0):
        widths = np.maximum(plain.src_lengths[batch] + 2, plain.tgt_lengths[batch] + 3) + 1
        assert widths.max() * len(batch) <= 300
