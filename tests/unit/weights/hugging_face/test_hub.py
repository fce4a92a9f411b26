"""Names on the hub, with a hub of our own in place of the client's download."""

from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config.environment import OFFLINE_SWITCHES
from pellucid.errors import CheckpointError, ConfigError, format_install_command
from pellucid.tasks.task import open_model
from pellucid.weights import from_hugging_face
from pellucid.weights.hugging_face import hub
from tests.unit.weights.hugging_face.folders import BERT, bert_tensors, write, write_shards


class Hub:
    """Serves one folder as `org/model`, and remembers what it was asked for."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        self.calls: list[dict[str, Any]] = []

    def __call__(self, name: str, **options: Any) -> str:
        self.calls.append(options)
        if name != "org/model":
            raise OSError(f"404 Client Error: {name}\nmore lines")
        self.cache.mkdir(exist_ok=True)
        for path in self.folder.iterdir():
            if any(fnmatch(path.name, pattern) for pattern in options["allow_patterns"]):
                (self.cache / path.name).write_bytes(path.read_bytes())
        return str(self.cache)


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Hub]:
    def start(folder: Path) -> Hub:
        here = Hub(folder, tmp_path / "cache")
        monkeypatch.setattr(hub, "_snapshot_function", lambda name: here)
        return here

    return start


def test_only_what_is_read_is_fetched(tmp_path: Path, serve: Callable[[Path], Hub]) -> None:
    folder = write(tmp_path / "there", BERT, bert_tensors())
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "onnx_model.onnx", "rust_model.ot"):
        (folder / name).write_bytes(b"large")
    here = serve(folder)
    from_hugging_face("org/model", revision="v1", offline=False)
    assert {path.name for path in here.cache.iterdir()} == {"config.json", "model.safetensors"}
    assert [(call["revision"], call["local_files_only"]) for call in here.calls] == [("v1", False)]


def test_a_revision_stands_behind_the_name(tmp_path: Path, serve: Callable[[Path], Hub]) -> None:
    here = serve(write(tmp_path / "there", BERT, bert_tensors()))
    from_hugging_face("org/model@feature/x")
    from_hugging_face("org/model@v1", revision="v1")
    assert [call["revision"] for call in here.calls] == ["feature/x", "v1"]
    with pytest.raises(ConfigError, match=r"`org/model@v1` names a revision, but `revision` is `v2`"):
        from_hugging_face("org/model@v1", revision="v2")
    with pytest.raises(
        CheckpointError, match=r"`org/other` is not a local folder, .* has no such model at `v3`|gives no"
    ):
        from_hugging_face("org/other@v3")


def test_a_revision_is_for_a_name_on_the_hub(tmp_path: Path, serve: Callable[[Path], Hub]) -> None:
    here = serve(write(tmp_path / "there", BERT, bert_tensors()))
    assert open_model("org/model", revision="v1").task == "encode"
    assert here.calls[0]["revision"] == "v1"
    with pytest.raises(ConfigError, match=r"`revision` \(v1\) is for a name on the hub, but `.*there` is a folder"):
        open_model(tmp_path / "there", revision="v1")


def test_shards_are_fetched(tmp_path: Path, serve: Callable[[Path], Hub]) -> None:
    here = serve(write_shards(tmp_path / "there", BERT, bert_tensors()))
    from_hugging_face("org/model")
    assert len(list(here.cache.iterdir())) == 4


@pytest.mark.filterwarnings("ignore:.*is a pickle")
def test_a_pickle_is_fetched_where_there_is_nothing_else(tmp_path: Path, serve: Callable[[Path], Hub]) -> None:
    folder = write(tmp_path / "there", BERT)
    torch.save(bert_tensors(), folder / "pytorch_model.bin")
    here = serve(folder)
    from_hugging_face("org/model")
    assert len(here.calls) == 2


@pytest.mark.parametrize(
    ("offline", "environment", "expected"),
    [
        (None, {}, False),
        (True, {}, True),
        (None, {"HF_HUB_OFFLINE": "1"}, True),
        (False, {"HF_HUB_OFFLINE": "1"}, False),
        (None, {"HF_HUB_OFFLINE": "0"}, False),
        (None, {"PELLUCID_OFFLINE": "1"}, True),
        (None, {"PELLUCID_OFFLINE": "false"}, False),
        (True, {"PELLUCID_OFFLINE": "0"}, True),
    ],
)
def test_offline(
    offline: bool | None,
    environment: dict[str, str],
    expected: bool,
    tmp_path: Path,
    serve: Callable[[Path], Hub],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in OFFLINE_SWITCHES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    here = serve(write(tmp_path / "there", BERT, bert_tensors()))
    from_hugging_face("org/model", offline=offline)
    assert here.calls[0]["local_files_only"] is expected


def test_a_name_that_the_hub_lacks(tmp_path: Path, serve: Callable[[Path], Hub]) -> None:
    serve(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face("org/modle", revision="v2", offline=False)
    said = "`org/modle` is not a local folder, and the hub gives no such model at `v2`: 404 Client Error: org/modle"
    assert str(caught.value) == said
    with pytest.raises(CheckpointError, match="and the cache of the hub has no such model: 404"):
        from_hugging_face("org/modle", offline=True)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(
        ConfigError, match=r"`org/model` is not a local folder; a name on the hub requires the extra `hf`"
    ) as caught:
        from_hugging_face("org/model")
    assert caught.value.hint == format_install_command("hf")


@pytest.mark.parametrize("name", ["./model", "/x/y", "a/b/c", "a b", "../x", "a/", "~/model", "org/model?"])
def test_what_is_no_name_gets_the_folders_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="is not a model folder: it does not exist"):
        from_hugging_face(name)


def test_a_folder_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "org" / "model", BERT, bert_tensors())
    monkeypatch.chdir(tmp_path)
    from_hugging_face("org/model")
