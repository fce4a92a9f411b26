"""`pellucid convert`."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid.conversion.convert as conversion
from pellucid.config import DecodeConfig
from pellucid.conversion.proof import ConversionReport
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.folder import SavedModel, save_description, save_weights
from tests.parity.tutorials.seq2seq import Seq2Seq
from tests.tiny_model import tiny_model
from tests.unit.cli.command_line import CommandLine
from tests.unit.conversion.tutorial_models import SIZES, SOURCE, TARGET, tutorial
from tests.unit.text.subword_models import subwords


@pytest.fixture
def arguments(vocabularies: dict[str, str], tmp_path: Path) -> list[object]:
    """Of a conversion that works, into the folder `out`."""
    torch.save(dict(tutorial("aladdin-persson")[0]), tmp_path / "model.pt")
    lists = ["--src-vocab", vocabularies["src_vocab"], "--tgt-vocab", vocabularies["tgt_vocab"]]
    return ["convert", tmp_path / "model.pt", tmp_path / "out", *lists]


@pytest.mark.slow
def test_a_state_dict_becomes_a_translator(pellucid: CommandLine, arguments: list[object], tmp_path: Path) -> None:
    done = pellucid(*arguments)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("not compared: ")
    (tmp_path / "in").write_text("a b c\n\nd e\n")
    translated = pellucid("translate", tmp_path / "out", "--input", tmp_path / "in", "--max-length", 5)
    assert translated.status == 0
    assert translated.out.count("\n") == 3
    assert pellucid(*arguments).error.endswith("`out` already exists".replace("out", str(tmp_path / "out")))


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ([], 1),
        (["--from", "aladdin-persson", "--tolerance", "0.5"], 0),
        (["--to", "ct2", "--quantization", "int8"], 0),
        (["--to", "ct2", "--quantization", "int8", "--tolerance", "0.01"], 1),
    ],
)
def test_what_is_not_equal_fails(
    more: list[object], status: int, pellucid: CommandLine, arguments: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the difference was allowed, or is that of a smaller type."""

    def proof(
        source: Path, folder: Path, kind: str, target: str, compared_on: Any, rounded_to: str | None, *_: Any
    ) -> ConversionReport:
        found = ConversionReport(compared=True, largest_difference=0.1, rounded_to=rounded_to or "")
        if compared_on[2] is None:
            return replace(found, decides=not rounded_to)
        return replace(found, tolerance=compared_on[2])

    monkeypatch.setattr(conversion, "_proof", proof)
    monkeypatch.setattr(conversion, "_write", lambda *_: None)
    done = pellucid(*arguments, *more)
    assert done.status == status
    assert ("NOT equal within" in done.out) == (status == 1)
    assert ("rounded to int8, with the differences above" in done.out) == (more[-1:] == ["int8"])


def test_wrong_arguments(pellucid: CommandLine, arguments: list[object]) -> None:
    assert pellucid(*arguments, "--references", "r.txt").error.startswith("`--references` requires `--sentences`")
    assert "has no option `--form`; did you mean `--from`" in pellucid(*arguments, "--form", "hf").error
    refused = pellucid(*arguments, "--from", "nlp-with-transformers", "--source-without-eos")
    assert refused.error.startswith("`--source-without-eos` is for a translator")
    assert pellucid(*arguments, "--num-heads", 3).error.startswith("`num_heads` (3) must divide the model's width (16)")


@pytest.mark.slow
def test_a_slip_is_read_as_it_is_asked(
    pellucid: CommandLine, arguments: list[object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the slip the cross-attention's own weights count for nothing; trained ones are accused of nothing."""
    state, more = dict(tutorial("annotated-transformer")[0]), [*arguments[3:], "--num-heads", 2]
    torch.save(state, tmp_path / "model.pt")
    names = [name for name in state if ".src_attn." in name]
    noise = {name: torch.randn_like(state[name]) for name in names}
    torch.save(state | noise, tmp_path / "other.pt")
    for source in ("model.pt", "other.pt"):
        folder = tmp_path / f"{source}-written"
        done = pellucid("convert", tmp_path / source, folder, *more, "--as-written", "cross-attention")
        assert done.status == 0, done
        assert "attends to the encoder's output with `self_attn`" in caplog.messages[-1]
    folders = (tmp_path / "model.pt-written", tmp_path / "other.pt-written")
    first, second = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert first == second
    caplog.clear()
    done = pellucid("convert", tmp_path / "other.pt", tmp_path / "meant", *more)
    assert (done.status, done.err, caplog.messages) == (0, "", [])
    assert (tmp_path / "meant" / "model.safetensors").read_bytes() != first


@pytest.mark.slow
def test_masks_of_a_slip_cannot_be_kept(pellucid: CommandLine, arguments: list[object], tmp_path: Path) -> None:
    model = Seq2Seq(len(SOURCE), len(TARGET), *SIZES, one_projection=True)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    for slips in ("masks", "output,masks", "all"):
        refused = pellucid(*arguments, "--as-written", slips, "--num-heads", 2)
        assert refused.status == 2
        assert "a model folder cannot store the slip `masks`" in refused.error
        assert "import_tutorial(..., as_written" in refused.hint
    assert not (tmp_path / "out").exists()


def test_weights_that_do_not_show_a_slip_are_asked_about(
    pellucid: CommandLine, arguments: list[object], tmp_path: Path
) -> None:
    """A model that was not trained, so that all of it is as it began."""
    model = Seq2Seq(len(SOURCE), len(TARGET), *SIZES, one_projection=True)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    asked = pellucid(*arguments, "--num-heads", 2)
    assert (asked.status, (tmp_path / "out").exists()) == (2, False)
    assert asked.error.startswith("the weights do not show whether `fc_o` was ever trained: all its values are within")
    assert "the initial range of `torch.nn.Linear` (±0.25), but `fc_qkv` is hardly outside" in asked.error
    assert "`--as-written output`" in asked.hint
    assert "`--as-written none`" in asked.hint
    assert "pellucid" not in asked.hint
    unknown = pellucid(*arguments, "--num-heads", 2, "--as-written", "outptu")
    assert (unknown.status, unknown.error) == (2, "unknown slip `outptu`; did you mean `output`?")


@pytest.mark.slow
def test_a_model_that_no_reading_makes_sense_of_is_bad(
    pellucid: CommandLine, arguments: list[object], tmp_path: Path
) -> None:
    """`fc_o` was never used, and all else is noise: it translates nothing, and the first line says so."""
    torch.manual_seed(2)
    model = Seq2Seq(len(SOURCE), len(TARGET), *SIZES, one_projection=True)
    noise = {
        name: tensor if ".fc_o." in name else tensor + 0.05 * torch.randn_like(tensor)
        for name, tensor in model.state_dict().items()
    }
    torch.save(noise, tmp_path / "model.pt")
    done = pellucid(*arguments, "--num-heads", 2)
    assert done.status == 1
    assert done.out.startswith("BAD: the outputs are not usable: ")
    found = json.loads((tmp_path / "out" / "conversion.json").read_text(encoding="utf-8"))
    assert (found["passed"], found["compared"]) == (False, False)
    assert found["nonsense"] in done.out


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    """A small translator of ours that every target can express."""
    tokenizer = subwords("bpe")
    torch.manual_seed(3)
    model = tiny_model(src_vocab_size=tokenizer.size, tgt_vocab_size=tokenizer.size, tie_embeddings="all")
    save_description(tmp_path / "ours", model.config, TokenizerPair(tokenizer, tokenizer), DecodeConfig(), "# A card\n")
    save_weights(tmp_path / "ours", model)
    return tmp_path / "ours"


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("target", "engine", "file"),
    [
        ("hf", "transformers", "generation_config.json"),
        ("ct2", "ctranslate2", "model.bin"),
        ("onnx", "onnxruntime", "onnx/decoder_model_merged.onnx"),
    ],
)
def test_out_with_proof(
    target: str, engine: str, file: str, pellucid: CommandLine, translator: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "lines").write_text("two dogs run\na man\nthe street is red\n", encoding="utf-8")
    command = ["convert", translator, tmp_path / "out", "--to", target, "--sentences", tmp_path / "lines"]
    done = pellucid(*command)
    assert done.status == 0, done
    assert done.out.startswith(f"compared with {engine} ")
    *_, last = done.out.splitlines()
    assert last.startswith("equal within a tolerance of 0.0001; ")
    assert last.endswith(
        " outputs hold bytes that are not UTF-8, for which tokenizer.json writes another number of U+FFFD"
    )
    found = json.loads((tmp_path / "out" / "conversion.json").read_text(encoding="utf-8"))
    assert (found["passed"], found["sentences"], found["greedy_equal"]) == (True, 3, 3)
    assert found["engine"].startswith(engine)
    assert (tmp_path / "out" / file).is_file()
    command[2] = tmp_path / "strict"

    def write_again(saved: SavedModel, folder: Path, *_: Any) -> None:
        """The same model, so what was written of it: to trace it takes ONNX's exporter ten seconds."""
        files = shutil.ignore_patterns("conversion.json")
        shutil.copytree(tmp_path / "out", folder, ignore=files, dirs_exist_ok=True)

    monkeypatch.setattr(conversion, "_write", write_again)
    strict = pellucid(*command, "--tolerance", "1e-12")
    assert strict.status == 1
    assert strict.out.splitlines()[-1].startswith("NOT equal within a tolerance of 1e-12: ")
    found = json.loads((tmp_path / "strict" / "conversion.json").read_text(encoding="utf-8"))
    assert (found["passed"], found["tolerance"]) == (False, 1e-12)
    assert found["largest_difference"] > 0


@pytest.mark.foreign
@pytest.mark.parametrize("target", ["hf", "ct2", "onnx"])
def test_a_weight_that_came_out_wrong(
    target: str, pellucid: CommandLine, translator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number among thousands, changed between reading and writing."""
    write = conversion._write

    def spoil_and_write(saved: SavedModel, *rest: Any) -> None:
        with torch.no_grad():
            saved.model.get_parameter("encoder.layers.0.feed_forward.up_proj.bias")[3] += 3.0
        write(saved, *rest)

    monkeypatch.setattr(conversion, "_write", spoil_and_write)
    done = pellucid("convert", translator, tmp_path / "out", "--to", target)
    assert done.status == 1
    assert "NOT equal within a tolerance of 0.0001" in done.out
    assert not json.loads((tmp_path / "out" / "conversion.json").read_text(encoding="utf-8"))["passed"]


@pytest.mark.parametrize(
    ("name", "meant"), [("ctranslate2", "ct2"), ("CTranslate2", "ct2"), ("transformers", "hf"), ("huggingface", "hf")]
)
def test_a_target_by_its_whole_name(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, name: str, meant: str
) -> None:
    outcome = pellucid("convert", finished_run, tmp_path / "out", "--to", name)
    assert (outcome.status, outcome.error) == (2, f"unknown `--to {name}`; did you mean `{meant}`?")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder in which not even root can make anything")
@pytest.mark.parametrize(
    "command", [("convert", "RUN", "/proc/x", "--to", "hf"), ("average", "RUN", "--out", "/proc/x")]
)
def test_a_folder_where_nothing_can_be_made(
    pellucid: CommandLine, finished_run: Path, command: tuple[str, ...]
) -> None:
    outcome = pellucid(*(finished_run if word == "RUN" else word for word in command))
    assert (outcome.status, outcome.error) == (2, "cannot write to `/proc/x`: No such file or directory")
    assert outcome.hint == "name another folder"
