"""Models written for transformers: its own classes load them, agree with ours, and they come back bit by bit."""

import json
import unicodedata
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.conversion.proof import read_test_sentences
from pellucid.decoding.batched_search import search
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights import from_hugging_face, to_hugging_face
from pellucid.weights.hugging_face.opening import open_hugging_face_folder
from tests.parity.export.shapes import DECODERS, ENCODERS, PAIRED, PAIRS, random_model
from tests.unit.text.subword_models import subwords

pytestmark = pytest.mark.foreign

# What comes back as it went; the others have a table in place of a rule, or a scale in the embeddings.
AS_IT_WENT = [name for name in (*PAIRS, *ENCODERS, *DECODERS) if not name.endswith("folded")]


def loaded(folder: Path) -> Any:
    """The folder in the class that its config.json names; nothing may be missing, nothing left over."""
    import transformers

    name = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    model, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    # BertModel has a pooler beside the states.
    assert all(key.startswith("pooler.") for key in report["missing_keys"]), report
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    return model.eval()


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(theirs, ours, rtol=0.0, atol=1e-5 * max(1.0, float(ours.detach().abs().max())))


@pytest.mark.parametrize("name", PAIRS)
@torch.inference_mode()
def test_pairs_give_the_same_logits(name: str, tmp_path: Path) -> None:
    model = random_model(PAIRS[name])
    config = model.config
    theirs = loaded(to_hugging_face(model, None, tmp_path))
    src = torch.randint(4, 23, (2, 9))
    src[1, 5:] = config.pad_id or 0
    tgt = torch.randint(4, config.tgt_vocab_size, (2, 7))
    found = theirs(input_ids=src, attention_mask=(src != config.pad_id).long(), decoder_input_ids=tgt)
    assert_close(model(src, tgt), found.logits)


@pytest.mark.parametrize("name", ENCODERS)
@torch.inference_mode()
def test_encoders_give_the_same_states_and_classes(name: str, tmp_path: Path) -> None:
    model = random_model(ENCODERS[name])
    theirs = loaded(to_hugging_face(model, None, tmp_path, labels=("no", "yes", "?")))
    ids = torch.randint(3, 31, (2, 9))
    segments = torch.randint(0, model.config.num_segments, ids.shape) if model.config.num_segments else None
    found = theirs(input_ids=ids, token_type_ids=segments)
    assert_close(model(ids, segments), found.logits if model.config.num_classes else found.last_hidden_state)
    if model.config.num_classes:
        assert theirs.config.id2label == {0: "no", 1: "yes", 2: "?"}


@pytest.mark.parametrize("name", DECODERS)
@torch.inference_mode()
def test_decoders_give_the_same_logits(name: str, tmp_path: Path) -> None:
    model = random_model(DECODERS[name])
    ids = torch.randint(3, 31, (2, 9))
    assert_close(model(ids), loaded(to_hugging_face(model, None, tmp_path))(input_ids=ids).logits)


@pytest.mark.parametrize("name", ["pre", "GPT-2"])
@torch.inference_mode()
def test_no_bias_is_a_bias_of_zero(name: str, tmp_path: Path) -> None:
    model = random_model(replace((PAIRS | DECODERS)[name], bias=False))
    theirs = loaded(to_hugging_face(model, None, tmp_path))
    ids = torch.randint(4, 31, (2, 9))
    if isinstance(model, Transformer):
        assert_close(model(ids, ids[:, :5]), theirs(input_ids=ids, decoder_input_ids=ids[:, :5]).logits)
    else:
        assert_close(model(ids), theirs(input_ids=ids).logits)


@pytest.mark.parametrize("name", AS_IT_WENT)
def test_weights_come_back_bit_by_bit(name: str, tmp_path: Path) -> None:
    model = random_model((PAIRS | ENCODERS | DECODERS)[name])
    back, tokenizer = from_hugging_face(to_hugging_face(model, None, tmp_path))
    assert tokenizer is None
    ours, theirs = model.state_dict(), back.state_dict()
    assert list(ours) == list(theirs)
    for key in ours:
        assert torch.equal(ours[key], theirs[key]), key
    # What None stands for is written out; a decoder alone is read as one whose ids are all words.
    same = {"final_norm", "num_kv_heads", "head_dim", "qkv_bias", "pad_id" if model.config.family == "decoder" else ""}
    before, after = ({k: v for k, v in asdict(m.config).items() if k not in same} for m in (model, back))
    assert after == before


@torch.inference_mode()
def test_generate_does_what_our_beam_search_does(tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM

    model = random_model(ModelConfig(**PAIRED, norm="pre"))
    assert isinstance(model, Transformer)
    decode = DecodeConfig(beam_size=3, max_length=12, suppress_tokens=(9,), target_prefix=(7,))
    theirs = AutoModelForSeq2SeqLM.from_pretrained(to_hugging_face(model, None, tmp_path, decode=decode))
    for ids in torch.randint(4, 31, (6, 5)).tolist():
        # transformers counts the forced token into the score, which changes which hypothesis is best: no prefix here,
        # and its place in the length that was written is free.
        found = theirs.generate(torch.tensor([[*ids, 2]]), forced_bos_token_id=None)[0].tolist()
        best = search(model, [ids], DecodeConfig(beam_size=3, max_length=13, suppress_tokens=(9,)))[0][0].ids
        assert found[1:] == [*best, 2]
    assert theirs.generation_config.forced_bos_token_id == 7
    back = open_hugging_face_folder(tmp_path).decode
    assert (back.beam_size, back.max_length, back.target_prefix) == (3, 12, (7,))
    assert 9 in back.suppress_tokens


def test_its_tokenizer_cuts_both_sides(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    for folder, both in (("joint", ("bpe", "bpe")), ("apart", ("bpe", "unigram"))):
        source, target = (subwords(kind) for kind in both)
        tokenizers = TokenizerPair(source, source if folder == "joint" else target)
        sizes = {"src_vocab_size": source.size, "tgt_vocab_size": tokenizers.target.size}
        config = ModelConfig(**PAIRED | sizes | {"tie_embeddings": "decoder"})
        to_hugging_face(random_model(config), tokenizers, tmp_path / folder)
        theirs = AutoTokenizer.from_pretrained(tmp_path / folder)
        for text in read_test_sentences():
            assert theirs(text).input_ids == [*source.encode(text), source.eos_id]
            ids = tokenizers.target.encode(text)
            assert theirs(text_target=text).input_ids == [*ids, target.eos_id]
            assert theirs.decode(ids, skip_special_tokens=True) == tokenizers.target.decode(ids)
        assert theirs.pad_token_id == source.pad_id
        expected = "MarianTokenizer" if folder == "apart" else "TokenizersBackend"
        assert type(theirs).__name__ == expected


@pytest.mark.parametrize("normalization", ["nfc", "nmt_nfkc"])
def test_a_text_is_normalised_by_the_file_alone(normalization: str, tmp_path: Path) -> None:
    """However it is typed, transformers reads the ids that we read."""
    from transformers import AutoTokenizer

    lines = read_test_sentences()
    tokenizer = train_tokenizer(
        "bpe", lines, vocab_size=500, lowercase=False, min_frequency=1, byte_fallback=True, normalize=normalization
    )
    sizes = {"src_vocab_size": tokenizer.size, "tgt_vocab_size": tokenizer.size}
    config = ModelConfig(**PAIRED | sizes | {"tie_embeddings": "decoder"})
    to_hugging_face(random_model(config), TokenizerPair(tokenizer, tokenizer), tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for line in (*lines, "Ａ１ ﬁ 한국어 é e\u0329\u0301 👨\u200d👩\u200d👧 a\u200db"):
        for text in (
            unicodedata.normalize("NFD", line), line.replace(" ", "\xa0"), line.replace(" ", "\u2009 "), f" {line}\t",
            f"\ufeff{line}", line.replace(" ", " \u200b"),
        ):  # fmt: skip
            assert theirs(text).input_ids == [*tokenizer.encode(text), tokenizer.eos_id], ascii(text)


def test_generation_ends_by_our_rule(tmp_path: Path) -> None:
    to_hugging_face(random_model(PAIRS["pre"]), None, tmp_path)
    assert json.loads((tmp_path / "generation_config.json").read_text())["early_stopping"] is False
