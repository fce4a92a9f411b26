"""What the page's model traces is shown by all views as what Python traces, and nothing of another sentence with it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.analysis.alignment import Gold
from pellucid.analysis.flow import compute_rollout
from pellucid.views.model_page import model_islands
from pellucid.views.page import page
from pellucid.views.page_data import view_extras
from pellucid.views.pictures.model import thumbnails
from tests.browser.conftest import Open, Opened
from tests.browser.living_pages import living

pytestmark = pytest.mark.browser

OTHER = "der Hund jagt auf der Wiese den Ball"
VIEWS = ("flow", "model", "heads", "alignment", "lens", "neuron", "beam")
SHOW = "p.live.trace(a, null, {search: true}).then((trace) => p.app.show(trace))"


def opened_with(open_page: Open, path: Path, task: Any, traces: list[Any], view: str, extras: Any = None) -> Opened:
    islands = model_islands(task, "float32")
    path.write_text(page(traces, view=view, views=VIEWS, extras=extras, model=islands), encoding="utf-8")
    opened: Opened = open_page.file(path)  # type: ignore[attr-defined]
    return opened


def matrix(opened: Opened, expression: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(opened.ask(f"Array.from({expression})")).reshape(shape)


def test_nothing_of_a_replaced_trace_is_shown_of_another(open_page: Open, tmp_path: Path) -> None:
    task, trace = living()
    gold = Gold(frozenset({(0, 0)}), frozenset({(0, 0)}))
    extras = view_extras([trace], VIEWS, gold=[gold])
    extras |= {"opening": [{"cross": [0, 0]}], "names": ["the first"], "lens": {"traces": [{"stages": []}]}}
    opened = opened_with(open_page, tmp_path / "page.html", task, [trace], "flow", extras)
    kinds = ("extrasOf('flow')", "extrasOf('alignment', 'gold')", "extrasOf('lens')")
    assert opened.ask(f"[{','.join(f'Boolean(p.app.{kind})' for kind in kinds)}]") == [True] * 3
    assert opened.ask("[p.app.first, p.app.nameOf(0)]") == [[0, 0], "the first"]
    opened.ask(SHOW, OTHER)
    opened.settle()
    assert opened.ask(f"[{','.join(f'Boolean(p.app.{kind})' for kind in kinds)}]") == [False] * 3
    assert opened.ask("p.app.nameOf(0)") != "the first"
    expected = compute_rollout(task.trace(OTHER))
    for name, layers in expected.items():
        for layer, values in enumerate(layers):
            opened.set(attention=name, layer=layer)
            assert matrix(opened, "p.app.shown.shown.rollout", values.shape) == pytest.approx(values, abs=1e-5)
            opened.ask("p.read(0, 0)")
    assert opened.page.locator(".panels > div:visible").count() == 2
    opened.set(view="alignment")
    assert "AER" not in opened.page.inner_text("main > .note")


@pytest.mark.parametrize("family", ["decoder", "classifier"])
def test_the_rollout_of_one_stack_is_pythons(open_page: Open, tmp_path: Path, family: str) -> None:
    task, _ = living(family)
    opened = opened_with(open_page, tmp_path / "page.html", task, [], "flow")
    opened.ask("p.live.trace(a).then((trace) => p.app.show(trace))", OTHER)
    for name, layers in compute_rollout(task.trace(OTHER)).items():
        opened.set(attention=name, layer=1)
        assert matrix(opened, "p.app.shown.shown.rollout", layers[1].shape) == pytest.approx(layers[1], abs=1e-5)


def test_all_heads_are_shown_at_a_glance(open_page: Open, tmp_path: Path) -> None:
    task, _ = living()
    opened = opened_with(open_page, tmp_path / "page.html", task, [], "model")
    opened.ask(SHOW, OTHER)
    opened.settle()
    assert opened.ask("p.app.choices.map((one) => one.name)") == ["encoder.self", "decoder.self", "cross"]
    assert opened.ask("p.app.shown.size.rows") == 6
    for name, attention in task.trace(OTHER).attentions.items():
        expected = thumbnails(attention).astype(int)
        found = matrix(opened.set(attention=name), "p.shown()", expected.shape)
        assert np.abs(found - expected).max() <= 1


def test_it_opens_with_the_head_that_follows_the_words(open_page: Open, tmp_path: Path) -> None:
    task, _ = living()
    opened = opened_with(open_page, tmp_path / "page.html", task, [], "heads")
    opened.ask(SHOW, OTHER)
    opened.settle()
    assert opened.ask("p.app.attention.name") == "cross"
    trace = task.trace(OTHER)
    cross = trace["cross"]
    rows = [i for i, token in enumerate(trace.sequences["out"]) if not token.special]
    columns = [j for j, token in enumerate(trace.sequences["src"]) if not token.special]
    rated = {}
    for layer in range(cross.num_layers):
        for head in range(cross.num_heads):
            weights = cross.weights(layer, head)[np.ix_(rows, columns)]
            spread = len(set(weights.argmax(axis=1))) / len(rows)
            rated[layer, head] = weights.max(axis=1).mean() * spread
    assert tuple(opened.ask("[p.app.layer, p.app.head]")) == max(rated, key=lambda place: rated[place])
    opened.set(view="alignment")
    first = opened.ask("p.app.first")
    opened.set(view="beam")
    assert opened.ask("p.app.first") == first
    opened.set(view="heads", attention="encoder.self")
    assert opened.ask("p.app.attention.name") == "encoder.self"
