import numpy as np
import pytest

from pellucid.views.canvas.chart import Panel, Series, decade_ticks, draw_panel, round_ticks, tick_text
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Dot, Label, Line, extent
from tests.unit.views.drawn import texts


def draw(*lines: Series, **options: bool) -> Drawing:
    drawing = Drawing("t")
    draw_panel(drawing, Panel("Loss", "step", lines, **options), 0, 0, 400)
    return drawing


def curves(drawing: Drawing) -> list[Line]:
    return [shape for shape in drawing.shapes if isinstance(shape, Line) and shape.width == 1.5]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 13_000, [0, 2000, 4000, 6000, 8000, 10000, 12000]),
        (-3, 2, [-3, -2, -1, 0, 1, 2]),
    ],
)
def test_ticks_are_at_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"), [(0.001, 10, [0.001, 0.01, 0.1, 1, 10]), (0.15, 4, [0.2, 0.5, 1, 2]), (2, 4, [2, 3, 4])]
)
def test_decades_have_ticks_between_them_where_there_are_few(low: float, high: float, ticks: list[float]) -> None:
    assert decade_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.3, "0.3"), (12_000, "12,000"), (4e-4, "4e−4"), (2.5e7, "2.5e7"), (-2, "−2"), (0.004, "0.004")],
)
def test_ticks_are_short(value: float, text: str) -> None:
    assert tick_text(value) == text


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_value_lies_at_its_tick(logarithmic: bool) -> None:
    drawing = draw(Series("", np.array([0.0, 50.0, 100.0]), np.array([1.0, 10.0, 100.0])), logarithmic=logarithmic)
    (curve,) = curves(drawing)
    ticks = {s.text: s for s in drawing.shapes if isinstance(s, Label) and s.anchor == "end"}
    assert curve.points[2][1] == pytest.approx(ticks["100"].y - 3.5, abs=0.1)
    across = [s for s in drawing.shapes if isinstance(s, Label) and s.anchor == "middle" and s.text == "100"]
    assert curve.points[2][0] == pytest.approx(across[0].x)
    if logarithmic:
        assert curve.points[1][1] == pytest.approx((curve.points[0][1] + curve.points[2][1]) / 2)


def test_on_axes_of_logarithms_a_power_is_a_straight_line() -> None:
    x = np.array([10.0, 100.0, 1000.0])
    drawing = draw(Series("", x, x**2), logarithmic=True, logarithmic_across=True)
    first, middle, last = curves(drawing)[0].points
    assert middle == pytest.approx(((first[0] + last[0]) / 2, (first[1] + last[1]) / 2))
    across = {s.text: s.x for s in drawing.shapes if isinstance(s, Label) and s.anchor == "middle"}
    assert [across[text] for text in ("10", "100", "1,000")] == pytest.approx([first[0], middle[0], last[0]])


def test_several_lines_have_a_legend_and_one_has_none() -> None:
    x, y = np.arange(3.0), np.arange(3.0)
    assert {"training", "validation"} <= set(texts(draw(Series("training", x, y), Series("validation", x, y))))
    assert "training" not in texts(draw(Series("training", x, y)))


def test_a_long_legend_takes_more_lines_and_stays_beside_its_chart() -> None:
    x = np.arange(3.0)
    few, many = (draw(*(Series(f"a rather long name {n}", x, x) for n in range(count))) for count in (2, 6))
    labels = [shape for shape in many.shapes if isinstance(shape, Label) and shape.text.startswith("a rather")]
    assert len({label.y for label in labels}) > 1
    assert max(extent(label)[2] for label in labels) <= 400
    assert curves(many)[0].points[0][1] > curves(few)[0].points[0][1]


def test_what_is_not_finite_is_left_out() -> None:
    drawing = draw(Series("", np.arange(4.0), np.array([1.0, np.nan, np.inf, 2.0])))
    assert len(curves(drawing)[0].points) == 2


def test_a_single_point_and_equal_values_can_be_drawn() -> None:
    drawing = draw(Series("", np.array([5.0]), np.array([2.0])))
    assert any(isinstance(shape, Dot) for shape in drawing.shapes)
    assert len(curves(draw(Series("", np.arange(3.0), np.full(3, 7.0))))) == 1


def test_more_points_than_can_be_seen_are_thinned_but_the_ends_stay() -> None:
    x = np.arange(10_000.0)
    (curve,) = curves(draw(Series("", x, x)))
    assert len(curve.points) <= 1_500
    full = curves(draw(Series("", x[[0, -1]], x[[0, -1]])))[0]
    np.testing.assert_allclose([curve.points[0], curve.points[-1]], full.points)
