"""Files of weights: whole, in shards, as pickles; damaged, missing, malicious."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.errors import CheckpointError
from pellucid.model.families import Model
from pellucid.weights import from_hugging_face
from tests.unit.weights.hugging_face.folders import BERT, bert_tensors, write, write_shards


def state(folder: Path) -> dict[str, Tensor]:
    model, _ = from_hugging_face(folder)
    return model.state_dict()


def same(ours: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    return ours.keys() == others.keys() and all(torch.equal(ours[name], others[name]) for name in ours)


def test_whole_and_in_shards(tmp_path: Path) -> None:
    tensors = bert_tensors()
    whole = state(write(tmp_path / "whole", BERT, tensors))
    assert same(whole, state(write_shards(tmp_path / "shards", BERT, tensors)))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_a_pickle_of_tensors(zipped: bool, tmp_path: Path) -> None:
    tensors = bert_tensors()
    folder = write(tmp_path / "pickle", BERT)
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    with pytest.warns(UserWarning, match=r"pytorch_model\.bin` is a pickle; .* runs no code \(`convert` writes"):
        read = state(folder)
    assert same(read, state(write(tmp_path / "whole", BERT, tensors)))


def test_a_pickle_in_shards(tmp_path: Path) -> None:
    tensors, folder = bert_tensors(), write(tmp_path / "pickle", BERT)
    names = list(tensors)
    where = {}
    for number, members in enumerate((names[::2], names[1::2])):
        torch.save({name: tensors[name] for name in members}, folder / f"pytorch_model-{number}.bin")
        where |= dict.fromkeys(members, f"pytorch_model-{number}.bin")
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}), encoding="utf-8")
    with pytest.warns(UserWarning, match="is a pickle"):
        read = state(folder)
    assert same(read, state(write(tmp_path / "whole", BERT, tensors)))


def test_safetensors_come_first(tmp_path: Path) -> None:
    folder = write(tmp_path, BERT, bert_tensors())
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    state(folder)


class Malicious:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("way", ["pickle", "torch zip", "torch legacy"])
@pytest.mark.filterwarnings("ignore:.*is a pickle")
def test_a_pickle_that_wants_to_run_code(way: str, tmp_path: Path) -> None:
    folder, victim = write(tmp_path / "model", BERT), tmp_path / "victim"
    payload = bert_tensors() | {"embeddings.LayerNorm.bias": Malicious(victim)}
    path = folder / "pytorch_model.bin"
    if way == "pickle":
        path.write_bytes(pickle.dumps(payload, protocol=2))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=way == "torch zip")
    with pytest.raises(
        CheckpointError, match=r"pytorch_model\.bin` is refused: it requires more than tensors"
    ) as caught:
        from_hugging_face(folder)
    assert "no code of it was run" in str(caught.value)
    assert not victim.exists()
    torch.load(path, weights_only=False) if way != "pickle" else pickle.loads(path.read_bytes())
    assert victim.exists()  # it would have


def test_what_a_pickle_wanted_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, BERT)
    torch.save({"x": Malicious(tmp_path / "victim")}, folder / "pytorch_model.bin")
    with pytest.warns(UserWarning, match="is a pickle"), pytest.raises(CheckpointError, match=r"\(`\w+\.mkdir`\)"):
        from_hugging_face(folder)


@pytest.mark.filterwarnings("ignore:.*is a pickle")
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.95])
def test_a_truncated_pickle(keep: float, tmp_path: Path) -> None:
    folder = write(tmp_path, BERT)
    path = folder / "pytorch_model.bin"
    torch.save(bert_tensors(), path)
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin` .*damaged"):
        from_hugging_face(folder)


@pytest.mark.filterwarnings("ignore:.*is a pickle")
@pytest.mark.parametrize("payload", [[torch.ones(2)], {"step": 3}, torch.ones(2)], ids=["list", "number", "tensor"])
def test_a_pickle_of_something_else(payload: Any, tmp_path: Path) -> None:
    folder = write(tmp_path, BERT)
    torch.save(payload, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin` holds (list|dict|Tensor), not a table of tensors"):
        from_hugging_face(folder)


def test_no_weights(tmp_path: Path) -> None:
    folder = write(tmp_path, BERT)
    with pytest.raises(CheckpointError, match=r"no weights in `.*`: neither `model.safetensors` nor `pytorch_model"):
        from_hugging_face(folder)
    (folder / "tf_model.h5").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"`tf_model\.h5` has an unsupported format"):
        from_hugging_face(folder)


def test_a_truncated_shard(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, BERT, bert_tensors())
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(
        CheckpointError, match=rf"model-00002-of-00002\.safetensors` \({shard.stat().st_size:,} bytes\)"
    ):
        from_hugging_face(folder)


def test_a_missing_shard(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, BERT, bert_tensors())
    (folder / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(
        CheckpointError,
        match=r"1 of the 2 shards that `.*index\.json` names are missing \(first: `model-00001-of-00002",
    ):
        from_hugging_face(folder)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "..", "a\\b"])
def test_a_shard_elsewhere(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, BERT)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="which must be in the folder"):
        from_hugging_face(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"x": 1}}'])
def test_a_damaged_index(text: str, tmp_path: Path) -> None:
    folder = write(tmp_path, BERT)
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"model\.safetensors\.index\.json` is damaged: "):
        from_hugging_face(folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_come_as_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in bert_tensors().items()}
    model: Model = from_hugging_face(write(tmp_path, BERT, tensors))[0]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    words = tensors["embeddings.word_embeddings.weight"].float()
    assert torch.equal(model.state_dict()["src_embedding.tokens.weight"], words)


def test_what_git_lfs_leaves(tmp_path: Path) -> None:
    folder = write(tmp_path, BERT)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 440473133\n"
    (folder / "model.safetensors").write_text(pointer, encoding="utf-8")
    with pytest.raises(CheckpointError, match="is a git-lfs pointer instead of the weights") as caught:
        from_hugging_face(folder)
    assert "git lfs pull" in str(caught.value.hint)
