"""Batches: every sentence once an epoch, within the budget, in an order that (seed, epoch) alone decides."""

from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.batching import NO_TARGET, BucketBatchSampler, collate_batch, make_batch
from pellucid.data.shards import EncodedCorpus, Sentences
from pellucid.errors import DataError

Lengths = list[tuple[int, int]]
LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)
MANY = [(1 + i % 7, 1 + i % 5) for i in range(200)]


def order(lengths: Lengths, budget: int = 40, seed: int = 1) -> BucketBatchSampler:
    src, tgt = np.array(lengths, dtype=np.int64).T
    return BucketBatchSampler(src, tgt, budget, seed)


def listed(batches: list[npt.NDArray[np.int64]]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@pytest.mark.slow
@given(lengths=LENGTHS, budget=st.integers(1, 100), seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_each_sentence_once_within_the_budget(lengths: Lengths, budget: int, seed: int, epoch: int) -> None:
    batches = listed(order(lengths, budget, seed).epoch(epoch))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        width = 1 + max(max(lengths[i]) for i in batch)
        assert len(batch) == 1 or len(batch) * width <= budget


@pytest.mark.slow
@given(
    lengths=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, unique=True),
    budget=st.integers(1, 100),
)
def test_batches_are_full_and_of_similar_length(lengths: Lengths, budget: int) -> None:
    by_length = sorted(listed(order(lengths, budget).epoch(0)), key=lambda batch: lengths[batch[0]][::-1])
    sorted_lengths = [lengths[i][::-1] for batch in by_length for i in batch]
    assert sorted_lengths == sorted(sorted_lengths), "by target and then source length"
    for batch, following in pairwise(by_length):
        width = 1 + max(max(lengths[i]) for i in [*batch, following[0]])
        assert (len(batch) + 1) * width > budget, "one more would not have fitted"


def test_a_sentence_wider_than_the_budget_has_a_batch_of_its_own() -> None:
    batches = listed(order([(3, 3), (50, 4), (2, 60), (4, 3)], budget=20).epoch(0))
    assert [1] in batches
    assert [2] in batches
    assert len(batches) == 3


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    first = listed(order(MANY).epoch(3))
    assert listed(order(MANY).epoch(3)) == first
    others = [listed(order(MANY).epoch(4)), listed(order(MANY, seed=2).epoch(3))]
    for other in others:
        assert other != first
        assert {frozenset(batch) for batch in other} != {frozenset(batch) for batch in first}, "equal lengths mix anew"
    sizes = [len(batch) for batch in first]
    assert sizes != sorted(sizes) != sizes[::-1], "short and long batches alternate"


def test_numpys_own_random_numbers_do_not_matter() -> None:
    before = listed(order(MANY).epoch(0))
    np.random.seed(123)
    assert listed(order(MANY).epoch(0)) == before


@pytest.mark.slow
@given(lengths=LENGTHS, epoch=st.integers(0, 3), data=st.data())
def test_following_from_a_place_is_the_tail_of_the_whole_stream(
    lengths: Lengths, epoch: int, data: st.DataObject
) -> None:
    batch_order = order(lengths)
    whole = list(islice(batch_order.iterate_from(0, 0), 40))
    cut = data.draw(st.integers(0, len(whole) - 1))
    at_epoch, position, _ = whole[cut]
    rest = list(islice(batch_order.iterate_from(at_epoch, position), len(whole) - cut - 1))
    assert [(e, p, s.tolist()) for e, p, s in rest] == [(e, p, s.tolist()) for e, p, s in whole[cut + 1 :]]


def test_the_stream_is_epoch_after_epoch() -> None:
    batch_order = order(MANY)
    first, second = batch_order.epoch(0), batch_order.epoch(1)
    stream = list(islice(batch_order.iterate_from(0, 0), len(first) + len(second)))
    assert [s.tolist() for _, _, s in stream] == listed([*first, *second])
    assert [(e, p) for e, p, _ in stream] == [
        *((0, p) for p in range(1, len(first) + 1)),
        *((1, p) for p in range(1, len(second) + 1)),
    ]


def weighted(corpora: tuple[tuple[int, float], ...], seed: int = 1) -> BucketBatchSampler:
    size = sum(size for size, _ in corpora)
    src, tgt = np.array(MANY[:size], dtype=np.int64).T
    return BucketBatchSampler(src, tgt, 40, seed, corpora)


def times_drawn(batch_order: BucketBatchSampler, epoch: int) -> npt.NDArray[np.int64]:
    draws = np.concatenate(batch_order.epoch(epoch))
    assert len(np.unique(draws)) == len(draws), "each draw is one of its own"
    return np.bincount(draws % len(batch_order.src_lengths), minlength=len(batch_order.src_lengths))


def test_each_corpus_is_drawn_as_often_as_its_weight_says() -> None:
    batch_order = weighted(((50, 2.3), (60, 0.25), (30, 1.0), (20, 3.0)))
    for epoch in range(3):
        first, second, third, fourth = np.split(times_drawn(batch_order, epoch), [50, 110, 140])
        assert (sorted(set(first)), first.sum()) == ([2, 3], 115)
        assert (sorted(set(second)), second.sum()) == ([0, 1], 15)
        assert (set(third), set(fourth)) == ({1}, {3})


def test_a_fraction_is_another_sample_each_epoch() -> None:
    batch_order = weighted(((100, 0.5), (100, 1.0)))
    drawn = [times_drawn(batch_order, epoch) for epoch in range(8)]
    assert len({tuple(times) for times in drawn}) == 8
    assert (np.sum(drawn, axis=0)[:100] > 0).sum() > 90, "all of it is seen in time"
    again, other = weighted(((100, 0.5), (100, 1.0))), weighted(((100, 0.5), (100, 1.0)), seed=2)
    assert listed(again.epoch(3)) == listed(batch_order.epoch(3))
    assert (times_drawn(other, 3) != drawn[3]).any()


def test_weights_of_one_change_nothing_and_batches_stay_full() -> None:
    plain = weighted(((200, 1.0),)).epoch(2)
    assert listed(plain) == listed(order(MANY).epoch(2))
    double = weighted(((200, 2.0),)).epoch(2)
    for batch in double:
        sentences = batch % 200
        widths = 1 + max(max(MANY[i]) for i in sentences)
        assert len(batch) == 1 or len(batch) * widths <= 40
    assert len(double) < 2 * len(plain) + 2
    position = weighted(((200, 1.5),))
    stream = list(islice(position.iterate_from(1, 4), 3))
    assert [s.tolist() for _, _, s in stream] == listed(position.epoch(1)[4:7])


def shard() -> EncodedCorpus:
    source = Sentences(np.array([10, 11, 12, 13], np.uint16), np.array([0, 1, 4]))
    target = Sentences(np.array([20, 21, 22], np.uint16), np.array([0, 2, 3]))
    return EncodedCorpus(source, target, empty=0, too_long=0)


def config(**ids: int | None) -> ModelConfig:
    return ModelConfig(src_vocab_size=50, tgt_vocab_size=50, **ids)  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", [{"pad_id": 0, "bos_id": 1, "eos_id": 2}, {"pad_id": 7, "bos_id": 8, "eos_id": 9}])
def test_the_layout_of_a_batch(ids: dict[str, int]) -> None:
    pad, bos, eos = ids.values()
    batch = collate_batch(shard(), np.array([1, 0]), config(**ids))
    assert batch.src.tolist() == [[11, 12, 13, eos], [10, eos, pad, pad]]
    assert batch.tgt_in.tolist() == [[bos, 22, pad], [bos, 20, 21]]
    assert batch.tgt_out.tolist() == [[22, eos, pad], [20, 21, eos]]
    assert batch.num_tokens == 5
    assert batch.sentences.tolist() == [1, 0]
    assert {tensor.dtype for tensor in (batch.src, batch.tgt_in, batch.tgt_out)} == {torch.int64}


def test_a_batch_goes_to_a_device() -> None:
    batch = collate_batch(shard(), np.array([0, 1]), config())
    moved = batch.to(torch.device("meta"))
    assert {tensor.device.type for tensor in (moved.src, moved.tgt_in, moved.tgt_out)} == {"meta"}
    assert (moved.num_tokens, moved.sentences.tolist()) == (batch.num_tokens, [0, 1])
    assert moved.tgt_in.shape == batch.tgt_in.shape


def test_a_batch_of_ids_in_lists_is_that_of_a_shard() -> None:
    drawn = collate_batch(shard(), np.array([1, 0]), config())
    made = make_batch([[11, 12, 13], [10]], [[22], [20, 21]], config())
    for name in ("src", "tgt_in", "tgt_out"):
        assert torch.equal(getattr(made, name), getattr(drawn, name))
    assert (made.num_tokens, made.src_pad_id, made.tgt_pad_id) == (5, 0, 0)
    assert made.sentences.tolist() == [0, 1]


def test_codes_of_languages_stand_around_the_ids() -> None:
    decode = DecodeConfig(source_prefix=(40,), source_suffix=(41,), target_prefix=(42,))
    batch = make_batch([[10]], [[20, 21]], config(), decode=decode)
    assert batch.src.tolist() == [[40, 10, 2, 41]]
    assert (batch.tgt_in.tolist(), batch.tgt_out.tolist()) == ([[1, 42, 20, 21]], [[42, 20, 21, 2]])


def test_a_classifier_takes_a_number_a_text_and_a_decoder_texts_alone() -> None:
    encoder = ModelConfig.encoder(vocab_size=50, num_layers=1, num_classes=3)
    classified = make_batch([[10, 11], [12]], [2, 0], encoder)
    assert (classified.src.tolist(), classified.tgt_out.tolist()) == ([[1, 10, 11, 2], [1, 12, 2, 0]], [[2], [0]])
    decoder = ModelConfig.decoder(vocab_size=50, num_layers=1)
    texts = make_batch([[10, 11], [12]], None, decoder)
    assert (texts.tgt_in.tolist(), texts.num_tokens) == ([[1, 10, 11], [1, 12, 0]], 5)
    assert texts.tgt_out.tolist() == [[10, 11, 2], [12, 2, NO_TARGET]]
    assert texts.src.shape == (2, 0)


@pytest.mark.parametrize(
    ("sources", "targets", "of", "message"),
    [
        ([], [], config(), "0 sources and 0 targets are given"),
        ([[1]], [[1], [2]], config(), "1 sources and 2 targets are given"),
        ([[1]], None, config(), "1 sources and no targets are given"),
        ([[1]], [[2]], ModelConfig.decoder(vocab_size=50), "1 sources and 1 targets are given"),
    ],
)
def test_what_does_not_make_a_batch(sources: Any, targets: Any, of: ModelConfig, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_batch(sources, targets, of)


QUEUE_CONFIG = ModelConfig(src_vocab_size=50, tgt_vocab_size=50, d_model=8, num_heads=2, max_positions=20)


def test_for_a_gpu_lengths_are_multiples_of_eight() -> None:
    """What is added is padding, and what was there stays; the places of words need not be looked for."""
    sources, targets = [[5] * 9, [6] * 3, [7] * 16], [[8] * 2, [9] * 17, [10] * 4]
    batch = make_batch(sources, targets, QUEUE_CONFIG)
    found = batch.pad_for_gpu(20)
    assert (found.src.shape, found.tgt_in.shape, found.tgt_out.shape) == ((3, 20), (3, 20), (3, 20)), "no 24 positions"
    for ids, before in ((found.src, batch.src), (found.tgt_in, batch.tgt_in), (found.tgt_out, batch.tgt_out)):
        assert torch.equal(ids[:, : before.size(1)], before)
        assert (ids[:, before.size(1) :] == 0).all()
    assert found.target_positions is not None
    assert torch.equal(found.target_positions, (found.tgt_out.flatten() != 0).nonzero()[:, 0])
    assert len(found.target_positions) == batch.num_tokens == found.num_tokens
    assert found.pad_for_gpu(20).src.shape == found.src.shape
    assert make_batch([[5]], [[5]], QUEUE_CONFIG).pad_for_gpu(20).src.shape == (1, 8)


def test_for_a_gpu_nothing_is_added_where_nothing_tells_padding_from_words() -> None:
    batch = make_batch([[5, 6, 7]] * 2, [[8, 0], [8]], replace(QUEUE_CONFIG, pad_id=None)).pad_for_gpu(20)
    assert (batch.src.shape, batch.tgt_in.shape) == ((2, 4), (2, 8)), "no word attends to what stands behind a target"
    assert batch.tgt_out.tolist() == [[8, 0, 2, *[-1] * 5], [8, 2, *[-1] * 6]]
    assert batch.target_positions is not None
    assert batch.target_positions.tolist() == [0, 1, 2, 8, 9]
    assert len(batch.target_positions) == batch.num_tokens, "word 0 is one, filler is none"
    alone = ModelConfig.decoder(vocab_size=50, num_layers=1, d_model=8, num_heads=2)
    text = make_batch([[5, 6, 7], [8]], None, alone).pad_for_gpu(20)
    assert text.tgt_in.tolist() == [[1, 5, 6, 7, 0, 0, 0, 0], [1, 8, 0, 0, 0, 0, 0, 0]]
    assert text.tgt_out.tolist() == [[5, 6, 7, 2, -1, -1, -1, -1], [8, 2, -1, -1, -1, -1, -1, -1]]
    assert text.target_positions is not None
    assert text.target_positions.tolist() == [0, 1, 2, 3, 8, 9]


def test_python_does_not_wait_for_a_copy_to_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of memory that is not pinned it would, whatever `non_blocking` says."""
    batch, pinned, moved = make_batch([[5]], [[6]], QUEUE_CONFIG).pad_for_gpu(20), [], []

    def pin(ids: torch.Tensor) -> torch.Tensor:
        pinned.append(id(ids))
        return ids

    def move(ids: torch.Tensor, device: torch.device, non_blocking: bool = False) -> torch.Tensor:
        moved.append((id(ids), device.type, non_blocking))
        return ids

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", move)
    batch.to(torch.device("cuda"))
    assert len(pinned) == 4
    assert moved == [(one, "cuda", True) for one in pinned]
    batch.to(torch.device("cpu"))
    assert len(pinned) == 4
