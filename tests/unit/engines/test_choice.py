"""Which engine a model gets, and what is said where the compiled one is not there or does not know it."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid.cli.main import main
from pellucid.engines import choice
from pellucid.engines.choice import choose_engine, explain_torch
from pellucid.engines.compiled import compiling
from pellucid.engines.compiled.plain_search import is_within
from pellucid.engines.compiled.weights import find_obstacle
from pellucid.engines.engine import PyTorchEngine
from pellucid.errors import ConfigError
from pellucid.model.families import build_model
from pellucid.model.observers import observe_attention
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from tests.tiny_model import tiny_config, tiny_model

foreign = pytest.mark.foreign


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has installed numba."""
    find = importlib.util.find_spec
    for module in (compiling, choice):
        monkeypatch.setattr(module, "find_spec", lambda name: None if name == "numba" else find(name))
    monkeypatch.setattr(compiling, "_functions", None)


@pytest.mark.usefixtures("without_numba")
def test_without_numba_auto_is_torch_and_the_other_names_the_extra(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = Translator.load(finished_run, "cpu", engine="auto")
    assert type(auto.engine) is PyTorchEngine
    assert auto.translate(["abc"]) == Translator.load(finished_run, "cpu", engine="torch").translate(["abc"])
    with pytest.raises(ConfigError, match=r"numba is not installed \(the extra `fast`\)") as error:
        Translator.load(finished_run, "cpu", engine="compiled")
    assert error.value.hint.startswith('use `engine="auto"` or `engine="torch"`, or install the extra: pip install ')
    with pytest.raises(ConfigError, match="numba is not installed"):
        compiling.get_functions()
    assert main(["info", str(finished_run)]) == 0
    assert "engine      auto is torch: numba is not installed (the extra `fast`)\n" in capsys.readouterr().out


class Louder(nn.LayerNorm):
    """A norm of one's own, by inheritance."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def test_what_is_known() -> None:
    for fields in ({}, {"positions": "rotary"}, {"positions": "relative"}, {"num_kv_heads": 1}, {"norm_type": "rms"}):
        assert find_obstacle(tiny_model(**fields)) == ""


def test_what_is_not_known_and_why() -> None:
    parts = Transformer(tiny_config(), Parts(norm=lambda config: Louder(config.d_model))).eval()
    assert find_obstacle(parts) == ("`encoder.layers.0.self_attn_norm` is a Louder, which is not a module of Pellucid")
    encoder = build_model(pellucid.ModelConfig.encoder(vocab_size=9, num_layers=1, d_model=8, num_heads=2))
    assert find_obstacle(encoder) == "EncoderOnly is not a Transformer or DecoderOnly of Pellucid"
    assert find_obstacle(tiny_model(num_segments=2)) == "it has segment embeddings"
    assert find_obstacle(tiny_model().train()) == "the model is in training mode"
    assert find_obstacle(tiny_model().bfloat16()).endswith("is bfloat16 on cpu, not float32 on a CPU")
    assert find_obstacle(tiny_model().to("meta")).endswith("is float32 on meta, not float32 on a CPU")
    model = tiny_model()
    model.decoder.layers[1].dropout.train()
    assert find_obstacle(model) == "`decoder.layers.1.dropout` is in training mode"
    with torch.inference_mode():
        assert find_obstacle(tiny_model()).endswith("is a tensor of a special kind")
    model = tiny_model()
    with observe_attention(lambda *_: None):
        assert find_obstacle(model) == "its attention or residual sums are observed"
    with torch.autocast("cpu"):
        assert find_obstacle(model) == "torch.compile or autocast is active"
    assert find_obstacle(model) == ""
    model.encoder.layers[0].feed_forward.activation = torch.tanh
    assert find_obstacle(model) == "its feed-forward networks differ from layer to layer"
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.feed_forward.activation = torch.tanh
    assert find_obstacle(model) == "its activation is not known"
    model = tiny_model()
    model.step = lambda tokens, cache: tokens  # type: ignore[assignment,method-assign]
    assert find_obstacle(model) == "the model has another `step`"
    model = tiny_model()
    model.decoder.layers[0].cross_attn.out_proj.register_forward_pre_hook(lambda module, given: None)
    assert find_obstacle(model) == "`decoder.layers.0.cross_attn.out_proj` has a hook"


def test_ids_of_a_vocabulary() -> None:
    assert is_within([[0, 3], []], 4)
    assert not is_within([[0, 4]], 4)
    assert not is_within([[-1]], 4)


@foreign
def test_a_model_that_is_not_known() -> None:
    assert type(choose_engine(tiny_model(num_segments=2), "auto")) is PyTorchEngine
    with pytest.raises(ConfigError, match="the compiled engine cannot be used: it has segment embeddings") as error:
        choose_engine(tiny_model(num_segments=2), "compiled")
    assert error.value.hint == 'use `engine="auto"` or `engine="torch"`'
    assert explain_torch(tiny_model()) == ""


def of(found: list[pellucid.Translation]) -> list[Any]:
    return [(t.text, [h.text for h in t.alternatives]) for t in found]


@foreign
def test_the_command_and_a_folder(
    finished_run: Path, other_weights: Path, functions: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["", *(finished_run.parent / "train.src").read_text().splitlines()[:6]]
    plain = Translator.load(finished_run, "cpu", engine="torch")
    for engine in ("auto", "compiled"):
        fast = Translator.load(finished_run, "cpu", engine=engine)  # type: ignore[arg-type]
        assert repr(fast).count("compiled") == 1
        for options in ({"n_best": 2}, {"beam_size": 1}, {"min_length": 4}, {"confidence": True}):
            assert of(fast.translate(lines, **options)) == of(plain.translate(lines, **options))  # type: ignore[arg-type]
    assert fast.trace("abc").faithfulness < 1e-3
    both = Translator.load(finished_run, "cpu", ensemble=[other_weights], engine="auto")
    assert of(both.translate(lines)) == of(
        Translator.load(finished_run, "cpu", ensemble=[other_weights], engine="torch").translate(lines)
    )
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    written = []
    for number, options in enumerate((["--engine", "torch"], ["--engine", "compiled"], ["--workers", "2"])):
        out = tmp_path / f"out{number}"
        command = ["translate", str(finished_run), "--device", "cpu", "--input", str(tmp_path / "in")]
        assert main([*command, "--output", str(out), *options]) == 0
        written.append(out.read_text())
    assert written[0] == written[1] == written[2]
    capsys.readouterr()
    assert main(["info", str(finished_run)]) == 0
    assert "engine      auto is compiled\n" in capsys.readouterr().out
