"""`pellucid info`: parameters, or a walk through a pass."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.model.transformer import build_model
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights import to_hugging_face
from pellucid.weights.folder import save_description, save_weights
from tests.tiny_model import tiny_config
from tests.unit.cli.command_line import CommandLine
from tests.unit.text.subword_models import subwords


def test_info_lists_parameters_or_walks(pellucid: CommandLine, finished_run: Path) -> None:
    listed = pellucid("info", finished_run)
    assert (listed.status, listed.err) == (0, "")
    total = sum(p.numel() for p in Translator.load(finished_run, "cpu").model.parameters())
    assert listed.out.endswith(f"{total:,} parameters\n")
    walked = pellucid("info", finished_run, "--walk", "a b", "--target", "b a")
    assert walked.status == 0
    assert "encoder.layers.0.self_attn" in walked.out
    refused = pellucid("info", finished_run, "--target", "b a")
    assert (refused.status, refused.error) == (2, "`--target` means nothing without --walk")


FAMILIES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "encoder": ({"num_decoder_layers": 0, "tie_embeddings": "none"}, ["encoder.norm"]),
    "classifier": ({"num_decoder_layers": 0, "tie_embeddings": "none", "num_classes": 3}, ["head"]),
    "decoder": ({"num_encoder_layers": 0, "tie_embeddings": "decoder"}, ["output_projection"]),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_info_of_other_families(family: str, pellucid: CommandLine, tmp_path: Path) -> None:
    fields, last = FAMILIES[family]
    tokenizer = subwords("bpe")
    sizes = {"src_vocab_size": tokenizer.size, "tgt_vocab_size": tokenizer.size}
    model = build_model(tiny_config(norm="pre", **sizes, **fields))
    labels = [str(i) for i in range(model.config.num_classes)]
    save_description(tmp_path, model.config, Tokenizers(tokenizer, tokenizer), DecodeConfig(), "# A card\n", labels)
    save_weights(tmp_path, model)
    listed = pellucid("info", tmp_path)
    assert (listed.status, listed.err) == (0, "")
    assert listed.out.endswith(f"{sum(p.numel() for p in model.parameters()):,} parameters\n")
    walked = pellucid("info", tmp_path, "--walk", "two dogs")
    assert (walked.status, walked.err) == (0, "")
    steps = [line.split()[0] for line in walked.out.splitlines()]
    assert steps[0] == "ids"
    assert set(last) <= set(steps)


def test_info_of_a_folder_of_hugging_face_without_tokenizer(pellucid: CommandLine, tmp_path: Path) -> None:
    fields = {"num_encoder_layers": 0, "tie_embeddings": "none", "norm": "pre", "positions": "learned"}
    model = build_model(tiny_config(**fields))
    to_hugging_face(model, None, tmp_path)
    listed = pellucid("info", tmp_path)
    assert (listed.status, listed.err) == (0, "")
    assert listed.out.endswith(f"{sum(p.numel() for p in model.parameters()):,} parameters\n")
    refused = pellucid("info", tmp_path, "--walk", "two dogs")
    assert (refused.status, refused.error) == (1, "the model has no tokenizer, so it cannot read text")
