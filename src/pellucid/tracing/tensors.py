"""Packs and unpacks safetensors in numpy: eight bytes with the length of a JSON header, the header, raw numbers."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError, format_value
from pellucid.files.reading import parse_json

MOST_HEADER_BYTES = 16_000_000
MOST_DIMENSIONS = 8
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BOOL": np.dtype("?")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_AGAIN = "copy the file again"


def pack(tensors: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str], name: str) -> bytes:
    """Returns the bytes of a file; equal input gives equal bytes. Wide types come first, so that all are aligned.

    Raises DataError, which calls the file `name`, if the header is longer than unpack() reads.
    """
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    start, parts = 0, []
    for name, array in ordered:
        data = np.ascontiguousarray(array).tobytes()
        offsets = [start, start + len(data)]
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        start += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > MOST_HEADER_BYTES:
        raise DataError(
            f"{name} would have a header of {len(text):,} bytes; at most {MOST_HEADER_BYTES:,} are read",
            "trace a shorter text, or a search with a smaller beam",
        )
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def unpack(data: bytes, name: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Returns the tensors and the metadata of a file's bytes; errors call the file `name`.

    Raises DataError for bytes that are not such a file, end too early, or do not fit their header.
    """
    header, start = _header(data, name)
    metadata = header.pop("__metadata__", {})
    tensors, place = {}, 0
    for key, entry in sorted(header.items(), key=lambda item: _offsets(item[1])):
        dtype, shape, (begin, end) = _entry(entry, key, name)
        size = math.prod(shape) * dtype.itemsize
        if begin != place or end - begin != size:
            raise DataError(
                f"{name} is damaged: `{key}` of shape {tuple(shape)} has {size:,} bytes from {place:,} on, but is "
                f"stored at {begin:,} to {end:,}",
                _AGAIN,
            )
        if start + end > len(data):
            raise DataError(
                f"{name} is truncated: it has {len(data):,} bytes, but `{key}` ends at {start + end:,}", _AGAIN
            )
        tensors[key] = np.frombuffer(data, dtype, size // dtype.itemsize, start + begin).reshape(shape)
        place = end
    if start + place != len(data):
        raise DataError(f"{name} is damaged: {len(data) - start - place:,} bytes belong to no tensor", _AGAIN)
    return tensors, metadata if isinstance(metadata, dict) else {}


def _header(data: bytes, name: str) -> tuple[dict[str, Any], int]:
    """Returns the header and the offset at which the data begin."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or data[8:9] != b"{":
        raise DataError(
            f"{name} ({len(data):,} bytes) is not a trace: it does not begin like a safetensors file", _AGAIN
        )
    if length > MOST_HEADER_BYTES:
        raise DataError(f"{name} has a header of {length:,} bytes; at most {MOST_HEADER_BYTES:,} are read", _AGAIN)
    if 8 + length > len(data):
        raise DataError(
            f"{name} is truncated: it has {len(data):,} bytes, but its header ends at {8 + length:,}", _AGAIN
        )
    try:
        header = parse_json(data[8 : 8 + length])
    except ValueError as error:
        raise DataError(f"{name} is damaged: its header is not JSON ({error})", _AGAIN) from error
    return header, 8 + length


def _offsets(entry: Any) -> tuple[int, ...]:
    """Returns the sort key of a tensor's entry; a malformed entry sorts first and is reported later."""
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    numbers = isinstance(offsets, list) and all(type(number) is int for number in offsets)
    return tuple(offsets) if numbers and offsets else ()


def _entry(entry: Any, key: str, name: str) -> tuple[np.dtype[Any], list[int], tuple[int, int]]:
    """Returns the type, shape and byte range of a tensor."""
    offsets = _offsets(entry)
    shape: Any = entry.get("shape") if len(offsets) == 2 else None
    dtype: np.dtype[Any] | None = DTYPES.get(str(entry.get("dtype"))) if isinstance(entry, dict) else None
    sound = isinstance(shape, list) and len(shape) <= MOST_DIMENSIONS
    sound = sound and all(type(size) is int and size >= 0 for size in shape)
    if dtype is None or not sound:
        raise DataError(f"{name} is damaged: the header has {format_value(entry)} for `{format_value(key)}`", _AGAIN)
    return dtype, shape, (offsets[0], offsets[1])
