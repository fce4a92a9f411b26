"""What the viewer shows is what Python computes, for every family and every way of storing."""

from pathlib import Path

import numpy as np
import pytest

from pellucid.analysis.weights import hide_tokens, make_visible_mask, merge_words
from pellucid.tracing.trace import Trace
from tests.browser.conftest import Open, Opened
from tests.browser.living_pages import TEXT, living, write_living_page
from tests.browser.traces import made, pair, traced, translation

pytestmark = pytest.mark.browser

FAMILIES = ["encoder", "decoder", "translation", "grouped", "relative"]
WEIGHTS, VECTORS = 0.004, 1e-3


def largest_error(opened: Opened, trace: Trace, every: int = 1) -> float:
    """Of any weight of any head, or of every n-th weight."""
    asked = "p.weights(...a.slice(0, 3)).then((all) => all.filter((_, i) => i % a[3] === 0))"
    errors = []
    for name in trace:
        attention = trace[name]
        for layer, head in np.ndindex(attention.num_layers, attention.num_heads):
            found = np.array(opened.ask(asked, [name, layer, head, every]), dtype=np.float32)
            exact = attention.weights(layer, head).ravel()[::every]
            assert found.size == exact.size
            errors.append(np.abs(found - exact).max())
    return float(max(errors))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("views", "most"), [(["heads", "matrix"], WEIGHTS), (["heads", "neuron"], VECTORS)], ids=["weights", "vectors"]
)
def test_weights_are_those_of_python(open_page: Open, family: str, views: list[str], most: float) -> None:
    trace = traced(family)
    opened = open_page(trace, view=views[0], views=views)
    assert opened.ask("p.app.attention.hasVectors") == ("neuron" in views)
    assert largest_error(opened, trace) <= most


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_python(open_page: Open, family: str) -> None:
    trace = traced(family)
    opened = open_page(trace, view="neuron")
    for name in trace:
        exact = trace[name].scores(1, 3)
        found = opened.ask("p.scores(a, 1, 3).then((all) => all.map((one) => (one === -Infinity ? null : one)))", name)
        found = np.array([-np.inf if one is None else one for one in found]).reshape(exact.shape)
        assert np.array_equal(np.isinf(found), np.isinf(exact))
        finite = np.isfinite(exact)
        assert np.abs(found[finite] - exact[finite]).max() <= 0.01 * max(1, np.abs(exact[finite]).max())


def test_padding_is_cut(open_page: Open) -> None:
    trace = traced("encoder")
    assert open_page(trace).ask("p.app.shown.size") == {"rows": 8, "columns": 8}


@pytest.mark.parametrize("view", ["matrix", "neuron"])
def test_one_token(open_page: Open, view: str) -> None:
    opened = open_page(made(1), view=view)
    assert opened.ask("p.weight('encoder.self', 0, 0, 0, 0)") == pytest.approx(1)


def test_a_long_text_keeps_queries_and_keys(open_page: Open) -> None:
    trace = made(512, layers=1, heads=2, width=64)
    opened = open_page(trace, view="matrix")
    assert opened.ask("p.app.attention.hasVectors")
    assert largest_error(opened, trace, every=7) <= VECTORS
    sums = opened.ask("p.shown().reduce((sums, one, i) => { sums[i >> 9] += one; return sums; }, Array(512).fill(0))")
    assert sums == pytest.approx([1] * 512, abs=1e-5)


def test_many_weights_are_stored_in_a_byte(open_page: Open) -> None:
    trace = made(130, layers=2, heads=4, width=64)
    opened = open_page(trace, view="matrix")
    assert opened.ask("p.app.attention.description.stored[0].digits") == "u8"
    assert largest_error(opened, trace, every=3) <= WEIGHTS
    assert "within 0.004" in opened.page.inner_text(".note")
    assert "differ from those that ran by at most 0.004" in opened.page.inner_text(".about p:not(.own)")
    assert len(opened.ask("p.read(0, 0)")["figures"][0][1]) == len("0.12")  # two digits are known


def test_keys_with_one_large_coordinate_keep_their_differences(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pellucid.views.page_data.FEW_VECTORS", 0)
    trace = made(24, width=16)
    trace["encoder.self"].k[..., 3] += 900  # type: ignore[index]
    opened = open_page(trace, view="neuron")
    assert opened.ask("p.app.attention.description.stored[0].digits") == "f16"
    assert largest_error(opened, trace) <= VECTORS


def test_what_half_precision_cannot_hold_is_kept_whole(open_page: Open) -> None:
    trace = made(24, width=16)
    attention = trace["encoder.self"]
    attention.q[:] *= 6  # type: ignore[index]
    attention.k[:] *= 6  # type: ignore[index]
    opened = open_page(trace, view="neuron")
    assert opened.ask("p.app.attention.description.stored[0].digits") == "f32"
    assert largest_error(opened, trace) <= VECTORS


@pytest.mark.parametrize("mix", ["mean", "max"])
def test_several_heads_are_mixed(open_page: Open, mix: str) -> None:
    trace = translation()
    opened = open_page(trace, state={"attention": "cross", "layer": 1, "mix": mix, "heads": "0,2,3"})
    heads = np.stack([trace["cross"].weights(1, head) for head in (0, 2, 3)])
    exact = heads.mean(axis=0) if mix == "mean" else heads.max(axis=0)
    assert np.array(opened.ask("p.shown()")) == pytest.approx(exact.ravel(), abs=WEIGHTS)


@pytest.mark.parametrize(
    ("special", "sink", "words"), [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1)],
    ids=["special", "sink", "words", "special-words", "all"],
)  # fmt: skip
def test_hiding_and_merging_are_those_of_python(open_page: Open, special: int, sink: int, words: int) -> None:
    trace = translation()
    opened = open_page(trace, state={"attention": "cross", "head": 2, "special": special, "sink": sink, "words": words})
    rows, columns = trace.sequences["out"], trace.sequences["src"]
    of_rows, of_columns = (
        make_visible_mask(one, special=not special, sink=not sink or one is rows) for one in (rows, columns)
    )
    weights, share = hide_tokens(trace["cross"].weights(0, 2), rows, columns, of_rows, of_columns)
    rows, columns = (
        tuple(token for token, is_shown in zip(all_, which, strict=True) if is_shown)
        for all_, which in ((rows, of_rows), (columns, of_columns))
    )
    exact = merge_words(weights, rows, columns) if words else weights
    found = np.array(opened.ask("p.shown()")).reshape(exact.shape)
    assert found == pytest.approx(exact, abs=2 * WEIGHTS)
    said = opened.page.inner_text(".note")
    assert (f"({100 * share:.0f}\u00a0% of the weight" in said) == bool(special or sink)
    assert ("merged" in said) == bool(words)


@pytest.mark.parametrize(("choice", "rows", "columns"), [("aa", 5, 5), ("ab", 5, 3), ("ba", 3, 5), ("bb", 3, 3)])
def test_of_two_texts_one_looks_at_the_other(open_page: Open, choice: str, rows: int, columns: int) -> None:
    trace = pair()
    opened = open_page(trace, state={"pair": choice})
    assert opened.ask("p.app.shown.size") == {"rows": rows, "columns": columns}
    of = {"a": slice(0, 5), "b": slice(5, 8)}
    exact = trace["encoder.self"].weights(0, 0)[of[choice[0]], of[choice[1]]]
    assert np.array(opened.ask("p.shown()")) == pytest.approx(exact.ravel(), abs=WEIGHTS)


def test_rotary_positions_are_undone(open_page: Open) -> None:
    trace = traced("grouped")
    attention = trace["decoder.self"]
    opened = open_page(trace, view="neuron", state={"rotary": "before", "layer": 1, "head": 3})
    width, base = attention.head_width, attention.rotary_base
    angles = np.arange(8)[:, None] * base ** -(np.arange(width // 2) / (width // 2))
    first, second = np.split(attention.k[1, 1], 2, axis=1)
    exact = np.hstack(
        [first * np.cos(angles) + second * np.sin(angles), second * np.cos(angles) - first * np.sin(angles)]
    )
    assert np.array(opened.ask("Array.from(p.app.shown.k)")) == pytest.approx(exact.ravel(), abs=5e-3)


@pytest.mark.parametrize("waves", [(), (4.0, 16.0)])
def test_turns_that_the_base_does_not_tell_are_not_undone(
    open_page: Open, tmp_path: Path, waves: tuple[float, ...]
) -> None:
    slowed = {"positions": "rotary", "rotary_factor": 4.0, "rotary_wavelengths": waves}
    task, trace = living("decoder", **slowed)
    path = write_living_page(tmp_path / "slowed.html", task, [trace], "neuron")
    state = {"rotary": "before", "layer": 1, "head": 1}
    opened = open_page.file(path, {"language": "en", **state})  # type: ignore[attr-defined]
    for _ in range(2):
        assert opened.page.locator(".bar").get_by_label("Vectors").count() == 0
        keys = np.array(opened.ask("Array.from(p.app.shown.k)"))
        assert keys == pytest.approx(trace["decoder.self"].k[1, 1].ravel(), abs=5e-3)
        opened.ask("p.app.live.trace(a).then((found) => p.app.show(found))", TEXT)


def test_the_neuron_view_takes_a_score_apart(open_page: Open) -> None:
    trace = traced("relative")
    attention = trace["encoder.self"]
    opened = open_page(trace, view="neuron", state={"attention": "encoder.self", "layer": 1, "head": 2})
    read = dict(opened.ask("p.read(3, 5)")["figures"])
    assert float(read["score"].replace("−", "-")) == pytest.approx(attention.scores(1, 2)[3, 5], abs=0.02)
    assert float(read["of which bias"].replace("−", "-")) == pytest.approx(attention.bias[0, 2, 3, 5], abs=1e-3)
    products = attention.q[1, 2, 3] * attention.k[1, 2, 5] / np.sqrt(attention.head_width)
    top = products[np.argsort(-np.abs(products))[:8]].sum()
    assert read["top 8 of 8 dimensions"].startswith(f"{top:.2f}".replace("-", "−"))


def test_the_model_view_tells_statistics(open_page: Open) -> None:
    from pellucid.analysis.statistics import make_sink_mask, statistics

    trace = translation()
    opened = open_page(trace, view="model", state={"order": "entropy"})
    exact = statistics(trace["encoder.self"], make_sink_mask(trace.sequences["src"]))
    best = np.unravel_index(np.argmax(exact["entropy"]), exact["entropy"].shape)
    read = opened.ask("p.read(0, 0)")
    assert read["names"][1] == f"layer {best[0]}, head {best[1]}"
    for name, value in read["figures"]:
        assert float(value) == pytest.approx(exact[name][best], abs=1e-3)


def test_ablation_lies_over_the_model_view(open_page: Open) -> None:
    values = {"values": [[0.1, -0.2, 0, 0.5]] * 2, "low": [[0.0] * 4] * 2, "high": [[1.0] * 4] * 2}
    extras = {"ablation": {"metric": "loss", "attentions": {"cross": values}}}
    opened = open_page(translation(), view="model", extras=extras, state={"order": "ablation"})
    assert "loss without it 0.5000 [0.0000, 1.0000]" in opened.ask("p.read(2, 0)")["text"]


def test_extras_bring_arrays(open_page: Open) -> None:
    extras = {"mine": {"x": np.arange(6).reshape(2, 3) / 4, "mask": np.array([True, False]), "none": float("nan")}}
    opened = open_page(made(3), extras=extras)
    assert opened.ask("p.app.extras.mine.x.shape") == [2, 3]
    assert opened.ask("p.array(p.app.extras.mine.x)") == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert opened.ask("p.array(p.app.extras.mine.mask)") == [1, 0]
    assert opened.ask("p.app.extras.mine.none") is None
