"""Settings: presets, checks with their messages, recipes as TOML and with `--set`."""

import copy
import dataclasses
import pickle
import tomllib
import types
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from pellucid.config import (
    KEYS,
    PRESETS,
    SECTIONS,
    DataConfig,
    DecodeConfig,
    ModelConfig,
    Recipe,
    SamplingConfig,
    TrainConfig,
    list_shipped_recipes,
)
from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer

SMALL = {"src_vocab_size": 11, "tgt_vocab_size": 11}


def test_the_defaults_are_the_base_model_of_table_3() -> None:
    config = ModelConfig()
    assert (config.d_model, config.d_ff, config.num_heads) == (512, 2048, 8)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.dropout) == (6, 6, 0.1)
    assert (config.norm, config.positions, config.activation) == ("post", "sinusoidal", "relu")
    assert replace(config, tie_embeddings="all") == ModelConfig.preset("base")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_build_models(name: str) -> None:
    with torch.device("meta"):
        model = Transformer(ModelConfig.preset(name, **SMALL))
        ids = torch.zeros(2, 3, dtype=torch.int64)
        assert model(ids, ids).shape == (2, 3, 11)


@pytest.mark.parametrize("name", PRESETS)
def test_a_field_of_a_preset_can_be_overridden(name: str) -> None:
    config = ModelConfig.preset(name, d_model=64, num_heads=2, final_norm="none", **SMALL)
    assert (config.d_model, config.num_heads, config.final_norm) == (64, 2, None)
    changed = {"d_model": 64, "num_heads": 2, "final_norm": None, **SMALL}
    assert config == ModelConfig(**PRESETS[name] | changed)


@pytest.mark.parametrize(("name", "nearest"), [("bse", "; did you mean `base`?"), ("zzzz", ""), (5, ""), ([1], "")])
def test_an_unknown_preset(name: Any, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.preset(name)
    assert str(caught.value) == f"unknown preset `{name}`{nearest}"
    assert caught.value.hint == f"choose one of {', '.join(PRESETS)}"


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"d_modl": 8}, "unknown key `d_modl` in [model]; did you mean `d_model`?", "keys: src_vocab_size, "),
        ({"norm": "prenorm"}, 'unknown `norm` "prenorm"; did you mean `pre`?', 'choose one of "post", "pre"'),
        ({"activation": "swish"}, 'unknown `activation` "swish"', 'choose one of "relu", "gelu", "gelu_tanh", "silu"'),
        ({"positions": "alibi"}, 'unknown `positions` "alibi"', 'choose one of "sinusoidal", "learned", "rotary", '),
        ({"tie_embeddings": True}, 'unknown `tie_embeddings` "True"', 'choose one of "none", "decoder", "all"'),
        ({"d_model": 500}, "`d_model` (500) must be divisible by `num_heads` (8)", "use 496 or 504"),
        ({"d_model": 5}, "`d_model` (5) must be divisible by `num_heads` (8)", "use 8"),
        ({"d_model": 5, "num_heads": 5}, "`d_model` (5) must be even for sinusoidal positions", ""),
        ({"d_model": 512.0}, "`d_model` must be a whole number, not 512.0", ""),
        ({"num_heads": 0}, "`num_heads` (0) must be at least 1", ""),
        ({"num_decoder_layers": -1}, "`num_decoder_layers` (-1) must be at least 0", ""),
        ({"tgt_vocab_size": -3}, "`tgt_vocab_size` (-3) must be at least 1", ""),
        ({"pad_id": -1}, "`pad_id` (-1) must be at least 0", ""),
        ({"norm_eps": -1e-5}, "`norm_eps` (-1e-05) must be at least 0", ""),
        ({"dropout": 1}, "`dropout` (1.0) must be at least 0 and below 1", ""),
        ({"attention_dropout": -0.5}, "`attention_dropout` (-0.5) must be at least 0 and below 1", ""),
        ({"feed_forward_dropout": "a"}, "`feed_forward_dropout` must be a number, not 'a'", ""),
        ({"final_norm": "yes"}, "`final_norm` must be true or false or \"none\", not 'yes'", ""),
        (
            {"src_vocab_size": 7, "tgt_vocab_size": 9},
            '`tie_embeddings = "all"` needs one vocabulary, but `src_vocab_size` is 7 and `tgt_vocab_size` 9',
            'use `tie_embeddings = "decoder"`, or a joint tokenizer',
        ),
    ],
)
def test_models_that_cannot_be(fields: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.preset("base", **fields)
    assert str(caught.value) == message
    assert caught.value.hint.startswith(hint)
    assert bool(caught.value.hint) == bool(hint)


@pytest.mark.parametrize(("heads", "width"), [(8, 500), (7, 512), (3, 100), (16, 513)])
def test_the_two_widths_in_the_hint_are_the_nearest_that_work(heads: int, width: int) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(d_model=width, num_heads=heads)
    lower, upper = (int(word) for word in caught.value.hint.split() if word.isdigit())
    assert lower < width < upper
    assert upper - lower == heads
    assert lower % heads == upper % heads == 0


@pytest.mark.parametrize(
    ("norm", "final_norm", "expected"),
    [("post", None, False), ("pre", None, True), ("post", True, True), ("pre", False, False)],
)
def test_where_a_final_norm_stands(norm: Any, final_norm: bool | None, expected: bool) -> None:
    assert ModelConfig(norm=norm, final_norm=final_norm).has_final_norm is expected


@pytest.mark.parametrize(
    ("config", "fields", "message"),
    [
        (DataConfig, {"vocab_size": 0}, r"`vocab_size` \(0\) must be at least 1"),
        (DataConfig, {"joint_vocab": "yes"}, r"`joint_vocab` must be true or false, not 'yes'"),
        (DataConfig, {"src": 5}, r"`src` must be a string or a list of strings, not 5"),
        (DataConfig, {"src": ["a", 5]}, r"`src` must be a string or a list of strings, not \('a', 5\)"),
        (DataConfig, {"test_src": ["a", "b"]}, r"`test_src` must be a string, not \('a', 'b'\)"),
        (DataConfig, {"corpus_weights": ["a"]}, r"`corpus_weights` must be a list of numbers, not \('a',\)"),
        (DataConfig, {"corpus_weights": [1, 0]}, r"`corpus_weights` \(\[1, 0\]\) must be above 0"),
        (DataConfig, {"corpus_weights": [float("inf")]}, r"`corpus_weights` \(\(inf,\)\) must be finite"),
        (DataConfig, {"tsv_columns": [1]}, r"`tsv_columns` \(\[1\]\) must have two entries: source and target"),
        (DataConfig, {"tsv_columns": [0, 1]}, r"`tsv_columns` \(\[0, 1\]\) are counted from 1"),
        (DataConfig, {"tsv_columns": [1.0, 2]}, r"`tsv_columns` must be a list of whole numbers, not \(1\.0, 2\)"),
        (DataConfig, {"jsonl_keys": ["a", "b", "c"]}, r"`jsonl_keys` \(\['a', 'b', 'c'\]\) must have two entries"),
        (DataConfig, {"on_bad_utf8": "ignore"}, 'unknown `on_bad_utf8` "ignore"'),
        (TrainConfig, {"steps": 0}, r"`steps` \(0\) must be at least 1"),
        (TrainConfig, {"keep_every": 150, "save_every": 100}, r"`keep_every` \(150\) must be a multiple of"),
        (TrainConfig, {"steps": 1e5}, r"`steps` must be a whole number, not 100000\.0"),
        (TrainConfig, {"label_smoothing": 1.0}, r"`label_smoothing` \(1\.0\) must be at least 0 and below 1"),
        (TrainConfig, {"adam_eps": -1.0}, r"`adam_eps` \(-1\.0\) must be at least 0"),
        (TrainConfig, {"grad_clip": -1}, r"`grad_clip` \(-1\) must be at least 0"),
        (TrainConfig, {"grad_clip": float("inf")}, r"`grad_clip` \(inf\) must be finite"),
        (TrainConfig, {"schedule": "cosin"}, r'unknown `schedule` "cosin"; did you mean `cosine`\?'),
        (TrainConfig, {"schedule": "linear", "learning_rate": 0.0}, r"`learning_rate` \(0\.0\) must be above 0"),
        (
            TrainConfig,
            {"learning_rate": 1e-3},
            r'`schedule = "noam"` computes the learning rate from .* so `learning_rate` \(0\.001\) has',
        ),
        (DecodeConfig, {"beam_size": 0}, r"`beam_size` \(0\) must be at least 1"),
        (DecodeConfig, {"max_length": 0}, r"`max_length` \(0\) must be at least 1"),
        (DecodeConfig, {"n_best": 6}, r"`n_best` \(6\) cannot exceed `beam_size` \(5\)"),
        (Recipe, {"task": "sing"}, 'unknown `task` "sing"'),
        (Recipe, {"model": {}}, r"`model` must be ModelConfig, not \{\}"),
    ],
)
def test_other_settings_that_cannot_be(config: type, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**fields)


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().d_model = 5  # type: ignore[misc]


def other_value(hint: Any, value: Any) -> Any:
    """A value of the same type that is not the default."""
    if typing.get_origin(hint) is Literal:
        return next((choice for choice in typing.get_args(hint) if choice != value), value)
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if typing.get_origin(members[-1]) is tuple:
        return ("b", 'ü"\\') if str in typing.get_args(members[-1]) else (3, 2)
    if bool in members:
        return not value
    if str in members:
        return f'{value} "ü"\\\n#='
    if int in members:
        return 2 if value is None else 2 * value + 2
    return 0.25 if value is None else value / 2 + 0.125


# What only goes together, and what a field would break by itself.
WITH: dict[str, dict[str, Any]] = {
    "train.keep_every": {"save_every": 1},
    "model.src_vocab_size": {"tie_embeddings": "none"},
    "model.tgt_vocab_size": {"tie_embeddings": "none"},
    "model.d_model": {"num_heads": 1},
    "model.num_heads": {"d_model": 1280},
    "model.num_classes": {"num_decoder_layers": 0},
    "train.learning_rate": {"schedule": "cosine"},
    "train.final_learning_rate": {"schedule": "cosine"},
    "decode.n_best": {"beam_size": 9},
    "decode.banned": {"banned": ((3, 2), (4, 5, 6))},
    "data.sampling_temperature": {"sampling_temperature": 2.5},
    "data.src_lang": {"src_lang": ("de", "kor_Hang"), "tgt_lang": "en"},
    "data.tgt_lang": {"src_lang": "de", "tgt_lang": ("en", "fr")},
    "data.add_language": {"add_language": ("de", "en"), "src_lang": "de", "tgt_lang": "en"},
    "train.report_to": {"report_to": ("mlflow", "tensorboard")},
    "data.corpus_weights_from": {
        "src": ("a", "b"),
        "tgt": ("c", "d"),
        "corpus_weights": (1.0, 2.0, 3.0, 4.0),
        "corpus_weights_from": (0, 3),
    },
}


@pytest.mark.parametrize(
    "name", [f"{section}.{key}" for section in SECTIONS for key in KEYS[section] if key != "preset"]
)
def test_each_field_survives_toml(name: str) -> None:
    section, key = name.split(".")
    recipe = Recipe()
    config = getattr(recipe, section)
    changed = {key: other_value(typing.get_type_hints(SECTIONS[section])[key], getattr(config, key))}
    task = {"model.num_classes": "classify"}.get(name, "translate")
    other = replace(recipe, **{"task": task, section: replace(config, **changed | WITH.get(name, {}))})
    assert other != recipe
    assert Recipe.from_tables(tomllib.loads(other.to_toml())) == other


@pytest.mark.parametrize(
    ("section", "key"),
    [
        (section, key)
        for section, cls in SECTIONS.items()
        for key, hint in typing.get_type_hints(cls).items()
        if types.NoneType in typing.get_args(hint)
    ],
)
def test_none_survives_toml(section: str, key: str) -> None:
    """Also where it is not the default."""
    recipe = Recipe()
    recipe = replace(recipe, **{section: replace(getattr(recipe, section), **{key: None})})
    assert getattr(getattr(Recipe.from_tables(tomllib.loads(recipe.to_toml())), section), key) is None


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_survives_toml(preset: str) -> None:
    recipe = Recipe(name="x", description='with "quotes"\nand lines', model=ModelConfig.preset(preset))
    assert Recipe.from_tables(tomllib.loads(recipe.to_toml())) == recipe


def test_a_recipe_starts_from_a_preset() -> None:
    recipe = Recipe.from_tables({"model": {"preset": "big", "dropout": 0}})
    assert recipe.model == ModelConfig.preset("big", dropout=0.0)
    assert Recipe.from_tables({"model": {"dropout": 0}}).model == ModelConfig.preset("tiny", dropout=0.0)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"trian": {}}, r"unknown key `trian` in the recipe; did you mean `train`\?"),
        (
            {"train": {"label_smooting": 0}},
            r"unknown key `label_smooting` in \[train\]; did you mean `label_smoothing`\?",
        ),
        ({"train": 5}, r"\[train\] must be a table of keys, not 5"),
        ({"model": "tiny"}, r"\[model\] must be a table of keys, not 'tiny'"),
        ({"model": {"preset": 5}}, "unknown preset `5`"),
        ({"name": 5}, "`name` must be a string, not 5"),
    ],
)
def test_recipes_that_cannot_be(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Recipe.from_tables(tables)


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    """A recipe with something in some sections."""
    path = tmp_path / "own.toml"
    path.write_text('name = "own"\n[model]\nd_ff = 64\n[train]\nsteps = 5\n', encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("train.steps=7", "train", "steps", 7),
        ("train.label_smoothing=0", "train", "label_smoothing", 0.0),
        ("train.weight_decay=1e-2", "train", "weight_decay", 0.01),
        ("decode.max_length=none", "decode", "max_length", None),
        ("decode.max_length=9", "decode", "max_length", 9),
        ("model.pad_id=none", "model", "pad_id", None),
        ("model.norm=post", "model", "norm", "post"),
        ("model.bias=false", "model", "bias", False),
        ("data.src=my corpus.txt", "data", "src", "my corpus.txt"),
        ("model.preset=pytorch-seq2seq", "model", "d_model", 256),
    ],
)
def test_overrides_win(recipe_file: Path, override: str, section: str, key: str, value: Any) -> None:
    recipe = Recipe.load(recipe_file, [override])
    found = getattr(getattr(recipe, section), key)
    assert found == value
    assert type(found) is type(value)
    assert recipe.model.d_ff == 64
    assert recipe.train.steps == (7 if override == "train.steps=7" else 5)


def test_the_last_override_wins(recipe_file: Path) -> None:
    recipe = Recipe.load(recipe_file, ["train.steps=7", "name=mine", "task=translate", "train.steps=8"])
    assert (recipe.train.steps, recipe.name, recipe.task) == (8, "mine", "translate")


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("train.stpes=7", r"unknown key `stpes` in \[train\]; did you mean `steps`\?", "keys: steps, "),
        (
            "trian.steps=7",
            r"unknown section `trian` .*; did you mean `train`\?",
            "sections: model, data, train, decode",
        ),
        ("steps=7", r'`overrides=\["steps=7"\]` names no section', "write `train.steps=7`"),
        ("preset=base", r'`overrides=\["preset=base"\]` names no section', "write `model.preset=base`"),
        (
            "max_length=7",
            r'`overrides=\["max_length=7"\]` names no section',
            "write `data.max_length=7` or `decode.max_length=7`",
        ),
        ("train.steps=seven", "`steps` must be a whole number, not 'seven'", ""),
        ("model.d_model=10", r"`d_model` \(10\) must be divisible by `num_heads` \(4\)", "use 8 or 12"),
    ],
)
def test_overrides_that_cannot_be(recipe_file: Path, override: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Recipe.load(recipe_file, [override])
    assert caught.value.hint.startswith(hint)


def test_an_override_of_what_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('model = "tiny"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"\[model\] must be a table of keys, not 'tiny'"):
        Recipe.load(path, ["model.d_ff=8"])


@pytest.mark.parametrize("name", sorted(list_shipped_recipes()))
def test_shipped_recipes_load_and_survive_toml(name: str) -> None:
    recipe = Recipe.load(name)
    assert recipe.name == name
    assert recipe.description
    assert Recipe.from_tables(tomllib.loads(recipe.to_toml())) == recipe


def test_a_text_may_be_a_list() -> None:
    several = Recipe.from_tables({"data": {"src": ["a", "b"], "tgt": ["c", "d"], "corpus_weights": [3, 0.5]}}).data
    assert (several.src, several.corpus_weights) == (("a", "b"), (3.0, 0.5))
    assert several.files("src") == ("a", "b")
    assert several == DataConfig(src=["a", "b"], tgt=("c", "d"), corpus_weights=[3.0, 0.5])  # type: ignore[arg-type]
    assert hash(several) == hash(replace(several))
    single = Recipe.load("default", ['data.src=["a"]', "data.tgt=b"]).data
    assert (single.src, single.tgt) == ("a", "b"), "a list of one file is that file"
    assert (single.files("src"), single.files("valid_src")) == (("a",), ())


@pytest.mark.parametrize(
    ("config", "field", "near"),
    [
        (ModelConfig, "dmodel", "d_model"),
        (TrainConfig, "learning_rat", "learning_rate"),
        (DecodeConfig, "beam_sise", "beam_size"),
        (DataConfig, "vocab_sizes", "vocab_size"),
        (Recipe, "models", "model"),
        (SamplingConfig, "temprature", "temperature"),
    ],
)
def test_a_field_that_there_is_not(config: Any, field: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{field: 3})
    assert str(caught.value) == f"unknown key `{field}` in {config.__name__}; did you mean `{near}`?"
    assert caught.value.hint == f"keys: {', '.join(f.name for f in dataclasses.fields(config))}"
    with pytest.raises(ConfigError, match=f"{config.__name__} takes its fields by name, not 2 values in order"):
        config(3, 4)


def test_settings_can_be_copied_and_pickled() -> None:
    config = ModelConfig(**SMALL, d_model=8, num_heads=2)
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == copy.copy(config) == config
