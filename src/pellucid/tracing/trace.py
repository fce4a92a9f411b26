"""Holds the recording of one forward pass, writes it to a file and reads it back (docs/concepts/trace-file.md).

The file is safetensors, with a JSON manifest that describes each tensor. It is written and read without a library,
so that equal traces give equal bytes, and each defect has a separate error message.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError, format_quoted, format_value
from pellucid.files.reading import parse_json
from pellucid.files.writing import write_output
from pellucid.tracing.attention import Array, AttentionTrace, attention_problems
from pellucid.tracing.predictions import Prediction, class_problems, prediction_problems
from pellucid.tracing.search import SearchNode, SearchTrace, search_problems
from pellucid.tracing.tensors import pack, unpack
from pellucid.tracing.tokens import Token

FORMAT = "pellucid-trace"
VERSION, OPENED = "2", ("1", "2")
"""The version that is written, and the versions that can be read; version 1 lacks the additions of version 2."""
TENSORS = {
    "q": "q", "k": "k", "v": "v", "weights": "ready", "mask": "mask", "bias": "bias", "value_norms": "value_norms",
}  # fmt: skip
"""The tensors of an attention by their names in the file."""
RESIDUAL = "residual"
"""The prefix of the residual stream's tensors."""

_TOKEN_TYPES = {"text": str, "piece": str, "id": int, "word": int, "special": bool, "segment": int, "adds": str}

Dtype = Literal["float32", "float16"]
_AGAIN = "copy the file again, or record the trace again"


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Holds one forward pass of a model over a sentence or a pair of sentences: attention and predictions."""

    model: Mapping[str, str | int | float]
    """The model: `name`, `family` (encoder, decoder, encoder-decoder), `d_model`, `weights` (a checksum)."""
    sequences: Mapping[str, tuple[Token, ...]]
    """By name: "src", "tgt" (the decoder's input), "out" (the decoder's expected output), "search"."""
    attentions: Mapping[str, AttentionTrace]
    faithfulness: float
    """The largest absolute difference between the attention output that is rebuilt from the recording and the output of
    the model. In single precision it is at the level of rounding, or 0."""
    search: SearchTrace | None = None
    predictions: tuple[Prediction, ...] | None = None
    """The probability of each token of "out", and the most probable tokens there; None for a model without output
    tokens, in traces of version 1, and in traces of weights that another library computed."""
    classes: Mapping[str, float] | None = None
    """A classifier's probability of each class, in the model's order."""
    residual: Mapping[str, Array] = field(default_factory=dict)
    """The residual stream after each embedding and each sublayer, (L, D), by its place in the model: "src_embedding",
    "decoder.layers.0.cross_attn". With post-norm it is taken after the norm. Empty unless it was requested."""
    without_weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Layers without a recording, by the kind of attention, counted in the model from 0: custom modules that do not
    call `pellucid.attention`. An attention in the trace counts only the other layers."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """The environment of the recording: `tool`, `torch`, `device`, `dtype`."""

    def __repr__(self) -> str:
        """Returns a line for the model, each sequence and each attention."""
        about = ", ".join(f"{key} {value}" for key, value in self.model.items() if key in ("family", "d_model"))
        lines = [f"Trace of {self.model.get('name', 'a model')} ({about})"]
        lines += [f"  {name}: {_format_tokens(tokens)}" for name, tokens in self.sequences.items()]
        lines += [f"  {one!r}" for one in self.attentions.values()]
        lines += [f"  {name}: no weights of {_format_layers(layers)}" for name, layers in self.without_weights.items()]
        lines += [f"  {self.search!r}"] if self.search else []
        lines += [f"  {told}" for told in self._describe()]
        return "\n".join([*lines, *([f"  faithfulness {self.faithfulness:.2g}"] if self.is_recorded else [])])

    def _describe(self) -> Iterator[str]:
        """Yields one line each for the predictions, the classes and the residual stream, if the trace has them."""
        if self.predictions:
            mean = np.exp([one.log_prob for one in self.predictions]).mean()
            yield f"predictions of {len(self.predictions)} tokens, on average {mean:.0%} for the output"
        if self.classes:
            best = sorted(self.classes.items(), key=lambda item: -item[1])[:3]
            yield f"classes: {', '.join(f'{format_value(label)} {probability:.2f}' for label, probability in best)}"
        if self.residual:
            yield f"residual stream at {len(self.residual)} places"

    def __getitem__(self, name: str) -> AttentionTrace:
        """Returns the attention `name`. Raises DataError, which lists the available names, if the trace lacks it."""
        if name not in self.attentions and name in self.without_weights:
            raise DataError(
                f"the trace has no weights of `{name}`: none of its layers called attention()",
                "custom attention is recorded if it calls pellucid.attention(q, k, v, ..., block=self)",
            )
        if name not in self.attentions:
            among = f"choose one of {', '.join(self.attentions)}" if self.attentions else ""
            raise DataError(f"the trace has no attention `{name}`", among)
        return self.attentions[name]

    @property
    def is_recorded(self) -> bool:
        """Returns True if the pass was recorded and checked; weights of another library have no faithfulness."""
        return all(attention.ready is None for attention in self.attentions.values())

    @property
    def divides_scores(self) -> bool:
        """Returns True if scores are divided by sqrt(K), as in equation 1 of the paper; T5 does not divide them."""
        return self.model.get("score_scale") != 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.attentions)

    def save(self, path: str | Path, dtype: Dtype = "float32") -> Path:
        """Writes the trace's file (docs/concepts/trace-file.md) and returns its path.

        float32 restores the trace bit for bit, float16 takes half the space. Equal traces give equal bytes, without any
        time, path or host. Raises DataError for another dtype, numbers beyond float16 (65,504) or a damaged trace.
        """
        if dtype not in ("float32", "float16"):
            raise DataError(f"unknown dtype `{dtype}` of a trace", "choose one of float32, float16")
        _check(self, "the trace cannot be saved", "record it again")
        tensors: dict[str, npt.NDArray[Any]] = {}
        for name, attention in self.attentions.items():
            for key, attribute in TENSORS.items():
                if (array := getattr(attention, attribute)) is not None:
                    tensors[f"{name}/{key}"] = array if key == "mask" else _convert(array, dtype, f"{name}/{key}")
        for place, stream in self.residual.items():
            tensors[f"{RESIDUAL}/{place}"] = _convert(stream, dtype, f"{RESIDUAL}/{place}")
        metadata = {"format": FORMAT, "version": VERSION, "manifest": json.dumps(_manifest(self))}
        write_output(path, pack(tensors, metadata, f"`{path}`"))
        return Path(path)


def load_trace(path: str | Path) -> Trace:
    """Returns the trace in a file that Trace.save() has written.

    Raises DataError, with the file and its defect, for a file that holds something else, is damaged, is inconsistent,
    or is of another version.
    """
    name = f"`{path}`"
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {name}: {error.strerror}", "name a file that `trace.save` wrote") from error
    tensors, metadata = unpack(data, name)
    if metadata.get("format") != FORMAT:
        raise DataError(
            f"{name} is not a trace: its format is {format_quoted(metadata.get('format'))}, not {FORMAT!r}",
            "name a file that `trace.save` wrote",
        )
    if metadata.get("version") not in OPENED:
        raise DataError(
            f"{name} has version {format_quoted(metadata.get('version'))}; this version of pellucid supports "
            f"{' and '.join(map(repr, OPENED))}",
            "upgrade pellucid",
        )
    try:
        trace = _from_manifest(parse_json(metadata["manifest"]), tensors)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        told = f"{type(error).__name__}: {format_value(str(error))}"
        raise DataError(f"{name} has a damaged manifest: {told}", _AGAIN) from error
    _check(trace, name, _AGAIN)
    return trace


def _check(trace: Trace, origin: str, hint: str) -> None:
    """Raises DataError, which begins with `origin` and names the inconsistent values, for an inconsistent trace."""
    if problem := next(_problems(trace), None):
        raise DataError(f"{origin}: {problem}", hint)


def _problems(trace: Trace) -> Iterator[str]:
    for name, tokens in trace.sequences.items():
        if beyond := sorted({token.segment for token in tokens} - {0, 1}):
            yield (
                f"its sequence `{format_value(name)}` has a token in the segment {format_value(beyond[0])}; there "
                "are 0 and 1"
            )
    for key, value in trace.model.items():
        if isinstance(value, float) and not np.isfinite(value):
            yield f"its model's `{format_value(key)}` is {value}"
    for name, attention in trace.attentions.items():
        yield from (f"`{format_value(name)}` {problem}" for problem in attention_problems(attention, trace.sequences))
        if attention.rotary_base is not None and not 0 < attention.rotary_base < np.inf:
            yield f"`{format_value(name)}` has the `rotary_base` {attention.rotary_base}, which is not a number above 0"
    if not np.isfinite(trace.faithfulness) or trace.faithfulness < 0:
        yield f"its `faithfulness` ({trace.faithfulness}) is not a difference"
    if trace.predictions is not None:
        rows = len(trace.sequences.get("out", ()))
        yield from (f"it {problem}" for problem in prediction_problems(trace.predictions, rows))
    yield from (f"it {problem}" for problem in class_problems(trace.classes or {}))
    for place, stream in trace.residual.items():
        rows = len(trace.sequences.get("src" if place.startswith(("src", "encoder")) else "tgt", ()))
        if stream.ndim != 2 or len(stream) != rows:
            yield f"its residual stream at `{format_value(place)}` has the shape {stream.shape}, not ({rows}, D)"
        elif not np.isfinite(stream).all():
            yield f"its residual stream at `{format_value(place)}` has numbers that are not finite"
    if trace.search is not None:
        rows = len(trace.sequences.get("search", ()))
        yield from (f"its search {problem}" for problem in search_problems(trace.search, rows))


def _format_layers(layers: tuple[int, ...]) -> str:
    """Returns the layer numbers as text."""
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}, which did not call attention()"


def _format_tokens(tokens: tuple[Token, ...], most: int = 12) -> str:
    """Returns the first tokens of a sequence as the vocabulary spells them, and the number of tokens."""
    spelled = [token.piece if token.piece.isprintable() else ascii(token.piece)[1:-1] for token in tokens[:most]]
    pieces = [piece if len(piece) <= 20 else f"{piece[:19]}…" for piece in spelled]
    return f"{len(tokens)} tokens, {' '.join(pieces)}{' …' if len(tokens) > most else ''}"


def _convert(array: npt.NDArray[np.float32], dtype: Dtype, name: str) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if not np.isfinite(converted).all():
        raise DataError(
            f"`{name}` holds {np.abs(array).max():,.0f}, and the maximum of float16 is 65,504",
            'save with `dtype="float32"`',
        )
    return converted


def _manifest(trace: Trace) -> dict[str, Any]:
    """Returns all of a trace except its tensors as JSON-compatible data."""
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
    """Returns the fields of a token that differ from the defaults."""
    defaults = {field.name: field.default for field in fields(Token)}
    return {name: value for name, value in asdict(token).items() if value != defaults[name]}


def _from_manifest(table: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Trace:
    """Returns the trace of a manifest. Raises the errors of lookups and conversions; ValueError for other tensors."""
    named = {f"{attention['name']}/{key}" for attention in table["attention"] for key in attention["tensors"]}
    named |= {f"{RESIDUAL}/{place}" for place in table.get(RESIDUAL, ())}
    if named != set(tensors):
        raise ValueError(f"it lists the tensors {sorted(named)}, but the file has {sorted(tensors)}")
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
            str(place): _check_dtype(tensors[f"{RESIDUAL}/{place}"], RESIDUAL) for place in table.get(RESIDUAL, ())
        },
        without_weights={str(k): tuple(map(int, v)) for k, v in table.get("without_weights", {}).items()},
        provenance={str(key): str(value) for key, value in table["provenance"].items()},
    )


def _attention(table: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> AttentionTrace:
    name, base = str(table["name"]), table.get("rotary_base")
    arrays = {TENSORS[key]: _check_dtype(tensors[f"{name}/{key}"], key) for key in table["tensors"]}
    return AttentionTrace(
        name=name,
        queries=str(table["queries"]),
        keys=str(table["keys"]),
        rotary_base=None if base is None else float(base),
        **arrays,
    )


def _check_dtype(array: npt.NDArray[Any], key: str) -> npt.NDArray[Any]:
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
