"""Exported folders in transformers.js, the library of browsers, under Node: it reads and writes what we do.

`make foreign` installs it into the folder `js` beside the interpreter.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.conversion.proof import read_test_sentences
from pellucid.model.families import DecoderOnly
from pellucid.model.transformer import Transformer
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights import to_onnx
from tests.parity.export.shapes import DECODER, PAIRED, SIZES, random_model
from tests.unit.text.subword_models import CORPUS, subwords

pytestmark = pytest.mark.foreign
LIBRARY = Path(sys.prefix, "js", "node_modules", "@huggingface", "transformers", "dist", "transformers.node.mjs")
SCRIPT = Path(__file__).with_name("run_transformers.mjs")
LIMIT = 8
BYTES = tuple(range(3, 270))
"""Not to be written: bytes that make no character are read back by each library in its own way."""


def in_javascript(folder: Path, task: str, texts: Sequence[str]) -> dict[str, Any]:
    """What the script finds."""
    assert LIBRARY.is_file(), "`make foreign` installs transformers.js"
    command = ["node", str(SCRIPT), str(LIBRARY), str(folder), task, str(LIMIT)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, encoding="utf-8")
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("norm", "quantization"), [("pre", None), ("post", "int8")])
def test_it_translates(norm: str, quantization: Any, tmp_path: Path) -> None:
    tokenizer = subwords("bpe")
    sizes = {"src_vocab_size": tokenizer.size, "tgt_vocab_size": tokenizer.size, "max_positions": 160}
    model = random_model(ModelConfig(**PAIRED | sizes | {"num_encoder_layers": 1, "num_decoder_layers": 1}, norm=norm))
    assert isinstance(model, Transformer)
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    decode = DecodeConfig(beam_size=1, max_length=LIMIT, suppress_tokens=BYTES)
    to_onnx(model, tmp_path / "model", tokenizers, decode=decode, quantization=quantization)
    texts = [*read_test_sentences()[:6], "a ▁ mark", "  two  spaces", "x"]
    js = in_javascript(tmp_path / "model", "translate", texts)
    ours = Translator(model, tokenizers, decode).translate(texts)
    equal = 0
    for text, found, expected in zip(texts, js["found"], ours, strict=True):
        assert found["ids"] == [*tokenizer.encode(text), tokenizer.eos_id]
        # The start token; and the end token takes the place of the last one where there is no room for more.
        written = found["written"][1:-1] if found["written"][-1] == tokenizer.eos_id else found["written"][1:]
        best = expected.tokens[: LIMIT - 1] if len(expected.tokens) >= LIMIT else expected.tokens
        equal += tokenizer.tokens(written) == best
        assert found["text"] == tokenizer.decode(written)
    # Matrices of 8 bits move a random model's logits further than they lie apart.
    assert equal == len(texts) or quantization
    assert js["width"] > min(len(found["ids"]) for found in js["found"])
    if not quantization:
        for found, row in zip(js["found"], js["together"], strict=True):
            assert [i for i in row if i != tokenizer.pad_id] == found["written"]


def test_it_goes_on_with_a_text(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(
        "characters", CORPUS, vocab_size=600, lowercase=False, min_frequency=1, byte_fallback=False, normalize="none"
    )
    config = ModelConfig.decoder(**DECODER | {"num_layers": 1, "vocab_size": tokenizer.size}, positions="learned")
    model = random_model(replace(config, bias=False))
    assert isinstance(model, DecoderOnly)
    decode = DecodeConfig()
    to_onnx(model, tmp_path / "model", tokenizer, decode=decode)
    texts = ["two dogs", "zwei Hunde spielen", "a"]
    js = in_javascript(tmp_path / "model", "generate", texts)
    ours = LanguageModel(model, TokenizerPair(tokenizer, tokenizer), decode).generate(texts, max_new_tokens=LIMIT)
    for text, found, row, expected in zip(texts, js["found"], js["together"], ours, strict=True):
        assert found["ids"] == tokenizer.encode(text)
        new = [i for i in found["written"][len(found["ids"]) :] if i != tokenizer.eos_id]
        assert tokenizer.tokens(new) == expected.tokens
        assert found["text"] == text + expected.text
        together = row[js["width"] :]
        assert [i for i in together if i not in (tokenizer.pad_id, tokenizer.eos_id)] == new


@torch.no_grad()
def test_it_classifies(tmp_path: Path) -> None:
    tokenizer = train_tokenizer("words", CORPUS, vocab_size=600, lowercase=True, normalize="none")
    config = ModelConfig.encoder(
        **SIZES, vocab_size=tokenizer.size, num_layers=1, norm="pre", positions="learned", pooling="mean", num_classes=3
    )
    model = random_model(config)
    to_onnx(model, tmp_path / "model", tokenizer, labels=("no", "yes", "?"))
    texts = ["Two DOGS don't play, 3.5", "a ball", "lower lowest slower slowest"]
    js = in_javascript(tmp_path / "model", "classify", texts)
    expected = Classifier(model, TokenizerPair(tokenizer, tokenizer), ("no", "yes", "?")).classify(texts)  # type: ignore[arg-type]
    for found, row, ours in zip(js["found"], js["together"], expected, strict=True):
        for logits in (found["logits"], row):
            chances = np.exp(logits) / np.exp(logits).sum()
            np.testing.assert_allclose(chances, [ours.probabilities[name] for name in ("no", "yes", "?")], atol=1e-6)
