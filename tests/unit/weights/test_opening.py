"""Folders of any kind, opened: whoever wrote them, with a tokenizer of one's own, and no import that is not needed."""

import json
import os
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.folder import save_description, save_weights
from pellucid.weights.opening import open_folder
from tests.processes import run_python
from tests.unit.decoding.models import random_model
from tests.unit.text.test_own_tokenizer import Letters

CPU = torch.device("cpu")
IDS = {"pad_id": Letters.pad_id, "bos_id": Letters.bos_id, "eos_id": Letters.eos_id}


def saved(folder: Path, tokenizers: TokenizerPair) -> Translator:
    """A translator whose model folder this is."""
    model = random_model(1, tokenizers.source.size, **IDS)
    save_description(folder, model.config, tokenizers, DecodeConfig(beam_size=2), "# A card\n")
    save_weights(folder, model)
    return Translator(model, tokenizers, DecodeConfig(beam_size=2))


def test_a_model_reads_by_a_tokenizer_of_ones_own(tmp_path: Path) -> None:
    translator = saved(tmp_path, TokenizerPair(Letters()))
    loaded = open_folder(tmp_path, CPU, tokenizer=Letters())
    assert loaded.tokenizers is not None
    again = Translator(loaded.model, loaded.tokenizers, loaded.decode)  # type: ignore[arg-type]
    lines = ["bad cab", "a face", "zebra"]
    assert again.translate(lines, max_length=6) == translator.translate(lines, max_length=6)
    assert any(found.text for found in again.translate(lines, max_length=6))
    assert "tokenizer.json" not in os.listdir(tmp_path)


def test_without_it_the_folder_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    saved(tmp_path, TokenizerPair(Letters()))
    with pytest.raises(CheckpointError, match=r"uses the custom tokenizer `.*Letters`") as caught:
        open_folder(tmp_path, CPU)
    imports = "import pellucid, tests.unit.text.test_own_tokenizer"
    line = f'pellucid.Translator.load("{tmp_path}", tokenizer=tests.unit.text.test_own_tokenizer.Letters())'
    assert caught.value.hint == f"from Python: {imports}; {line}"


def test_a_foreign_folder_takes_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"`tokenizer=` is given, but `.*` is not a Pellucid model folder"):
        open_folder(tmp_path, CPU, tokenizer=Letters())


@pytest.mark.slow
def test_a_folder_of_our_own_imports_no_foreign_family(tmp_path: Path) -> None:
    letters = pellucid.train_tokenizer("characters", ["bad cab"], byte_fallback=False)
    model = random_model(1, letters.size)
    save_description(tmp_path, model.config, TokenizerPair(letters), DecodeConfig(), "# A card\n")
    save_weights(tmp_path, model)
    program = f"""
import sys
import pellucid
pellucid.Translator.load({str(tmp_path)!r}, device="cpu").translate(["bad"], max_length=3)
families = ["bart", "bert", "gpt2", "llama", "t5", "opening"]
print(*[name for name in families if f"pellucid.weights.hugging_face.{{name}}" in sys.modules])
"""
    done = run_python("-c", program)
    assert (done.stdout, done.stderr) == ("\n", "")
