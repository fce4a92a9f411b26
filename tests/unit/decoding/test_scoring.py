"""Forced scoring has the log-probabilities of what is given, as far as it goes."""

import pytest
import torch

from pellucid.decoding.scoring import compute_forced_log_probs, token_log_probs
from tests.rounding import NETWORK
from tests.unit.decoding.models import BOS, EOS, PAD, random_decoder, random_model, source_batch


def test_each_token_of_a_target_has_its_log_probability() -> None:
    model = random_model(1)
    src = source_batch([[3, 4], [5]])
    tgt_in, tgt_out = torch.tensor([[BOS, 6, 7], [BOS, PAD, PAD]]), torch.tensor([[6, 7, EOS], [EOS, PAD, PAD]])
    log_probs = model(src, tgt_in).detach().log_softmax(dim=-1)
    found = compute_forced_log_probs(model, src, tgt_in, tgt_out, [3, 1])
    assert found[0] == pytest.approx([float(log_probs[0, i, id]) for i, id in enumerate([6, 7, EOS])], abs=NETWORK)
    assert found[1] == pytest.approx([float(log_probs[1, 0, EOS])], abs=NETWORK)


def test_the_length_decides_what_is_padding() -> None:
    """Even where the padding id is the end token's, as in some models."""
    model = random_model(1, pad_id=EOS)
    src, tgt_in = torch.tensor([[3, 4]]), torch.tensor([[BOS, 6, EOS]])
    tgt_out = torch.tensor([[6, EOS, EOS]])
    log_probs = model(src, tgt_in).detach().log_softmax(dim=-1)
    expected = [float(log_probs[0, 0, 6]), float(log_probs[0, 1, EOS])]
    (found,) = compute_forced_log_probs(model, src, tgt_in, tgt_out, [2])
    assert found == pytest.approx(expected, abs=NETWORK)


def test_no_gradient_is_kept() -> None:
    ids = (torch.tensor([[id]]) for id in (EOS, BOS, EOS))
    ((value,),) = compute_forced_log_probs(random_model(1), *ids, [1])
    assert isinstance(value, float)
    assert value < 0


@pytest.mark.parametrize("chunk", [1, 50, 4_000_000])
def test_token_log_probs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the positions they are the model's own, and beyond them given as many tokens as are said."""
    monkeypatch.setattr("pellucid.decoding.scoring.CHUNK_LOGITS", chunk)
    monkeypatch.setattr("pellucid.decoding.scoring.LEAST_ROWS", 1)
    model = random_decoder(4)
    texts = [[1, 5, 6], [1], [], [1, *range(3, 12), *range(3, 12), *range(3, 12), 5]]
    found = token_log_probs(model, texts, batch_tokens=30)
    assert [len(values) for values in found] == [2, 0, 0, 28]
    with torch.no_grad():
        for values, text in zip(found, texts, strict=True):
            for place, value in enumerate(values, start=1):
                # Passes of 13 tokens, each to 6 tokens further than the one before, the last to the end.
                start = 0 if place <= 12 else min(len(text), 19 + (place - 13) // 6 * 6) - 13
                assert place <= 12 or place - start >= 6
                expected = model(torch.tensor([text[start:place]]))[0, -1].log_softmax(-1)[text[place]]
                assert value == pytest.approx(float(expected), abs=NETWORK), (place, start)
