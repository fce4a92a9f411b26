"""`pellucid info`: parameters, or a walk through a pass."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.model.families import build_model
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights import to_hugging_face
from pellucid.weights.folder import save_description, save_weights
from tests.tiny_model import tiny_config
from tests.unit.cli.command_line import CommandLine, Outcome
from tests.unit.text.subword_models import subwords


def test_info_lists_parameters_or_walks(pellucid: CommandLine, finished_run: Path) -> None:
    listed = pellucid("info", finished_run, "--tensors")
    assert (listed.status, listed.err) == (0, "")
    total = sum(p.numel() for p in Translator.load(finished_run, "cpu").model.parameters())
    assert listed.out.endswith(f"{total:,} parameters\n")
    walked = pellucid("info", finished_run, "--shapes", "a b", "--target", "b a")
    assert walked.status == 0
    assert "encoder.layers.0.self_attn" in walked.out
    both = pellucid("info", finished_run, "--shapes", "a", "--tensors")
    assert (both.status, both.error) == (2, "`--tensors` and `--shapes` exclude each other")
    refused = pellucid("info", finished_run, "--target", "b a")
    assert (refused.status, refused.error) == (2, "`--target` requires --shapes")


def answers(outcome: Outcome) -> dict[str, str]:
    assert (outcome.status, outcome.err) == (0, "")
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in outcome.out.splitlines()}


def test_info_of_a_run_says_what_a_person_asks(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    found = answers(pellucid("info", finished_run))
    model = Translator.load(finished_run, "cpu").model
    result = json.loads((finished_run / "result.json").read_text())
    assert list(found) == ["task", "shape", "vocabulary", "recipe", "texts", "size", "trained", "validation", "engine"]
    assert found["task"] == "translate: a translator"
    assert found["shape"].startswith("1 encoder and 1 decoder layers, d_model 16, d_ff 32, 2 heads")
    assert found["vocabulary"] == f"{model.config.src_vocab_size} tokens, spaces"
    training = json.loads((finished_run / "corpus.json").read_text())["training"]
    assert found["texts"].startswith(f"train.src, train.tgt; {training['pairs']} pairs, ")
    stored = (finished_run / "model.safetensors").stat().st_size / 1e3
    assert found["size"] == f"{sum(p.numel() for p in model.parameters()):,} parameters, {stored:.1f} kB on disk"
    assert found["trained"].startswith(f"{result['steps']} steps, {result['tokens']:,} tokens in ")
    assert found["validation"].startswith(
        f"loss {result['valid_loss']:.3f} per token, BLEU {result['valid_bleu']:.2f}, "
    )
    unfinished = shutil.copytree(finished_run, tmp_path / "run")
    (unfinished / "result.json").unlink()
    found = answers(pellucid("info", unfinished))
    assert found["trained"] == "not finished: of at most 6 steps of about 128 tokens"
    assert "validation" not in found
    (unfinished / "recipe.toml").write_text("= no TOML")
    assert "recipe" not in answers(pellucid("info", unfinished))


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
    save_description(tmp_path, model.config, TokenizerPair(tokenizer, tokenizer), DecodeConfig(), "# A card\n", labels)
    save_weights(tmp_path, model)
    listed = pellucid("info", tmp_path, "--tensors")
    assert (listed.status, listed.err) == (0, "")
    assert listed.out.endswith(f"{sum(p.numel() for p in model.parameters()):,} parameters\n")
    walked = pellucid("info", tmp_path, "--shapes", "two dogs")
    assert (walked.status, walked.err) == (0, "")
    steps = [line.split()[0] for line in walked.out.splitlines()]
    assert steps[0] == "ids"
    assert set(last) <= set(steps)


def test_info_of_a_folder_of_hugging_face_without_tokenizer(pellucid: CommandLine, tmp_path: Path) -> None:
    fields = {"num_encoder_layers": 0, "tie_embeddings": "none", "norm": "pre", "positions": "learned"}
    model = build_model(tiny_config(**fields))
    to_hugging_face(model, None, tmp_path)
    listed = pellucid("info", tmp_path, "--tensors")
    assert (listed.status, listed.err) == (0, "")
    assert listed.out.endswith(f"{sum(p.numel() for p in model.parameters()):,} parameters\n")
    refused = pellucid("info", tmp_path, "--shapes", "two dogs")
    assert (refused.status, refused.error) == (1, "the model has no tokenizer, so it cannot read text")


ESCAPES = "\x1b]0;pwn\x07\x9b31m\u202e\nforged"


def test_what_a_strangers_folder_says_moves_no_cursor(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "a\x1b[31mrun")
    recipe = (run / "recipe.toml").read_text(encoding="utf-8")
    name = json.dumps(ESCAPES)
    recipe = re.sub(r"^description = .*\n", "", recipe, flags=re.MULTILINE)
    (run / "recipe.toml").write_text(f"description = {name}\n{recipe}", encoding="utf-8")
    described = json.loads((run / "pellucid.json").read_text(encoding="utf-8"))
    (run / "pellucid.json").write_text(
        json.dumps(described | {"languages": {f"{ESCAPES}{number}": number for number in range(30)}}), encoding="utf-8"
    )
    said = [pellucid("info", run), pellucid("info", run, "--tensors")]
    said += [pellucid("runs", tmp_path, "--format", form) for form in ("table", "csv", "json", "latex")]
    for each in said:
        assert each.status == 0, each.err
        assert all(c.isprintable() or c == "\n" for c in each.out)
        assert "\nforged" not in each.out
    assert "and 18 more" in said[0].out


@pytest.mark.parametrize("name", ["result.json", "corpus.json", "conversion.json"])
@pytest.mark.parametrize("kind", ["pipe", "list", "deep", "values"])
def test_files_of_a_run_that_are_something_else(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, name: str, kind: str
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        result = json.loads((finished_run / "result.json").read_text(encoding="utf-8"))
        text = {"list": "[1]", "deep": "[" * 20_000, "values": json.dumps({key: ["x"] for key in result})}[kind]
        (run / name).write_text(text, encoding="utf-8")
    assert pellucid("info", run).status == 0
    assert pellucid("runs", run).status == 0
