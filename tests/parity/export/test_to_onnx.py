"""Models written as ONNX: ONNX Runtime agrees with ours, for other lengths and batches than those of the tracing."""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.conversion.proof import read_test_sentences, verify_conversion
from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights import to_onnx
from pellucid.weights.export import onnx
from pellucid.weights.folder import save_description, save_weights
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


def nothing(graph: Any, batch: int, length: int = 0) -> dict[str, Any]:
    """A past of some length that says nothing."""
    return {
        each.name: np.ones((batch, each.shape[1], length, each.shape[3]), dtype=np.float32)
        for each in graph.get_inputs()
        if each.name.startswith("past_")
    }


def kept(found: dict[str, Any]) -> dict[str, Any]:
    """The past of the next step."""
    return {name.replace("present", "past_key_values"): value for name, value in found.items() if "present" in name}


@torch.no_grad()
def test_a_pair_agrees_step_by_step_and_at_once(tmp_path: Path) -> None:
    config = ModelConfig(
        **PAIRED | LAYERS, norm="pre", positions="relative", num_kv_heads=1, gated_feed_forward=True, norm_type="rms",
        bias=False,
        activation="gelu_tanh", relative_max_distance=20,
    )  # fmt: skip
    model = random_model(config)
    to_onnx(model, tmp_path)
    src, tgt = torch.randint(3, 31, (3, 11)), torch.randint(3, 31, (3, 9))
    src[1, 4:] = 0
    expected = model(src, tgt).numpy()
    mask = (src != 0).long().numpy()
    encoder, decoder = (session(tmp_path / "onnx" / f"{n}.onnx") for n in ("encoder_model", "decoder_model_merged"))
    memory = run(encoder, input_ids=src.numpy(), attention_mask=mask)["last_hidden_state"]
    given = {"encoder_hidden_states": memory, "encoder_attention_mask": mask}
    # A first step is told by the flag alone: some hand in a past of one place that means nothing.
    first = {"use_cache_branch": np.array([False]), **nothing(decoder, 3, 1)}
    whole = run(decoder, input_ids=tgt.numpy(), **given, **first)
    np.testing.assert_allclose(whole["logits"], expected, atol=1e-5)
    found = run(decoder, input_ids=tgt[:, :4].numpy(), **given, **first)
    for place in range(4, tgt.size(1)):
        past = kept(found)
        step = {"input_ids": tgt[:, place : place + 1].numpy(), "use_cache_branch": np.array([True])}
        # What the memory gave at the first step is asked for no more.
        found = run(decoder, **step, **given | {"encoder_hidden_states": np.zeros_like(memory)}, **past)
        np.testing.assert_allclose(found["logits"][:, 0], expected[:, place], atol=1e-5)


@torch.no_grad()
def test_a_decoder_agrees_behind_padding(tmp_path: Path) -> None:
    for name, positions in (("rotary", "rotary"), ("learned", "learned")):
        config = ModelConfig.decoder(**DECODER | {"num_layers": 1, "positions": positions, "pad_id": None})
        model = random_model(config)
        to_onnx(model, tmp_path / name)
        graph = session(tmp_path / name / "onnx" / "model.onnx")
        ids = torch.randint(0, 31, (2, 12))
        mask = np.ones((2, 12), dtype=np.int64)
        mask[1, :5] = 0
        found = run(graph, input_ids=ids[:, :10].numpy(), attention_mask=mask[:, :10], **nothing(graph, 2))
        last = run(graph, input_ids=ids[:, 10:].numpy(), attention_mask=mask, **kept(found))
        logits = np.concatenate([found["logits"], last["logits"]], axis=1)
        np.testing.assert_allclose(logits[0], model(ids[:1])[0].numpy(), atol=1e-5)
        np.testing.assert_allclose(logits[1, 5:], model(ids[1:, 5:])[0].numpy(), atol=1e-5)


@torch.inference_mode()  # which torch's exporter cannot take at its first attempt: its second one takes as long again
def test_a_classifier_agrees(tmp_path: Path) -> None:
    model = random_model(ENCODERS["classifier"])
    to_onnx(model, tmp_path, labels=("no", "yes", "?"))
    ids = torch.randint(3, 31, (2, 12))
    ids[1, 7:] = 0
    feed = {"input_ids": ids.numpy(), "attention_mask": (ids != 0).long().numpy()}
    found = run(session(tmp_path / "onnx" / "model.onnx"), **feed, token_type_ids=np.zeros_like(feed["input_ids"]))
    np.testing.assert_allclose(found["logits"], model(ids).numpy(), atol=1e-5)
    table = json.loads((tmp_path / "config.json").read_text())
    assert table["id2label"] == {"0": "no", "1": "yes", "2": "?"}
    assert table["model_type"] == "bert"


def translating(folder: Path) -> tuple[Transformer, TokenizerPair, DecodeConfig]:
    """A small translator, and its folder of ours."""
    tokenizer = subwords("bpe")
    sizes = {"src_vocab_size": tokenizer.size, "tgt_vocab_size": tokenizer.size, "num_encoder_layers": 1}
    model = random_model(ModelConfig(**PAIRED | sizes | {"num_decoder_layers": 1, "max_positions": 160}))
    assert isinstance(model, Transformer)
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    # No bytes: those that make no character are read back by each library in its own way.
    decode = DecodeConfig(beam_size=1, max_length=12, target_prefix=(300,), suppress_tokens=tuple(range(3, 270)))
    save_description(folder, model.config, tokenizers, decode, "")
    save_weights(folder, model)
    return model, tokenizers, decode


def test_the_script_translates_without_torch(tmp_path: Path) -> None:
    model, tokenizers, decode = translating(tmp_path / "ours")
    to_onnx(model, tmp_path / "out", tokenizers, decode=decode)
    lines = [*read_test_sentences()[:6], "a ▁ mark", "", "   ", "</s> a"]
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
    for graph in (tmp_path / "out" / "onnx").iterdir():
        assert not any(trace in graph.read_bytes() for trace in traces)
    proof = verify_conversion(tmp_path / "ours", tmp_path / "out", "onnx", lines[:3])
    assert proof.passed, str(proof)
    assert (proof.greedy_equal, proof.tokenized_equal) == (3, 3)


def test_int8_is_smaller_and_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export, exported = onnx._export, dict[type, Any]()

    def once(module: torch.nn.Module, *signature: Any) -> Any:
        """Both kinds are made of the same graphs, whose tracing is what takes long."""
        if type(module) not in exported:
            exported[type(module)] = export(module, *signature)
        return deepcopy(exported[type(module)])

    monkeypatch.setattr(onnx, "_export", once)
    model = random_model(ModelConfig(**PAIRED | LAYERS | {"d_model": 96, "d_ff": 192, "num_heads": 4}))
    for kind in (None, "int8"):
        to_onnx(model, tmp_path / str(kind), quantization=kind)  # type: ignore[arg-type]
    whole, small = (sorted((tmp_path / kind / "onnx").iterdir()) for kind in ("None", "int8"))
    assert [path.name for path in small] == ["decoder_model_merged_quantized.onnx", "encoder_model_quantized.onnx"]
    # Matrices of 4 bytes a number become one; what else is in a file does not grow.
    for before, after in zip(whole, small, strict=True):
        assert after.stat().st_size < before.stat().st_size / 2
    src = torch.randint(3, 31, (1, 11)).numpy()
    given = {"input_ids": src, "attention_mask": np.ones_like(src)}
    a, b = (run(session(files[1]), **given)["last_hidden_state"] for files in (whole, small))
    assert 0 < np.abs(a - b).max() < 0.1 * np.abs(a).max()
    assert json.loads((tmp_path / "int8" / "config.json").read_text())["transformers.js_config"] == {"dtype": "q8"}


def test_an_unknown_quantization_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown quantization `int4` for ONNX"):
        to_onnx(random_model(ENCODERS["BERT"]), tmp_path, quantization="int4")  # type: ignore[arg-type]
