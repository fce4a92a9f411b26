"""The benchmarks' scripts as modules, found beside each other as when one of them is run; and what they measure."""

import gzip
import io
import json
import random
import shlex
import string
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from pellucid.cli.main import main
from pellucid.config import DecodeConfig
from pellucid.data.dates import split_dates
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from tests.processes import python
from tests.tiny_model import tiny_config
from tests.toy_task import reversed_letters

SCRIPTS = Path(__file__).parents[3] / "benchmarks"

Ran = tuple[dict[str, Any], list[str]]
"""What a script left: the JSON of standard output, and the lines of standard error."""


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """A script may choose its threads; the next test has those that the others had."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """`script("multi_bleu")` imports benchmarks/multi_bleu.py."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return import_module


@pytest.fixture
def in_this_process(script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`in_this_process("augmentation")` has the commands that a script starts run here, which costs no start."""

    def command(*args: object) -> str:
        with redirect_stdout(io.StringIO()) as out:
            assert main([str(arg) for arg in args]) == 0, args
        return out.getvalue()

    return lambda name: monkeypatch.setattr(script(name), "pellucid", command)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with files as Multi30k has them."""
    (tmp_path / "multi30k").mkdir()
    for name, count in (("train", 60), ("val", 8), ("test_2016_flickr", 8)):
        pairs = reversed_letters(count, seed=len(name))
        for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / "multi30k" / f"{name}.{side}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.fixture
def run_script(script: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`run_script("loss", "--rounds", 1)` runs a script to its end, which must have the given exit status."""

    def run(name: str, *arguments: object, status: int = 0) -> Ran:
        argv = [str(argument) for argument in arguments]
        assert (script(name).main(argv) or 0) == status
        out, err = capsys.readouterr()
        table: dict[str, Any] = json.loads(out)
        assert table["benchmark"] == name
        assert table["command"] == shlex.join(["python", f"benchmarks/{name}.py", *argv])
        assert table["machine"].keys() == {"cpu", "cores", "threads"}
        assert {"python", "pellucid", "torch"} <= table["versions"].keys()
        assert table["date"].endswith("+00:00")
        return table, err.splitlines()

    return run


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes that a script starts need not import torch: for scripts that neither kill them nor weigh them."""
    monkeypatch.setattr("sys.executable", python())


@pytest.fixture(scope="session")
def translator_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a translator of single characters with random weights, of the shape that all engines can run."""
    characters = {*string.ascii_lowercase, *"".join(src + tgt for src, tgt in split_dates(2000, 7, 1000)[1])}
    letters = Vocabulary("characters", tuple(sorted(characters)))
    torch.manual_seed(0)
    shape: dict[str, Any] = {"norm": "post", "final_norm": False, "tie_embeddings": "all", "num_heads": 2}
    model = Transformer(tiny_config(src_vocab_size=letters.size, tgt_vocab_size=letters.size, **shape))
    folder = tmp_path_factory.mktemp("translator") / "model"
    Translator(model, TokenizerPair(letters, letters), DecodeConfig(beam_size=2, max_length=8)).save(folder)
    return folder


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as DATA is: multi30k/, sst2/ and tinyshakespeare/, with little in each."""
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(1)
    words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 7))) for _ in range(200)]

    def sentence() -> str:
        return " ".join(draw.choices(words, k=draw.randint(3, 8)))

    texts = {"train": 150, "val": 150, "test_2016_flickr": 12}
    files = {f"multi30k/{name}.{side}.gz": count for name, count in texts.items() for side in ("de", "en")}
    contents = {name: [sentence() for _ in range(count)] for name, count in files.items()}
    contents |= {
        f"sst2/{name}.tsv.gz": [f"{sentence()} {('awful', 'fine')[i % 2]}\t{i % 2}" for i in range(count)]
        for name, count in {"train": 60, "dev": 12, "test": 10}.items()
    }
    contents["tinyshakespeare/input.txt"] = [sentence() for _ in range(120)]
    for name, lines in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture
def lines_file(tmp_path: Path) -> Callable[..., Path]:
    """`lines_file("name", "a", "b")` writes a file of lines."""

    def write(name: str, *lines: str) -> Path:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return tmp_path / name

    return write
