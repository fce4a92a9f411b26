"""Packs the data of a page: traces as blocks of bytes, one per layer, and a manifest that names them.

`view_extras` computes data besides the traces that a page cannot compute, or that Python computes better.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import exp
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from pellucid.analysis.alignment import Gold
from pellucid.analysis.compare import compare
from pellucid.analysis.flow import FORMULAS, LIMITS, NOTE, compute_rollout
from pellucid.analysis.statistics import make_sink_mask, statistics
from pellucid.errors import DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views import KINDS
from pellucid.views.pictures.model import thumbnails
from pellucid.views.words import words

if TYPE_CHECKING:
    from pellucid.analysis.ablation import Ablation
    from pellucid.analysis.contributions import LogitAttribution
    from pellucid.analysis.lens import LogitLens

Store = Literal["weights", "vectors"]
Digits = Literal["u8", "u16", "f16", "f32"]

SEARCH = "search.cross"
WITH_WEIGHTS = {name for name, kind in KINDS.items() if kind.has_weights}
FEW_WEIGHTS = 100_000
LARGEST_ERROR = 1e-3
"""The largest error of a weight rebuilt from half-precision queries and keys; beyond it a layer is in single
precision."""
FEW_VECTORS = 250_000
"""The largest number of query and key values that a page stores in single precision: one megabyte."""
MOST_ROLLOUT = 200_000
"""The largest number of rollout values: for a longer text only the last layer, the most important one, is stored."""


def payload(
    traces: Sequence[Trace],
    *,
    view: str,
    views: Sequence[str],
    state: Mapping[str, Any],
    extras: Mapping[str, Any],
    title: str,
) -> dict[str, bytes]:
    """Returns the data blocks by name, uncompressed; "manifest" is JSON and names all others.

    Data that no view of the page needs is left out. Arrays in `extras` become blocks, too.
    """
    islands: dict[str, bytes] = {}
    exact = _has_few_vectors(traces, set(views))
    manifest = {
        "title": title,
        "words": words(),
        "view": view,
        "views": list(views),
        "state": {name: _state(value) for name, value in state.items()},
        "traces": [_trace(trace, f"{number}", set(views), islands, exact) for number, trace in enumerate(traces)],
        "extras": _move_to_blocks(extras, "extras", islands),
    }
    islands["manifest"] = json.dumps(manifest, separators=(",", ":"), allow_nan=False).encode("ascii")
    return islands


def pack_trace(trace: Trace, prefix: str, views: set[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns a trace as the manifest of a page describes it, and its blocks, whose names begin with `prefix`."""
    islands: dict[str, bytes] = {}
    described = _trace(trace, prefix, views, islands, _has_few_vectors([trace], views))
    return described, islands


def _has_few_vectors(traces: Sequence[Trace], views: set[str]) -> bool:
    """Returns True if queries and keys are few enough for single precision."""
    of_vectors = [one for trace in traces for one in trace.attentions.values() if _store(one, views) == "vectors"]
    return sum(array.size for one in of_vectors for array in (one.q, one.k) if array is not None) <= FEW_VECTORS


def _trace(trace: Trace, prefix: str, views: set[str], islands: dict[str, bytes], exact: bool) -> dict[str, Any]:
    wanted = [name for name in trace if name != SEARCH or "beam" in views]
    return {
        "model": dict(trace.model),
        "provenance": dict(trace.provenance),
        "faithfulness": trace.faithfulness if trace.is_recorded else None,
        "sequences": {name: _tokens(tokens) for name, tokens in trace.sequences.items()},
        "attentions": [
            _attention(trace, trace[name], f"{prefix}.{number}", views, islands, exact)
            for number, name in enumerate(wanted)
        ],
        "search": asdict(trace.search) if trace.search is not None and "beam" in views else None,
        "predictions": _predictions(trace),
        "classes": None
        if trace.classes is None
        else [{"label": label, "probability": round(p, 7)} for label, p in trace.classes.items()],
    }


def _predictions(trace: Trace) -> dict[str, Any] | None:
    """Returns the predictions at each position of "out"; None if the trace has none."""
    if trace.predictions is None:
        return None
    rows = [
        {
            "chosen": _probable(token, one.log_prob),
            "top": [_probable(other, log_prob) for other, log_prob in one.top],
        }
        for token, one in zip(trace.sequences["out"], trace.predictions, strict=True)
    ]
    return {"sequence": "out", "rows": rows}


def _probable(token: Token, log_prob: float) -> dict[str, Any]:
    return token.to_json() | {"probability": round(exp(min(log_prob, 0.0)), 7)}


def _tokens(tokens: Iterable[Token]) -> dict[str, list[Any]]:
    """Returns tokens column by column, which is shorter than token by token."""
    listed = list(tokens)
    return {name: [getattr(token, name) for token in listed] for name in Token.__dataclass_fields__}


def _attention(
    trace: Trace, attention: AttentionTrace, prefix: str, views: set[str], islands: dict[str, bytes], exact: bool
) -> dict[str, Any]:
    store = _store(attention, views)
    described: dict[str, Any] = {
        "name": attention.name,
        "queries": attention.queries,
        "keys": attention.keys,
        "layers": attention.num_layers,
        "heads": attention.num_heads,
        "kv_heads": attention.num_kv_heads,
        "width": attention.head_width,
        # With a factor, the base alone does not determine the rotation of queries and keys.
        "rotary_base": None if "rotary_factor" in trace.model else attention.rotary_base,
        "store": store,
        "divided": trace.divides_scores,
    }
    if store is not None:
        described["stored"], errors = [], []
        for layer in range(attention.num_layers):
            packed, digits, error = (
                pack_vectors(attention, layer, exact) if store == "vectors" else pack_weights(attention, layer)
            )
            islands[f"{prefix}.{layer}"] = packed
            described["stored"].append({"island": f"{prefix}.{layer}", "digits": digits})
            errors.append(error)
        described["error"] = max(errors)  # of a weight in the page, relative to the trace
        if attention.mask is not None and not attention.mask.all():
            islands[f"{prefix}.mask"] = np.packbits(attention.mask).tobytes()
            described["mask"] = f"{prefix}.mask"
    if store == "vectors" and attention.bias is not None:
        described["bias"] = _bias(attention.bias, prefix, islands)
    if "model" in views and attention.name != SEARCH:
        islands[f"{prefix}.thumbnails"] = thumbnails(attention).tobytes()
        described["thumbnails"] = f"{prefix}.thumbnails"
        found = statistics(attention, make_sink_mask(trace.sequences[attention.keys]))
        described["statistics"] = {name: np.round(values.astype(float), 5).tolist() for name, values in found.items()}
    return described


def _store(attention: AttentionTrace, views: set[str]) -> Store | None:
    """Returns the smaller of two formats that the views can use for an attention; None: they need neither."""
    vectors = attention.q is not None and attention.k is not None
    if attention.name == SEARCH:
        return "weights"
    if "neuron" in views and vectors:
        return "vectors"
    if not views & WITH_WEIGHTS:
        return None
    L, M = attention.size
    shared = attention.num_kv_heads / attention.num_heads
    of_vectors = 2 * attention.head_width * (L + M * shared)
    return "vectors" if vectors and attention.bias is None and of_vectors < L * M else "weights"


def pack_weights(attention: AttentionTrace, layer: int) -> tuple[bytes, Digits, float]:
    """Packs a layer's weights as H x L x M integers u = round(m sqrt(w)), so that (u / m)^2 is close to w.

    m is 255 for one byte, with an error of at most 0.004; few weights are stored in two bytes each, high bytes first,
    m = 65535. Returns the bytes, their format, and the largest error of a weight.
    """
    L, M = attention.size
    weights = attention.layer_weights(layer)
    many = attention.num_layers * attention.num_heads * L * M > FEW_WEIGHTS
    most = 255 if many else 65535
    coded = np.rint(most * np.sqrt(weights.clip(0, 1)))
    error = float(np.abs((coded / most) ** 2 - weights).max(initial=0))
    return (
        (coded.astype(np.uint8).tobytes(), "u8", error) if many else (_byte_planes(coded.astype("<u2")), "u16", error)
    )


def pack_vectors(attention: AttentionTrace, layer: int, exact: bool = False) -> tuple[bytes, Digits, float]:
    """Packs a layer's queries, its keys minus their mean over the positions, and that mean in single precision.

    Keys often have a few large coordinates that are equal at all positions. They change no weight, since softmax is
    invariant to a constant added to a row of scores, but would leave half precision few digits for the differences. If
    a weight's error would still exceed 0.001, or `exact` is set, values are stored in single precision. Returns the
    bytes, their format, and the largest error of a weight.
    """
    assert attention.q is not None
    assert attention.k is not None
    q, k = attention.q[layer].astype(np.float32), attention.k[layer].astype(np.float32)  # (H, L, K), (Hkv, M, K)
    mean = k.mean(axis=1, keepdims=True)
    differences = k - mean
    tail = np.ascontiguousarray(mean, dtype="<f4").tobytes()
    if not exact:
        with np.errstate(over="ignore"):
            halves = [values.astype("<f2") for values in (q, differences)]
        error = _error(attention, layer, *halves)
        if error <= LARGEST_ERROR:
            return b"".join([*(_byte_planes(values) for values in halves), tail]), "f16", error
    singles = (np.ascontiguousarray(values, dtype="<f4").tobytes() for values in (q, differences))
    return b"".join([*singles, tail]), "f32", _error(attention, layer, q, differences + mean)


def _error(attention: AttentionTrace, layer: int, q: npt.NDArray[Any], k: npt.NDArray[Any]) -> float:
    """Returns the largest error of the weights computed from these queries and keys."""
    if not (np.isfinite(q).all() and np.isfinite(k).all()):
        return float("inf")
    bias = None if attention.bias is None else attention.bias[layer % attention.bias.shape[0]][None]
    stored = AttentionTrace(
        name=attention.name, queries=attention.queries, keys=attention.keys,
        q=q[None].astype(np.float32), k=k[None].astype(np.float32), mask=attention.mask, bias=bias,
    )  # fmt: skip
    return float(np.abs(stored.layer_weights(0) - attention.layer_weights(layer)).max(initial=0))


def _byte_planes(values: npt.NDArray[Any]) -> bytes:
    """Stores all high bytes before all low bytes: signs and exponents compress well by themselves."""
    both = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 2)
    return both[:, 1].tobytes() + both[:, 0].tobytes()


def _bias(bias: Array, prefix: str, islands: dict[str, bytes]) -> dict[str, Any]:
    """Adds a block for each layer with a separate bias, in single precision, since scores are large."""
    names = [f"{prefix}.bias{layer}" for layer in range(bias.shape[0])]
    for name, of_layer in zip(names, bias, strict=True):
        islands[name] = np.ascontiguousarray(of_layer, dtype="<f4").tobytes()
    return {"heads": bias.shape[1], "islands": names}


def _move_to_blocks(value: Any, path: str, islands: dict[str, bytes]) -> Any:
    """Converts extras to JSON; arrays become blocks, which the page decodes when a view uses them."""
    if isinstance(value, Mapping):
        return {str(key): _move_to_blocks(one, f"{path}.{key}", islands) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_move_to_blocks(one, f"{path}.{place}", islands) for place, one in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if not isinstance(value, np.ndarray):
        return value
    kinds = {"b": "uint8", "i": "int32", "f": "float32"}
    dtype = "uint8" if value.dtype == np.uint8 else kinds[value.dtype.kind]
    name = f"x{sum(given.startswith('x') for given in islands)}"
    islands[name] = np.ascontiguousarray(value).astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"array": name, "dtype": dtype, "shape": list(value.shape)}


def _state(value: Any) -> str:
    """Returns an option as the page's address encodes it."""
    return ("1" if value else "") if isinstance(value, bool) else str(value)


def view_extras(
    traces: Sequence[Trace],
    views: Collection[str],
    *,
    gold: Sequence[Gold | None] = (),
    ablation: "Ablation | None" = None,
    lens: "LogitLens | None" = None,
    contributions: "Sequence[LogitAttribution]" = (),
) -> dict[str, Any]:
    """Computes the extra data of `views`.

    Args:
        gold: gold alignments of each trace, for "alignment".
        ablation: the effect of each head, as an overlay of "model".
        lens, contributions: the first trace's layer predictions, and contributions to its tokens, row by row.
    """
    found: dict[str, Any] = {}
    if "alignment" in views and any(gold):
        found["alignment"] = {"gold": [None if one is None else _gold(one) for one in gold]}
    if "compare" in views and len(traces) > 1:
        found["compare"] = {"distances": _distances(traces)}
    if "flow" in views:
        found["flow"] = {
            "formulas": dict(FORMULAS),
            "limits": dict(LIMITS),
            "note": NOTE,
            "traces": [_flow(trace) for trace in traces],
        }
    without = [None] * (len(traces) - 1)
    if "lens" in views and lens is not None:
        found["lens"] = {"traces": [lens.to_json(), *without]}
    if "contributions" in views and contributions:
        found["contributions"] = {"traces": [[one.to_json() for one in contributions], *without]}
    if "model" in views and ablation is not None:
        found["ablation"] = overlay(ablation)
    return found


def overlay(ablation: "Ablation", metric: str | None = None) -> dict[str, Any]:
    """Returns the overlay of the model view: a metric's changes (None: the first metric's) and their intervals."""
    name = metric or next(iter(ablation.baseline))
    attentions = dict.fromkeys(head.attention for head in ablation.changes)
    return {
        "metric": name,
        "attentions": {attention: _matrices(ablation, attention, name) for attention in attentions},
    }


def _matrices(ablation: "Ablation", attention: str, metric: str) -> dict[str, Any]:
    found = (matrix.astype(float).round(6).tolist() for matrix in ablation.matrices(attention, metric))
    return dict(zip(("values", "low", "high"), found, strict=True))


def _gold(gold: Gold) -> dict[str, Any]:
    return {"sure": sorted(map(list, gold.sure)), "possible": sorted(map(list, gold.possible - gold.sure))}


def _distances(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Computes the distances between the first trace and each other one, by attention, if they can be compared."""
    found: list[dict[str, Any]] = []
    for other in traces[1:]:
        try:
            compared: Mapping[str, Any] = compare(traces[0], other)
        except DataError:
            compared = {}
        found.append({name: pair.distances().astype(float).round(5).tolist() for name, pair in compared.items()})
    return found


def _flow(trace: Trace) -> dict[str, Any]:
    """Returns the rollout of each attention, with its layers from `first` on, and the norms of its values."""
    return {
        name: {**_quantize(mixed), "norms": trace[name].value_norms} for name, mixed in compute_rollout(trace).items()
    }


def _quantize(mixed: Array) -> dict[str, Any]:
    """Encodes (N, L, M) as integers u = round(255 sqrt(r)): r = (u / 255)^2 has an error of at most 0.004."""
    first = 0 if mixed.size <= MOST_ROLLOUT else len(mixed) - 1
    coded: npt.NDArray[np.uint8] = np.rint(255 * np.sqrt(mixed[first:].clip(0, 1))).astype(np.uint8)
    return {"first": first, "rollout": coded}
