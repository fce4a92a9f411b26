"""How a foreign model starts, ends and searches."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError
from pellucid.weights.folder import SavedModel
from pellucid.weights.hugging_face.generation import special_ids
from pellucid.weights.hugging_face.llama import QWEN2
from pellucid.weights.hugging_face.opening import open_foreign_folder
from pellucid.weights.hugging_face.settings import Settings
from tests.unit.weights.hugging_face.folders import BART, BERT, LLAMA, bart_tensors, bert_tensors, llama_tensors, write


def opened(folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None) -> SavedModel:
    tensors = {"bert": bert_tensors, "bart": bart_tensors}.get(config["model_type"], llama_tensors)()
    write(folder, config, tensors)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    return open_foreign_folder(folder)


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
    assert saved.decode.suppress == (1,)
    generation = {"num_beams": 3, "forced_bos_token_id": 8, "suppress_tokens": [9, 2], "max_new_tokens": 20}
    saved = opened(tmp_path, BART | config, generation)
    assert saved.decode.beam_size == 3
    assert saved.decode.max_length == 18
    assert saved.decode.target_prefix == (8,)
    assert saved.decode.suppress == (1, 2, 9)


@pytest.mark.parametrize(("setting", "length"), [("max_length", 48), ("max_new_tokens", 49)])
def test_a_limit_without_a_forced_token(setting: str, length: int, tmp_path: Path) -> None:
    assert opened(tmp_path, BART | {setting: 50}).decode.max_length == length


def test_lines_of_a_language_model_have_no_end(tmp_path: Path) -> None:
    assert opened(tmp_path, LLAMA).decode == DecodeConfig(source_end=False)


def test_what_the_search_does_not_do_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        opened(tmp_path, BART | {"no_repeat_ngram_size": 3, "min_length": 0, "bad_words_ids": [[1], [3, 4]]})
    assert "does not do: `no_repeat_ngram_size` = 3, `bad_words_ids` = [[3, 4]]" in caplog.text
    assert "min_length" not in caplog.text


def test_a_search_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"asks for a search that cannot be: `beam_size` \(0\) must be at least 1"
    ):
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
    ],
)
def test_special_tokens(
    config: dict[str, Any],
    generation: dict[str, Any] | None,
    bos_id: int,
    eos_id: int,
    pad_id: int | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        ours = opened(tmp_path, config, generation).model.config
    assert (ours.bos_id, ours.eos_id, ours.pad_id) == (bos_id, eos_id, pad_id)
    assert ("ends a text at any of [7, 8]; here it ends at 7 alone" in caplog.text) == (
        generation == {"eos_token_id": [7, 8]}
    )


def test_a_small_vocabulary_without_the_family_s_start_token(tmp_path: Path) -> None:
    """A text then begins with the end token, as the usual one of Qwen2 is, too."""
    table = {"vocab_size": 600, "eos_token_id": 5}
    for given in ({}, {"bos_token_id": None}):
        ids = special_ids(Settings(tmp_path, table | given, QWEN2.defaults), {}, QWEN2, None)
        assert ids == {"bos_id": 5, "eos_id": 5, "pad_id": None}
    usual = special_ids(Settings(tmp_path, {}, QWEN2.defaults), {}, QWEN2, None)
    assert usual == {"bos_id": 151643, "eos_id": 151643, "pad_id": None}
