"""What holds for the picture of every view."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pellucid.analysis.alignment import Gold
from pellucid.analysis.evolution import collect_evolution
from pellucid.tracing.trace import Trace
from pellucid.views import KINDS, OF_TRACES, VIEWS, pictures
from pellucid.views.canvas.drawing import COLUMN, PAGE, Drawing
from pellucid.views.view import can_serve, load_picture
from pellucid.views.view_options import ViewOptions
from tests.unit.views.drawn import (
    HOSTILE,
    contributions_of,
    draw_view,
    encoder,
    lens_of,
    outside,
    parsed,
    renamed,
    translation,
)  # fmt: skip


def draw(view: str, trace: Trace, width: str | None = None) -> Drawing:
    options: dict[str, Any] = {"width": width}
    if view == "compare":
        options["other"] = renamed(trace, "other")
    if view == "evolution":
        options["evolution"] = collect_evolution([10, 200_000], [trace, trace])
    if view == "lens":
        options["lens"] = lens_of(trace)
    if view == "contributions":
        options["contributions"] = contributions_of(trace)
    if view == "alignment":
        options["gold"] = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)}))
    return draw_view(view, trace, **options)


def hostile() -> Trace:
    return translation([*HOSTILE, "<e>"], [*HOSTILE[::-1], "<e>"])


def many() -> Trace:
    return translation([f"word{n}" for n in range(60)], [f"Wort{n}" for n in range(70)])


def single() -> Trace:
    return translation(["a"], ["b"])


TRACES = {"usual": translation, "hostile": hostile, "many": many, "single": single}


def test_each_view_of_traces_has_a_picture_and_each_view_a_part_of_the_page() -> None:
    viewer = files("pellucid.views") / "viewer" / "modules" / "views"
    assert {each.name for each in viewer.iterdir()} >= {f"{view}.js" for view in VIEWS}
    modules = {path.stem for path in Path(pictures.__file__).parent.glob("[a-z]*.py")}
    assert modules == {KINDS[view].picture or view for view in OF_TRACES}
    assert [load_picture(view).__name__ for view in ("overview", "flow")] == ["show_model", "show_flow"]


@pytest.mark.parametrize("view", OF_TRACES)
@pytest.mark.parametrize("kind", TRACES)
@pytest.mark.parametrize("width", [None, "column"])
def test_everything_lies_on_a_page_that_is_valid(view: str, kind: str, width: str | None) -> None:
    drawing = draw(view, TRACES[kind](), width)
    assert outside(drawing) == []
    root = parsed(drawing.as_svg())
    limit = COLUMN if width else 10_000
    assert float(root.attrib["width"]) <= limit + 0.01
    assert drawing.title
    assert drawing.description.endswith(".")


@pytest.mark.parametrize("view", OF_TRACES)
def test_equal_traces_give_equal_pictures(view: str) -> None:
    assert draw(view, translation()).as_svg() == draw(view, translation()).as_svg()


@pytest.mark.parametrize("view", OF_TRACES)
def test_a_usual_sentence_fits_a_page(view: str) -> None:
    drawing = draw(view, translation([f"w{n}" for n in range(14)], [f"v{n}" for n in range(12)]))
    assert drawing.width <= PAGE + 30


@pytest.mark.parametrize("view", OF_TRACES)
def test_a_title_of_ones_own(view: str) -> None:
    options: dict[str, Any] = {"title": "Mine", "other": translation() if view == "compare" else None}
    if view == "evolution":
        options["evolution"] = collect_evolution([1], [translation()])
    if view == "lens":
        options["lens"] = lens_of(translation())
    if view == "contributions":
        options["contributions"] = contributions_of(translation())
    assert draw_view(view, translation(), **options).title == "Mine"


def test_what_a_trace_can_serve() -> None:
    everything = {"overview", "text", "heads", "matrix", "model", "neuron", "beam", "alignment", "flow"}
    assert {view for view in VIEWS if can_serve(view, translation(), ViewOptions())} == everything
    assert {view for view in VIEWS if can_serve(view, encoder(), ViewOptions())} == everything - {"beam", "alignment"}
    found = ViewOptions(lens=lens_of(translation()), contributions=contributions_of(translation()))
    explained = {view for view in VIEWS if can_serve(view, translation(), found)}
    assert explained == everything | {"lens", "contributions"}
