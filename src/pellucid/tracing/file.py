"""Traces in files: safetensors, with a manifest in JSON that says what each tensor is (docs/concepts/trace-file.md).

Written and read without a library, so that equal traces make equal bytes, and each fault has its own message.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError, quoted, shown
from pellucid.files.writing import write_output
from pellucid.tracing.checks import check_trace
from pellucid.tracing.tensors import pack, unpack
from pellucid.tracing.trace import AttentionTrace, SearchNode, SearchTrace, Token, Trace

FORMAT = "pellucid-trace"
VERSION = "1"
TENSORS = {"q": "q", "k": "k", "weights": "ready", "mask": "mask", "bias": "bias", "value_norms": "value_norms"}
"""The tensors of an attention, by their names in the file."""

_TOKEN_TYPES = {"text": str, "piece": str, "id": int, "word": int, "special": bool, "segment": int, "adds": str}

Dtype = Literal["float32", "float16"]
_AGAIN = "copy the file again, or record the trace again"


def save_trace(trace: Trace, path: str | Path, dtype: Dtype = "float32") -> Path:
    """Writes a trace; float32 gives it back bit for bit, float16 takes half the room. Equal traces give equal bytes.

    Raises DataError for another dtype, for numbers beyond float16 (65,504), and where the trace is damaged.
    """
    if dtype not in ("float32", "float16"):
        raise DataError(f"unknown dtype `{dtype}` of a trace", "choose one of float32, float16")
    check_trace(trace, "the trace cannot be saved", "record it again")
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, attention in trace.attentions.items():
        for key, attribute in TENSORS.items():
            if (array := getattr(attention, attribute)) is not None:
                tensors[f"{name}/{key}"] = array if key == "mask" else _converted(array, dtype, f"{name}/{key}")
    metadata = {"format": FORMAT, "version": VERSION, "manifest": json.dumps(_manifest(trace))}
    write_output(path, pack(tensors, metadata, f"`{path}`"))
    return Path(path)


def load_trace(path: str | Path) -> Trace:
    """The trace in a file that Trace.save() wrote.

    Raises DataError, which names the file and what is wrong, for a file that is none, is damaged, does not hold
    together, or is of another version.
    """
    name = f"`{path}`"
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {name}: {error.strerror}", "name a file that `trace.save` wrote") from error
    tensors, metadata = unpack(data, name)
    if metadata.get("format") != FORMAT:
        raise DataError(
            f"{name} is no trace: its format is {quoted(metadata.get('format'))}, not {FORMAT!r}",
            "name a file that `trace.save` wrote",
        )
    if metadata.get("version") != VERSION:
        raise DataError(
            f"{name} has version {quoted(metadata.get('version'))}; this version of pellucid reads {VERSION!r}",
            "upgrade pellucid",
        )
    try:
        trace = _from_manifest(json.loads(metadata["manifest"]), tensors)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        told = f"{type(error).__name__}: {shown(str(error))}"
        raise DataError(f"{name} has a damaged manifest: {told}", _AGAIN) from error
    check_trace(trace, name, _AGAIN)
    return trace


def _converted(array: npt.NDArray[np.float32], dtype: Dtype, name: str) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if not np.isfinite(converted).all():
        raise DataError(
            f"`{name}` holds {np.abs(array).max():,.0f}, and float16 ends at 65,504", 'save with `dtype="float32"`'
        )
    return converted


def _manifest(trace: Trace) -> dict[str, Any]:
    """All but the tensors."""
    table: dict[str, Any] = {
        "model": dict(trace.model),
        "sequences": {name: [_sparse(token) for token in tokens] for name, tokens in trace.sequences.items()},
        "attention": [_attention_table(attention) for attention in trace.attentions.values()],
        "faithfulness": trace.faithfulness,
        "provenance": dict(trace.provenance),
    }
    if trace.without_weights:
        table["without_weights"] = {name: list(layers) for name, layers in trace.without_weights.items()}
    if trace.search is not None:
        nodes = [asdict(node) | {"token": _sparse(node.token)} for node in trace.search.nodes]
        table["search"] = asdict(trace.search) | {"nodes": nodes}
    return table


def _attention_table(attention: AttentionTrace) -> dict[str, Any]:
    table: dict[str, Any] = {"name": attention.name, "queries": attention.queries, "keys": attention.keys}
    table["tensors"] = [key for key, attribute in TENSORS.items() if getattr(attention, attribute) is not None]
    if attention.rotary_base is not None:
        table["rotary_base"] = attention.rotary_base
    return table


def _sparse(token: Token) -> dict[str, Any]:
    """A token's fields, those at their defaults left out."""
    defaults = {field.name: field.default for field in fields(Token)}
    return {name: value for name, value in asdict(token).items() if value != defaults[name]}


def _from_manifest(table: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Trace:
    """The trace of a manifest. Raises what a lookup or a conversion raises, and ValueError for what is left over."""
    named = {f"{attention['name']}/{key}" for attention in table["attention"] for key in attention["tensors"]}
    if named != set(tensors):
        raise ValueError(f"it names the tensors {sorted(named)}, the file holds {sorted(tensors)}")
    search = table.get("search")
    return Trace(
        model={str(key): _plain(value) for key, value in table["model"].items()},
        sequences={name: tuple(map(_token, tokens)) for name, tokens in table["sequences"].items()},
        attentions={attention["name"]: _attention(attention, tensors) for attention in table["attention"]},
        faithfulness=float(table["faithfulness"]),
        search=None if search is None else _search(search),
        without_weights={str(k): tuple(map(int, v)) for k, v in table.get("without_weights", {}).items()},
        provenance={str(key): str(value) for key, value in table["provenance"].items()},
    )


def _attention(table: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> AttentionTrace:
    name, base = str(table["name"]), table.get("rotary_base")
    arrays = {TENSORS[key]: _as_needed(tensors[f"{name}/{key}"], key) for key in table["tensors"]}
    return AttentionTrace(
        name=name,
        queries=str(table["queries"]),
        keys=str(table["keys"]),
        rotary_base=None if base is None else float(base),
        **arrays,
    )


def _as_needed(array: npt.NDArray[Any], key: str) -> npt.NDArray[Any]:
    if (array.dtype == np.bool_) != (key == "mask"):
        raise ValueError(f"the tensor `{key}` is {array.dtype}")
    return array if key == "mask" else array.astype(np.float32, copy=False)


def _token(table: Mapping[str, Any]) -> Token:
    for key, value in table.items():
        if type(value) is not _TOKEN_TYPES[key]:
            raise TypeError(f"`{key}` of a token is {value!r}")
    return Token(**table)


def _search(table: Mapping[str, Any]) -> SearchTrace:
    return SearchTrace(int(table["beam_size"]), float(table["length_penalty"]), tuple(map(_node, table["nodes"])))


def _node(table: Mapping[str, Any]) -> SearchNode:
    return SearchNode(
        parent=None if table["parent"] is None else int(table["parent"]),
        token=_token(table["token"]),
        log_prob=float(table["log_prob"]),
        score=float(table["score"]),
        ranked_by=float(table["ranked_by"]),
        status=table["status"],
        row=int(table["row"]),
    )


def _plain(value: Any) -> str | int | float:
    if not isinstance(value, str | int | float):
        raise TypeError(f"{value!r} is no plain value")
    return value
