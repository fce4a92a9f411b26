"""The file of a trace: exact, equal for equal traces, readable by others, and refused where it is damaged."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from pellucid.config import DecodeConfig
from pellucid.errors import DataError
from pellucid.tasks.tracing import trace, trace_search
from pellucid.tracing.from_weights import trace_from_weights
from pellucid.tracing.tensors import MOST_HEADER_BYTES
from pellucid.tracing.trace import Trace, load_trace
from tests.unit.decoding.models import random_model
from tests.unit.tracing.models import classifier, decoder, encoder, source, transformer

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], object]
"""Changes the manifest and the tensors of a file."""


def ready() -> Trace:
    """A trace of ready-made weights."""
    return trace_from_weights([np.full((1, 2, 3, 3), 1 / 3)], ["[CLS]", "a", "[SEP]"])


def searched() -> Trace:
    """A trace with a search."""
    return trace_search(random_model(3), None, DecodeConfig(beam_size=3), [5, 6, 7])


TRACES: dict[str, Callable[[], Trace]] = {
    "transformer": lambda: trace(transformer(positions="relative"), source(), source(4)),
    "rotary": lambda: trace(transformer(positions="rotary", num_kv_heads=2), source(), source(4)),
    "classifier": lambda: trace(classifier(), source(4), segments=[0, 0, 1, 1]),
    "encoder": lambda: trace(encoder(), source(1)),
    "decoder": lambda: trace(decoder(), source()),
    "residual": lambda: trace(transformer(), source(), source(4), residual=True),
    "ready": ready,
    "search": searched,
}


def assert_same(one: Trace, other: Trace) -> None:
    """Every field and every bit."""
    bare = [replace(found, attentions={}, residual={}) for found in (one, other)]
    assert bare[0] == bare[1]
    assert list(one.residual) == list(other.residual)
    for place, stream in one.residual.items():
        np.testing.assert_array_equal(stream, other.residual[place])
    assert list(one) == list(other)
    for name in one:
        for field, value in vars(one[name]).items():
            loaded = getattr(other[name], field)
            if isinstance(value, np.ndarray):
                assert value.dtype == loaded.dtype
                np.testing.assert_array_equal(value, loaded)
            else:
                assert value == loaded


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    made = TRACES[name]()
    assert_same(made, load_trace(made.save(tmp_path / "x.trace")))


def test_equal_traces_make_equal_bytes(tmp_path: Path) -> None:
    model, src, tgt = transformer(), source(), source(4)
    first, second = (trace(model, src, tgt).save(tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()


def test_a_file_of_version_1_opens_without_what_came_later(tmp_path: Path) -> None:
    """It was written by the code of that version; what is written of it now is of version 2."""
    found = load_trace(Path(__file__).with_name("version-1.trace"))
    assert list(found) == ["encoder.self", "decoder.self", "cross", "search.cross"]
    assert (found.predictions, found.classes, dict(found.residual), found["cross"].v) == (None, None, {}, None)
    np.testing.assert_allclose(found["cross"].weights(0, 1).sum(axis=-1), 1, atol=1e-5)
    assert found.search is not None
    assert len(found.search.nodes) == 15
    again = found.save(tmp_path / "again.trace")
    assert b'"version":"2"' in again.read_bytes()
    assert_same(found, load_trace(again))


def test_other_weights_have_another_checksum() -> None:
    model, src = encoder(), source()
    before = trace(model, src).model["weights"]
    model.encoder.layers[1].feed_forward.down_proj.weight.data[0, 0] += 1
    assert trace(model, src).model["weights"] != before


def test_half_the_room(tmp_path: Path) -> None:
    made = trace(transformer(), source(30), source(20))
    exact, half = made.save(tmp_path / "exact"), made.save(tmp_path / "half", dtype="float16")
    loaded = load_trace(half)
    numbers = sum(a.q.nbytes + a.k.nbytes for a in made.attentions.values() if a.q is not None and a.k is not None)
    assert exact.stat().st_size - half.stat().st_size >= numbers / 2
    for name in made:
        np.testing.assert_allclose(loaded[name].weights(1, 2), made[name].weights(1, 2), atol=1e-3)


def test_the_library_reads_it_too(tmp_path: Path) -> None:
    made = trace(transformer(), source(), source(4))
    tensors = safetensors.numpy.load_file(made.save(tmp_path / "x.trace"))
    np.testing.assert_array_equal(tensors["cross/q"], made["cross"].q)
    np.testing.assert_array_equal(tensors["decoder.self/mask"], made["decoder.self"].mask)


def test_what_float16_cannot_hold_is_an_error(tmp_path: Path) -> None:
    made = trace(encoder(), source())
    q = made["encoder.self"].q
    assert q is not None
    large = replace(made, attentions={"encoder.self": replace(made["encoder.self"], q=q * 0 + 70_000)})
    with pytest.raises(DataError, match=r"`encoder.self/q` holds 70,000, and the maximum of float16 is 65,504"):
        large.save(tmp_path / "x", dtype="float16")
    assert not (tmp_path / "x").exists()
    large.save(tmp_path / "x")


def test_another_dtype_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown dtype `int8`"):
        ready().save(tmp_path / "x", dtype="int8")  # type: ignore[arg-type]


def test_a_damaged_trace_is_not_saved(tmp_path: Path) -> None:
    made = trace(encoder(), source())
    with pytest.raises(DataError, match=r"cannot be saved: `encoder.self` has 5 rows, but `src` has 2 tokens"):
        replace(made, sequences={"src": made.sequences["src"][:2]}).save(tmp_path / "x")


def test_segments_and_numbers_of_the_model_are_checked(tmp_path: Path) -> None:
    made = trace(encoder(), source())
    third = tuple(replace(token, segment=2) for token in made.sequences["src"])
    with pytest.raises(DataError, match="its sequence `src` has a token in the segment 2; there are 0 and 1"):
        replace(made, sequences={"src": third}).save(tmp_path / "x")
    with pytest.raises(DataError, match="its model's `d_model` is inf"):
        replace(made, model={**made.model, "d_model": float("inf")}).save(tmp_path / "x")


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_path_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read `.*`: (No such file|Is a directory)"):
        load_trace(tmp_path / name)


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot write to `.*none/x`: no folder `.*none`"):
        ready().save(tmp_path / "none" / "x")


def cut_into(data: bytes) -> dict[str, tuple[bytes, str]]:
    """Damaged files, and what is said of them."""
    start = 8 + int.from_bytes(data[:8], "little")
    return {
        "empty": (b"", r"\(0 bytes\) is not a trace"),
        "text": (b"A dog runs across a meadow, and barks.", r"\(38 bytes\) is not a trace"),
        "header": (data[: start - 5], rf"is truncated: it has {start - 5:,} bytes, but its header ends at {start:,}"),
        "numbers": (data[:-3], rf"is truncated: it has {len(data) - 3:,} bytes, but `.*` ends at {len(data):,}"),
        "more": (data + b"xy", "2 bytes belong to no tensor"),
        "long header": (
            (MOST_HEADER_BYTES + 1).to_bytes(8, "little") + data[8:],
            "has a header of 16,000,001 bytes; at most 16,000,000",
        ),
        "no JSON": (data[:8] + b"{" + b"x" * (start - 9) + data[start:], "its header is not JSON"),
    }


@pytest.mark.parametrize("fault", ["empty", "text", "header", "numbers", "more", "long header", "no JSON"])
def test_a_damaged_file_is_refused(fault: str, tmp_path: Path) -> None:
    data, message = cut_into(ready().save(tmp_path / "whole").read_bytes())[fault]
    (tmp_path / "x.trace").write_bytes(data)
    with pytest.raises(DataError, match=f"`.*x.trace` .*{message}|`.*x.trace` {message}"):
        load_trace(tmp_path / "x.trace")


def rewritten(made: Trace, path: Path, change: Change, **metadata: str) -> Path:
    """The file of a trace with its manifest and tensors changed, by the library."""
    data = made.save(path).read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    manifest, tensors = json.loads(header["manifest"]), safetensors.numpy.load(data)
    change(manifest, tensors)
    path.write_bytes(safetensors.numpy.save(tensors, header | {"manifest": json.dumps(manifest)} | metadata))
    return path


def nothing(manifest: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Leaves it as it is."""


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": "pt"}, "is not a trace: its format is 'pt', not 'pellucid-trace'"),
        ({"version": "3"}, "has version '3'; this version of pellucid supports '1' and '2'"),
        ({"manifest": "{"}, "has a damaged manifest: JSONDecodeError"),
        ({"manifest": "[]"}, "has a damaged manifest: TypeError"),
    ],
    ids=["format", "version", "no JSON", "no table"],
)
def test_another_file_is_refused(metadata: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"`.*x.trace` {message}"):
        load_trace(rewritten(ready(), tmp_path / "x.trace", nothing, **metadata))


def first(manifest: dict[str, Any]) -> dict[str, Any]:
    """The first token of the source."""
    token: dict[str, Any] = manifest["sequences"]["src"][0]
    return token


QK_FAULTS: dict[str, tuple[Change, str]] = {
    "missing tensor": (lambda m, t: t.pop("cross/q"), "damaged manifest: ValueError: it lists the tensors"),
    "unknown tensor": (
        lambda m, t: t.update({"x/q": t["cross/q"]}),
        "damaged manifest: ValueError: it lists the tensors",
    ),
    "rows": (lambda m, t: t.update({"cross/q": t["cross/q"][:, :, :3]}), "`cross` has 3 rows, but `out` has 4 tokens"),
    "columns": (lambda m, t: t.update({"cross/k": t["cross/k"][:, :, :2]}), "`cross` has 2 columns, but `src` has 5"),
    "dimensions": (lambda m, t: t.update({"cross/q": t["cross/q"][0]}), r"`cross` has q of shape \(6, 4, 2\), not"),
    "width": (
        lambda m, t: t.update({"cross/k": t["cross/k"][..., :1]}),
        r"`cross` has `q` of shape \(2, 6, 4, 2\) and `k` of shape \(2, 6, 5, 1\), which do not match",
    ),
    "key heads": (lambda m, t: t.update({"cross/k": t["cross/k"][:, :4]}), "do not match"),
    "mask": (
        lambda m, t: t.update({"decoder.self/mask": t["decoder.self/mask"][:2]}),
        r"`decoder.self` has a mask of shape \(2, 4\), not \(4, 4\)",
    ),
    "mask of numbers": (
        lambda m, t: t.update({"decoder.self/mask": t["decoder.self/mask"].astype(np.float32)}),
        "the tensor `mask` is float32",
    ),
    "bias": (
        lambda m, t: t.update({"encoder.self/bias": t["encoder.self/bias"][:, :4]}),
        r"`encoder.self` has a bias of shape \(1, 4, 5, 5\), not \(1 or 2, 1 or 6, 5, 5\)",
    ),
    "value norms": (
        lambda m, t: t.update({"cross/value_norms": t["cross/value_norms"][:, :, 0]}),
        r"`cross` has value norms of shape \(2, 6\), not \(2, 6, 5\)",
    ),
    "not finite": (
        lambda m, t: t["encoder.self/q"].__setitem__((0, 0, 0), np.nan),
        "`encoder.self` has 2 values in `q` that are not finite",
    ),
    "infinite": (
        lambda m, t: t["encoder.self/bias"].__setitem__((0, 0, 0, 0), np.inf),
        "`encoder.self` has 1 values in `bias` that are not finite",
    ),
    "tokens": (lambda m, t: m["sequences"]["src"].pop(), "`encoder.self` has 5 rows, but `src` has 4 tokens"),
    "sequence": (
        lambda m, t: m["sequences"].pop("out"),
        "`cross` names its rows by the sequence `out`, which does not exist",
    ),
    "token text": (lambda m, t: first(m).update(text=3), "TypeError: `text` of a token is 3"),
    "token field": (lambda m, t: first(m).update(colour="red"), "KeyError: 'colour'"),
    "values": (
        lambda m, t: t.update({"cross/v": t["cross/v"][:, :, :3]}),
        r"`cross` has values of shape \(2, 6, 3, 2\), which do not match keys of shape \(2, 6, 5, 2\)",
    ),
    "values not finite": (
        lambda m, t: t["cross/v"].__setitem__((0, 0, 0, 0), np.inf),
        "`cross` has 1 values in `v` that are not finite",
    ),
    "fewer predictions": (lambda m, t: m["predictions"].pop(), "it has 3 predictions, but `out` has 4 tokens"),
    "probability": (
        lambda m, t: m["predictions"][2].update(log_prob=0.5),
        "a prediction at position 2 with the log-probability 0.5, which is above 0",
    ),
    "no probability": (
        lambda m, t: m["predictions"][1]["top"][0].__setitem__(1, float("nan")),
        "a prediction at position 1 with the log-probability nan",
    ),
    "order": (
        lambda m, t: m["predictions"][0]["top"].reverse(),
        "predictions at position 0 that are not in the order of their probabilities",
    ),
    "token of a prediction": (
        lambda m, t: m["predictions"][0]["top"][0][0].update(text=7),
        "damaged manifest: TypeError: `text` of a token is 7",
    ),
    "no predictions": (lambda m, t: m.update(predictions=3), "damaged manifest: TypeError: 'int' object is not iter"),
    "stream": (
        lambda m, t: t.update({"residual/encoder.layers.0.self_attn": t["residual/encoder.layers.0.self_attn"][1:]}),
        r"its residual stream at `encoder.layers.0.self_attn` has the shape \(4, 12\), not \(5, D\)",
    ),
    "stream not finite": (
        lambda m, t: t["residual/tgt_embedding"].__setitem__((0, 0), np.nan),
        "its residual stream at `tgt_embedding` has numbers that are not finite",
    ),
    "stream not there": (lambda m, t: t.pop("residual/tgt_embedding"), "ValueError: it lists the tensors"),
    "stream not named": (lambda m, t: m["residual"].pop(), "ValueError: it lists the tensors"),
    "faithfulness": (
        lambda m, t: m.update(faithfulness=float("nan")),
        r"its `faithfulness` \(nan\) is not a difference",
    ),
    "model": (lambda m, t: m["model"].update(name=["x"]), r"TypeError: \['x'\] is not a plain value"),
}


@pytest.mark.parametrize("fault", QK_FAULTS)
def test_what_does_not_hold_together_is_refused(fault: str, tmp_path: Path) -> None:
    change, message = QK_FAULTS[fault]
    made = trace(transformer(positions="relative"), source(), source(4), residual=True)
    with pytest.raises(DataError, match=f"`.*x.trace`.*{message}"):
        load_trace(rewritten(made, tmp_path / "x.trace", change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0": 1.5, "1": -0.5, "2": 0.0}, "it has the probability 1.5 for the class `0`"),
        ({"0": 0.5, "1": 0.1, "2": 0.1}, "it has class probabilities that sum to 0.7"),
        ({"0": "x"}, "damaged manifest: ValueError: could not convert string to float: 'x'"),
        ([0.5], "damaged manifest: AttributeError: 'list' object has no attribute 'items'"),
    ],
)
def test_classes_are_probabilities(change: object, message: str, tmp_path: Path) -> None:
    path = rewritten(TRACES["classifier"](), tmp_path / "x.trace", lambda m, t: m.update(classes=change))
    with pytest.raises(DataError, match=f"`.*x.trace`.*{message}"):
        load_trace(path)


READY_FAULTS: dict[str, tuple[Change, str]] = {
    "sums": (
        lambda m, t: t["encoder.self/weights"].__setitem__((0, 1, 2, 0), 0.4),
        "weights that do not sum to 1: row 2 of layer 0, head 1 sums to 1.067",
    ),
    "negative": (
        lambda m, t: t["encoder.self/weights"].__setitem__((0, 0, 0), [-0.5, 1.0, 0.5]),
        r"`encoder.self` has a weight below 0 \(-0.5\)",
    ),
    "both": (
        lambda m, t: (
            t.update({"encoder.self/q": np.ones((1, 2, 3, 4), np.float32)}),
            m["attention"][0]["tensors"].append("q"),
        ),
        "must have either `q` and `k`, or `weights`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", READY_FAULTS)
def test_ready_made_weights_are_weights(fault: str, tmp_path: Path) -> None:
    change, message = READY_FAULTS[fault]
    with pytest.raises(DataError, match=f"`.*x.trace`.*{message}"):
        load_trace(rewritten(ready(), tmp_path / "x.trace", change))


SEARCH_FAULTS: dict[str, tuple[Change, str]] = {
    "child first": (lambda m, t: m["search"]["nodes"][1].update(parent=9), "node 1 before its parent 9"),
    "own parent": (lambda m, t: m["search"]["nodes"][2].update(parent=2), "node 2 before its parent 2"),
    "second root": (lambda m, t: m["search"]["nodes"][3].update(parent=None), "a root at node 3"),
    "no root": (lambda m, t: m["search"]["nodes"][0].update(parent=0), "does not begin with its root"),
    "empty": (lambda m, t: m["search"].update(nodes=[]), "has no nodes"),
    "row": (lambda m, t: m["search"]["nodes"][1].update(row=999), "node 1 in row 999, but there are"),
    "status": (lambda m, t: m["search"]["nodes"][1].update(status="dead"), "node 1 with the status `dead`; known are"),
    "score": (lambda m, t: m["search"]["nodes"][1].update(score=float("-inf")), "node 1 with the `score` -inf, which"),
    "log prob": (lambda m, t: m["search"]["nodes"][1].update(log_prob=-1e308), "node 1 with the `log_prob` -1e.308,"),
    "gain": (lambda m, t: m["search"]["nodes"][1].update(log_prob=800.0), "the `log_prob` 800.0, which is above 0"),
    "rank": (lambda m, t: m["search"]["nodes"][1].update(ranked_by=1e308), "beyond 1e.150"),
    "penalty": (lambda m, t: m["search"].update(length_penalty=float("nan")), "the `length_penalty` nan; it must be"),
    "large penalty": (lambda m, t: m["search"].update(length_penalty=1e308), "the `length_penalty` 1e.308; it must"),
    "beam": (lambda m, t: m["search"].update(beam_size=10**9), "the `beam_size` 1000000000; it must be in 1..1,024"),
    "no beam": (lambda m, t: m["search"].update(beam_size=0), "the `beam_size` 0; it must be in 1..1,024"),
}  # fmt: skip


@pytest.mark.parametrize("base", [float("nan"), float("inf"), 0.0, -1.0])
def test_rotary_positions_that_cannot_be(base: float, tmp_path: Path) -> None:
    made = TRACES["rotary"]()
    path = rewritten(made, tmp_path / "x.trace", lambda m, t: m["attention"][0].update(rotary_base=base))
    with pytest.raises(DataError, match=rf"has the `rotary_base` {base}, which is not a number above 0"):
        load_trace(path)


def test_a_beam_without_end(tmp_path: Path) -> None:
    path = rewritten(searched(), tmp_path / "x.trace", lambda m, t: m["search"].update(beam_size=float("inf")))
    with pytest.raises(DataError, match="damaged manifest: OverflowError: cannot convert float infinity to integer"):
        load_trace(path)


def test_what_a_message_of_a_trace_echoes_is_short(tmp_path: Path) -> None:
    path = rewritten(ready(), tmp_path / "x.trace", lambda m, t: m["attention"][0].update(queries="\x1b[1m" * 10_000))
    with pytest.raises(DataError) as caught:
        load_trace(path)
    assert len(str(caught.value)) < len(str(path)) + 250
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("fault", SEARCH_FAULTS)
def test_a_search_is_a_tree(fault: str, tmp_path: Path) -> None:
    change, message = SEARCH_FAULTS[fault]
    with pytest.raises(DataError, match=f"`.*x.trace`: its search .*{message}|`.*x.trace`: its search {message}"):
        load_trace(rewritten(searched(), tmp_path / "x.trace", change))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}, "the header has .* for `x/q`"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, r"`x/q` of shape \(3,\) has 12 bytes from 0 on"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}, "but is stored at 4 to 12"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, "the header has .* for `x/q`"),
        ({"dtype": "F32", "shape": [2, *[1] * 99], "data_offsets": [0, 8]}, "the header has .* for `x/q`"),
        ("x", "the header has x for `x/q`"),
    ],
    ids=["dtype", "size", "gap", "negative", "dimensions", "no table"],
)
def test_offsets_are_checked(entry: object, message: str, tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {}, "x/q": entry}).encode()
    path = tmp_path / "x.trace"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(DataError, match=f"`.*x.trace` is damaged: {message}|`.*x.trace` is damaged: .*{message}"):
        load_trace(path)
