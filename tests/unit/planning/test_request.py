"""What a command with a time budget asks for: what of it stays as it is."""

from dataclasses import replace

from pellucid.config import Recipe
from pellucid.planning.request import PlanRequest


def request(*settings: str, init_from: str = "") -> PlanRequest:
    recipe = Recipe.load("default", list(settings))
    return PlanRequest.from_recipe(replace(recipe, train=replace(recipe.train, init_from=init_from)), "15m", settings)


def test_what_is_set_is_fixed() -> None:
    asked = request("train.seed=3", "model.dropout=0.3")
    assert asked.fixed == {"train.seed", "model.dropout"}
    assert asked.fixed_text == "model.dropout, train.seed"


def test_what_comes_from_a_trained_model_is_fixed() -> None:
    asked = request("train.seed=3", init_from="some/model")
    assert {"model.d_model", "model.norm", "model.embedding_norm", "data.vocab_size", "train.seed"} <= asked.fixed
    assert {"data.joint_vocab", "model.tie_embeddings"} <= asked.fixed, "what both sides share"
    assert asked.fixed_text == "the shape of some/model, train.seed"


def test_what_stays_as_the_recipe_has_it_is_no_setting_of_the_command() -> None:
    recipe = Recipe.load("student-tiny")
    asked = PlanRequest.from_recipe(recipe, "15m", ["train.seed=1"], of_recipe={"model.d_model", "model.dropout"})
    assert asked.fixed == {"model.d_model", "model.dropout", "train.seed"}
    assert asked.fixed_text == "model.d_model, model.dropout, train.seed"
    assert str(asked) == "`budget=15m` `overrides=train.seed=1`"


def test_requests_are_equal_that_ask_for_the_same() -> None:
    assert request("train.seed=3") == request("train.seed=3", init_from="some/model"), (
        "the weights are compared by hash"
    )
    assert request("train.seed=3") != request("train.seed=4")
    assert request('data.src="a"') == request('data.src="b"')


def test_the_time_that_is_left_ends_at_none() -> None:
    asked = request()
    assert 0 < asked.seconds_left <= 900
    assert replace(asked, started=asked.started - 1000).seconds_left == 0
