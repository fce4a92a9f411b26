"""The list of parameters and the walk through a pass, on a model that was trained."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.model.families import build_model
from pellucid.model.transformer import Transformer
from pellucid.tasks.task import open_model
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.views.model_summary import list_parameters, summarize_pass
from pellucid.weights.folder import SavedModel
from tests.tiny_model import tiny_config
from tests.unit.text.subword_models import subwords


@pytest.fixture(scope="module")
def saved(finished_run: Path) -> SavedModel:
    return open_model(finished_run)


def one_sided(source_prefix: tuple[int, ...] = (), **fields: Any) -> SavedModel:
    """A model of one stack, of random weights, with a tokenizer."""
    tokenizer = subwords("bpe")
    size = tokenizer.size
    model = build_model(tiny_config(src_vocab_size=size, tgt_vocab_size=size, **fields)).eval()
    return SavedModel(model, TokenizerPair(tokenizer, tokenizer), DecodeConfig(source_prefix=source_prefix))


def test_each_parameter_stands_once_and_the_sum_is_right() -> None:
    model = Transformer(tiny_config(tie_embeddings="decoder"))
    *lines, total = list_parameters(model)
    assert [line.split()[0] for line in lines] == [name for name, _ in model.named_parameters()]
    assert total == f"{sum(p.numel() for p in model.parameters()):,} parameters"


def test_a_tied_parameter_is_listed_with_its_other_names() -> None:
    lines = list_parameters(Transformer(tiny_config(tie_embeddings="decoder")))
    (line,) = (line for line in lines if line.startswith("tgt_embedding.tokens.weight"))
    assert line.split()[1:4] == ["(19,", "12)", "228"]
    assert line.endswith("also output_projection.weight")


def test_the_walk_goes_from_the_ids_to_the_logits(saved: SavedModel) -> None:
    lines = summarize_pass(saved, "a b c", "c b")
    assert lines[0].split() == ["source", "ids", "(1,", "4)", "a", "b", "c", "</s>"]
    assert lines[1].endswith("<s> c b")
    logits = next(line for line in lines if line.startswith("output_projection"))
    assert logits.split(maxsplit=1)[1].split("  ")[0] == f"(1, 3, {saved.model.config.tgt_vocab_size})"
    order = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert order.index("src_embedding") < order.index("encoder.layers.0") < order.index("encoder")
    assert order.index("encoder") < order.index("decoder.layers.0.cross_attn") < order.index("decoder")


def test_the_walk_shows_no_step_that_does_nothing(saved: SavedModel) -> None:
    assert not saved.model.config.qk_norm
    steps = [line.split()[0] for line in summarize_pass(saved, "a b c", "c b")]
    modules = dict(saved.model.named_modules())
    assert [step for step in steps if isinstance(modules.get(step), nn.Identity)] == []
    assert any(isinstance(module, nn.Identity) for module in modules.values())


def test_the_walk_shows_each_attention_with_its_shapes(saved: SavedModel) -> None:
    config = saved.model.config
    lines = [line.strip() for line in summarize_pass(saved, "a b c", "c b")]
    shapes = [line.split(maxsplit=1)[1].split("  ")[0].strip() for line in lines if line.startswith("weights  ")]
    heads = config.num_heads
    assert shapes == [f"(1, {heads}, 4, 4)", f"(1, {heads}, 3, 3)", f"(1, {heads}, 3, 4)"]


def test_without_a_target_the_model_translates(saved: SavedModel, finished_run: Path) -> None:
    own = Translator.load(finished_run, "cpu").translate(["a b c"])[0].text
    assert summarize_pass(saved, "a b c") == summarize_pass(saved, "a b c", own)


def test_what_stands_around_the_texts(saved: SavedModel) -> None:
    decode = replace(saved.decode, source_prefix=(4, 5), add_source_eos=False, source_suffix=(6,), target_prefix=(7,))
    lines = summarize_pass(replace(saved, decode=decode), "a b c", "c b")
    assert [line.split()[2:4] for line in lines[:2]] == [["(1,", "6)"], ["(1,", "4)"]]


def test_no_hook_stays_behind(saved: SavedModel) -> None:
    summarize_pass(saved, "a b")
    assert not any(module._forward_hooks for module in saved.model.modules())


def test_a_classifier() -> None:
    encoder = one_sided(num_decoder_layers=0, tie_embeddings="none", num_classes=3)
    lines = summarize_pass(encoder, "two dogs")
    assert lines[0].startswith("ids ")
    assert lines[0].split()[3] == "<s>"
    assert lines[0].split()[-1] == "</s>"
    assert lines[-1].startswith("head  ")
    assert not any("decoder" in line for line in lines)
    assert list_parameters(encoder.model)[-1] == f"{sum(p.numel() for p in encoder.model.parameters()):,} parameters"


@pytest.mark.parametrize("prefix", [(), (1,)])
def test_a_language_model(prefix: tuple[int, ...]) -> None:
    decoder = one_sided(prefix, num_encoder_layers=0, tie_embeddings="decoder")
    assert decoder.tokenizers is not None
    count = len(decoder.tokenizers.target.encode("two dogs")) + len(prefix)
    lines = summarize_pass(decoder, "two dogs")
    assert lines[0].split()[:3] == ["ids", "(1,", f"{count})"]
    steps = [line for line in lines if line.startswith("    after ")]
    assert len(steps) == count
    assert lines[-count:] == steps
    assert lines[-count - 1].startswith("output_projection  ")


def test_what_cannot_be_walked() -> None:
    encoder = one_sided(num_decoder_layers=0, tie_embeddings="none")
    with pytest.raises(ConfigError, match="a target and languages are for an encoder-decoder"):
        summarize_pass(encoder, "a", "b")
    with pytest.raises(ConfigError, match="a target and languages are for an encoder-decoder"):
        summarize_pass(encoder, "a", source_language="de")
    with pytest.raises(CheckpointError, match="the model has no tokenizer"):
        summarize_pass(replace(encoder, tokenizers=None), "a")
    decoder = one_sided(num_encoder_layers=0, tie_embeddings="decoder")
    with pytest.raises(DataError, match="tokens are too many: the model's limit is 64"):
        summarize_pass(decoder, "dogs " * 80)


def test_the_numbers_are_those_of_the_running_model(saved: SavedModel) -> None:
    """Against the same pass made by hand."""
    model, tokenizers = saved.model, saved.tokenizers
    assert isinstance(model, Transformer)
    assert tokenizers is not None
    src = torch.tensor([[*tokenizers.source.encode("a b c"), model.config.eos_id]])
    tgt = torch.tensor([[model.config.bos_id, *tokenizers.target.encode("c b")]])
    lines = summarize_pass(saved, "a b c", "c b")
    with torch.inference_mode():
        memory = model.encode(src)
        probabilities = model(src, tgt)[0].softmax(-1)
        trace = Translator(model, tokenizers, saved.decode).trace("a b c", "c b")
        embedded = model.src_embedding(src).norm(dim=-1).mean().item()
    (line,) = (line for line in lines if line.startswith("src_embedding  "))
    assert line.endswith(f"tokens times {model.config.d_model**0.5:.4g} plus positions, norm {embedded:.4g}")
    (line,) = (line for line in lines if line.startswith("encoder  "))
    assert float(line.split()[-1]) == pytest.approx(memory.norm(dim=-1).mean().item(), rel=1e-3)
    after = [line.split() for line in lines if line.startswith("    after ")]
    assert [row[1] for row in after] == ["<s>", "c", "b"]
    for row, expected in zip(after, probabilities, strict=True):
        values, ids = expected.topk(3)
        assert row[2::2] == tokenizers.target.tokens(ids.tolist())
        assert [float(value) for value in row[3::2]] == pytest.approx(values.tolist(), abs=1e-3)
    rows = [line.split()[4:] for line in lines if line.startswith("    head 0, query ")]
    weights = trace["encoder.self"].weights(0, 0)
    assert [[float(value) for value in row] for row in rows[:4]] == pytest.approx(weights, abs=1e-3)


def test_of_a_long_text_the_beginning_is_printed(saved: SavedModel) -> None:
    lines = summarize_pass(saved, "a b c d e f g h a b c", "a")
    rows = [line.split() for line in lines if line.startswith("    head 0, query ")]
    assert [row[3] for row in rows[:8]] == list("01234567")
    assert all(len(row) == 4 + 8 + 1 and row[-1] == "..." for row in rows[:8])
    assert "    ..." in lines
