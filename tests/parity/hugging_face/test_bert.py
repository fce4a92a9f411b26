"""BERT: states and classes, with padding and without, with two segments, with the base prefix and without."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.model.families import EncoderOnly, SequenceClassifier
from pellucid.weights.hugging_face.opening import open_hugging_face_folder
from tests.parity.hugging_face.outside import close, opened, padded_ids, random_outside

pytestmark = pytest.mark.foreign

VOCAB = 37
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 16,
}  # fmt: skip
SHAPES: list[dict[str, Any]] = [
    {},
    {"hidden_size": 15, "num_attention_heads": 5, "intermediate_size": 7, "num_hidden_layers": 3},
    {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "type_vocab_size": 3},
    {"hidden_act": "relu", "pad_token_id": 5, "num_attention_heads": 1},
    {"hidden_act": "silu", "num_attention_heads": 12, "type_vocab_size": 1},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "BertForQuestionAnswering"])
def test_states(name: str, shape: dict[str, Any], tmp_path: Path) -> None:
    theirs = random_outside(name, **SIZES | shape)
    ours = opened(theirs, tmp_path)
    assert type(ours) is EncoderOnly
    ids, real = padded_ids(VOCAB, [9, 4, 1], theirs.config.pad_token_id)
    segments = torch.randint(0, theirs.config.type_vocab_size, ids.shape)
    with torch.inference_mode():
        expected = theirs.base_model(ids, attention_mask=real.long(), token_type_ids=segments).last_hidden_state
        close(ours(ids, segments=segments), expected, real)
        expected = theirs.base_model(ids[:1, :4]).last_hidden_state
        close(ours(ids[:1, :4]), expected)


@pytest.mark.parametrize("classes", [2, 5])
def test_classes(classes: int, tmp_path: Path) -> None:
    labels = {number: f"kind {number}" for number in range(classes)}
    theirs = random_outside("BertForSequenceClassification", **SIZES, num_labels=classes, id2label=labels)
    ours = opened(theirs, tmp_path)
    assert type(ours) is SequenceClassifier
    ids, real = padded_ids(VOCAB, [9, 4, 1], 0)
    segments = torch.randint(0, 2, ids.shape)
    with torch.inference_mode():
        close(ours(ids, segments), theirs(ids, attention_mask=real.long(), token_type_ids=segments).logits)
    saved = open_hugging_face_folder(tmp_path)
    assert (saved.task, saved.labels) == ("classify", tuple(labels.values()))
    assert saved.unused == ()


def test_a_head_without_a_choice_is_left_aside(tmp_path: Path) -> None:
    theirs = random_outside("BertForSequenceClassification", **SIZES, num_labels=1)
    assert type(opened(theirs, tmp_path)) is EncoderOnly
    saved = open_hugging_face_folder(tmp_path)
    assert saved.task == "encode"
    assert "classifier.weight" in saved.unused


def test_what_stands_beside_the_encoder_is_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    random_outside("BertModel", **SIZES).save_pretrained(tmp_path / "base")
    random_outside("BertForMaskedLM", **SIZES).save_pretrained(tmp_path / "head")
    with caplog.at_level(logging.WARNING):
        assert open_hugging_face_folder(tmp_path / "base").unused == ("pooler.dense.bias", "pooler.dense.weight")
    assert "2 tensors are not part of the model and are not used: pooler.dense.bias, pooler.dense.weight" in caplog.text
    unused = open_hugging_face_folder(tmp_path / "head").unused
    assert "cls.predictions.transform.dense.weight" in unused
    assert all(name.startswith("cls.") for name in unused)
