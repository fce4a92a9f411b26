"""The table of tasks: a shape tells what a model is for, and what a recipe asks of it."""

import pytest

from pellucid.config import TASKS, ModelConfig, Recipe
from pellucid.config.tasks import get_task, task_of_family
from pellucid.errors import ConfigError


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        ({"num_encoder_layers": 1, "num_decoder_layers": 1}, "translate"),
        ({"num_encoder_layers": 1, "num_decoder_layers": 0, "num_classes": 2}, "classify"),
        ({"num_encoder_layers": 0, "num_decoder_layers": 1}, "generate"),
        ({"num_encoder_layers": 1, "num_decoder_layers": 0}, "encode"),
    ],
)
def test_a_shape_tells_its_task(layers: dict[str, int], name: str) -> None:
    config = ModelConfig(tie_embeddings="none", d_model=16, num_heads=2, **layers)
    assert get_task(config).name == name
    assert [task.name for task in TASKS.values() if task.fits(config)] == [name]


def test_without_a_word_on_its_head_an_encoder_is_for_nothing_else() -> None:
    found = [task_of_family(family).name for family in ("encoder-decoder", "encoder", "decoder")]
    assert found == ["translate", "encode", "generate"]


@pytest.mark.parametrize(
    ("task", "layers", "message", "hint"),
    [
        (
            "translate",
            (2, 0),
            r'`task = "translate"` needs an encoder and a decoder, but `model.num_encoder_layers` is 2 and '
            r"`model.num_decoder_layers` 0$",
            "give both at least one layer",
        ),
        ("classify", (2, 3), "needs an encoder alone, but .* is 2 and .* 3$", "set one of them to 0"),
        ("generate", (2, 3), "needs a decoder alone, but .* is 2 and .* 3$", "set one of them to 0"),
    ],
)
def test_a_recipe_for_another_shape(task: str, layers: tuple[int, int], message: str, hint: str) -> None:
    shape = {"num_encoder_layers": layers[0], "num_decoder_layers": layers[1], "tie_embeddings": "none"}
    with pytest.raises(ConfigError, match=message) as caught:
        Recipe.from_tables({"task": task, "model": shape})
    assert caught.value.hint == hint


def test_a_task_starts_from_tasks_that_there_are() -> None:
    for task in TASKS.values():
        assert set(task.starts_from) <= set(TASKS)
        assert all(TASKS[name].family == task.family for name in task.starts_from)
