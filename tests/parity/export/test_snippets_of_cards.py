"""The snippets on the cards of exported models run, write what we write, and leave blank lines alone."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights import to_ctranslate2, to_hugging_face, to_onnx
from tests.parity.export.shapes import DECODERS, ENCODERS, PAIRED, random_model
from tests.parity.export.test_transformers_js import LIBRARY
from tests.unit.text.subword_models import CORPUS

pytestmark = pytest.mark.foreign
LINES = ["two dogs play with a ball", "", "   ", "lower lowest"]


def snippet(folder: Path, language: str = "py") -> str:
    """The code on the card in a language, for this folder."""
    code = re.search(rf"```{language}\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code
    return code[1].replace("FOLDER", str(folder))


def translator(joint: bool) -> Translator:
    """A small model that translates words, and stops after a few."""
    options: dict[str, Any] = {"vocab_size": 300, "normalize": "none"}
    source = train_tokenizer("words", CORPUS, **options)
    target = source if joint else train_tokenizer("characters", CORPUS, **options, byte_fallback=False)
    sizes = {"src_vocab_size": source.size, "tgt_vocab_size": target.size, "max_positions": 20}
    shape = PAIRED | sizes | {"num_encoder_layers": 1, "num_decoder_layers": 1}
    shape["tie_embeddings"] = "all" if joint else "decoder"
    model = random_model(ModelConfig(**shape, norm="post"))
    assert isinstance(model, Transformer)
    return Translator(model, TokenizerPair(source, target), DecodeConfig(beam_size=1, max_length=17))


@pytest.mark.parametrize("joint", [True, False])
def test_translators_in_python(joint: bool, tmp_path: Path) -> None:
    ours = translator(joint)
    to_hugging_face(ours.model, ours.tokenizers, tmp_path / "hf", decode=ours.decode)
    to_ctranslate2(ours.model, ours.tokenizers, tmp_path / "ct2", decode=ours.decode)
    for kind in ("hf", "ct2"):
        names: dict[str, Any] = {}
        exec(snippet(tmp_path / kind), names)
        written = [names["translate"](line) for line in LINES]
        assert written[1:3] == ["", ""]
        if kind == "hf":
            best = [each.text for each in ours.translate(LINES)]
            assert written == best


def test_other_tasks_in_python(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(
        "characters", CORPUS, vocab_size=31, lowercase=False, min_frequency=1, byte_fallback=False, normalize="none"
    )
    for name in ("GPT-2", "classifier", "BERT"):
        model = random_model(replace((DECODERS | ENCODERS)[name], max_positions=80))
        exec(snippet(to_hugging_face(model, tokenizer, tmp_path / name)), {})
    exec(
        snippet(
            to_ctranslate2(random_model(replace(DECODERS["GPT-2"], max_positions=80)), tokenizer, tmp_path / "ct2")
        ),
        {},
    )


def test_a_translator_in_javascript(tmp_path: Path) -> None:
    ours = translator(joint=False)
    folder = to_onnx(ours.model, tmp_path / "model", ours.tokenizers, decode=ours.decode)
    code = snippet(folder, "js").replace("@huggingface/transformers", str(LIBRARY)).replace(str(folder), "model")
    code += "\nfor (const line of JSON.parse(process.argv[2])) console.log(JSON.stringify(await translate(line)));\n"
    (tmp_path / "run.mjs").write_text(code, encoding="utf-8")
    done = subprocess.run(["node", "run.mjs", json.dumps(LINES)], cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert not done.returncode, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [each.text for each in ours.translate(LINES)]
