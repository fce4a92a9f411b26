"""A foreign folder, opened: what is refused, with its name and value, and what is said of what is left aside."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from pellucid.config import TASKS
from pellucid.errors import CheckpointError, format_value
from pellucid.model.families import DecoderOnly, EncoderOnly, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.tasks.task import check_task, require_tokenizers
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights import from_hugging_face
from pellucid.weights.hugging_face import opening
from pellucid.weights.hugging_face.catalogue import FAMILIES
from pellucid.weights.hugging_face.opening import detect_hugging_face_task, open_hugging_face_folder
from pellucid.weights.hugging_face.settings import KINDS, SEARCH_KINDS
from pellucid.weights.opening import open_folder
from tests.unit.weights.hugging_face.folders import (
    BART,
    BERT,
    LLAMA,
    VOCAB,
    D,
    bart_tensors,
    bert_tensors,
    llama_tensors,
    write,
)


def refusal(config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> str:
    """What is said of a folder that cannot be opened."""
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face(write(folder, config, tensors))
    return str(caught.value)


def test_the_families_that_are_opened(tmp_path: Path) -> None:
    assert isinstance(from_hugging_face(write(tmp_path / "a", BERT, bert_tensors()))[0], EncoderOnly)
    assert isinstance(from_hugging_face(write(tmp_path / "b", BART, bart_tensors()))[0], Transformer)
    model, tokenizer = from_hugging_face(str(write(tmp_path / "c", LLAMA, llama_tensors())))
    assert isinstance(model, DecoderOnly)
    assert tokenizer is None
    assert not model.training


def test_a_folder_opens_as_a_model_folder(tmp_path: Path) -> None:
    saved = open_folder(write(tmp_path, BART, bart_tensors()), torch.device("cpu"), torch.bfloat16)
    assert saved.task == "translate"
    assert saved.tokenizers is None
    assert {parameter.dtype for parameter in saved.model.parameters()} == {torch.bfloat16}


def test_the_prefix_of_the_base_model_is_optional(tmp_path: Path) -> None:
    tensors = bert_tensors()
    plain, _ = from_hugging_face(write(tmp_path / "plain", BERT, tensors))
    prefixed = {f"bert.{name}": tensor for name, tensor in tensors.items()}
    other, _ = from_hugging_face(write(tmp_path / "prefixed", BERT, prefixed))
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in plain.state_dict().items())


def test_the_oldest_names_of_norms(tmp_path: Path) -> None:
    tensors = bert_tensors()
    plain, _ = from_hugging_face(write(tmp_path / "plain", BERT, tensors))
    old = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
           for n, t in tensors.items()}  # fmt: skip
    other, _ = from_hugging_face(write(tmp_path / "old", BERT, old))
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in plain.state_dict().items())


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"`.*/nothing` is not a model folder: it does not exist"):
        from_hugging_face(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match=r"is not a model folder: no config\.json in it"):
        from_hugging_face(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_config_that_is_damaged(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.json` is damaged: "):
        from_hugging_face(tmp_path)


def test_a_folder_of_our_own(tmp_path: Path) -> None:
    message = refusal({"format": "pellucid/1", "task": "translate"}, bert_tensors(), tmp_path)
    assert message == f"`{tmp_path}` is a Pellucid model folder, not one of transformers"


@pytest.mark.parametrize(
    ("name", "missing", "hint"),
    [
        ("my-bert", (), 'add "model_type": "bert" to it'),
        ("my-xlm-roberta-base", (), 'add "model_type": "xlm-roberta" to it'),
        ("model", (), 'add "model_type": "bert" to it'),
        ("model", ("hidden_size", "vocab_size", "num_hidden_layers", "hidden_act"), "Pellucid opens bart, bert"),
    ],
)
def test_an_old_folder_without_its_family_is_told_which_key_to_add(
    name: str, missing: tuple[str, ...], hint: str, tmp_path: Path
) -> None:
    usual = {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "hidden_act": "gelu"}
    config = {key: value for key, value in (BERT | usual).items() if key not in ("model_type", *missing)}
    with pytest.raises(CheckpointError, match=r"config\.json` has no `model_type`") as caught:
        from_hugging_face(write(tmp_path / name, config, bert_tensors()))
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("layers", ["encoder_layers", "decoder_layers"])
def test_an_encoder_decoder_that_lacks_a_stack(layers: str, tmp_path: Path) -> None:
    config = {"model_type": "bart", "encoder_layers": 2, "decoder_layers": 2} | {layers: 0}
    with pytest.raises(CheckpointError, match=f"has `{layers}` = 0: without it a bart with 2 .* does not translate"):
        from_hugging_face(write(tmp_path, config, bert_tensors()))


@pytest.mark.parametrize("kind", ["mamba", None, ["bert"]])
def test_an_unknown_family(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json` has the unknown `model_type`") as caught:
        from_hugging_face(write(tmp_path, BERT | {"model_type": kind}, bert_tensors()))
    assert f"`model_type` {format_value(kind)}" in str(caught.value)
    families = (
        "bart, bert, camembert, distilbert, gpt2, llama, m2m_100, marian, mbart, mistral, mt5, pegasus, qwen2, qwen3, "
        "roberta, t5, xlm-roberta"
    )
    assert caught.value.hint == f"Pellucid opens {families}"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (BERT | {"position_embedding_type": "relative_key"}, '`position_embedding_type` = "relative_key"'),
        (
            BERT | {"is_decoder": True},
            "`is_decoder` = true, which Pellucid's model does not support; it supports false",
        ),
        (
            BERT | {"hidden_act": "mish"},
            '`hidden_act` = "mish", an activation that Pellucid does not support; it supports relu, gelu',
        ),
        (BERT | {"quantization_config": {"bits": 4}}, '`quantization_config` = {"bits": 4}'),
        (LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "`rope_scaling` has no `high_freq_factor`"),
        (LLAMA | {"rope_scaling": {"type": "linear"}}, "`rope_scaling` has no `factor`"),
        (LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, '`rope_scaling.rope_type` = "dynamic"'),
        (
            LLAMA | {"model_type": "mistral", "sliding_window": 7},
            "`sliding_window` = 7, a sliding window, which Pellucid's model does not support; for texts that fit "
            "into it, set `max_position_embeddings` to 7",
        ),
        (LLAMA | {"rope_parameters": {"rope_type": "yarn"}}, '`rope_parameters.rope_type` = "yarn"'),
        (LLAMA | {"partial_rotary_factor": 0.5}, "`partial_rotary_factor` = 0.5"),
        (
            LLAMA | {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 0},
            "`use_sliding_window` = true",
        ),
        (
            LLAMA | {"model_type": "qwen2", "layer_types": ["sliding_attention"]},
            '`layer_types` = ["sliding_attention"]',
        ),
        (
            BART | {"decoder_attention_heads": 1},
            "`encoder_attention_heads` = 2 and `decoder_attention_heads` = 1; Pellucid's two stacks have the same "
            "width",
        ),
    ],
    ids=lambda value: str(value)[-60:] if isinstance(value, str) else "",
)
def test_what_cannot_be_expressed(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    tensors = {"bert": bert_tensors, "bart": bart_tensors}.get(config["model_type"], llama_tensors)()
    assert message in refusal(config, tensors, tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (BERT | {"num_attention_heads": 3}, "`hidden_size` = 4, which must be divisible by `num_attention_heads` (3)"),
        (
            BART | {"encoder_attention_heads": 3, "decoder_attention_heads": 3},
            "`d_model` = 4, which must be divisible by",
        ),
        (BERT | {"hidden_size": "4"}, "config.json` has `hidden_size` = '4'; it must be a whole number"),
        (BERT | {"num_attention_heads": 0}, "describes an invalid model: `num_heads` (0) must be at least 1"),
        (BERT | {"hidden_dropout_prob": 2.0}, "`dropout` (2.0) must be at least 0 and below 1"),
    ],
)
def test_a_config_that_cannot_be(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    tensors = bert_tensors() if config["model_type"] == "bert" else bart_tensors()
    assert message in refusal(config, tensors, tmp_path)


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_a_missing_parameter(prefix: str, tmp_path: Path) -> None:
    tensors = {f"{prefix}{name}": tensor for name, tensor in bert_tensors().items()}
    del tensors[f"{prefix}encoder.layer.1.attention.self.key.bias"]
    message = refusal(BERT, tensors, tmp_path)
    assert f"lack `{prefix}encoder.layer.1.attention.self.key.bias`, which config.json requires" in message


def test_a_missing_layer(tmp_path: Path) -> None:
    message = refusal(BERT | {"num_hidden_layers": 3}, bert_tensors(), tmp_path)
    assert "lack `encoder.layer.2." in message


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (BERT | {"num_hidden_layers": 1}, "encoder.layer.1."),
        (BERT, "encoder.layer.0.attention.self.query.lora_A.weight"),
        (BERT, "something.weight"),
        (BART, "lm_head.bias"),
        (BART, "encoder.layers.0.adapter.weight"),
        (LLAMA, "model.layers.0.self_attn.q_norm.weight"),
        (LLAMA, "lm_head.bias"),
    ],
)
def test_an_unexpected_parameter(config: dict[str, Any], name: str, tmp_path: Path) -> None:
    tensors = {"bert": bert_tensors, "bart": bart_tensors}.get(config["model_type"], llama_tensors)()
    if not name.endswith("."):
        tensors[name] = torch.ones(D)
    assert f"have `{name}" in (message := refusal(config, tensors, tmp_path))
    assert message.endswith("which the model that config.json describes lacks")


@pytest.mark.parametrize(
    ("config", "name", "shapes"),
    [
        ({"vocab_size": 12}, "embeddings.word_embeddings.weight", "(11, 4), config.json requires (12, 4)"),
        ({"intermediate_size": 5}, "encoder.layer.0.intermediate.dense.weight", "(6, 4), config.json requires (5, 4)"),
        (
            {"max_position_embeddings": 9},
            "embeddings.position_embeddings.weight",
            "(8, 4), config.json requires (9, 4)",
        ),
    ],
)
def test_a_parameter_of_another_shape(config: dict[str, Any], name: str, shapes: str, tmp_path: Path) -> None:
    assert f"`{name}` has shape {shapes}" in refusal(BERT | config, bert_tensors(), tmp_path)


def test_the_parts_of_a_packed_matrix_are_checked_one_by_one(tmp_path: Path) -> None:
    """Four rows of queries and keys each, where there should be six and two: together they would fit."""
    config = LLAMA | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2}
    tensors = llama_tensors()
    tensors["model.layers.0.self_attn.q_proj.weight"] = torch.ones(4, D)
    tensors["model.layers.0.self_attn.k_proj.weight"] = torch.ones(8, D)
    message = refusal(config, tensors, tmp_path)
    assert "`model.layers.0.self_attn.q_proj.weight` has shape (4, 4), config.json requires (8, 4)" in message


def test_a_tokenizer_that_does_not_fit_the_embedding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = Vocabulary("characters", tuple("abcdefgh"))
    assert letters.size == 12
    monkeypatch.setattr(opening, "load_hugging_face_tokenizers", lambda folder: TokenizerPair(letters, letters))
    message = refusal(BERT, bert_tensors(), tmp_path)
    assert f"the source tokenizer of `{tmp_path}` has 12 ids, the model's embedding {VOCAB}" in message


class WithHidden(Vocabulary):
    """Letters, of which the last one is a special token that no text is cut into."""

    hidden: ClassVar[dict[str, int]] = {"h": 11}


def test_a_special_token_beyond_the_embedding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = WithHidden("characters", tuple("abcdefgh"))
    monkeypatch.setattr(opening, "load_hugging_face_tokenizers", lambda folder: TokenizerPair(letters, letters))
    assert from_hugging_face(write(tmp_path, BERT, bert_tensors()))[1] is letters
    monkeypatch.setattr(opening, "language_ids", lambda tokenizers: {"h": 11})
    assert "has 12 ids, the model's embedding 11" in refusal(BERT, bert_tensors(), tmp_path)


def test_the_tokenizers_come_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Vocabulary("characters", tuple("abc")), Vocabulary("characters", tuple("de"))
    folder = write(tmp_path, BART, bart_tensors())
    monkeypatch.setattr(opening, "load_hugging_face_tokenizers", lambda folder: TokenizerPair(one, one))
    assert from_hugging_face(folder)[1] is one
    both = TokenizerPair(one, two)
    monkeypatch.setattr(opening, "load_hugging_face_tokenizers", lambda folder: both)
    assert from_hugging_face(folder)[1] is both


def test_what_stands_beside_an_encoder_is_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tensors = {f"bert.{name}": tensor for name, tensor in bert_tensors().items()}
    tensors |= {"my.own.head.weight": torch.ones(1), "bert.embeddings.position_ids": torch.arange(8)[None]}
    with caplog.at_level(logging.WARNING):
        saved = open_hugging_face_folder(write(tmp_path, BERT, tensors))
    assert sorted(saved.unused) == ["bert.pooler.dense.bias", "bert.pooler.dense.weight", "my.own.head.weight"]
    assert "3 tensors are not part of the model and are not used: bert.pooler.dense" in caplog.text


def test_the_head_of_a_classifier(tmp_path: Path) -> None:
    tensors = {f"bert.{name}": tensor for name, tensor in bert_tensors().items()}
    tensors |= {"classifier.weight": torch.randn(3, D), "classifier.bias": torch.randn(3)}
    names = {"id2label": {"0": "bad", "1": "so-so", "2": "good"}}
    saved = open_hugging_face_folder(write(tmp_path, BERT | names, tensors))
    assert isinstance(saved.model, SequenceClassifier)
    assert (saved.task, saved.labels) == ("classify", ("bad", "so-so", "good"))
    several = open_hugging_face_folder(
        write(tmp_path, BERT | names | {"problem_type": "multi_label_classification"}, tensors)
    )
    assert (several.task, several.labels) == ("encode", ())
    assert "classifier.weight" in several.unused


@pytest.mark.parametrize("kept", ["lm_head.weight", "model.encoder.embed_tokens.weight"])
def test_a_file_that_keeps_one_of_several_equal_tensors(kept: str, tmp_path: Path) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in bart_tensors().items()}
    whole, _ = from_hugging_face(write(tmp_path / "whole", BART, tensors))
    tensors[kept] = tensors.pop("model.shared.weight")
    other, _ = from_hugging_face(write(tmp_path / "other", BART, tensors))
    assert whole.config == other.config
    assert other.config.tie_embeddings == "all"
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in whole.state_dict().items())


def test_an_output_projection_that_differs_is_not_tied(tmp_path: Path) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in bart_tensors().items()}
    tensors["lm_head.weight"] = torch.randn(VOCAB, D)
    model, _ = from_hugging_face(write(tmp_path / "differs", BART, tensors))
    assert model.config.tie_embeddings == "none"
    assert torch.equal(model.state_dict()["output_projection.weight"], tensors["lm_head.weight"])
    del tensors["lm_head.weight"]
    assert "lack `lm_head.weight`" in refusal(BART | {"tie_word_embeddings": False}, tensors, tmp_path / "missing")


def test_every_setting_that_a_family_reads_has_a_kind() -> None:
    """So that a value of another kind is an error that names it, whichever family it is of."""
    for family in FAMILIES.values():
        read = {*family.fields.values(), *family.defaults, *family.only, family.decoder_start, family.source_start}
        assert read - {None} <= set(KINDS)


ODD: list[Any] = [None, True, 5, -1, 2**40, 10**30, 1.5, -1e308, "x", [], [1], [[1]], {}, {"a": 1}]


def opened_or_refused(folder: Path) -> bool:
    """Whether a folder opens as a model, or is refused with a sentence that names it."""
    try:
        open_hugging_face_folder(folder)
    except CheckpointError as error:
        return str(folder) in str(error)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KINDS if name != "model_type"])
@pytest.mark.parametrize(("config", "make"), [(BERT, bert_tensors), (BART, bart_tensors)], ids=["bert", "bart"])
def test_no_value_of_a_setting_is_a_bare_error(
    name: str, config: dict[str, Any], make: Callable[[], dict[str, Tensor]], tmp_path: Path
) -> None:
    """Each opens as a model, or is refused with a sentence."""
    tensors = make()
    for value in ODD:
        folder = tmp_path / str(ODD.index(value))
        assert opened_or_refused(write(folder, config | {name: value}, tensors))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
def test_no_family_takes_a_value_for_granted(kind: str, tmp_path: Path) -> None:
    """Up to where its first tensor is missing: all is read from its settings before."""
    family = FAMILIES[kind]
    sizes = {
        theirs: 4 for ours, theirs in family.fields.items() if ours.startswith(("d_", "num_", "max_", "src_vocab"))
    }
    sizes |= {"decoder_attention_heads": 2, "encoder_attention_heads": 2, "decoder_ffn_dim": 4, "encoder_ffn_dim": 4}
    sizes |= {"relative_attention_num_buckets": 4, "n_head": 2, "max_position_embeddings": 9}
    config = {"model_type": kind, **{name: size for name, size in sizes.items() if name in family.defaults}}
    tensors = {"x": torch.zeros(10_000)}
    for name in sorted({*family.fields.values(), *family.defaults, "rope_scaling", "layer_types"}):
        for value in (*ODD, {"rope_type": "llama3", "factor": 0}, {"type": "linear", "factor": None}):
            folder = tmp_path / name
            assert opened_or_refused(write(folder, config | {name: value}, tensors)), (name, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCH_KINDS)
def test_no_value_of_a_search_setting_is_a_bare_error(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, BART, bart_tensors())
    for value in ODD:
        (folder / "generation_config.json").write_text(json.dumps({name: value}))
        assert opened_or_refused(folder)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_beams": [5]}, "has `num_beams` = [5]; it must be a whole number or null"),
        ({"max_length": []}, "has `max_length` = []; it must be a whole number or null"),
        ({"suppress_tokens": True}, "has `suppress_tokens` = True; it must be a list of an id"),
        ({"bad_words_ids": [5]}, "has `bad_words_ids` = [5]; it must be a list of a list of an id"),
        ({"hidden_act": [1]}, "has `hidden_act` = [1]; it must be a string"),
        ({"rope_scaling": 5}, "has `rope_scaling` = 5; it must be a table or null"),
        ({"rope_scaling": {"rope_theta": "x"}}, "has `rope_theta` = 'x'; it must be a number above 0"),
        ({"num_hidden_layers": 2**30}, "must be at most 1,024"),
        ({"hidden_size": 2**16, "num_attention_heads": 2}, "hold 192 values, but the model of config.json has "),
    ],
)
def test_settings_of_the_wrong_kind_or_size(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in refusal(LLAMA | given, llama_tensors(), tmp_path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_quantised_weights_are_not_cast(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = bert_tensors()
    name = "encoder.layer.0.attention.self.query.weight"
    message = refusal(BERT, tensors | {name: tensors[name].to(dtype)}, tmp_path)
    assert f"`{name}` is stored as {str(dtype)[6:]}; weights are float16, bfloat16, float32, float64" in message


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    tensors = bert_tensors()
    tensors["encoder.layer.0.output.dense.bias"][1] = torch.nan
    message = refusal(BERT, tensors, tmp_path)
    assert "1 of the 4 values of `encoder.layers.0.feed_forward.down_proj.bias` are not finite" in message


CLASSES = {"architectures": ["BertForSequenceClassification"]}


@pytest.mark.parametrize(
    ("settings", "rows", "reason"),
    [
        (
            {"problem_type": "multi_label_classification"},
            5,
            "its head computes an independent probability for each label",
        ),
        ({"problem_type": "regression"}, 3, "its head computes one number"),
        ({"id2label": {"0": "LABEL_0"}}, 1, "its head computes one number"),
        ({}, 3, ""),
    ],
)
def test_a_head_that_is_not_run_is_named(
    settings: dict[str, Any], rows: int, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tensors = {**bert_tensors(), "classifier.weight": torch.randn(rows, D), "classifier.bias": torch.randn(rows)}
    folder = write(tmp_path, BERT | CLASSES | settings, tensors)
    with caplog.at_level(logging.WARNING):
        saved = open_hugging_face_folder(folder)
    assert detect_hugging_face_task(folder).name == "classify"
    assert saved.task == ("encode" if reason else "classify")
    assert saved.head.startswith(reason)
    assert bool(saved.head) == bool(reason)
    assert not reason or f"is opened as an encoder without a head: {reason}" in caplog.text
    if reason:
        with pytest.raises(CheckpointError, match="holds a classifier that Pellucid does not run: its head computes"):
            check_task(TASKS["classify"], TASKS[saved.task], folder, saved.head)


def test_tensors_that_differ_though_the_settings_tie_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tensors = bart_tensors()
    shared = tensors.pop("shared.weight")
    tensors |= {"encoder.embed_tokens.weight": shared, "decoder.embed_tokens.weight": shared + 1}
    with caplog.at_level(logging.WARNING):
        saved = open_hugging_face_folder(write(tmp_path, BART | {"tie_word_embeddings": True}, tensors))
    assert saved.model.config.tie_embeddings == "decoder"
    assert "`encoder.embed_tokens.weight` and `decoder.embed_tokens.weight` differ; each is used as" in caplog.text


@pytest.mark.parametrize(
    ("kind", "files"), [("bert", "tokenizer.json or vocab.txt"), ("bart", "vocab.json and merges.txt")]
)
def test_the_tokenizer_files_that_a_folder_lacks_are_named(kind: str, files: str, tmp_path: Path) -> None:
    table, tensors = {"bert": (BERT, bert_tensors()), "bart": (BART, bart_tensors())}[kind]
    folder = write(tmp_path, table, tensors)
    with pytest.raises(CheckpointError, match="has no tokenizer, so it cannot read text") as caught:
        require_tokenizers(open_hugging_face_folder(folder), folder)
    assert files in caught.value.hint
    assert caught.value.hint.endswith("and tokenizer_config.json")
