"""Models that were saved with other heads, or with none: converted, the states or logits that both sides have agree."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.conversion.convert import convert
from tests.parity.foreign_tokenizers import folders
from tests.parity.hugging_face.outside import random_outside

pytestmark = pytest.mark.foreign

BERT: dict[str, Any] = {
    "vocab_size": 600, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": 48,
}  # fmt: skip
GPT2: dict[str, Any] = {
    "vocab_size": 600, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "settings", "measure"),
    [
        ("BertModel", BERT, "states"),
        ("BertForMaskedLM", BERT, "states"),
        ("BertForPreTraining", BERT, "states"),
        ("BertForTokenClassification", BERT | {"num_labels": 5}, "states"),
        ("BertForSequenceClassification", BERT | {"num_labels": 1}, "states"),
        ("BertForSequenceClassification", BERT | {"num_labels": 3}, "logits"),
        ("GPT2Model", GPT2, "logits"),
        ("GPT2LMHeadModel", GPT2, "logits"),
    ],
)
def test_what_both_sides_have_agrees(name: str, settings: dict[str, Any], measure: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (folders.word_pieces if name.startswith("Bert") else folders.byte_level)(theirs)
    table = (theirs / "tokenizer_config.json").read_bytes()
    random_outside(name, **settings).save_pretrained(theirs)
    (theirs / "tokenizer_config.json").write_bytes(table)
    proof = convert(theirs, tmp_path / "ours")
    assert proof.compared
    assert proof.passed, str(proof)
    assert proof.measure == measure
    assert proof.tokenized_equal == proof.sentences
