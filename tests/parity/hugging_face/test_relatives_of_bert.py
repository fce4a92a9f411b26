"""RoBERTa, XLM-R, CamemBERT and DistilBERT: states and classes, with padding and without."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.model.families import EncoderOnly, SequenceClassifier
from pellucid.weights.hugging_face.opening import open_hugging_face_folder
from tests.parity.hugging_face.outside import close, opened, padded_ids, random_outside

pytestmark = pytest.mark.foreign

VOCAB = 37
ROBERTA: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 16, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
}  # fmt: skip
DISTILBERT: dict[str, Any] = {
    "vocab_size": VOCAB, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "max_position_embeddings": 16,
}  # fmt: skip
CASES: list[tuple[str, dict[str, Any]]] = [
    *[
        (name, ROBERTA | more)
        for name in ("Roberta", "XLMRoberta", "Camembert")
        for more in ({}, {"type_vocab_size": 2, "hidden_act": "relu"}, {"pad_token_id": 4, "num_attention_heads": 1})
    ],
    *[
        ("DistilBert", DISTILBERT | more)
        for more in ({}, {"activation": "relu", "n_layers": 3}, {"pad_token_id": 5, "n_heads": 1, "dim": 15})
    ],
    ("DistilBert", DISTILBERT | {"sinusoidal_pos_embds": True}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("head", ["Model", "ForMaskedLM"])
def test_states(head: str, case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    theirs = random_outside(case[0] + head, **case[1])
    ours = opened(theirs, tmp_path)
    assert type(ours) is EncoderOnly
    assert ours.config.bos_id == (101 if case[0] == "DistilBert" else 0)
    ids, real = padded_ids(VOCAB, [9, 4, 1], theirs.config.pad_token_id)
    with torch.inference_mode():
        close(ours(ids), theirs.base_model(ids, attention_mask=real.long()).last_hidden_state, real)
        close(ours(ids[:1, :4]), theirs.base_model(ids[:1, :4]).last_hidden_state)


def test_segments_of_roberta(tmp_path: Path) -> None:
    theirs = random_outside("RobertaModel", **ROBERTA | {"type_vocab_size": 3})
    ours = opened(theirs, tmp_path)
    ids, real = padded_ids(VOCAB, [9, 4], 1)
    segments = torch.randint(0, 3, ids.shape)
    with torch.inference_mode():
        expected = theirs(ids, attention_mask=real.long(), token_type_ids=segments).last_hidden_state
        close(ours(ids, segments), expected, real)


def test_all_positions_of_roberta(tmp_path: Path) -> None:
    theirs = random_outside("RobertaModel", **ROBERTA)
    ours = opened(theirs, tmp_path)
    assert ours.config.max_positions == 14
    ids, _ = padded_ids(VOCAB, [14], 1)
    with torch.inference_mode():
        close(ours(ids), theirs(ids).last_hidden_state)


@pytest.mark.parametrize("case", [("Roberta", ROBERTA), ("XLMRoberta", ROBERTA), ("DistilBert", DISTILBERT)], ids=str)
def test_classes(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    theirs = random_outside(f"{case[0]}ForSequenceClassification", **case[1], num_labels=4)
    ours = opened(theirs, tmp_path)
    assert type(ours) is SequenceClassifier
    ids, real = padded_ids(VOCAB, [9, 4, 1], theirs.config.pad_token_id)
    with torch.inference_mode():
        close(ours(ids), theirs(ids, attention_mask=real.long()).logits)
    assert open_hugging_face_folder(tmp_path).labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


@pytest.mark.parametrize("case", [("Roberta", ROBERTA), ("DistilBert", DISTILBERT)], ids=str)
def test_a_head_for_each_token_is_no_classifier(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    theirs = random_outside(f"{case[0]}ForTokenClassification", **case[1], num_labels=4)
    assert type(opened(theirs, tmp_path)) is EncoderOnly
    assert open_hugging_face_folder(tmp_path).unused == ("classifier.bias", "classifier.weight")
