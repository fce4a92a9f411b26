"""Texts with labels as batches, and texts alone."""

import numpy as np
import pytest

from pellucid.config import ModelConfig
from pellucid.data.batching import NO_TARGET, collate_batch
from pellucid.data.labels import Labels, classifier_input
from pellucid.data.shards import EncodedCorpus, Sentences
from pellucid.errors import DataError

ENCODER = ModelConfig.encoder(vocab_size=30, num_layers=1, d_model=8, num_heads=2, max_positions=6, num_classes=3)
DECODER = ModelConfig.decoder(vocab_size=30, num_layers=1, d_model=8, num_heads=2)


def rows(*ids: list[int]) -> Sentences:
    return Sentences(np.concatenate(ids).astype(np.uint16), np.cumsum([0, *map(len, ids)]))


def test_a_batch_of_texts_and_classes() -> None:
    shard = EncodedCorpus(rows([5, 6, 7], [8], [5, 6, 7, 8, 9]), rows([0], [2], [1]), empty=0, too_long=0)
    batch = collate_batch(shard, np.array([1, 2, 0]), ENCODER)
    assert batch.src.tolist() == [[1, 8, 2, 0, 0, 0], [1, 5, 6, 7, 8, 2], [1, 5, 6, 7, 2, 0]], "cut at 6 positions"
    assert batch.tgt_out.tolist() == [[2], [1], [0]]
    assert batch.num_tokens == 3
    assert (batch.src_pad_id, batch.tgt_pad_id) == (0, None), "class 0 is no padding"


@pytest.mark.parametrize("pad_id", [0, None])
def test_a_batch_of_texts_alone(pad_id: int | None) -> None:
    texts = rows([5, 6, 7], [8])
    config = ModelConfig.decoder(vocab_size=30, num_layers=1, d_model=8, num_heads=2, pad_id=pad_id)
    batch = collate_batch(EncodedCorpus(texts, texts, empty=0, too_long=0), np.array([0, 1]), config)
    assert batch.tgt_in.tolist() == [[1, 5, 6, 7], [1, 8, 0, 0]]
    assert batch.tgt_out.tolist() == [[5, 6, 7, 2], [8, 2, NO_TARGET, NO_TARGET]]
    assert batch.num_tokens == 6


def test_classifier_input() -> None:
    assert classifier_input([5, 6], ENCODER) == [1, 5, 6, 2]
    assert classifier_input(range(5, 15), ENCODER) == [1, 5, 6, 7, 8, 2]
    assert classifier_input([5], ENCODER, [6]) == [1, 5, 2, 6, 2]
    assert classifier_input(range(5, 15), ENCODER, [6]) == [1, 5, 6, 2, 6, 2]
    assert classifier_input([6], ENCODER, range(5, 15)) == [1, 6, 2, 5, 6, 2]


def test_labels() -> None:
    labels = Labels.from_targets(["b", "a", " b ", "c"])
    assert labels.names == ("a", "b", "c")
    assert labels.size == 3
    assert labels.encode_lines(["c", " a", "", " "]) == [[2], [0], [], []]
    with pytest.raises(DataError, match=r"^unknown label `abc`") as error:
        Labels(("abd", "x")).encode_lines(["x", "abc"])
    assert "did you mean `abd`" in str(error.value)
    assert error.value.hint == "the training text has: abd, x"


@pytest.mark.parametrize(("targets", "found"), [(["a", "a"], r"1 label \(`a`\)"), ([], "0 labels")])
def test_one_label_tells_nothing_apart(targets: list[str], found: str) -> None:
    with pytest.raises(DataError, match=f"^the training text has {found}: a classifier requires at least two labels$"):
        Labels.from_targets(targets)
