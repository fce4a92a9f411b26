"""Names of settings and options in earlier versions: where they are read, and what an unknown name is answered."""

import re
import tomllib
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import SECTIONS, DataConfig, DecodeConfig, ModelConfig, Recipe, SamplingConfig, TrainConfig
from pellucid.config.tables import OLD_OPTIONS, OTHER_NAMES, rename_options, rename_setting, suggest_name
from pellucid.errors import ConfigError
from pellucid.planning.request import PlanRequest

OLD: dict[str, dict[str, Any]] = {
    "model": {
        "gated": True, "positions": "relative", "relative_buckets": 8, "relative_distance": 20, "d_model": 64,
        "num_heads": 2, "tie_embeddings": "none",
    },
    "data": {
        "src": ["a", "b"], "tgt": ["c", "d"], "weights": [1.0, 2.0, 2.0, 1.0], "weights_from": [0, 2],
        "prepared": "cache", "joint": False, "target_vocab_size": 270, "tokenizer_pairs": 200, "added_pieces": 100,
        "subword_sampling": 0.1, "tags": ["<a>", "<b>"], "text": "running",
    },
    "train": {
        "recompute": True, "shard": True, "best_by": "loss", "validate_decode": 10, "log_to": ["tensorboard"],
        "average_of": "best", "embedding_scale": 0.5, "schedule": "stable", "learning_rate": 0.003,
    },
    "decode": {"source_end": False, "suppress": [5], "no_repeat_ngram": 3},
}  # fmt: skip
NEW = {
    "model": ModelConfig.preset(
        "tiny", gated_feed_forward=True, positions="relative", relative_num_buckets=8, relative_max_distance=20,
        d_model=64, num_heads=2, tie_embeddings="none",
    ),
    "data": DataConfig(
        src=("a", "b"), tgt=("c", "d"), corpus_weights=(1.0, 2.0, 2.0, 1.0), corpus_weights_from=(0, 2),
        cache_dir="cache", joint_vocab=False, tgt_vocab_size=270, tokenizer_sample_size=200, max_new_pieces=100,
        subword_regularization=0.1, corpus_tags=("<a>", "<b>"), text="continuous",
    ),
    "train": TrainConfig(
        gradient_checkpointing=True, fsdp=True, best_metric="loss", decode_and_evaluate=10, report_to="tensorboard",
        average_strategy="best", embedding_init_scale=0.5, schedule="wsd", learning_rate=0.003,
    ),
    "decode": DecodeConfig(add_source_eos=False, suppress_tokens=(5,), no_repeat_ngram_size=3),
}  # fmt: skip
GONE = [
    (section, key)
    for section, table in OLD.items()
    for key in table
    if key not in {f.name for f in fields(SECTIONS[section])}
]
"""All settings with an old name."""


def _old_toml() -> str:
    def write(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value).replace("'", '"')

    lines = []
    for section, table in OLD.items():
        lines.append(f"[{section}]")
        lines += [
            f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {write(value)}"
            for key, value in table.items()
        ]
    return "\n".join(lines) + "\n"


def test_an_old_recipe_opens_and_is_written_with_the_new_names(tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    path.write_text(_old_toml(), encoding="utf-8")
    recipe = Recipe.load(path)
    assert {section: getattr(recipe, section) for section in SECTIONS} == NEW
    assert Recipe.from_tables(tomllib.loads(_old_toml())) == recipe
    written = tomllib.loads(recipe.to_toml())
    assert not [(section, key) for section, key in GONE if key in written[section]]
    assert (written["data"]["text"], written["train"]["schedule"]) == ("continuous", "wsd")
    first = tomllib.loads(recipe.to_toml(old_names=True))
    assert {section: {key: first[section][key] for key in table} for section, table in OLD.items()} == OLD


def test_old_overrides_are_read(tmp_path: Path) -> None:
    told = [
        f"{section}.{key}={str(value).lower() if isinstance(value, bool) else value}"
        for section, table in OLD.items()
        for key, value in table.items()
    ]
    path = tmp_path / "empty.toml"
    path.write_text("", encoding="utf-8")
    assert {section: getattr(Recipe.load(path, told), section) for section in SECTIONS} == NEW
    path.write_text("[data]\njoint = false\n", encoding="utf-8")
    assert Recipe.load(path, ["data.joint_vocab=true"]).data.joint_vocab, "an override replaces the file's"
    assert Recipe.load(path, ["data.temperature=2"]).data.sampling_temperature == 2


@pytest.mark.parametrize(("section", "old"), GONE)
def test_a_setting_under_both_names_is_an_error(section: str, old: str) -> None:
    value = OLD[section][old]
    new = rename_setting(f"{section}.{old}").removeprefix(f"{section}.")
    for table in ({old: value, new: value}, {new: value, old: value}):
        with pytest.raises(ConfigError) as caught:
            Recipe.from_tables({section: table})
        assert str(caught.value) == f"`{section}.{new}` is given twice: `{old}` is its name in earlier versions"
        assert caught.value.hint == f"leave out `{old}`"


def test_the_digest_of_a_planned_run_is_that_of_earlier_versions() -> None:
    old = ["data.joint=false", "data.vocab_size=280", "train.schedule=stable", "train.best_by=loss"]
    new = ["data.joint_vocab=false", "data.vocab_size=280", "train.schedule=wsd", "train.best_metric=loss"]
    text = replace(
        Recipe.load("default", new), data=replace(Recipe.load("default", new).data, src="", tgt="")
    ).to_toml()
    for section, key in [*GONE, ("data", "temperature")]:
        today = rename_setting(f"{section}.{key}").removeprefix(f"{section}.")
        text = re.sub(rf"^{today} = ", f"{key} = ", text, flags=re.MULTILINE)
    # A name of another section is today's: `tgt_vocab_size` is a setting of [model], too.
    text = text.replace("[data]", "\0").replace('= "wsd"', '= "stable"')
    model, rest = text.split("\0")
    expected = model.replace("target_vocab_size", "tgt_vocab_size") + "[data]" + rest
    for settings in (old, new):
        request = PlanRequest.from_recipe(Recipe.load("default", settings), "1m", settings[3:])
        assert request.recipe == sha256(expected.encode()).hexdigest()
        assert request.settings == ("train.best_metric=loss",)


@pytest.mark.parametrize(
    ("config", "old", "new"),
    [
        (DataConfig, "joint", "joint_vocab"),
        (TrainConfig, "shard", "fsdp"),
        (TrainConfig, "metric_for_best_model", "best_metric"),
        (ModelConfig, "relative_attention_num_buckets", "relative_num_buckets"),
        (DecodeConfig, "suppress", "suppress_tokens"),
        (SamplingConfig, "epsilon", "epsilon_cutoff"),
    ],
)
def test_another_name_in_python_is_answered_with_the_setting(config: Any, old: str, new: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{old: 1})
    assert str(caught.value) == f"unknown key `{old}` in {config.__name__}; did you mean `{new}`?"


def test_a_request_that_was_recorded_has_the_new_names() -> None:
    before = {"draws": 2, "epsilon": 0.1, "sampling": {"epsilon": 0.1, "seed": 1}, "source_end": True, "seed": 1}
    assert rename_options(before) == {
        "num_samples": 2, "epsilon_cutoff": 0.1, "sampling": {"epsilon_cutoff": 0.1, "seed": 1},
        "add_source_eos": True, "seed": 1,
    }  # fmt: skip
    assert rename_options(rename_options(before)) == rename_options(before)


def test_a_name_belongs_to_the_command_that_has_it() -> None:
    assert suggest_name("against", ("baseline", "src")) == "baseline"
    assert suggest_name("against", ("foil", "src")) == "foil"
    assert suggest_name("num-beam-groups", ("beam_groups",)) == "beam_groups"
    assert suggest_name("against", ("src",)) == suggest_name("xyzzy", ("src",)) == ""


def test_names_of_earlier_versions_are_names_no_more() -> None:
    named = {f.name for cls in (*SECTIONS.values(), SamplingConfig) for f in fields(cls)}
    assert not {name for name in OTHER_NAMES if name in named}
    assert {*OTHER_NAMES.values()} <= named | {new for names in OLD_OPTIONS.values() for new in names}
