"""Models written as ONNX: ONNX Runtime agrees with ours, for other lengths and batches than those of the tracing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights import to_onnx
from pellucid.weights.folder import save_description, save_weights
from pellucid.workflow.proof import own_sentences, prove
from tests.parity.export.shapes import DECODER, ENCODERS, PAIRED, random_model
from tests.unit.text.subword_models import subwords

pytestmark = pytest.mark.foreign
LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 2}  # tracing takes seconds a layer
SCRIPT = Path(__file__).parents[3] / "examples" / "translate_onnx.py"


def session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(graph: Any, **feed: Any) -> dict[str, Any]:
    return dict(zip([output.name for output in graph.get_outputs()], graph.run(None, feed), strict=True))


def assert_steps_equal(
    folder: Path, config: ModelConfig, tgt: torch.Tensor, logits: torch.Tensor, **given: Any
) -> None:
    """Every step of the decoder with its cache against `logits` (B, T, V) without one."""
    graph = session(folder / "decoder.onnx")
    heads = config.num_kv_heads or config.num_heads
    names = [each.name for each in graph.get_inputs() if each.name.startswith("past_")]
    past = dict.fromkeys(names, np.zeros((len(tgt), heads, 0, config.head_width), dtype=np.float32))
    for place in range(tgt.size(1)):
        found = run(graph, tokens=tgt[:, place : place + 1].numpy(), **given, **past)
        np.testing.assert_allclose(found.pop("logits"), logits[:, place].numpy(), atol=1e-5)
        past = {f"past_{name}": tensor for name, tensor in found.items()}


@torch.inference_mode()
def test_a_pair_agrees_step_by_step(tmp_path: Path) -> None:
    config = ModelConfig(
        **PAIRED | LAYERS, norm="pre", positions="relative", num_kv_heads=1, gated=True, norm_type="rms", bias=False,
        activation="gelu_tanh", relative_distance=20,
    )  # fmt: skip
    model = random_model(config)
    to_onnx(model, tmp_path)
    src, tgt = torch.randint(3, 31, (3, 11)), torch.randint(3, 31, (3, 9))
    src[1, 4:] = 0
    given = run(session(tmp_path / "encoder.onnx"), src=src.numpy())
    assert_steps_equal(tmp_path, config, tgt, model(src, tgt), **given)
    assert json.loads((tmp_path / "config.json").read_text())["format"] == "pellucid-onnx/1"


@torch.inference_mode()
def test_a_decoder_agrees_step_by_step(tmp_path: Path) -> None:
    config = ModelConfig.decoder(**DECODER | {"num_layers": 1, "positions": "rotary", "pad_id": None})
    model = random_model(config)
    to_onnx(model, tmp_path)
    ids = torch.randint(0, 31, (1, 12))
    assert_steps_equal(tmp_path, config, ids, model(ids))
    assert not (tmp_path / "encoder.onnx").exists()


@torch.inference_mode()
def test_a_classifier_agrees(tmp_path: Path) -> None:
    model = random_model(ENCODERS["classifier"])
    to_onnx(model, tmp_path, labels=("no", "yes", "?"))
    ids = torch.randint(3, 31, (1, 12))
    found = run(session(tmp_path / "encoder.onnx"), src=ids.numpy(), segments=np.zeros_like(ids.numpy()))
    np.testing.assert_allclose(found["logits"], model(ids).numpy(), atol=1e-5)
    assert json.loads((tmp_path / "config.json").read_text())["labels"] == ["no", "yes", "?"]


def test_the_script_translates_without_torch(tmp_path: Path) -> None:
    tokenizer = subwords("bpe")
    sizes = {"src_vocab_size": tokenizer.size, "tgt_vocab_size": tokenizer.size, "num_encoder_layers": 1}
    model = random_model(ModelConfig(**PAIRED | sizes | {"num_decoder_layers": 1, "max_positions": 160}))
    assert isinstance(model, Transformer)
    tokenizers = Tokenizers(tokenizer, tokenizer)
    decode = DecodeConfig(beam_size=1, max_length=12, target_prefix=(7,), suppress=(9, 11))
    save_description(tmp_path / "ours", model.config, tokenizers, decode, "")
    save_weights(tmp_path / "ours", model)
    to_onnx(model, tmp_path / "out", tokenizers, decode=decode)
    lines = [*own_sentences()[:6], "a ▁ mark", ""]
    hide = "import sys; sys.modules['torch'] = None; import runpy; sys.argv = sys.argv[1:]; "
    command = [sys.executable, "-c", f"{hide}runpy.run_path(sys.argv[0], run_name='__main__')", str(SCRIPT)]
    done = subprocess.run(
        [*command, str(tmp_path / "out")], input="\n".join(lines) + "\n", capture_output=True, encoding="utf-8"
    )
    assert not done.returncode, done.stderr
    found = done.stdout.split("\n")[:-1]
    ours = Translator(model, tokenizers, decode).translate(lines)
    assert [" ".join(line.split()) for line in found] == [" ".join(each.text.split()) for each in ours]
    traces = [b"pellucid/model", b"site-packages", str(Path.cwd()).encode()]
    for graph in ("encoder.onnx", "decoder.onnx"):
        assert not any(trace in (tmp_path / "out" / graph).read_bytes() for trace in traces)
    proof = prove(tmp_path / "ours", tmp_path / "out", "onnx", lines[:3])
    assert proof.passed, str(proof)
    assert proof.greedy_equal == 3
