"""What a target cannot express is refused, with the field, its value and what the target has."""

import builtins
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError, format_install_command
from pellucid.weights import to_ctranslate2, to_hugging_face, to_onnx
from tests.parity.export.shapes import DECODER, ENCODER, LLAMA, PAIRED, VOCAB, random_model

HUGGING_FACE: list[tuple[ModelConfig, str]] = [
    (
        ModelConfig(**PAIRED, norm_eps=1e-6),
        r"`norm_eps` \(1e-06\) is not supported by MarianMTModel of transformers, which supports 1e-05",
    ),
    (ModelConfig(**PAIRED, final_norm=True), r"`final_norm` \(True\) is not supported by MarianMTModel"),
    (ModelConfig(**PAIRED, norm="pre", final_norm=False), r"`final_norm` \(False\) is not supported by Pegasus"),
    (ModelConfig(**PAIRED | {"tie_embeddings": "decoder"}, norm="pre"), r"`tie_embeddings` \('decoder'\) .* Pegasus"),
    (
        ModelConfig(**PAIRED, positions="relative"),
        r"`positions` \('relative'\) .* supports 'sinusoidal' or 'learned'",
    ),
    (ModelConfig(**PAIRED, num_kv_heads=1), r"`num_kv_heads` \(1\) .* which supports None"),
    (ModelConfig(**PAIRED, gated_feed_forward=True), r"`gated_feed_forward` \(True\)"),
    (ModelConfig.encoder(**ENCODER | {"embedding_norm": False}), r"`embedding_norm` \(False\) .* BertModel"),
    (
        ModelConfig.encoder(**ENCODER, num_classes=2),
        r"`classifier_activation` \('none'\) .* BertForSequenceClassification .* supports 'tanh'",
    ),
    (ModelConfig.decoder(**DECODER | {"norm": "post"}), r"`norm` \('post'\) .* GPT2LMHeadModel"),
    (
        ModelConfig.decoder(**DECODER, tie_embeddings="decoder"),
        r"`scale_embeddings` \(True\) .* GPT2LMHeadModel .* supports False if the output projection is tied",
    ),
    (
        ModelConfig.decoder(vocab_size=VOCAB, num_layers=1, **LLAMA | {"positions": "learned"}),
        r"`positions` \('learned'\) .* LlamaForCausalLM .* supports 'rotary'",
    ),
]
CTRANSLATE2: list[tuple[ModelConfig, str]] = [
    (ModelConfig(**PAIRED, final_norm=True), r"`final_norm` \(True\) .* CTranslate2's model of an encoder-decoder"),
    (ModelConfig(**PAIRED, positions="rotary", num_kv_heads=1), r"`positions` \('rotary'\)"),
    (ModelConfig(**PAIRED, num_kv_heads=1), r"`num_kv_heads` \(1\)"),
    (ModelConfig(**PAIRED, head_dim=6), r"`head_dim` \(6\)"),
    (ModelConfig(**PAIRED, qk_norm=True), r"`cross_query_norm` \(True\)"),
    (ModelConfig.encoder(**ENCODER), r"`num_decoder_layers` \(0\) .* CTranslate2's model of an encoder"),
    (ModelConfig.decoder(**DECODER, num_segments=2), r"`num_segments` \(2\) .* CTranslate2's model of a decoder"),
]


@pytest.mark.parametrize(("config", "message"), HUGGING_FACE)
def test_hugging_face_refuses_what_no_class_has(config: ModelConfig, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        to_hugging_face(random_model(config), None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("config", "message"), CTRANSLATE2)
def test_ctranslate2_refuses_what_it_lacks(config: ModelConfig, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        to_ctranslate2(random_model(config), None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_who_has_a_norm_too_many_is_told_how_to_train_without(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        to_ctranslate2(random_model(ModelConfig(**PAIRED, qk_norm=True)), None, tmp_path / "out")
    assert error.value.hint == 'convert to "onnx", or train with model.cross_query_norm=false'


def test_a_missing_library_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("ctranslate2", "onnx"):
            raise ImportError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    for module in ("pellucid.weights.export.ctranslate2", "pellucid.weights.export.onnx"):
        importlib.import_module(module)
    for name in [n for n in sys.modules if n.partition(".")[0] in ("ctranslate2", "onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    model = random_model(ModelConfig(**PAIRED))
    with pytest.raises(ConfigError, match="CTranslate2 is not installed") as refused:
        to_ctranslate2(model, None, tmp_path / "out")
    assert format_install_command("ct2") in refused.value.hint
    with pytest.raises(ConfigError, match="`onnx` is not installed") as refused:
        to_onnx(model, tmp_path / "out")
    assert format_install_command("onnx") in refused.value.hint
    assert not (tmp_path / "out").exists()
