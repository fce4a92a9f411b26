"""Conversions proved against the libraries themselves, and wrong ones found out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.conversion.proof import read_test_sentences, verify_conversion
from pellucid.model.families import Model
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights import to_ctranslate2, to_hugging_face
from pellucid.weights.export import architectures, ctranslate2
from pellucid.weights.folder import save_description, save_weights
from tests.parity.export.shapes import DECODERS, ENCODERS, PAIRED, PAIRS, random_model
from tests.unit.text.subword_models import subwords

pytestmark = pytest.mark.foreign
TOKENIZERS = TokenizerPair(subwords("bpe"), subwords("bpe"))
LENGTH = {"max_positions": 80}
DECODE = DecodeConfig(beam_size=3, max_length=8, source_prefix=(11,), target_prefix=(8,), suppress_tokens=(7,))


def saved(model: Model, folder: Path, decode: DecodeConfig = DECODE) -> Path:
    """Our folder of a model."""
    save_description(folder, model.config, TOKENIZERS, decode, "", [f"c{i}" for i in range(model.config.num_classes)])
    save_weights(folder, model)
    return folder


def of_size(config: ModelConfig) -> ModelConfig:
    """The config for our tokenizer's vocabulary, and for longer sentences."""
    size = subwords("bpe").size
    return replace(config, src_vocab_size=size, tgt_vocab_size=size, **LENGTH)


@pytest.mark.parametrize("name", ["post", "pre, learned", "post, embedding norm"])
def test_pairs_are_proved_in_transformers(name: str, tmp_path: Path) -> None:
    model = random_model(of_size(PAIRS[name]))
    ours = saved(model, tmp_path / "ours")
    theirs = to_hugging_face(model, TOKENIZERS, tmp_path / "theirs", decode=DECODE)
    proof = verify_conversion(ours, theirs, "hf", read_test_sentences()[:8], read_test_sentences()[:8])
    assert proof.passed, str(proof)
    assert (proof.measure, proof.greedy_equal, proof.tokenized_equal) == ("logits", 8, 8)
    assert proof.bleu is not None
    assert proof.bleu[0] == proof.bleu[1]


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT", "classifier"])
def test_single_stacks_are_proved_in_transformers(name: str, tmp_path: Path) -> None:
    model = random_model(of_size((DECODERS | ENCODERS)[name]))
    ours = saved(model, tmp_path / "ours", DecodeConfig())
    proof = verify_conversion(
        ours, to_hugging_face(model, TOKENIZERS, tmp_path / "theirs"), "hf", read_test_sentences()[:5]
    )
    assert proof.passed, str(proof)
    assert proof.greedy_equal == (5 if name in DECODERS else None)
    assert proof.measure == ("states" if name == "BERT" else "logits")


@pytest.mark.parametrize("suffix", [(), (12,)])
def test_pairs_are_proved_in_ctranslate2(suffix: tuple[int, ...], tmp_path: Path) -> None:
    model = random_model(of_size(PAIRS["pre"]))
    decode = replace(DECODE, source_suffix=suffix)
    ours = saved(model, tmp_path / "ours", decode)
    theirs = to_ctranslate2(model, TOKENIZERS, tmp_path / "theirs", decode=decode)
    proof = verify_conversion(ours, theirs, "ct2", read_test_sentences()[:8])
    assert proof.passed, str(proof)
    assert (proof.measure, proof.greedy_equal) == ("log-probabilities", 8)


def test_a_decoder_is_proved_in_ctranslate2(tmp_path: Path) -> None:
    model = random_model(of_size(DECODERS["GPT-2"]))
    ours = saved(model, tmp_path / "ours", DecodeConfig())
    proof = verify_conversion(
        ours, to_ctranslate2(model, TOKENIZERS, tmp_path / "theirs"), "ct2", read_test_sentences()[:5]
    )
    assert proof.passed, str(proof)
    assert proof.greedy_equal == 5


def swapped(names: dict[str, Any], one: str, other: str) -> dict[str, Any]:
    """A name table in which two modules have changed places."""
    return {**names, one: names[other], other: names[one]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("encoder.layers.{i}.self_attn_norm", "encoder.layers.{i}.feed_forward_norm"),
        ("decoder.layers.{i}.self_attn.qkv_proj", "decoder.layers.{i}.cross_attn.qkv_proj"),
        ("src_embedding.positions", "tgt_embedding.positions"),
    ],
)
def test_a_wrong_name_table_fails_in_transformers(
    one: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = architectures.MARIAN_MT.family
    wrong = replace(family, modules=swapped(dict(family.modules), one, other))
    monkeypatch.setattr(architectures, "MARIAN_MT", replace(architectures.MARIAN_MT, family=wrong))
    model = random_model(of_size(replace(PAIRS["post"], positions="learned")))
    ours = saved(model, tmp_path / "ours")
    proof = verify_conversion(
        ours, to_hugging_face(model, TOKENIZERS, tmp_path / "theirs"), "hf", read_test_sentences()[:4]
    )
    assert proof.compared
    assert not proof.passed
    assert proof.largest_difference > 1e-3


def test_a_wrong_name_table_fails_in_ctranslate2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctranslate2, "NORMS", swapped(ctranslate2.NORMS, "self_attn_norm", "feed_forward_norm"))
    model = random_model(of_size(ModelConfig(**PAIRED, norm="pre")))
    ours = saved(model, tmp_path / "ours")
    proof = verify_conversion(
        ours, to_ctranslate2(model, TOKENIZERS, tmp_path / "theirs"), "ct2", read_test_sentences()[:4]
    )
    assert not proof.passed


def test_a_model_without_tokenizer_is_proved_on_random_ids(tmp_path: Path) -> None:
    model = random_model(PAIRS["post"])
    folder = to_hugging_face(model, None, tmp_path)
    proof = verify_conversion(folder, folder, "hf", read_test_sentences()[:4])
    assert proof.passed, str(proof)
    assert proof.tokenized_equal is None
