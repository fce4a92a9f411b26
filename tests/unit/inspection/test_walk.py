"""The list of parameters and the walk through a pass, on a model that was trained."""

from pathlib import Path

import pytest

from pellucid.inspection.walk import list_parameters, walk_pass
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from tests.tiny_model import tiny_config


@pytest.fixture(scope="module")
def translator(finished_run: Path) -> Translator:
    return Translator.load(finished_run, "cpu")


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


def test_the_walk_goes_from_the_ids_to_the_logits(translator: Translator) -> None:
    lines = walk_pass(translator, "a b c", "c b")
    assert lines[0].split() == ["source", "ids", "(1,", "4)", "a", "b", "c", "</s>"]
    assert lines[1].endswith("<s> c b")
    assert lines[-1].split(maxsplit=1) == ["output_projection", f"(1, 3, {translator.tokenizers.target.size})"]
    order = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert order.index("src_embedding") < order.index("encoder.layers.0") < order.index("encoder")
    assert order.index("encoder") < order.index("decoder.layers.0.cross_attn") < order.index("decoder")


def test_the_walk_shows_each_attention_with_its_shapes(translator: Translator) -> None:
    config = translator.model.config
    lines = [line.strip() for line in walk_pass(translator, "a b c", "c b")]
    shapes = [line.split(maxsplit=1)[1].split("  ")[0].strip() for line in lines if line.startswith("weights  ")]
    heads = config.num_heads
    assert shapes == [f"(1, {heads}, 4, 4)", f"(1, {heads}, 3, 3)", f"(1, {heads}, 3, 4)"]


def test_without_a_target_the_model_translates(translator: Translator) -> None:
    own = translator.translate(["a b c"])[0].text
    assert walk_pass(translator, "a b c") == walk_pass(translator, "a b c", own)


def test_no_hook_stays_behind(translator: Translator) -> None:
    walk_pass(translator, "a b")
    assert not any(module._forward_hooks for module in translator.model.modules())
