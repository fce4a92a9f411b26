"""`pellucid.examine`: faults planted in models are found and named, and sound models raise no alarm."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pellucid
from pellucid.data.doctor import CorpusCheck
from pellucid.model.attention import attention_weights
from pellucid.model_checks.examine import examine
from pellucid.model_checks.faithful import check_trace
from pellucid.model_checks.steps import greedy
from pellucid.model_checks.weights import accumulation, conversions
from pellucid.properties.subject import ExaminedModel, ModelCheck
from tests.own_parts import ALL
from tests.unit.model_checks import faulty
from tests.unit.model_checks.faulty import translator

Parts = pellucid.Parts


def names(checks: list[CorpusCheck], level: str = "BAD") -> set[str]:
    """Names the checks of a level, without those that say that they follow from another."""
    return {check.name for check in checks if isinstance(check, ModelCheck) and check.level == level
            and not check.follows}  # fmt: skip


def with_attention(attention: type[pellucid.MultiHeadAttention]) -> Callable[[], pellucid.Transformer]:
    return lambda: translator(Parts(attention=attention.from_config))


def untied() -> pellucid.Transformer:
    model = translator()
    model.output_projection.weight = nn.Parameter(model.output_projection.weight.detach().clone())
    return model


def tied_by_hand() -> pellucid.Transformer:
    model = translator(tie_embeddings="none")
    model.output_projection.weight = model.tgt_embedding.tokens.weight
    return model


def not_a_number() -> pellucid.Transformer:
    model = translator()
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.up_proj.weight[3, 5] = torch.nan
    return model


def step_at_the_start() -> pellucid.Transformer:
    class Stale(pellucid.Transformer):
        def step_states(self, tokens: torch.Tensor, cache: Any) -> torch.Tensor:
            x = self.tgt_embedding(tokens, position=0)
            return self.decoder(x, cache.memory, cache.grow(), cache.memory_mask, cache)

    return Stale(translator().config)


PLANTED: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "causal leak": (with_attention(faulty.Leaking), {"causal"}),
    "inverted mask": (with_attention(faulty.Inverted), {"causal", "context"}),
    "off-by-one cache": (with_attention(faulty.ForgettingCache), {"cache"}),
    "stale positions": (lambda: translator(Parts(positions=faulty.StalePositions)), {"positions"}),
    "untied weights": (untied, {"tied"}),
    "padding shown": (with_attention(faulty.ShowingPads), {"padding"}),
    "memory not looked at": (with_attention(faulty.Blind), {"context"}),
    "last word hidden": (with_attention(faulty.LastWordHidden), {"context"}),
    "slight causal leak": (with_attention(faulty.SlightlyLeaking), {"causal"}),
    "stale memory": (with_attention(faulty.StaleMemory), {"cache"}),
    "state outside of the cache": (lambda: translator(Parts(attention=faulty.OwnCache)), {"hypotheses"}),
    "stale position of a step": (step_at_the_start, {"positions"}),
    "stale distances": (lambda: translator(Parts(positions=faulty.StaleDistances)), {"positions"}),
    "one position": (lambda: translator(Parts(positions=faulty.OnePosition)), {"positions"}),
    "tied by hand": (tied_by_hand, {"tied"}),
    "not saved": (lambda: translator(Parts(feed_forward=faulty.Unsaved)), {"saved"}),
    "dropout in evaluation": (lambda: translator(Parts(feed_forward=faulty.DroppingAlways)), {"repeatable"}),
    "not a number": (not_a_number, {"numbers"}),
    "norm over the batch": (lambda: translator(Parts(norm=faulty.OverTheBatch)), {"batch"}),
    "norm over the batch in training": (lambda: translator(Parts(norm=faulty.InTraining)), {"accumulation"}),
    "shown, not computed": (with_attention(faulty.ForShow), {"faithfulness"}),
}
"""By fault: a model that has it, and the checks that name it; others fail as a consequence, and say so."""
QUICK = ("off-by-one cache", "stale positions", "untied weights")
TINY = {"d_model": 16, "d_ff": 16, "num_heads": 2, "num_layers": 1}


def of_family(family: str, parts: Parts | None = None, **fields: Any) -> Any:
    """A small model of a family."""
    if family == "translator":
        return translator(parts, **fields)
    if family == "decoder":
        return pellucid.DecoderOnly(pellucid.ModelConfig.decoder(vocab_size=20, **TINY | fields), parts)
    classes = {"num_classes": 3} if family == "classifier" else {}
    config = pellucid.ModelConfig.encoder(vocab_size=20, **TINY | classes | fields)
    return (pellucid.SequenceClassifier if classes else pellucid.EncoderOnly)(config, parts)


@pytest.mark.slow
def test_each_planted_fault_is_found_and_named_by_its_check() -> None:
    for fault in QUICK:
        make, expected = PLANTED[fault]
        assert names(examine(make())) == expected, fault


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(set(PLANTED) - set(QUICK)))
def test_a_planted_fault_is_found_and_named(fault: str) -> None:
    make, expected = PLANTED[fault]
    assert names(examine(make())) == expected


@pytest.mark.parametrize("loss", [faulty.mean_loss, faulty.loss_of_pads], ids=lambda loss: loss.__name__)
def test_a_loss_that_is_wrong_when_it_is_accumulated_is_named(loss: Any) -> None:
    check = accumulation(ExaminedModel(translator(), loss=loss))
    assert check.level == "BAD"
    assert check.text.startswith("accumulation: gradients of 3 batches of one text and of one batch differ by ")


def test_a_loss_that_is_a_sum_raises_no_alarm() -> None:
    loss = pellucid.RDrop(2.0, label_smoothing=0.1)
    assert accumulation(ExaminedModel(translator(), loss=loss)).level == "ok"


@pytest.mark.slow
def test_a_fault_says_where_it_begins_by_how_much_and_what_follows_from_it() -> None:
    checks = {check.name: check for check in examine(PLANTED["causal leak"][0]()) if isinstance(check, ModelCheck)}
    causal, cache = checks["causal"], checks["cache"]
    assert causal.level == "BAD"
    assert causal.figure is not None
    assert causal.figure > 1e-3
    assert causal.tolerance == torch.finfo(torch.float64).eps ** 0.5
    assert causal.text == (
        f"causal: later positions change earlier logits by {causal.figure:.1e} of the largest; it begins in "
        "decoder.layers.0.self_attn (at most 1.5e-08)"
    )
    assert causal.advice == "a position sees the token that it must predict: pass the causal mask to attention"
    assert (cache.follows, cache.advice) == ("causal", "it may follow from `causal`: fix that first")


def test_a_search_that_is_not_greedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy search that takes the second best, where a beam of one takes the best."""

    def sloppy(steps: Any, config: Any) -> Any:
        log_probs = steps.log_probs

        def second_best() -> torch.Tensor:
            found = log_probs()
            return found.scatter(-1, found.argmax(dim=-1, keepdim=True), -100.0)

        steps.log_probs = second_best
        return pellucid.beam_search(steps, config)

    monkeypatch.setattr("pellucid.decoding.batched_search.greedy_search", sloppy)
    assert greedy(ExaminedModel(translator())).text == (
        "greedy: beam search with beam 1 and greedy search differ at token 0 of text 0"
    )


def test_a_kernel_that_computes_something_else_than_is_shown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = attention_weights
    monkeypatch.setattr("pellucid.model.attention.attention_weights", lambda q, *rest: plain(q * 1.01, *rest))
    check = check_trace(ExaminedModel(translator()))
    assert check.level == "BAD"
    assert check.text.startswith("faithfulness: the recorded and the computed attention differ by ")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["decoder", "classifier", "encoder"])
def test_what_a_family_has_not_is_said(family: str) -> None:
    checks = examine(of_family(family))
    assert names(checks) == set()
    missing = {
        "decoder": {"padding", "conversions"},
        "classifier": {"tied", "causal", "cache", "hypotheses", "greedy", "neighbours", "conversions"},
        "encoder": {"tied", "causal", "cache", "hypotheses", "greedy", "neighbours", "conversions", "accumulation"},
    }
    assert names(checks, "n/a") == missing[family]


@pytest.mark.slow
def test_nothing_of_a_model_changes_and_its_mode_stays() -> None:
    model = translator().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    examine(model)
    assert all(module.training for module in model.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("family", ["translator", "decoder", "classifier", "encoder"])
@pytest.mark.parametrize("part", ALL)
def test_sound_parts_of_ones_own_raise_no_alarm(family: str, part: str) -> None:
    assert names(examine(of_family(family, ALL[part]))) == set()


OPTIONS: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre"},
    "learned": {"positions": "learned"},
    "rotary": {"positions": "rotary", "num_kv_heads": 1, "norm": "pre"},
    "relative": {"positions": "relative", "bias": False},
    "every id a word": {"pad_id": None},
    "few positions": {"max_positions": 6},
}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["translator", "decoder", "classifier", "encoder"])
@pytest.mark.parametrize("option", OPTIONS)
def test_sound_options_raise_no_alarm(family: str, option: str) -> None:
    assert names(examine(of_family(family, **OPTIONS[option]))) == set()


@pytest.mark.slow
def test_half_precision_is_examined_as_far_as_it_goes() -> None:
    checks = examine(of_family("decoder").to(torch.bfloat16))
    assert names(checks) == set()
    assert "neighbours" in names(checks, "n/a")


def test_a_folder_that_says_that_its_conversion_is_not_equal_is_bad(tmp_path: Path) -> None:
    table = {"passed": False, "compared": True, "largest_difference": 0.02, "tolerance": 1e-4}
    (tmp_path / "config.json").write_text('{"format": "pellucid/1"}', encoding="utf-8")
    (tmp_path / "pellucid.json").write_text("{}", encoding="utf-8")
    (tmp_path / "conversion.json").write_text(json.dumps(table), encoding="utf-8")
    (check,) = conversions(ExaminedModel(of_family("encoder"), folder=tmp_path))
    assert check.level == "BAD"
    assert check.text == "conversions: conversion.json says NOT equal, 0.02 of the largest (at most 0.0001)"


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(pellucid.ConfigError, match=r"^`model` is a Linear, which cannot be checked$"):
        examine(nn.Linear(2, 2))  # type: ignore[arg-type]


def test_weights_that_exceed_float16_are_not_called_damaged() -> None:
    model = of_family("decoder")
    with torch.no_grad():
        next(model.parameters())[0, 0] = 1e6
    numbers = next(check for check in examine(model.half()) if check.name == "numbers")
    assert "are not finite in float16, which holds nothing above 65,504" in numbers.text
    assert numbers.advice.startswith("use bfloat16 or float32")
