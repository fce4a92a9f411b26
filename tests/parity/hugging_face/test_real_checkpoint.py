"""A real checkpoint, a BERT of six layers that a package carries: the same states as in transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.weights import from_hugging_face
from tests.parity.hugging_face.outside import close

pytestmark = pytest.mark.foreign

SENTENCES = [
    "A dog runs across a meadow.",
    "Ein Hund läuft über eine Wiese, und niemand weiß, warum!",
    "한국어 문장은 어떻게 나뉠까?",
    "x = 3.14159 * (y + 2)",
    "Yes",
    "Attention weights are computed for each head of each layer, and what they select is summed and goes on.",
]
PAIRS = [
    ("Is it raining?", "No, the sun is out."),
    ("Who wrote it?", "Nobody knows who wrote it, or when."),
    ("A", "B"),
]


@pytest.mark.parametrize("texts", [SENTENCES, SENTENCES[:1], PAIRS], ids=["padded", "single", "pairs"])
def test_states(texts: list[Any], minilm: Path) -> None:
    import transformers

    theirs = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    ours, tokenizer = from_hugging_face(minilm)
    batch = transformers.AutoTokenizer.from_pretrained(minilm)(texts, padding=True, return_tensors="pt")
    assert (int(batch["token_type_ids"].max()) == 1) == (texts is PAIRS)
    with torch.inference_mode():
        expected = theirs(**batch).last_hidden_state
        states = ours(batch["input_ids"], batch["token_type_ids"])
    real = batch["attention_mask"].bool()
    close(states, expected, real)
    assert (states - expected)[real].abs().max() <= 1e-5
    assert tokenizer is not None
    assert (ours.config.bos_id, ours.config.eos_id, ours.config.pad_id) == (101, 102, 0)
    if texts is SENTENCES:
        assert [ours.config.bos_id, *tokenizer.encode(texts[0]), ours.config.eos_id] == batch["input_ids"][0][
            real[0]
        ].tolist()
