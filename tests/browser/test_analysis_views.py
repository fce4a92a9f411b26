"""Alignment, compare, flow, evolution and beam: what they show is what Python computes."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.analysis.aligning_head import Agreement, score_heads
from pellucid.analysis.alignment import Gold, LinkExtraction, align_trace, write_links
from pellucid.analysis.compare import compare, row_distances
from pellucid.analysis.evolution import collect_evolution
from pellucid.analysis.flow import compute_rollout, norm_weighted, share_of_rows
from pellucid.config import DecodeConfig
from pellucid.tasks.tracing import trace_search
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.page_data import view_extras
from tests.browser.conftest import Open, Opened
from tests.browser.test_safety import CORPUS, strange
from tests.browser.traces import made, model, renamed, traced, translation

pytestmark = pytest.mark.browser

GOLD = Gold(frozenset({(0, 0), (2, 1)}), frozenset({(0, 0), (2, 1), (3, 2), (3, 1)}))
WEIGHTS = 0.004  # 8 bits; weights of few tokens have more


def values(opened: Opened, expression: str = "p.shown()") -> np.ndarray:
    return np.array(opened.ask(expression), dtype=np.float64)


@pytest.mark.parametrize("method", ["argmax", "mutual", "threshold"])
@pytest.mark.parametrize(("row", "level"), [("writes", "words"), ("reads", "words"), ("reads", "tokens")])
def test_links_are_those_of_python(open_page: Open, method: Any, row: Any, level: Any) -> None:
    trace = translation()
    opened = open_page(trace, view="alignment")
    extraction = LinkExtraction(method=method, threshold=0.3, row=row, level=level)
    own = {"alignment.method": method, "alignment.row": row, "alignment.level": level, "alignment.threshold": 0.3}
    for by, layer, head in (("head", 1, 2), ("layer", 0, None), ("all", None, None)):
        opened.set(**own, layer=layer or 0, head=head or 0, **{"alignment.by": by})
        assert opened.ask("p.app.shown.pharaoh") == write_links(align_trace(trace, layer, head, extraction))


def test_links_are_scored_against_gold(open_page: Open) -> None:
    trace = translation()
    opened = open_page(trace, view="alignment", extras=view_extras([trace], {"alignment"}, gold=[GOLD]))
    opened.set(layer=1, head=3, table=1)
    found = Agreement.from_links(align_trace(trace, 1, 3), GOLD)
    said = f"AER {found.aer:.3f} · F1 {found.f1:.3f} · precision {found.precision:.3f} · recall {found.recall:.3f}"
    assert opened.page.inner_text("main > .note").startswith(said)
    rows = {(row.layer, row.head): row.agreement for row in score_heads([trace], [GOLD]) if row.layer is not None}
    table = opened.ask("p.app.shown.table().rows")
    assert len(table) == len(rows) == 10
    for layer, head, aer, f1, precision, recall, links in table:
        expected = rows[int(layer), None if head == "mean" else int(head)]
        assert (aer, f1) == (f"{expected.aer:.3f}", f"{expected.f1:.3f}")
        assert (precision, recall) == (f"{expected.precision:.3f}", f"{expected.recall:.3f}")
        assert int(links) == expected.links
    assert [row[2] for row in table] == sorted(row[2] for row in table)
    assert opened.page.locator(".listing table").count() == 1
    opened.press("k")
    assert opened.ask("p.app.copied") == opened.ask("p.app.shown.pharaoh")


def other_weights(trace: Trace) -> Trace:
    """The same tokens by other queries and keys."""
    return replace(trace, attentions=made([t.text for t in trace.sequences["src"]], seed=8).attentions)


def test_the_difference_of_two_traces(open_page: Open) -> None:
    a = made(9, seed=1)
    b = other_weights(a)
    opened = open_page([a, b], view="compare", extras=view_extras([a, b], {"compare"}))
    opened.set(layer=1, head=1)
    first, second = (one["encoder.self"].weights(1, 1) for one in (a, b))
    assert np.abs(values(opened).reshape(9, 9) - (first - second)).max() <= 2 * WEIGHTS
    distances = compare(a, b)["encoder.self"].distances()
    np.testing.assert_allclose(opened.ask("p.app.shown.distances"), distances, atol=1e-4)
    figures = dict(opened.ask("p.read(4, 3)")["figures"])
    assert float(figures["distance of the rows"]) == pytest.approx(row_distances(first, second)[4], abs=0.005)
    assert float(figures["A"]) == pytest.approx(first[4, 3], abs=WEIGHTS)
    note = opened.page.inner_text("main > .note")
    assert float(note.split(": ")[1].split(",")[0]) == pytest.approx(distances[1, 1], abs=0.005)


def test_what_the_page_computed_has_no_distances_of_python(open_page: Open) -> None:
    a = made(9, seed=1)
    traces = [a, other_weights(a)]
    opened = open_page(traces, view="compare", extras=view_extras(traces, {"compare"}))
    assert opened.ask("p.app.shown.distances") is not None
    computed = "Object.assign(Object.create(Object.getPrototypeOf(p.app.trace)), p.app.trace)"
    assert opened.ask(f"p.app.show({computed}).then(() => p.app.shown.distances)") is None


def test_two_heads_of_one_trace(open_page: Open) -> None:
    trace = made(7, heads=3)
    opened = open_page(trace, view="compare").set(head=2, **{"compare.layer": 1, "compare.head": 1})
    attention = trace["encoder.self"]
    expected = attention.weights(0, 2) - attention.weights(1, 1)
    assert np.abs(values(opened).reshape(7, 7) - expected).max() <= 2 * WEIGHTS


def test_traces_that_do_not_fit_have_no_difference(open_page: Open) -> None:
    opened = open_page([made(7), made(5)], view="compare")
    assert opened.ask("p.shown()") == []
    assert "other numbers of tokens" in opened.page.inner_text("main > .note")


def pointed(opened: Opened, panel: int, row: int, column: int) -> list[str]:
    """What is said beside the pointer over a cell of a panel."""
    pane = opened.page.locator(".panels .pane").nth(panel)
    pane.scroll_into_view_if_needed()
    box, frame = pane.bounding_box(), opened.ask("p.app.shown.drawings[a].frame", panel)
    x, y = (frame[side] + (n + 0.5) * frame["cell"] for side, n in (("left", column), ("top", row)))
    opened.page.mouse.move(box["x"] + x, box["y"] + y)
    said: list[str] = opened.page.locator(".tip > *").all_inner_texts()
    return said


def has_colour(opened: Opened, panel: int, row: int, column: int, weight: float) -> bool:
    """Whether a cell has the colour of a weight, beside its number."""
    frame = opened.ask("p.app.shown.drawings[a].frame", panel)
    at = [round(frame[side] + n * frame["cell"]) + 4 for side, n in (("left", column), ("top", row))]
    painted = "p.app.shown.drawings[a[0]].picture.base.getContext('2d').getImageData(a[1], a[2], 1, 1).data"
    found, ramp = opened.ask(f"[Array.from({painted}).slice(0, 3), p.app.colours.sequential]", [panel, *at])
    near = {round(255 * min(1.0, max(0.0, weight + by))) for by in (-WEIGHTS, 0, WEIGHTS)}
    return found in [ramp[colour] for colour in near]


@pytest.mark.parametrize("lengths", [(4, 7), (7, 4)])
def test_each_of_two_traces_is_read_by_its_own_tokens(open_page: Open, lengths: tuple[int, int]) -> None:
    ids = [5, 9, 12, 30, 7, 21, 11]
    a, b = (pellucid.trace(model("decoder"), ids[:length]) for length in lengths)
    last, weights = lengths[1] - 1, b["decoder.self"].weights(0, 1)
    opened = open_page([a, b], view="compare", state={"compare.head": 1})
    for column in range(last + 1):
        assert has_colour(opened, 1, last, column, weights[last, column]), column
    column = int(weights[last].argmax())
    said, query, key = pointed(opened, 1, last, column)
    name, weight = said.split()
    assert (name, float(weight)) == ("B", pytest.approx(weights[last, column], abs=WEIGHTS))
    assert f"id {ids[last]}" in query
    assert f"id {ids[column]}" in key
    # Its cells are none of A's, which the readout and the crosshair are about.
    assert opened.ask("[p.app.cursor, p.app.pin]") == [None, None]
    assert pointed(opened, 0, 1, 0)[0].startswith("A ")
    assert opened.ask("p.app.cursor") == {"row": 1, "column": 0}


def test_hidden_tokens_of_the_second_trace_are_its_own(open_page: Open) -> None:
    masked = replace(made(4)["encoder.self"], mask=np.tile([True, True, False, True], (4, 1)))
    a = renamed(made(4, seed=1), src=["<s>", "Ein", "Hund", "bellt"])
    b = renamed(replace(a, attentions={"encoder.self": masked}), src=["Eine", "Katze", "miaut", "</s>"])
    opened = open_page([a, b], view="compare", state={"special": 1})
    second = values(opened, "Array.from(p.app.shown.second)").reshape(3, 3)
    assert second.sum(1) == pytest.approx(1, abs=WEIGHTS)
    assert second[:, 2].tolist() == [0, 0, 0]
    shown = [[has_colour(opened, 1, row, column, second[row, column]) for column in range(3)] for row in range(3)]
    assert shown == [[True, True, False]] * 3
    said, query, key = pointed(opened, 1, 1, 0)
    assert said.startswith("A ")
    assert " · B " in said
    assert ("Katze" in query, "Eine" in key) == (True, True)


@pytest.mark.parametrize("family", ["encoder", "decoder", "translation"])
def test_rollout_and_norms(open_page: Open, family: str) -> None:
    trace = traced(family)
    opened = open_page(trace, view="flow", extras=view_extras([trace], {"flow"}))
    for name, expected in compute_rollout(trace).items():
        opened.set(attention=name, layer=1, head=2)
        shape = expected[1].shape
        assert np.abs(values(opened).reshape(shape) - expected[1]).max() <= WEIGHTS
        norms = share_of_rows(norm_weighted(trace[name]))[1, 2]
        shown = values(opened, "Array.from(p.app.shown.shown.norm)").reshape(shape)
        assert np.abs(shown - norms).max() <= 2 * WEIGHTS
    said = opened.page.inner_text("main")
    assert "Abnar and Zuidema 2020" in said
    assert "not by itself an explanation" in said


def test_statistics_over_checkpoints(open_page: Open) -> None:
    first = made(6, heads=3)
    traces = [first, *(replace(first, attentions=made(6, heads=3, seed=seed).attentions) for seed in (4, 5))]
    evolution = collect_evolution([100, 200, 400], traces)
    opened = open_page(traces, view="evolution", extras={"evolution": evolution.extras()})
    for statistic in ("entropy", "sink"):
        opened.set(**{"evolution.statistic": statistic})
        expected = evolution.statistics["encoder.self"][statistic].reshape(3, 6).T
        np.testing.assert_allclose(values(opened).reshape(6, 3), expected, atol=1e-5)
    assert "at step 400" in opened.page.inner_text(".panels")
    opened.press("b", "b")
    assert "Layer 0, head 0 at step 100" in opened.page.inner_text(".panels")
    opened.page.keyboard.press("n")
    opened.settle().press("ArrowDown", "ArrowDown", "Enter")
    assert opened.ask("[p.get('layer'), p.get('head'), p.get('evolution.step')]") == ["0", "1", "0"]
    assert opened.ask("p.read(4, 2)")["names"] == ["layer 1 head 1", "step 400"]


@pytest.fixture(scope="module")
def searched() -> Trace:
    """A search with its tree; its tokens are labelled by their ids."""
    return trace_search(model("translation"), None, DecodeConfig(beam_size=3, max_length=6), [5, 9, 12, 30, 7])


def test_the_tree_of_a_search(open_page: Open, searched: Trace) -> None:
    assert searched.search is not None
    nodes = searched.search.nodes
    opened = open_page(searched, view="beam")
    np.testing.assert_allclose(values(opened), [node.score for node in nodes], atol=1e-5)
    steps = opened.ask("p.app.shown.steps.map((column) => column.map((node) => node.id))")
    assert sorted(one for column in steps for one in column) == list(range(len(nodes)))
    for number, column in enumerate(steps):
        for one in column:
            parent = nodes[one].parent
            assert (parent is None) if number == 0 else (parent in steps[number - 1])
    kept = opened.set(**{"beam.kept": 1}).ask("p.app.shown.steps.flat().map((node) => node.id)")
    assert sorted(kept) == [place for place, node in enumerate(nodes) if node.status != "pruned"]


def test_a_hypothesis_shows_where_the_model_looked(open_page: Open, searched: Trace) -> None:
    assert searched.search is not None
    opened = open_page(searched, view="beam").set(layer=1)
    attention = searched["search.cross"]
    steps = opened.ask("p.app.shown.steps.map((column) => column.map((node) => node.id))")
    for column, row in ((1, 0), (2, 1), (3, 2)):
        opened.set(pin=f"{row},{column}")
        node = searched.search.nodes[steps[column][row]]
        expected = np.stack([attention.weights(1, head)[node.row] for head in range(attention.num_heads)])
        shown = values(opened, "Array.from(p.app.shown.rowsShown)").reshape(attention.num_heads + 1, -1)
        assert np.abs(shown[:-1] - expected).max() <= WEIGHTS
        assert np.abs(shown[-1] - expected.mean(axis=0)).max() <= WEIGHTS
        figures = dict(opened.ask("p.read(...a)", [row, column])["figures"])
        assert float(figures["log-probability"].replace("−", "-")) == pytest.approx(node.log_prob, abs=1e-3)
        assert float(figures["ranked by"].replace("−", "-")) == pytest.approx(node.ranked_by, abs=1e-3)


def test_a_search_is_stepped_through_by_keyboard(open_page: Open, searched: Trace) -> None:
    opened = open_page(searched, view="beam")
    last = opened.ask("p.app.shown.steps.length - 1")
    opened.press("b")
    assert opened.ask("p.app.shown.until") == last - 1
    opened.press("n")
    assert opened.ask("p.app.shown.until") == last
    opened.press(" ")
    assert opened.page.get_by_role("button", name="stop").count() == 1
    while opened.ask("p.app.shown.until") < 2:
        opened.page.wait_for_timeout(50)
    opened.press(" ")
    assert opened.page.get_by_role("button", name="play").count() == 1
    assert 2 <= opened.ask("p.app.shown.until") <= last
    opened.press("ArrowRight", "ArrowRight", "ArrowDown")
    assert opened.told().endswith(("continued", "dropped", "ended", "the result"))


def hostile(trace: Trace) -> Trace:
    """The trace with tokens that an attacker could have written."""
    assert trace.search is not None
    texts = cycle(CORPUS)

    def renamed(token: Token) -> Token:
        return replace(token, text=(text := next(texts)), piece=text)

    sequences = {name: tuple(map(renamed, tokens)) for name, tokens in trace.sequences.items()}
    nodes = tuple(replace(node, token=renamed(node.token)) for node in trace.search.nodes)
    model = {"name": CORPUS[0], "family": CORPUS[1], "d_model": CORPUS[7]}
    return replace(trace, sequences=sequences, model=model, search=replace(trace.search, nodes=nodes))


def test_nothing_comes_out_of_a_token(open_page: Open, searched: Trace) -> None:
    views = ["beam", "alignment", "compare", "evolution", "flow"]
    traces = [hostile(searched), hostile(searched)]
    extras = view_extras(traces, views, gold=[GOLD])
    extras["evolution"] = collect_evolution([1, 2], traces).extras()
    opened = open_page(traces, view="beam", views=views, extras=extras, title=CORPUS[0])
    for view in views:
        opened.set(view=view, table=True)
        for _ in range(3):
            opened.press("ArrowDown", "ArrowRight")
        opened.press("Enter", "c", "r")
        for _ in range(opened.page.locator("dialog").count()):
            opened.page.keyboard.press("Escape")
        opened.page.mouse.move(200, 420)
        assert opened.ask("p.app.shown.size.rows") > 1
        assert strange(opened) == [], view
