"""Holds all that was recorded of one pass, writes it to a file and reads it back (docs/concepts/trace-file.md).

The file is safetensors, with a manifest in JSON that says what each tensor is. It is written and read without a
library, so that equal traces make equal bytes, and each fault has its own message.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError, quoted, shown
from pellucid.files.writing import write_output
from pellucid.tracing.attention import Array, AttentionTrace, attention_problems
from pellucid.tracing.predictions import Prediction, class_problems, prediction_problems
from pellucid.tracing.search import SearchNode, SearchTrace, search_problems
from pellucid.tracing.tensors import pack, unpack
from pellucid.tracing.tokens import Token

FORMAT = "pellucid-trace"
VERSION, OPENED = "2", ("1", "2")
"""The version that is written, and those that are read: what version 2 added, the first one does not have."""
TENSORS = {
    "q": "q", "k": "k", "v": "v", "weights": "ready", "mask": "mask", "bias": "bias", "value_norms": "value_norms",
}  # fmt: skip
"""The tensors of an attention, by their names in the file."""
RESIDUAL = "residual"
"""The name before those of the residual stream's tensors."""

_TOKEN_TYPES = {"text": str, "piece": str, "id": int, "word": int, "special": bool, "segment": int, "adds": str}

Dtype = Literal["float32", "float16"]
_AGAIN = "copy the file again, or record the trace again"


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Holds one pass of a model over one sentence, or a pair of them: where it looked, and what it said."""

    model: Mapping[str, str | int | float]
    """Tells of the model: `name`, `family` (encoder, decoder, encoder-decoder), `d_model`, `weights` (a checksum)."""
    sequences: Mapping[str, tuple[Token, ...]]
    """By name: "src", "tgt" (what the decoder read), "out" (what it was to write there), "search"."""
    attentions: Mapping[str, AttentionTrace]
    faithfulness: float
    """The largest difference between what the recorded attention gives and what the model computed with. In single
    precision it is the rounding of the last digits, or 0."""
    search: SearchTrace | None = None
    predictions: tuple[Prediction, ...] | None = None
    """The probability of what was written at each place of "out", and the most probable tokens; None of a model that
    writes none, in traces of version 1, and of what came from elsewhere."""
    classes: Mapping[str, float] | None = None
    """The probability of each class, of a classifier, in the model's order."""
    residual: Mapping[str, Array] = field(default_factory=dict)
    """The stream behind each embedding and each sublayer, (L, D), by its place in the model: "src_embedding",
    "decoder.layers.0.cross_attn"; behind the norm, where that stands behind the sum. Empty unless it was asked for."""
    without_weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Layers of which nothing is recorded, by the kind of attention, counted in the model from 0: parts of somebody's
    own that do not call `pellucid.attention`. An attention in the trace counts the other layers alone."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Tells with what it was recorded: `tool`, `torch`, `device`, `dtype`."""

    def __repr__(self) -> str:
        """Returns a line for the model, each sequence and each attention."""
        about = ", ".join(f"{key} {value}" for key, value in self.model.items() if key in ("family", "d_model"))
        lines = [f"Trace of {self.model.get('name', 'a model')} ({about})"]
        lines += [f"  {name}: {_in_a_line(tokens)}" for name, tokens in self.sequences.items()]
        lines += [f"  {one!r}" for one in self.attentions.values()]
        lines += [f"  {name}: no weights of {_numbered(layers)}" for name, layers in self.without_weights.items()]
        lines += [f"  {self.search!r}"] if self.search else []
        lines += [f"  {told}" for told in self._said()]
        return "\n".join([*lines, *([f"  faithfulness {self.faithfulness:.2g}"] if self.is_recorded else [])])

    def _said(self) -> Iterator[str]:
        """Yields a line for the predictions, the classes and the residual stream, where there are some."""
        if self.predictions:
            mean = np.exp([one.log_prob for one in self.predictions]).mean()
            yield f"predictions of {len(self.predictions)} tokens, on average {mean:.0%} for what was written"
        if self.classes:
            best = sorted(self.classes.items(), key=lambda item: -item[1])[:3]
            yield f"classes: {', '.join(f'{shown(label)} {probability:.2f}' for label, probability in best)}"
        if self.residual:
            yield f"residual stream at {len(self.residual)} places"

    def __getitem__(self, name: str) -> AttentionTrace:
        """Returns the attention `name`. Raises DataError that lists the names that there are."""
        if name not in self.attentions and name in self.without_weights:
            raise DataError(
                f"the trace has no weights of `{name}`: none of its layers called attention()",
                "attention of your own is recorded where it calls pellucid.attention(q, k, v, ..., block=self)",
            )
        if name not in self.attentions:
            among = f"choose one of {', '.join(self.attentions)}" if self.attentions else ""
            raise DataError(f"the trace has no attention `{name}`", among)
        return self.attentions[name]

    @property
    def is_recorded(self) -> bool:
        """Tells if it was recorded and checked; weights that came from elsewhere were not, and have no faithfulness."""
        return all(attention.ready is None for attention in self.attentions.values())

    @property
    def divides_scores(self) -> bool:
        """Tells if scores are divided by sqrt(K), as in equation 1 of the paper; those of T5 are not."""
        return self.model.get("score_scale") != 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.attentions)

    def save(self, path: str | Path, dtype: Dtype = "float32") -> Path:
        """Writes the trace's file (docs/concepts/trace-file.md), and returns its path.

        float32 gives the trace back bit for bit, float16 takes half the room. Equal traces give equal bytes: there is
        no time, path or host in them. Raises DataError for another dtype, numbers beyond float16 (65,504) or a damaged
        trace.
        """
        if dtype not in ("float32", "float16"):
            raise DataError(f"unknown dtype `{dtype}` of a trace", "choose one of float32, float16")
        _check(self, "the trace cannot be saved", "record it again")
        tensors: dict[str, npt.NDArray[Any]] = {}
        for name, attention in self.attentions.items():
            for key, attribute in TENSORS.items():
                if (array := getattr(attention, attribute)) is not None:
                    tensors[f"{name}/{key}"] = array if key == "mask" else _converted(array, dtype, f"{name}/{key}")
        for place, stream in self.residual.items():
            tensors[f"{RESIDUAL}/{place}"] = _converted(stream, dtype, f"{RESIDUAL}/{place}")
        metadata = {"format": FORMAT, "version": VERSION, "manifest": json.dumps(_manifest(self))}
        write_output(path, pack(tensors, metadata, f"`{path}`"))
        return Path(path)


def load_trace(path: str | Path) -> Trace:
    """Returns the trace in a file that Trace.save() wrote.

    Raises DataError, which names the file and what is wrong, for a file that holds something else, is damaged, does
    not hold together, or is of another version.
    """
    name = f"`{path}`"
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {name}: {error.strerror}", "name a file that `trace.save` wrote") from error
    tensors, metadata = unpack(data, name)
    if metadata.get("format") != FORMAT:
        raise DataError(
            f"{name} is not a trace: its format is {quoted(metadata.get('format'))}, not {FORMAT!r}",
            "name a file that `trace.save` wrote",
        )
    if metadata.get("version") not in OPENED:
        raise DataError(
            f"{name} has version {quoted(metadata.get('version'))}; this version of pellucid reads "
            f"{' and '.join(map(repr, OPENED))}",
            "upgrade pellucid",
        )
    try:
        trace = _from_manifest(json.loads(metadata["manifest"]), tensors)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        told = f"{type(error).__name__}: {shown(str(error))}"
        raise DataError(f"{name} has a damaged manifest: {told}", _AGAIN) from error
    _check(trace, name, _AGAIN)
    return trace


def _check(trace: Trace, origin: str, hint: str) -> None:
    """Raises DataError that begins with `origin` and says what does not hold together, with the values."""
    if problem := next(_problems(trace), None):
        raise DataError(f"{origin}: {problem}", hint)


def _problems(trace: Trace) -> Iterator[str]:
    for name, tokens in trace.sequences.items():
        if beyond := sorted({token.segment for token in tokens} - {0, 1}):
            yield f"its sequence `{shown(name)}` has a token in the segment {shown(beyond[0])}; there are 0 and 1"
    for key, value in trace.model.items():
        if isinstance(value, float) and not np.isfinite(value):
            yield f"its model's `{shown(key)}` is {value}"
    for name, attention in trace.attentions.items():
        yield from (f"`{shown(name)}` {problem}" for problem in attention_problems(attention, trace.sequences))
        if attention.rotary_base is not None and not 0 < attention.rotary_base < np.inf:
            yield f"`{shown(name)}` has the `rotary_base` {attention.rotary_base}, which is not a number above 0"
    if not np.isfinite(trace.faithfulness) or trace.faithfulness < 0:
        yield f"its `faithfulness` ({trace.faithfulness}) is not a difference"
    if trace.predictions is not None:
        rows = len(trace.sequences.get("out", ()))
        yield from (f"it {problem}" for problem in prediction_problems(trace.predictions, rows))
    yield from (f"it {problem}" for problem in class_problems(trace.classes or {}))
    for place, stream in trace.residual.items():
        rows = len(trace.sequences.get("src" if place.startswith(("src", "encoder")) else "tgt", ()))
        if stream.ndim != 2 or len(stream) != rows:
            yield f"its residual stream at `{shown(place)}` has the shape {stream.shape}, not ({rows}, D)"
        elif not np.isfinite(stream).all():
            yield f"its residual stream at `{shown(place)}` has numbers that are not finite"
    if trace.search is not None:
        rows = len(trace.sequences.get("search", ()))
        yield from (f"its search {problem}" for problem in search_problems(trace.search, rows))


def _numbered(layers: tuple[int, ...]) -> str:
    """Returns the numbers of layers in words."""
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}, which did not call attention()"


def _in_a_line(tokens: tuple[Token, ...], most: int = 12) -> str:
    """Spells the first tokens of a sequence as their vocabulary does, and says how many there are."""
    spelled = [token.piece if token.piece.isprintable() else ascii(token.piece)[1:-1] for token in tokens[:most]]
    pieces = [piece if len(piece) <= 20 else f"{piece[:19]}…" for piece in spelled]
    return f"{len(tokens)} tokens, {' '.join(pieces)}{' …' if len(tokens) > most else ''}"


def _converted(array: npt.NDArray[np.float32], dtype: Dtype, name: str) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if not np.isfinite(converted).all():
        raise DataError(
            f"`{name}` holds {np.abs(array).max():,.0f}, and float16 ends at 65,504", 'save with `dtype="float32"`'
        )
    return converted


def _manifest(trace: Trace) -> dict[str, Any]:
    """Returns all of a trace but its tensors, as JSON takes it."""
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
    if trace.predictions is not None:
        table["predictions"] = [_prediction_table(one) for one in trace.predictions]
    if trace.classes is not None:
        table["classes"] = dict(trace.classes)
    if trace.residual:
        table[RESIDUAL] = list(trace.residual)
    return table


def _prediction_table(one: Prediction) -> dict[str, Any]:
    return {"log_prob": one.log_prob, "top": [[_sparse(token), value] for token, value in one.top]}


def _attention_table(attention: AttentionTrace) -> dict[str, Any]:
    table: dict[str, Any] = {"name": attention.name, "queries": attention.queries, "keys": attention.keys}
    table["tensors"] = [key for key, attribute in TENSORS.items() if getattr(attention, attribute) is not None]
    if attention.rotary_base is not None:
        table["rotary_base"] = attention.rotary_base
    return table


def _sparse(token: Token) -> dict[str, Any]:
    """Returns the fields of a token that differ from their defaults."""
    defaults = {field.name: field.default for field in fields(Token)}
    return {name: value for name, value in asdict(token).items() if value != defaults[name]}


def _from_manifest(table: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Trace:
    """Returns the trace of a manifest. Raises what a lookup or a conversion raises; ValueError for what is left."""
    named = {f"{attention['name']}/{key}" for attention in table["attention"] for key in attention["tensors"]}
    named |= {f"{RESIDUAL}/{place}" for place in table.get(RESIDUAL, ())}
    if named != set(tensors):
        raise ValueError(f"it names the tensors {sorted(named)}, the file holds {sorted(tensors)}")
    search, predictions, classes = (table.get(name) for name in ("search", "predictions", "classes"))
    return Trace(
        model={str(key): _plain(value) for key, value in table["model"].items()},
        sequences={name: tuple(map(_token, tokens)) for name, tokens in table["sequences"].items()},
        attentions={attention["name"]: _attention(attention, tensors) for attention in table["attention"]},
        faithfulness=float(table["faithfulness"]),
        search=None if search is None else _search(search),
        predictions=None if predictions is None else tuple(map(_prediction, predictions)),
        classes=None if classes is None else {str(label): float(value) for label, value in classes.items()},
        residual={
            str(place): _as_needed(tensors[f"{RESIDUAL}/{place}"], RESIDUAL) for place in table.get(RESIDUAL, ())
        },
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


def _prediction(table: Mapping[str, Any]) -> Prediction:
    return Prediction(float(table["log_prob"]), tuple((_token(token), float(value)) for token, value in table["top"]))


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
        raise TypeError(f"{value!r} is not a plain value")
    return value
