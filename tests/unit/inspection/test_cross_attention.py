"""Cross-attention of a translation: the weights by which the model that runs predicts."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.inspection.cross_attention import cross_attention
from pellucid.model.attention import observing
from pellucid.tasks.translator import Translator


@pytest.fixture(scope="module")
def translator(finished_run: Path) -> Translator:
    return Translator.load(finished_run, "cpu")


def test_tokens_and_shape(translator: Translator) -> None:
    weights, rows, columns = cross_attention(translator, "a b c", "c b")
    config = translator.model.config
    assert rows == ["c", "b", "</s>"]
    assert columns == ["a", "b", "c", "</s>"]
    assert weights.shape == (config.num_decoder_layers, config.num_heads, 3, 4)


def test_each_row_sums_to_one(translator: Translator) -> None:
    weights, _, _ = cross_attention(translator, "a b c d", "d c b a")
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-6)


def test_the_weights_give_what_the_model_gave(translator: Translator) -> None:
    """weights @ v, with v as the pass had it, is the pass's own output."""
    weights, _, _ = cross_attention(translator, "a b c", "c b")
    source = torch.tensor([[*translator.tokenizers.source.encode("a b c"), translator.model.config.eos_id]])
    target = torch.tensor([[translator.model.config.bos_id, *translator.tokenizers.target.encode("c b")]])
    seen = []
    with torch.inference_mode(), observing(lambda q, k, v, mask, bias, output: seen.append((v, output))):
        translator.model(source, target)
    values, output = seen[-1]
    torch.testing.assert_close(torch.from_numpy(weights[-1]) @ values[0], output[0], atol=1e-6, rtol=0)
