"""examples/one_file.py computes what the engine and PyTorch compute: translations, gradients, steps of Adam."""

import ast
import sys
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from pellucid.data.dates import split_dates
from pellucid.demo import SEED, TRAINED
from pellucid.model.positions import SinusoidalPositions
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.training.loss import smoothed_cross_entropy
from pellucid.weights.tensors import parameters, save_tensors
from tests.tiny_model import SRC_VOCAB_SIZE, tiny_model, words

SCRIPT = Path(__file__).parents[2] / "examples" / "one_file.py"
LETTERS = tuple("abcdefghijklmnop q")
TIES: list[dict[str, Any]] = [
    {"norm": "pre", "tie_embeddings": "none", "output_bias": True},
    {"norm": "post", "tie_embeddings": "decoder", "scale_embeddings": False},
    {"norm": "pre", "tie_embeddings": "all", "tgt_vocab_size": SRC_VOCAB_SIZE},
]


@pytest.fixture(scope="module")
def one_file() -> ModuleType:
    """The script as a module."""
    spec = spec_from_file_location("one_file", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def in_double() -> Any:
    """Makes models in double precision, in which the script computes."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def exact_model(**fields: Any) -> pellucid.Transformer:
    """A model whose sinusoids are in double precision, too: the engine keeps its table in single precision."""
    model = tiny_model(**fields)
    position, pair = torch.arange(64)[:, None], torch.arange(6)
    angle = position / 10000.0 ** (2 * pair / 12)
    for embedding in (model.src_embedding, model.tgt_embedding):
        assert isinstance(embedding.positions, SinusoidalPositions)
        embedding.positions.table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    return model


def take_over(one_file: ModuleType, model: pellucid.Transformer, folder: Path) -> Any:
    """The script's model with the weights of Pellucid's, by way of a file."""
    save_tensors(folder / "model.safetensors", parameters(model))
    config = {name: getattr(model.config, name) for name in model.config.__dataclass_fields__}
    return one_file.Transformer(config, one_file.load_parameters(folder / "model.safetensors"))


def split(name: str, values: Tensor) -> dict[str, list[list[float]]]:
    """Pellucid's parameter or gradient as the script has it: projections apart, vectors as one row."""
    parts = dict(zip("qkv", values.chunk(3), strict=True)) if "qkv_proj" in name else {"qkv": values}
    return {name.replace("qkv", part): rows.reshape(-1, rows.shape[-1]).tolist() for part, rows in parts.items()}


def check_equal(found: dict[str, list[list[float]]], wanted: dict[str, list[list[float]]], within: float) -> None:
    assert found.keys() == wanted.keys()
    for name, rows in wanted.items():
        torch.testing.assert_close(torch.tensor(found[name]), torch.tensor(rows), atol=within, rtol=0, msg=name)


def sentences(model: pellucid.Transformer) -> list[tuple[list[int], list[int]]]:
    """Pairs of ids, with the end token."""
    tgt_size = model.config.tgt_vocab_size
    shapes = [(5, 4), (3, 6)]
    return [([*words(SRC_VOCAB_SIZE, s).tolist(), 2], [*words(tgt_size, t).tolist(), 2]) for s, t in shapes]


def reference_loss(model: pellucid.Transformer, pairs: list[tuple[list[int], list[int]]], smoothing: float) -> Tensor:
    """PyTorch's sum over all target tokens."""
    total = torch.zeros(())
    for src, tgt in pairs:
        logits = model(torch.tensor([src]), torch.tensor([[1, *tgt[:-1]]]))[0]
        total = total + smoothed_cross_entropy(logits, torch.tensor(tgt), smoothing)
    return total


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("fields", TIES, ids=lambda fields: f"{fields['norm']} {fields['tie_embeddings']}")
def test_loss_and_gradients_are_those_of_autograd(fields: dict[str, Any], one_file: ModuleType, tmp_path: Path) -> None:
    model = exact_model(**fields)
    own, pairs = take_over(one_file, model, tmp_path), sentences(model)
    total = sum(one_file.loss(own, src, tgt, 0.1) for src, tgt in pairs)
    reference = reference_loss(model, pairs, 0.1)
    reference.backward()
    assert total == pytest.approx(reference.item(), abs=1e-9)
    wanted: dict[str, list[list[float]]] = {}
    for name, parameter in parameters(model).items():
        assert parameter.grad is not None
        wanted |= split(name, parameter.grad)
    check_equal({name: parameter.grad for name, parameter in own.parameters.items()}, wanted, 1e-9)


@pytest.mark.usefixtures("in_double")
def test_steps_of_training_are_those_of_torch(one_file: ModuleType, tmp_path: Path) -> None:
    model = exact_model(norm="pre")
    own, pairs = take_over(one_file, model, tmp_path), sentences(model)
    adam, reference = (
        one_file.Adam(own.parameters.values()),
        torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9),
    )
    tokens = sum(len(tgt) for _, tgt in pairs)
    for step in (1, 2, 3):
        rate = one_file.learning_rate(step, d_model=12, warmup_steps=2)
        assert rate == pytest.approx(12**-0.5 * min(step**-0.5, step * 2**-1.5))
        reference.param_groups[0]["lr"] = rate
        reference.zero_grad()
        mean = reference_loss(model, pairs, 0.1) / tokens
        mean.backward()
        reference.step()
        assert one_file.train_step(own, adam, pairs, rate, 0.1) == pytest.approx(mean.item(), abs=1e-9)
    wanted: dict[str, list[list[float]]] = {}
    for name, values in parameters(model).items():
        wanted |= split(name, values.detach())
    # Adam divides by the root of a square that may be small: its errors are larger than those of the gradients.
    check_equal({name: parameter.rows for name, parameter in own.parameters.items()}, wanted, 1e-7)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("beam_size", "length_penalty"), [(1, 1.0), (3, 1.0), (4, 0.0), (2, 0.6)])
def test_a_search_finds_the_translation_of_the_engine(
    beam_size: int, length_penalty: float, one_file: ModuleType, tmp_path: Path
) -> None:
    size = len(LETTERS) + 4
    model = tiny_model(src_vocab_size=size, tgt_vocab_size=size, tie_embeddings="all")
    vocabulary = Vocabulary("characters", LETTERS, normalization="nfc")
    decode = pellucid.config.DecodeConfig(beam_size=beam_size, length_penalty=length_penalty, max_length=6)
    translator = pellucid.Translator(model, TokenizerPair(vocabulary, vocabulary), decode)
    translator.save(tmp_path / "model")
    lines = ["abc", "a  b\u200bd", "qqqq", "", "k", "Z?", "hgfed cba", "ponm"]
    own = one_file.load(tmp_path / "model")
    wanted = [translation.text for translation in translator.translate(lines)]
    assert [one_file.translate(*own, line) for line in lines] == wanted
    assert len(set(wanted)) > 3


@pytest.mark.slow
def test_twenty_dates_are_those_of_the_engine(one_file: ModuleType) -> None:
    """Short ones, ten of Korean; benchmarks/one_file.py compares a thousand of any length."""
    pairs, _ = split_dates(400, SEED, 20)
    sides = sorted((written for written, _ in pairs), key=len)
    lines = [line for letters in ("년월", "abcdefgh") for line in [s for s in sides if set(letters) & set(s)][:10]]
    own = one_file.load(TRAINED)
    wanted = [translation.text for translation in pellucid.Translator.load(TRAINED, "cpu").translate(lines)]
    assert [one_file.translate(*own, line) for line in lines] == wanted


def test_what_it_does_not_read_is_an_error(
    one_file: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = len(LETTERS) + 4
    vocabulary = Vocabulary("characters", LETTERS)
    model = tiny_model(src_vocab_size=size, tgt_vocab_size=size, positions="learned")
    pellucid.Translator(model, TokenizerPair(vocabulary, vocabulary)).save(tmp_path / "model")
    monkeypatch.setattr(sys, "stdin", StringIO("abc\n"))
    for arguments, message in (
        (["one_file.py", str(tmp_path / "model")], "`positions` is 'learned'"),
        (["one_file.py", str(tmp_path / "none")], "No such file"),
        (["one_file.py"], "usage: "),
    ):
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit, match=message):
            one_file.main()
    assert capsys.readouterr().out == ""


def test_it_imports_the_standard_library_alone() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert set(names) <= sys.stdlib_module_names
