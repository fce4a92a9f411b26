"""Heads that are dead, and one that alone knows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU

from pellucid.analysis.ablation import Head, ModelOutputs, ablate, disable_heads, list_heads
from pellucid.config import ModelConfig
from pellucid.errors import DataError
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.transformer import Transformer

SIZES = {"d_model": 12, "d_ff": 16, "num_heads": 3, "dropout": 0.0}
SRC = torch.randint(3, 20, (8, 6), generator=torch.Generator().manual_seed(1))
TGT = torch.randint(3, 20, (8, 5), generator=torch.Generator().manual_seed(2))
KNOWING = Head("cross", 1, 2)


def translator():
    torch.manual_seed(0)
    config = ModelConfig(
        src_vocab_size=20, tgt_vocab_size=20, num_encoder_layers=1, num_decoder_layers=2, tie_embeddings="none", **SIZES
    )
    return Transformer(config).eval()


def only_one_knows():
    """All heads are dead but one, which adds ten times what it would."""
    model = translator()
    with torch.no_grad():
        for head in list_heads(model):
            stack = model.encoder if head.attention == "encoder.self" else model.decoder
            layer = stack.layers[head.layer]
            block = layer.cross_attn if head.attention == "cross" else layer.self_attn
            block.out_proj.weight[:, 4 * head.head : 4 * head.head + 4] *= 10 if head == KNOWING else 0
    return model


@torch.inference_mode()
def outcome(model, right):
    """Losses, outputs and hits of what `model` says, against the (B, T) ids that are right."""
    logits = model(SRC, TGT)
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), right, reduction="none").sum(dim=1)
    found = logits.argmax(dim=-1)
    return ModelOutputs(
        losses=losses.double().numpy(),
        tokens=np.full(len(right), right.size(1), np.float64),
        outputs=[" ".join(map(str, row)) for row in found.tolist()],
        right=(found[:, 0] == right[:, 0]).double().numpy(),
    )


@pytest.fixture(scope="module")
def ablation():
    model = only_one_knows()
    right = model(SRC, TGT).argmax(dim=-1)
    references = [" ".join(map(str, row)) for row in right.tolist()]
    told = []
    found = ablate(model, lambda: outcome(model, right), references, told.append)
    assert told == list_heads(model)
    return found


@pytest.mark.slow
def test_bleu_is_cut_as_the_references_script_asks():
    model, lines = only_one_knows(), ["一只黑狗在街上跑步", "两个男人在看一场足球比赛"] * 4
    right = model(SRC, TGT).argmax(dim=-1)
    wrong = replace(outcome(model, right), outputs=["一只黑狗在街上走路", "两个女人在看一场足球比赛"] * 4)
    whole = ablate(model, lambda: wrong, lines, lambda head: None).baseline["bleu"]
    assert whole == pytest.approx(BLEU(tokenize="zh", force=True).corpus_score(wrong.outputs, [lines]).score)
    assert whole > 40


def test_all_heads_are_switched_off_in_turn(ablation):
    assert list(ablation.changes) == list_heads(translator())
    assert len(ablation.changes) == 3 * (1 + 2 * 2)
    assert ablation.sentences == 8
    assert ablation.baseline["bleu"] == pytest.approx(100)
    assert ablation.baseline["accuracy"] == 100


@pytest.mark.slow
def test_dead_heads_change_nothing_and_the_knowing_one_much(ablation):
    for head, changes in ablation.changes.items():
        for metric, change in changes.items():
            assert change.change == pytest.approx(change.score - ablation.baseline[metric])
            low, high = change.interval
            if head != KNOWING:
                assert (change.change, low, high) == (0, 0, 0), (head, metric)
            elif metric == "loss":
                assert change.change > 0.2
                assert 0 < low <= change.change <= high
            else:
                assert change.change < -20
                assert high < 0
    for metric in ablation.baseline:
        assert ablation.rank_heads(metric)[0] == KNOWING


def test_the_changes_as_a_matrix_of_layers_and_heads(ablation):
    matrix = ablation.matrices("cross", "loss")[0]
    assert matrix.shape == (2, 3)
    assert matrix[1, 2] == np.float32(ablation.changes[KNOWING]["loss"].change)
    assert np.count_nonzero(matrix) == 1
    with pytest.raises(DataError, match=r"no head of `search\.cross`"):
        ablation.matrices("search.cross", "loss")


def test_json_holds_all_heads(ablation):
    table = ablation.to_json()
    assert table["whole"]["accuracy"] == 100
    assert table["heads"][-1] | {"bleu": 0, "loss": 0} == {
        "attention": "cross", "layer": 1, "head": 2, "loss": 0, "bleu": 0,
        "accuracy": table["heads"][-1]["accuracy"],
    }  # fmt: skip
    assert set(table["heads"][0]["loss"]) == {"score", "change", "interval"}


@pytest.mark.parametrize("stop", [None, ValueError, KeyboardInterrupt])
def test_afterwards_the_model_is_what_it_was(stop):
    model = translator()
    weights, before = {name: value.clone() for name, value in model.state_dict().items()}, model(SRC, TGT)
    try:
        with disable_heads(model, KNOWING):
            assert not torch.equal(model(SRC, TGT), before)
            if stop is not None:
                raise stop
    except (ValueError, KeyboardInterrupt):
        pass
    assert torch.equal(model(SRC, TGT), before)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_a_head_that_is_off_is_one_whose_part_of_the_output_matrix_is_zero():
    model, by_hand = translator(), translator()
    with torch.no_grad():
        by_hand.decoder.layers[1].cross_attn.out_proj.weight[:, 8:12] = 0
    with disable_heads(model, KNOWING):
        torch.testing.assert_close(model(SRC, TGT), by_hand(SRC, TGT))
        cache, expected = model.start(SRC, 1), by_hand.start(SRC, 1)
        torch.testing.assert_close(model.step(TGT[:, :1], cache), by_hand.step(TGT[:, :1], expected))


def test_several_heads_at_once():
    model = translator()
    alone = []
    for heads in ([KNOWING], [KNOWING, Head("encoder.self", 0, 0)]):
        with disable_heads(model, *heads):
            alone.append(model(SRC, TGT))
    assert not torch.equal(*alone)


@pytest.mark.parametrize(
    ("model", "heads"),
    [
        (SequenceClassifier(ModelConfig.encoder(vocab_size=20, num_layers=2, num_classes=2, **SIZES)), "encoder.self"),
        (DecoderOnly(ModelConfig.decoder(vocab_size=20, num_layers=2, **SIZES)), "decoder.self"),
    ],
    ids=["classifier", "language model"],
)
def test_the_other_families(model, heads):
    assert {head.attention for head in list_heads(model)} == {heads}
    assert len(list_heads(model)) == 6
    model.eval()
    before = model(SRC)
    with disable_heads(model, Head(heads, 0, 0)):
        assert not torch.equal(model(SRC), before)


def test_heads_that_are_not_there():
    with (
        pytest.raises(DataError, match="the model has no cross layer 2 head 0"),
        disable_heads(translator(), Head("cross", 2, 0)),
    ):
        pass


def test_nothing_to_score():
    with pytest.raises(DataError, match="0 sentences"):
        ablate(translator(), lambda: ModelOutputs(losses=np.zeros(0), tokens=np.zeros(0)))
