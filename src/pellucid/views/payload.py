"""Packs what a page of the viewer carries: traces as islands of bytes, one a layer, and a manifest that names them.

`view_extras` computes what views are given beside the traces: what Python computes better than the page or alone knows.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import exp
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.alignment import Gold
from pellucid.analysis.compare import compare
from pellucid.analysis.contributions import Contributions
from pellucid.analysis.flow import FORMULAS, LIMITS, NOTE, rollout
from pellucid.analysis.lens import Lens
from pellucid.analysis.statistics import sink_columns, statistics
from pellucid.errors import DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.pictures.model import thumbnails

Store = Literal["weights", "vectors"]
Digits = Literal["u8", "u16", "f16", "f32"]

SEARCH = "search.cross"
WITH_WEIGHTS = {"overview", "heads", "matrix", "beam", "alignment", "compare", "evolution", "flow", "text"}
FEW_WEIGHTS = 100_000
LARGEST_ERROR = 1e-3
"""The largest error of a weight rebuilt from half-precision queries and keys; beyond it a layer keeps all digits."""
FEW_VECTORS = 250_000
"""The most numbers of all queries and keys of a page that it carries in single precision: a megabyte."""
MOST_ROLLOUT = 200_000
"""The most numbers of a rollout: of a longer text its last layer alone is shown, which is the one that counts."""


def payload(
    traces: Sequence[Trace],
    *,
    view: str,
    views: Sequence[str],
    state: Mapping[str, Any],
    extras: Mapping[str, Any],
    title: str,
) -> dict[str, bytes]:
    """Returns the islands by name, not yet deflated; "manifest" is JSON and names all others.

    What no view of the page needs is left out. Arrays in `extras` become islands, too.
    """
    islands: dict[str, bytes] = {}
    of_vectors = [one for trace in traces for one in trace.attentions.values() if _store(one, set(views)) == "vectors"]
    exact = sum(array.size for one in of_vectors for array in (one.q, one.k) if array is not None) <= FEW_VECTORS
    manifest = {
        "title": title,
        "view": view,
        "views": list(views),
        "state": {name: _state(value) for name, value in state.items()},
        "traces": [_trace(trace, f"{number}", set(views), islands, exact) for number, trace in enumerate(traces)],
        "extras": _with_islands(extras, "extras", islands),
    }
    islands["manifest"] = json.dumps(manifest, separators=(",", ":"), allow_nan=False).encode("ascii")
    return islands


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
    """Lists what was probable at each place of "out"; None where the trace does not know."""
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
    """Lists tokens column by column, which is shorter than token by token."""
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
        # With a factor the base alone does not say by how much queries and keys were turned.
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
        described["error"] = max(errors)  # of a weight of the page, against the trace's
        if attention.mask is not None and not attention.mask.all():
            islands[f"{prefix}.mask"] = np.packbits(attention.mask).tobytes()
            described["mask"] = f"{prefix}.mask"
    if store == "vectors" and attention.bias is not None:
        described["bias"] = _bias(attention.bias, prefix, islands)
    if "model" in views and attention.name != SEARCH:
        islands[f"{prefix}.thumbnails"] = thumbnails(attention).tobytes()
        described["thumbnails"] = f"{prefix}.thumbnails"
        found = statistics(attention, sink_columns(trace.sequences[attention.keys]))
        described["statistics"] = {name: np.round(values.astype(float), 5).tolist() for name, values in found.items()}
    return described


def _store(attention: AttentionTrace, views: set[str]) -> Store | None:
    """Returns which of its two forms the views need of an attention, the smaller one; None: neither."""
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
    """Packs a layer's weights as H x L x M whole numbers u = round(m sqrt(w)), so that (u / m)^2 is close to w.

    m is 255 for one byte, which is off by 0.004 at most; where there are few weights they have two bytes each, high
    bytes first, m = 65535. Returns the bytes, what they hold, and by how much a weight is off at most.
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
    """Packs a layer's queries, its keys less their mean over the positions, and that mean in single precision.

    Keys often have a few large coordinates that are the same everywhere. They change no weight, since the softmax does
    not see what is added to a whole row of scores, but would leave half precision few digits for the differences. Where
    a weight would still be off by more than 0.001, or `exact` asks for it, all digits are kept. Returns the bytes, what
    they hold, and by how much a weight is off at most.
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
    """Returns how far the weights of these queries and keys are off at most."""
    if not (np.isfinite(q).all() and np.isfinite(k).all()):
        return float("inf")
    bias = None if attention.bias is None else attention.bias[layer % attention.bias.shape[0]][None]
    stored = AttentionTrace(
        name=attention.name, queries=attention.queries, keys=attention.keys,
        q=q[None].astype(np.float32), k=k[None].astype(np.float32), mask=attention.mask, bias=bias,
    )  # fmt: skip
    return float(np.abs(stored.layer_weights(0) - attention.layer_weights(layer)).max(initial=0))


def _byte_planes(values: npt.NDArray[Any]) -> bytes:
    """Puts all high bytes before all low bytes: signs and exponents deflate well by themselves."""
    both = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 2)
    return both[:, 1].tobytes() + both[:, 0].tobytes()


def _bias(bias: Array, prefix: str, islands: dict[str, bytes]) -> dict[str, Any]:
    """Adds an island for each layer that has its own bias, in single precision, since scores are large."""
    names = [f"{prefix}.bias{layer}" for layer in range(bias.shape[0])]
    for name, of_layer in zip(names, bias, strict=True):
        islands[name] = np.ascontiguousarray(of_layer, dtype="<f4").tobytes()
    return {"heads": bias.shape[1], "islands": names}


def _with_islands(value: Any, path: str, islands: dict[str, bytes]) -> Any:
    """Turns extras into JSON; arrays become islands, which are decoded when a view asks for them."""
    if isinstance(value, Mapping):
        return {str(key): _with_islands(one, f"{path}.{key}", islands) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_islands(one, f"{path}.{place}", islands) for place, one in enumerate(value)]
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
    """Spells a choice as the page's address does."""
    return ("1" if value else "") if isinstance(value, bool) else str(value)


def view_extras(
    traces: Sequence[Trace],
    views: Collection[str],
    *,
    gold: Sequence[Gold | None] = (),
    ablation: Ablation | None = None,
    lens: Lens | None = None,
    contributions: Sequence[Contributions] = (),
) -> dict[str, Any]:
    """Computes the extras of those of `views` that have some.

    Args:
        gold: right alignments of each trace, for "alignment".
        ablation: what the heads are worth, laid over those of "model".
        lens, contributions: what the first trace's layers would write, and what parts add to its words, row by row.
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


def overlay(ablation: Ablation, metric: str | None = None) -> dict[str, Any]:
    """Returns what the model view lays over its heads: a metric's change (None: the first one's) and its interval."""
    name = metric or next(iter(ablation.whole))
    attentions = dict.fromkeys(head.attention for head in ablation.changes)
    return {
        "metric": name,
        "attentions": {attention: _matrices(ablation, attention, name) for attention in attentions},
    }


def _matrices(ablation: Ablation, attention: str, metric: str) -> dict[str, Any]:
    found = (matrix.astype(float).round(6).tolist() for matrix in ablation.matrices(attention, metric))
    return dict(zip(("values", "low", "high"), found, strict=True))


def _gold(gold: Gold) -> dict[str, Any]:
    return {"sure": sorted(map(list, gold.sure)), "possible": sorted(map(list, gold.possible - gold.sure))}


def _distances(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Computes the distances of the first trace from each other one, by attention, where they can be compared."""
    found: list[dict[str, Any]] = []
    for other in traces[1:]:
        try:
            compared: Mapping[str, Any] = compare(traces[0], other)
        except DataError:
            compared = {}
        found.append({name: pair.distances().astype(float).round(5).tolist() for name, pair in compared.items()})
    return found


def _flow(trace: Trace) -> dict[str, Any]:
    """Returns the rollout of each attention, its layers from `first` on, and the lengths of its values."""
    return {name: {**_coded(mixed), "norms": trace[name].value_norms} for name, mixed in rollout(trace).items()}


def _coded(mixed: Array) -> dict[str, Any]:
    """Codes (N, L, M) as whole numbers u = round(255 sqrt(r)): r = (u / 255)^2 is off by 0.004 at most."""
    first = 0 if mixed.size <= MOST_ROLLOUT else len(mixed) - 1
    coded: npt.NDArray[np.uint8] = np.rint(255 * np.sqrt(mixed[first:].clip(0, 1))).astype(np.uint8)
    return {"first": first, "rollout": coded}
