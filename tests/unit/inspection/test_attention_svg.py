from xml.etree import ElementTree

import numpy as np
import pytest

from pellucid.errors import DataError
from pellucid.inspection import draw_attention
from pellucid.inspection.attention_svg import text_width, visible

SVG = "{http://www.w3.org/2000/svg}"


def attention(*shape: int) -> np.ndarray:
    """Random weights whose rows sum to 1."""
    return np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.3), size=shape[:-1])


def parsed(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return root


def panels(root: ElementTree.Element) -> list[list[ElementTree.Element]]:
    return [group.findall(f"{SVG}rect") for group in root.findall(f"{SVG}g[@class='cells']")]


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def cell_place(rect: ElementTree.Element) -> tuple[float, float]:
    return float(rect.attrib["x"]), float(rect.attrib["y"])


def test_each_cell_tells_its_tokens_and_its_weight() -> None:
    weights, rows, columns = attention(2, 3), ["a", "dog"], ["ein", "Hund", "</s>"]
    (cells,) = panels(parsed(draw_attention(weights, rows, columns)))
    expected = [f"{rows[i]} → {columns[j]}: {weights[i, j]:.3f}" for i in range(2) for j in range(3)]
    assert [cell.findtext(f"{SVG}title") for cell in cells] == expected


def test_opacity_is_the_weight() -> None:
    weights = attention(5, 7)
    (cells,) = panels(parsed(draw_attention(weights, "abcde", "tuvwxyz")))
    opacities = np.array([float(cell.attrib["fill-opacity"]) for cell in cells]).reshape(5, 7)
    np.testing.assert_allclose(opacities, weights, atol=5.1e-4)
    assert opacities.min() >= 0


def test_rows_run_down_and_columns_to_the_right() -> None:
    (cells,) = panels(parsed(draw_attention(attention(2, 3), "ab", "xyz")))
    places = np.array([cell_place(cell) for cell in cells]).reshape(2, 3, 2)
    assert (np.diff(places[:, :, 0], axis=1) > 0).all()
    assert (np.diff(places[:, :, 0], axis=0) == 0).all()
    assert (np.diff(places[:, :, 1], axis=0) > 0).all()
    assert (np.diff(places[:, :, 1], axis=1) == 0).all()


def test_labels_stand_beside_their_cells() -> None:
    root = parsed(draw_attention(attention(2, 3), "ab", "xyz"))
    (cells,) = panels(root)
    side = float(cells[0].attrib["width"])
    place = {text.text: (float(text.attrib["x"]), float(text.attrib["y"])) for text in root.iter(f"{SVG}text")}
    for j, label in enumerate("xyz"):
        x, y = cell_place(cells[j])
        assert x < place[label][0] < x + side
        assert place[label][1] < y
    for i, label in enumerate("ab"):
        x, y = cell_place(cells[3 * i])
        assert place[label][0] < x
        assert y < place[label][1] < y + side


@pytest.mark.parametrize("heads", [2, 3, 4, 8, 12])
def test_heads_are_small_multiples_with_numbers(heads: int) -> None:
    root = parsed(draw_attention(attention(heads, 4, 5), "abcd", "vwxyz"))
    assert [len(cells) for cells in panels(root)] == [20] * heads
    assert [text for text in texts(root) if text.startswith("head")] == [f"head {n}" for n in range(heads)]
    assert len({cell_place(cells[0]) for cells in panels(root)}) == heads


def test_one_matrix_has_no_head_number() -> None:
    assert not [text for text in texts(parsed(draw_attention(attention(3, 3), "abc", "abc"))) if "head" in text]


@pytest.mark.parametrize("shape", [(1, 1), (60, 7), (7, 60), (8, 20, 30), (5, 2, 40)])
@pytest.mark.parametrize("token", ["x", "internationalisierung", "이천이십사년", "W" * 90])
def test_everything_lies_on_the_page(shape: tuple[int, ...], token: str) -> None:
    rows, columns = [token] * shape[-2], [token] * shape[-1]
    root = parsed(draw_attention(attention(*shape), rows, columns, "A title"))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    for rect in root.iter(f"{SVG}rect"):
        x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
        assert 0 <= x <= x + float(rect.attrib["width"]) <= width
        assert 0 <= y <= y + float(rect.attrib["height"]) <= height
    for text in root.iter(f"{SVG}text"):
        length = text_width(text.text or "") * float(text.attrib["font-size"])
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        if "transform" in text.attrib:
            assert x + length * 0.7 <= width
            assert y - length * 0.7 >= 0
        else:
            start = x - length * {"end": 1, "middle": 0.5}.get(text.get("text-anchor", ""), 0)
            assert 0 <= start <= start + length <= width
            assert 0 < y <= height


def test_only_long_column_labels_are_slanted() -> None:
    assert "rotate(" not in draw_attention(attention(2, 2), ["internationalisation", "b"], "xy")
    assert draw_attention(attention(2, 2), "ab", ["internationalisation", "y"]).count("rotate(-45 ") == 2


def test_a_very_long_label_is_cut_but_its_tooltip_is_not() -> None:
    root = parsed(draw_attention(attention(1, 1), ["a" * 100], ["b"]))
    assert "a" * 23 + "…" in texts(root)
    assert panels(root)[0][0].findtext(f"{SVG}title", "").startswith("a" * 100 + " → b")


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("<s>", "<s>"),
        ("&amp;", "&amp;"),
        ('"it\'s"', '"it\'s"'),
        ("]]>", "]]>"),
        (" ", "␣"),
        ("New York\u00a0City", "New␣York␣City"),
        ("\n", "↵"),
        ("\t", "⇥"),
        ("\0\x1b\x7f", "␀␛␡"),
        ("\ud800\uffff", "��"),
        ("▁Hund", "▁Hund"),
        ("달력", "달력"),
        ("", ""),
    ],
)
def test_any_token_is_shown_as_text(token: str, shown: str) -> None:
    assert visible(token) == shown
    svg = draw_attention(np.ones((1, 1)), [token], [token], f"of {token}")
    root = parsed(svg.encode("utf-8").decode("utf-8"))
    assert texts(root).count(shown) == 2
    assert panels(root)[0][0].findtext(f"{SVG}title") == f"{shown} → {shown}: 1.000"


def test_the_picture_has_a_role_a_title_and_a_description() -> None:
    root = parsed(draw_attention(attention(3, 2, 2), ["a", "b c"], "xy", 'Layer 2 of <"tiny">'))
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == 'Layer 2 of <"tiny">'
    assert 'Layer 2 of <"tiny">' in texts(root)
    description = root.findtext(f"{SVG}desc", "")
    assert "3 heads" in description
    assert "Rows: a b␣c. Columns: x y." in description


def test_without_a_title_the_name_is_still_there_but_not_drawn() -> None:
    root = parsed(draw_attention(attention(2, 2), "ab", "xy"))
    assert root.findtext(f"{SVG}title") == "Attention weights"
    assert "Attention weights" not in texts(root)


def test_the_ground_is_opaque_and_covers_the_page() -> None:
    root = parsed(draw_attention(attention(2, 2), "ab", "xy"))
    ground = root.find(f"{SVG}rect")
    assert ground is not None
    assert ground.attrib == {"width": root.attrib["width"], "height": root.attrib["height"], "fill": "#ffffff"}


def test_the_legend_runs_from_0_to_1() -> None:
    root = parsed(draw_attention(attention(2, 2), "ab", "xy"))
    steps = [float(rect.attrib["fill-opacity"]) for rect in root.findall(f"{SVG}rect") if "fill-opacity" in rect.attrib]
    assert steps == pytest.approx(np.linspace(0, 1, 11).tolist())
    assert texts(root)[-3:] == ["0", "1", "attention weight"]


def test_nothing_is_fetched_and_no_name_can_clash_with_another_picture() -> None:
    svg = draw_attention(attention(2, 3, 3), "abc", "xyz", "t")
    assert svg.count("http") == 1  # the name space
    assert "<script" not in svg
    assert " id=" not in svg


def test_equal_input_gives_equal_text() -> None:
    weights = attention(4, 5, 6)
    assert draw_attention(weights, "abcde", "uvwxyz") == draw_attention(weights.copy(), list("abcde"), list("uvwxyz"))


def test_half_precision_may_miss_its_range_by_a_hair() -> None:
    (cells,) = panels(parsed(draw_attention(np.array([[1.0005, -0.0005]], dtype=np.float32), "a", "xy")))
    assert [cell.attrib["fill-opacity"] for cell in cells] == ["1.000", "0.000"]


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (6,), (1, 8, 2, 3), (8, 3, 2)])
def test_a_shape_unlike_the_tokens_is_an_error(shape: tuple[int, ...]) -> None:
    message = (
        rf"shape \({', '.join(map(str, shape))},?\) do not fit 2 row and 3 column tokens.*\(2, 3\) or \(heads, 2, 3\)"
    )
    with pytest.raises(DataError, match=message):
        draw_attention(np.zeros(shape), "ab", "xyz")


@pytest.mark.parametrize(("shape", "rows"), [((0, 2), ""), ((0, 1, 2), "a")])
def test_nothing_to_draw_is_an_error(shape: tuple[int, ...], rows: str) -> None:
    with pytest.raises(DataError, match=rf"shape \({', '.join(map(str, shape))}\) leave nothing to draw"):
        draw_attention(np.zeros(shape), rows, "xy")


@pytest.mark.parametrize(
    ("values", "range_"), [([0.5, 3.25], "0.5 to 3.25"), ([-4.0, 1.0], "-4 to 1"), ([0.0, np.nan], "nan to nan")]
)
def test_scores_are_not_weights(values: list[float], range_: str) -> None:
    with pytest.raises(DataError, match=rf"must lie in 0\.\.1; these run from {range_}") as error:
        draw_attention(np.array([values]), "a", "xy")
    assert "after the softmax" in error.value.hint
