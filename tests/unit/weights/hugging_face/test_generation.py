"""How a foreign model starts, ends and searches."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError
from pellucid.text.template import Template
from pellucid.weights.folder import SavedModel
from pellucid.weights.hugging_face.bart import BART as BART_FAMILY
from pellucid.weights.hugging_face.generation import NEUTRAL, decode_settings, special_ids
from pellucid.weights.hugging_face.llama import QWEN2
from pellucid.weights.hugging_face.opening import open_hugging_face_folder
from pellucid.weights.hugging_face.settings import HuggingFaceConfig
from tests.unit.weights.hugging_face.folders import BART, BERT, LLAMA, bart_tensors, bert_tensors, llama_tensors, write


def opened(folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None) -> SavedModel:
    tensors = {"bert": bert_tensors, "bart": bart_tensors}.get(config["model_type"], llama_tensors)()
    write(folder, config, tensors)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    return open_hugging_face_folder(folder)


def test_what_nothing_is_said_of_is_as_in_our_own_models(tmp_path: Path) -> None:
    assert opened(tmp_path, BART).decode == DecodeConfig(source_prefix=(0,))
    assert opened(tmp_path, BERT).decode == DecodeConfig()


def test_settings_of_either_file(tmp_path: Path) -> None:
    config = {"num_beams": 6, "max_length": 50, "length_penalty": 2, "bad_words_ids": [[1], [3, 4]]}
    saved = opened(tmp_path, BART | config | {"forced_bos_token_id": 7})
    assert saved.decode.beam_size == 6
    assert saved.decode.length_penalty == 2.0
    assert saved.decode.max_length == 47  # theirs counts the start, the forced token and the end
    assert saved.decode.target_prefix == (7,)
    assert saved.decode.suppress_tokens == (1,)
    generation = {"num_beams": 3, "forced_bos_token_id": 8, "suppress_tokens": [9, 2], "max_new_tokens": 20}
    saved = opened(tmp_path, BART | config, generation)
    assert saved.decode.beam_size == 3
    assert saved.decode.max_length == 18
    assert saved.decode.target_prefix == (8,)
    assert saved.decode.suppress_tokens == (1, 2, 9)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (Template((0,), (2,)), {"source_prefix": (0,)}),
        (Template((), (2, 7)), {"source_suffix": (7,)}),
        (Template((7,), (5,)), {"source_prefix": (7,), "add_source_eos": False, "source_suffix": (5,)}),
        (Template(), {"add_source_eos": False}),
    ],
)
def test_the_template_of_a_tokenizer(template: Template, expected: dict[str, Any], tmp_path: Path) -> None:
    settings = HuggingFaceConfig(tmp_path / "config.json", BART, BART_FAMILY.defaults)
    assert decode_settings(settings, {}, BART_FAMILY, 2, template) == DecodeConfig(**expected)


@pytest.mark.parametrize(("setting", "length"), [("max_length", 48), ("max_new_tokens", 49)])
def test_a_limit_without_a_forced_token(setting: str, length: int, tmp_path: Path) -> None:
    assert opened(tmp_path, BART | {setting: 50}).decode.max_length == length


def test_lines_of_a_language_model_have_no_end(tmp_path: Path) -> None:
    assert opened(tmp_path, LLAMA).decode == DecodeConfig(add_source_eos=False)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
        ({"min_length": 10}, {"min_length": 9}),  # theirs counts the start
        ({"min_length": 10, "forced_bos_token_id": 0}, {"min_length": 8, "target_prefix": (0,)}),
        ({"min_length": 2, "min_new_tokens": 7}, {"min_length": 7}),
        ({"min_length": 1}, {}),
        ({"bad_words_ids": [[1], [3, 4], [5, 6, 7], [3, 4]]}, {"suppress_tokens": (1,), "banned": ((3, 4), (5, 6, 7))}),
        ({"bad_words_ids": [[2]]}, {}),  # the end token: a text may end
        ({"force_bos_token_to_be_generated": True}, {"target_prefix": (0,)}),
        ({"force_bos_token_to_be_generated": True, "forced_bos_token_id": 7}, {"target_prefix": (7,)}),
        ({"force_bos_token_to_be_generated": False}, {}),
        ({"eos_token_id": [2, 7, 5]}, {"end_ids": (5, 7)}),
        ({"eos_token_id": [2]}, {}),
    ],
)
def test_what_the_search_does(
    table: dict[str, Any], expected: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert opened(tmp_path, BART | table).decode == DecodeConfig(source_prefix=(0,), **expected)
    assert not caplog.text


def ignored(table: dict[str, Any], folder: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings about a generation_config.json."""
    caplog.clear()
    settings = HuggingFaceConfig(folder / "config.json", BART, BART_FAMILY.defaults)
    with caplog.at_level(logging.WARNING):
        decode_settings(settings, table, BART_FAMILY, eos_id=2)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("name", [*NEUTRAL, "unheard_of"])
def test_every_other_setting_of_transformers_search_is_named(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A value that does nothing is not; a setting that nobody knows is, unless it is off."""
    used = {"max_length": 5, "forced_eos_token_id": 2, "use_cache": True, "transformers_version": "5"}
    for value in (None, *NEUTRAL.get(name, (False, "", []))):
        assert ignored({name: value, **used}, tmp_path, caplog) == []
    told = f"`{tmp_path}` has search options that Pellucid does not support: `{name}` = 7"
    assert ignored({name: 7, **used}, tmp_path, caplog) == [told]


def test_ignored_settings_are_named_in_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = {"do_sample": True, "temperature": 0.6, "forced_eos_token_id": 5} | {f"other_{i}": 1 for i in range(20)}
    (told,) = ignored(table, tmp_path, caplog)
    assert ": `do_sample` = True, `temperature` = 0.6, `forced_eos_token_id` = 5, `other_0` = 1" in told
    assert told.endswith("`other_16` = 1 and 3 more")


def test_ignored_settings_of_config_json(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        opened(tmp_path, BART | {"do_sample": True, "top_k": 50, "early_stopping": True, "another": 5})
    assert caplog.text.count("does not support: `do_sample` = True, `early_stopping` = True\n") == 1


def test_a_prompt_counts_in_the_least_length_of_a_decoder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        decode = opened(tmp_path, LLAMA, {"min_length": 8, "min_new_tokens": 3}).decode
    assert decode.min_length == 3
    assert "does not support: `min_length` = 8" in caplog.text


def test_a_search_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has invalid search options: `beam_size` \(0\) must be at least 1"):
        opened(tmp_path, BART | {"num_beams": 0})


@pytest.mark.parametrize(
    ("config", "generation", "bos_id", "eos_id", "pad_id"),
    [
        (BART, None, 2, 2, 1),
        (BART | {"decoder_start_token_id": 5, "eos_token_id": 4, "pad_token_id": 3}, None, 5, 4, 3),
        (BART | {"decoder_start_token_id": 5}, {"decoder_start_token_id": 6}, 6, 2, 1),
        (BART | {"decoder_start_token_id": None}, None, 2, 2, 1),
        (BERT, None, 101, 102, 0),
        (LLAMA | {"pad_token_id": 0}, None, 1, 2, None),
        (LLAMA | {"bos_token_id": None, "eos_token_id": None}, None, 1, 2, None),
        (LLAMA, {"eos_token_id": [7, 8]}, 1, 7, None),
        (LLAMA, {"eos_token_id": [7, 2]}, 1, 2, None),  # the one in config.json stays
    ],
)
def test_special_tokens(
    config: dict[str, Any],
    generation: dict[str, Any] | None,
    bos_id: int,
    eos_id: int,
    pad_id: int | None,
    tmp_path: Path,
) -> None:
    saved = opened(tmp_path, config, generation)
    ours = saved.model.config
    assert (ours.bos_id, ours.eos_id, ours.pad_id) == (bos_id, eos_id, pad_id)
    given = (generation or {}).get("eos_token_id", eos_id)
    assert {eos_id, *saved.decode.end_ids} == {*(given if isinstance(given, list) else [given])}


def test_a_small_vocabulary_without_the_family_s_start_token(tmp_path: Path) -> None:
    """A text then begins with the end token, as the usual one of Qwen2 is, too."""
    table = {"vocab_size": 600, "eos_token_id": 5}
    for given in ({}, {"bos_token_id": None}):
        ids = special_ids(HuggingFaceConfig(tmp_path, table | given, QWEN2.defaults), {}, QWEN2, None)
        assert ids == {"bos_id": 5, "eos_id": 5, "pad_id": None}
    usual = special_ids(HuggingFaceConfig(tmp_path, {}, QWEN2.defaults), {}, QWEN2, None)
    assert usual == {"bos_id": 151643, "eos_id": 151643, "pad_id": None}
