"""Folders of language models as transformers saves them: what `generate` writes behind what its tokenizer makes of a
prompt, start token and all."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.tasks.language_model import LanguageModel
from pellucid.weights.folder import save_description, save_weights
from pellucid.weights.opening import open_folder
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.lines import varied_lines
from tests.parity.hugging_face.outside import greedy_outside, random_outside

pytestmark = pytest.mark.foreign

PROMPTS = [line[:20] for line in varied_lines(7, 400) if 8 < len(line) < 100][:12]
CLASSES = {"gpt2": "GPT2", "llama": "Llama", "qwen2": "Qwen2"}
SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64},
    "llama": {
        "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 3, "max_position_embeddings": 64,
    },
}  # fmt: skip


def make(folder: Path, kind: str, whole: bool, **settings: Any) -> Any:
    """A random model beside a tokenizer trained here: in files of its own kind, or as a tokenizer.json."""
    import transformers as hf

    if kind == "llama":
        folders.llama(folder)
    else:
        folders.byte_level(folder, kind)
    table = {"tokenizer_class": f"{CLASSES[kind]}Tokenizer"} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(table), encoding="utf-8")
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    if whole:
        for path in folder.iterdir():
            path.unlink()
        tokenizer.save_pretrained(folder)
    written = (folder / "tokenizer_config.json").read_bytes()
    torch.manual_seed(5)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    shape = SHAPES.get(kind, SHAPES["llama"]) | {"vocab_size": len(tokenizer), **ids}
    name = "GPT2LMHeadModel" if kind == "gpt2" else f"{CLASSES[kind]}ForCausalLM"
    model = random_outside(name, **shape)
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_bytes(written)
    return model, hf.AutoTokenizer.from_pretrained(folder)


CASES = [
    ("llama", True, 1),
    ("llama", False, 0),
    ("llama", None, 0),
    ("gpt2", True, 1),
    ("gpt2", None, 0),
    ("qwen2", True, 0),
    ("qwen2", None, 0),
]


@pytest.mark.parametrize("whole", [False, True], ids=["files", "tokenizer.json"])
@pytest.mark.parametrize(("kind", "asked", "length"), CASES)
def test_prompts_begin_as_the_folder_has_it(
    kind: str, asked: bool | None, length: int, whole: bool, tmp_path: Path
) -> None:
    model, tokenizer = make(tmp_path, kind, whole, **({} if asked is None else {"add_bos_token": asked}))
    ours = LanguageModel.load(tmp_path, "cpu")
    assert ours.decode.source_prefix == ((tokenizer.bos_token_id,) if length else ())
    found = ours.generate(PROMPTS, max_new_tokens=8)
    for prompt, generation in zip(PROMPTS, found, strict=True):
        given = tokenizer(prompt, return_tensors="pt")["input_ids"]
        pad_id = ours.model.config.eos_id
        new = greedy_outside(model, given, 8, pad_token_id=pad_id, eos_token_id=ours.model.config.eos_id)
        assert generation.tokens == ours.tokenizer.tokens([i for i in new if i != ours.model.config.eos_id])
    assert len({generation.text for generation in found}) > 3


def test_texts_have_a_start_but_no_end(tmp_path: Path) -> None:
    """A score is what the model's own loss is made of."""
    model, tokenizer = make(tmp_path, "llama", True, add_bos_token=True)
    ours = LanguageModel.load(tmp_path, "cpu")
    assert not ours.reads_lines
    for prompt, score in zip(PROMPTS, ours.score(PROMPTS), strict=True):
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            loss = float(model(input_ids=ids, labels=ids).loss)
        assert score == pytest.approx(-loss * (ids.size(1) - 1), rel=1e-4)


def test_a_folder_saved_as_ours_begins_alike(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    make(tmp_path / "theirs", "llama", True, add_bos_token=True)
    saved = open_folder(tmp_path / "theirs", torch.device("cpu"))
    assert saved.tokenizers is not None
    save_description(tmp_path / "ours", saved.model.config, saved.tokenizers, saved.decode, "# a card\n")
    save_weights(tmp_path / "ours", saved.model)
    theirs, ours = (LanguageModel.load(tmp_path / name, "cpu") for name in ("theirs", "ours"))
    assert ours.generate(PROMPTS, max_new_tokens=8) == theirs.generate(PROMPTS, max_new_tokens=8)
    assert ours.score(PROMPTS) == theirs.score(PROMPTS)
