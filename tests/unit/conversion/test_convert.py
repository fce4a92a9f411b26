"""Conversions: what is written, what is compared with what, and what is left where one fails."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import pellucid.conversion.convert as conversion
from pellucid.config import DecodeConfig
from pellucid.conversion.convert import Target, convert, find_kind
from pellucid.conversion.proof import ConversionReport, skip_verification
from pellucid.conversion.tutorial import TutorialOptions
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights import to_hugging_face
from pellucid.weights.folder import save_model
from tests.tiny_model import tiny_model
from tests.unit.conversion.tutorial_models import LINES, tutorial
from tests.unit.text.subword_models import subwords
from tests.unit.text.test_own_tokenizer import Letters

LAYOUT = "pytorch-seq2seq"
without_tokenizer = pytest.mark.filterwarnings("ignore:no tokenizer is written")  # Marian has none that cuts at spaces
Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What `prove` is called with, in place of calling it."""
    made: Calls = []

    def prove(*arguments: Any) -> ConversionReport:
        made.append((*arguments, [sorted(path.name for path in folder.iterdir()) for folder in arguments[:2]]))
        return skip_verification("a test")

    monkeypatch.setattr(conversion, "verify_conversion", prove)
    return made


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A tutorial's state dict, as its reader saved it."""
    path = tmp_path / "model.pt"
    torch.save({"epoch": 7, "model_state_dict": dict(tutorial(LAYOUT)[0])}, path)
    return path


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of Hugging Face's transformers, Marian's with its pieces."""
    tokenizer = subwords("bpe")
    torch.manual_seed(1)
    model = tiny_model(src_vocab_size=tokenizer.size, tgt_vocab_size=tokenizer.size, tie_embeddings="all")
    folder = to_hugging_face(model, TokenizerPair(tokenizer, tokenizer), tmp_path / "foreign", decode=DecodeConfig())
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\ntags: [x]\n---\n\n# Their model\n\nGood.\n")
    return folder


def beside(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_tutorial_becomes_a_folder_that_translates(
    saved: Path, vocabularies: dict[str, str], tmp_path: Path, calls: Calls
) -> None:
    before = beside(tmp_path)
    proof = convert(saved, tmp_path / "ours", tutorial=TutorialOptions(num_heads=2, **vocabularies))
    assert not proof.compared
    assert LAYOUT in proof.reason
    assert beside(tmp_path) == {*before, "ours"}
    assert beside(tmp_path / "ours") == {
        "README.md", "config.json", "pellucid.json", "conversion.json", "model.safetensors", "source.json",
        "target.json", "tokenizer.json", "tokenizer_config.json", "target",
    }  # fmt: skip
    assert json.loads((tmp_path / "ours" / "conversion.json").read_text()) == proof.to_dict()
    assert len(Translator.load(tmp_path / "ours", "cpu").translate(LINES)) == len(LINES)
    assert str(tmp_path) not in (tmp_path / "ours" / "README.md").read_text()
    assert not calls


def test_equal_weights_give_equal_folders(saved: Path, vocabularies: dict[str, str], tmp_path: Path) -> None:
    options = TutorialOptions(num_heads=2, **vocabularies)
    for name in ("first", "second"):
        convert(saved, tmp_path / name, tutorial=options)
    for path in (path for path in (tmp_path / "first").rglob("*") if path.is_file()):
        assert path.read_bytes() == (tmp_path / "second" / path.relative_to(tmp_path / "first")).read_bytes(), path


@pytest.mark.parametrize("ending", [".pth", ".safetensors", ".npz"])
def test_a_state_dict_in_other_files(ending: str, saved: Path, vocabularies: dict[str, str], tmp_path: Path) -> None:
    state = {name: value.contiguous() for name, value in tutorial(LAYOUT)[0].items()}
    path = tmp_path / f"other{ending}"
    if ending == ".pth":
        torch.save(state, path)
    elif ending == ".npz":
        np.savez(path, **{name: value.numpy() for name, value in state.items()})
    else:
        safetensors.torch.save_file(state, path)
    options = TutorialOptions(num_heads=2, **vocabularies)
    for source, name in ((saved, "first"), (path, "second")):
        convert(source, tmp_path / name, tutorial=options)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second")]
    assert weights[0] == weights[1]


@without_tokenizer
def test_a_tutorial_goes_on_to_another_library(
    saved: Path, vocabularies: dict[str, str], tmp_path: Path, calls: Calls
) -> None:
    """By way of a folder of ours, which the other side is compared with, and which does not stay."""
    before = beside(tmp_path)
    convert(saved, tmp_path / "hf", from_=LAYOUT, to="hf", tutorial=TutorialOptions(num_heads=2, **vocabularies))
    (ours, theirs, kind, *given, (in_ours, in_theirs)) = calls[0]
    *given, call = given
    assert (kind, given) == ("hf", [None, None, None, (None, None), "", None])
    assert call.code() in (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")
    assert "source.json" in in_ours
    assert "generation_config.json" in in_theirs
    assert not ours.exists()
    assert not theirs.exists()
    assert beside(tmp_path) == {*before, "hf"}


@pytest.mark.slow
def test_from_hugging_face(foreign: Path, tmp_path: Path, calls: Calls) -> None:
    convert(foreign, tmp_path / "deep" / "ours", sentences=["a"], references=["b"], tolerance=0.5)
    (_, theirs, kind, *given, (in_ours, _)) = calls[0]
    assert (theirs, kind, given) == (foreign, "hf", [["a"], ["b"], 0.5, (None, None)])
    assert "config.json" in in_ours
    first, second = (
        Translator.load(folder, "cpu").translate(["two dogs"]) for folder in (foreign, tmp_path / "deep/ours")
    )
    assert first == second
    card = (tmp_path / "deep" / "ours" / "README.md").read_text()
    assert "\nlicense: cc-by-4.0\ntags: [x]\n---" in card
    assert card.endswith("## The original's card\n\n# Their model\n\nGood.\n")


@without_tokenizer
@pytest.mark.parametrize("kind", [None, "pellucid"])
def test_a_folder_of_ours_goes_out(
    kind: str | None, saved: Path, vocabularies: dict[str, str], tmp_path: Path, calls: Calls
) -> None:
    convert(saved, tmp_path / "ours", tutorial=TutorialOptions(num_heads=2, **vocabularies))
    convert(tmp_path / "ours", tmp_path / "hf", from_=kind, to="hf")
    assert (calls[0][0], calls[0][2]) == (tmp_path / "ours", "hf")
    assert "model_type" in json.loads((tmp_path / "hf" / "config.json").read_text())


def test_what_is_there_stays(saved: Path, vocabularies: dict[str, str], tmp_path: Path) -> None:
    options = TutorialOptions(num_heads=2, **vocabularies)
    for taken in (tmp_path, saved):
        with pytest.raises(ConfigError, match=f"`{taken}` already exists"):
            convert(saved, taken, tutorial=options)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="already exists"):
        convert(saved, tmp_path / "link", tutorial=options)


@pytest.mark.parametrize("place", ["save_weights", "verify_conversion", "save_description"])
def test_nothing_half_written_stays(place: str, foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(conversion, place, full)
    before = beside(tmp_path)
    with pytest.raises(OSError, match="no space left"):
        convert(foreign, tmp_path / "ours")
    assert beside(tmp_path) == before


def test_what_is_not_equal_stays_for_a_look(foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ConversionReport(compared=True, largest_difference=0.3, sentences=1, greedy_equal=0)
    monkeypatch.setattr(conversion, "verify_conversion", lambda *_: wrong)
    assert not convert(foreign, tmp_path / "ours").passed
    assert json.loads((tmp_path / "ours" / "conversion.json").read_text())["passed"] is False


def test_kinds_are_found_by_looking(saved: Path, foreign: Path, vocabularies: dict[str, str], tmp_path: Path) -> None:
    convert(saved, tmp_path / "ours", tutorial=TutorialOptions(num_heads=2, **vocabularies))
    assert [find_kind(path) for path in (saved, foreign, tmp_path / "ours")] == [LAYOUT, "hf", "pellucid"]
    assert find_kind(Path("org/model")) == "hf"


def test_nothing_to_find(tmp_path: Path) -> None:
    torch.save({"own.weight": torch.zeros(2)}, tmp_path / "own.pt")
    for path, message in (
        (tmp_path / "own.pt", "does not have the tensor names of a supported tutorial: annotated-transformer"),
        (tmp_path, "no model at .*: it has no pellucid.json or config.json"),
        (tmp_path / "nothing", "no model at .*: it does not exist"),
        (Path("nothing.pt"), "no model at `nothing.pt`: it does not exist"),
    ):
        with pytest.raises(DataError, match=message):
            find_kind(path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"from_": "annotated"}, 'unknown `from_="annotated"`; did you mean `annotated-transformer`'),
        ({"to": "onx"}, 'unknown `to="onx"`; did you mean `onnx`'),
        ({"to": "ct2", "quantization": "int9"}, 'unknown `quantization="int9"` of `to="ct2"`; did you mean'),
        ({"quantization": "int8"}, '`quantization="int8"` has no effect with `to="pellucid"`'),
        ({"from_": "pellucid", "to": "hf"}, "`.*foreign` is not of the kind `pellucid`"),
        ({"tutorial": TutorialOptions(lowercase=True)}, "options for tutorials are given, but .* of the kind `hf`"),
        ({"references": ["a"]}, "`references=` are given without their sources"),
        ({"revision": "v1"}, r"`revision` \(v1\) is for a name on the hub, but .*foreign` is a folder"),
    ],
)
def test_what_cannot_be_asked(given: dict[str, Any], message: str, foreign: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        convert(foreign, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_ours_to_ours(saved: Path, vocabularies: dict[str, str], tmp_path: Path) -> None:
    convert(saved, tmp_path / "ours", tutorial=TutorialOptions(num_heads=2, **vocabularies))
    with pytest.raises(ConfigError, match="is a Pellucid model already"):
        convert(tmp_path / "ours", tmp_path / "again")


def test_a_foreign_model_without_tokenizer(tmp_path: Path) -> None:
    folder = to_hugging_face(tiny_model(src_vocab_size=19, tie_embeddings="all"), None, tmp_path / "bare")
    with pytest.raises(CheckpointError, match="has no tokenizer"):
        convert(folder, tmp_path / "ours")


class _Evil:
    """A pickle of it would create the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.path), "w")


def test_a_pickle_that_wants_to_run_something(tmp_path: Path) -> None:
    torch.save({"a": _Evil(tmp_path / "touched")}, tmp_path / "evil.pt")
    with pytest.raises(CheckpointError, match="is refused: it holds more than tensors") as caught:
        convert(tmp_path / "evil.pt", tmp_path / "out")
    assert "state_dict" in caught.value.hint
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("name", ["model.pt", "model.npz", "model.safetensors"])
@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04broken"])
def test_a_damaged_file(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name):
        convert(tmp_path / name, tmp_path / "out")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_bytes(b"x")
    with pytest.raises(DataError, match=r"model.h5` is not of a supported kind: .safetensors, .npz, .pt"):
        convert(tmp_path / "model.h5", tmp_path / "out")


def test_a_pickle_of_no_state_dict(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match="holds a `list`, not a state dict"):
        convert(tmp_path / "list.pt", tmp_path / "out")


@pytest.mark.foreign
@without_tokenizer
@pytest.mark.parametrize("target", ["hf", "ct2"])
def test_a_tutorial_on_to_another_library_with_proof(
    target: Target, saved: Path, vocabularies: dict[str, str], tmp_path: Path
) -> None:
    options = TutorialOptions(num_heads=2, **vocabularies)
    proof = convert(saved, tmp_path / "out", to=target, tutorial=options, sentences=LINES)
    assert proof.compared
    assert proof.passed, str(proof)


@pytest.mark.foreign
@without_tokenizer
@pytest.mark.parametrize("target", ["ct2", "onnx"])
def test_a_tutorial_whose_sources_have_no_end_token(
    target: Target, saved: Path, vocabularies: dict[str, str], tmp_path: Path
) -> None:
    options = TutorialOptions(num_heads=2, source_without_eos=True, **vocabularies)
    convert(saved, tmp_path / "ours", tutorial=options)
    assert not Translator.load(tmp_path / "ours", "cpu").decode.add_source_eos
    proof = convert(tmp_path / "ours", tmp_path / "out", to=target, sentences=LINES)
    assert proof.compared
    assert proof.passed, str(proof)
    with pytest.raises(ConfigError, match=r"`add_source_eos` \(False\) is not supported by MarianMTModel"):
        convert(tmp_path / "ours", tmp_path / "hf", to="hf")


@pytest.mark.foreign
def test_from_hugging_face_with_proof(foreign: Path, tmp_path: Path) -> None:
    proof = convert(foreign, tmp_path / "ours")
    assert proof.compared
    assert proof.passed, str(proof)


@pytest.mark.filterwarnings("ignore:no tokenizer is written")
def test_a_model_with_a_tokenizer_of_ones_own(tmp_path: Path, calls: Calls) -> None:
    letters = Letters()
    ids = {"pad_id": letters.pad_id, "bos_id": letters.bos_id, "eos_id": letters.eos_id}
    model = tiny_model(src_vocab_size=letters.size, tgt_vocab_size=letters.size, **ids)
    folder = save_model(tmp_path / "ours", model, TokenizerPair(letters), DecodeConfig(), "# A card\n")
    with pytest.raises(CheckpointError, match="uses the custom tokenizer"):
        convert(folder, tmp_path / "out", to="onnx")
    convert(folder, tmp_path / "hf", to="hf", tokenizer=letters)
    assert letters in calls[0], "both sides are compared with it"
    assert "config.json" in calls[0][-1][1]
    with pytest.raises(ConfigError, match=r"^`tokenizer=` is given, but `.*` is not a Pellucid model folder$"):
        convert(tmp_path / "hf", tmp_path / "again", tokenizer=letters)
    torch.save({"epoch": 7, "model_state_dict": dict(tutorial(LAYOUT)[0])}, tmp_path / "model.pt")
    with pytest.raises(ConfigError, match=r"^`tokenizer=` is for Pellucid model folders, but `.*` is a `pytorch-seq2"):
        convert(tmp_path / "model.pt", tmp_path / "again", tokenizer=letters)
