"""Archives and pickles that claim more than their bytes hold."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.errors import CheckpointError
from pellucid.weights.pickles import check_archive, check_views
from pellucid.weights.tutorials.files import load_state_dict

BOMB = 2**27
"""Bytes that zeros unpack to: twice what a small file may."""


def npy(header: str, body: bytes) -> bytes:
    """A file of NumPy's with that header."""
    text = header.encode("latin-1").ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.npz", "x.pt"])
def test_a_bomb_is_not_unpacked(name: str, tmp_path: Path) -> None:
    path = archive(tmp_path / name, a=bytes(BOMB))
    with pytest.raises(CheckpointError, match=rf"would unpack to {BOMB:,} bytes; the limit is 20 times its size"):
        load_state_dict(path)


def test_trained_weights_and_small_archives_pass(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(64, 64))
    np.savez_compressed(tmp_path / "x.npz", weights=weights, zeros=np.zeros(9**5))
    check_archive(tmp_path / "x.npz")
    loaded = load_state_dict(tmp_path / "x.npz")
    assert set(loaded) == {"weights", "zeros"}
    torch.save({"a": torch.zeros(1000)}, tmp_path / "x.pt")
    check_archive(tmp_path / "x.pt")


def test_arrays_come_back_as_they_were_saved(tmp_path: Path) -> None:
    saved = {
        "rows": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        "scalar": np.float32(3),
        "empty": np.zeros((0, 4), np.float16),
        "swapped": np.arange(3, dtype=">f4"),
    }
    np.savez(tmp_path / "x.npz", words=np.array(["a"]), **saved)  # type: ignore[arg-type]
    loaded = load_state_dict(tmp_path / "x.npz")
    assert set(loaded) == set(saved)
    for name, array in saved.items():
        assert np.array_equal(loaded[name], array), name
        assert loaded[name].shape == np.shape(array)


HEADER = "{{'descr': '{0}', 'fortran_order': False, 'shape': {1}, }}"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        # NumPy would first take 373 GiB for it.
        (npy(HEADER.format("<f4", "(100000000000,)"), b"1234"), "the shape (100000000000,), which are 400,"),
        (npy(HEADER.format("<f4", "(-1,)"), b"1234"), "has the shape (-1,)"),
        (npy(HEADER.format("<f4", "(2,)"), b"1234"), "which are 8 bytes, and 4 bytes of numbers"),
        (npy("not a header", b""), ""),
        (npy(HEADER.format("<f4", "(" * 200), b""), ""),
        (b"", ""),
        (b"\x93NUMPY\x07\x00", "of an unknown version"),
    ],
)
def test_an_array_that_is_not_what_its_header_says(data: bytes, reason: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", a=data)
    with pytest.raises(CheckpointError, match=r"x\.npz` \([0-9,]+ bytes\) is damaged: .") as caught:
        load_state_dict(path)
    assert reason in str(caught.value)


def test_objects_are_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([{}]), b=np.zeros(2))
    assert set(load_state_dict(tmp_path / "x.npz")) == {"b"}


def test_one_number_does_not_stand_for_a_terabyte(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"model_state_dict": {"a": torch.zeros(1).expand(2**20, 2**18)}}, buffer)
    (tmp_path / "x.pt").write_bytes(buffer.getvalue())
    with pytest.raises(CheckpointError, match="describes tensors of 1,099,511,627,776 bytes; they are expanded views"):
        load_state_dict(tmp_path / "x.pt")


def test_tied_tensors_pass_and_sparse_ones_do_not(tmp_path: Path) -> None:
    one = torch.zeros(2**22)
    torch.save(dict.fromkeys("abcd", one), tmp_path / "x.pt")
    assert set(load_state_dict(tmp_path / "x.pt")) == set("abcd")
    with pytest.raises(CheckpointError, match="`s` is not a plain tensor"):
        check_views({"s": torch.eye(2).to_sparse()}, tmp_path / "x.pt")


def test_a_table_that_holds_itself(tmp_path: Path) -> None:
    table: dict[str, object] = {"a": torch.zeros(1)}
    table["model"] = table
    torch.save(table, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="is damaged: "):
        load_state_dict(tmp_path / "x.pt")
