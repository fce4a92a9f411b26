"""What stands around texts: in batches, in the size of batches, and nowhere else."""

from dataclasses import replace

import numpy as np

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.batching import NO_TARGET, collate_batch, make_batch_sampler
from pellucid.data.framing import TextFrame
from pellucid.data.shards import EncodedCorpus, Sentences

PAIRED = ModelConfig(src_vocab_size=30, tgt_vocab_size=30, pad_id=0, bos_id=1, eos_id=2)
DECODER = ModelConfig.decoder(vocab_size=30, pad_id=None, bos_id=1, eos_id=2)
DECODE = DecodeConfig(source_prefix=(20,), source_suffix=(21,), target_prefix=(22,))


def sentences(*rows: list[int]) -> Sentences:
    return Sentences(np.concatenate([np.array(row) for row in rows]), np.cumsum([0, *map(len, rows)]))


def shard(framing: TextFrame | None = None) -> EncodedCorpus:
    return EncodedCorpus(sentences([5, 6, 7], [8]), sentences([9], [10, 11]), empty=0, too_long=0, framing=framing)


def test_sources_and_targets_are_framed_and_the_prefix_is_predicted() -> None:
    batch = collate_batch(shard(TextFrame.from_config(DECODE, PAIRED)), np.array([0, 1]), PAIRED)
    assert batch.src.tolist() == [[20, 5, 6, 7, 2, 21], [20, 8, 2, 21, 0, 0]]
    assert batch.tgt_in.tolist() == [[1, 22, 9, 0], [1, 22, 10, 11]]
    assert batch.tgt_out.tolist() == [[22, 9, 2, 0], [22, 10, 11, 2]]
    assert batch.num_tokens == 7


def test_without_an_end() -> None:
    batch = collate_batch(
        shard(TextFrame.from_config(DecodeConfig(add_source_eos=False), PAIRED)), np.array([0, 1]), PAIRED
    )
    assert batch.src.tolist() == [[5, 6, 7], [8, 0, 0]]


def test_by_default_a_start_and_an_end() -> None:
    plain, framed = (
        collate_batch(shard(f), np.array([0, 1]), PAIRED) for f in (None, TextFrame.from_config(DecodeConfig(), PAIRED))
    )
    assert plain.src.tolist() == framed.src.tolist() == [[5, 6, 7, 2], [8, 2, 0, 0]]
    assert plain.tgt_in.tolist() == framed.tgt_in.tolist() == [[1, 9, 0], [1, 10, 11]]


def test_texts_alone_stand_behind_what_the_model_starts_with() -> None:
    texts = sentences([9], [10, 11])
    whole = EncodedCorpus(texts, texts, empty=0, too_long=0)
    for prefix, before in (((), [1]), ((7,), [7]), ((7, 8), [7, 8])):
        framed = replace(whole, framing=TextFrame.from_config(DecodeConfig(source_prefix=prefix), DECODER))
        batch = collate_batch(framed, np.array([1, 0]), DECODER)
        assert batch.tgt_in[0].tolist() == [*before, 10, 11]
        assert batch.tgt_out[0].tolist() == [*before[1:], 10, 11, 2]
        assert batch.tgt_out[1, -1] == NO_TARGET


def test_what_is_around_counts_in_the_size_of_a_batch() -> None:
    """Two pairs of up to three tokens: four with the end token, six with all that is around them."""
    framed = shard(TextFrame.from_config(DECODE, PAIRED))
    assert len(make_batch_sampler(shard(), 8, 1).epoch(0)) == 1
    assert len(make_batch_sampler(framed, 8, 1).epoch(0)) == 2
    assert len(make_batch_sampler(framed, 12, 1).epoch(0)) == 1
