"""What a page says of what it shows: scales, axes, figures, words; and what one takes away from it."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.config import DecodeConfig
from pellucid.tasks.tracing import trace_search
from pellucid.tracing.trace import Trace
from pellucid.views.view import View, view
from pellucid.views.words import words
from tests.browser.conftest import Open, Opened
from tests.browser.node import in_node
from tests.browser.traces import made, model, tokens, traced, translation

pytestmark = pytest.mark.browser

VIEWER = Path(__file__).parents[2] / "viewer"
OF_ATTENTION = ("heads", "matrix", "model", "neuron", "beam", "alignment", "compare", "evolution", "flow")
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def spelled_in_bytes() -> Trace:
    """Three tokens that spell "naïve", the second character of which is two bytes."""
    trace = made(["na", "ï[C3]", "ï[AF]", "ve"])
    words = tuple(replace(token, word=0) for token in trace.sequences["src"])
    words = (words[0], replace(words[1], adds="ï"), replace(words[2], adds=""), words[3])
    return replace(trace, sequences={"src": words})


def opened_as(open_page: Open, tmp_path: Path, shown: View, **context: Any) -> Opened:
    shown.html(tmp_path / "shown.html")
    return open_page.file(tmp_path / "shown.html", **context)  # type: ignore[attr-defined,no-any-return]


def test_words_of_bytes_are_the_same_in_page_and_still(open_page: Open) -> None:
    trace = spelled_in_bytes()
    opened = open_page(trace, state={"words": 1})
    assert opened.ask("p.app.shown.axes.rows.tokens.map((one) => one.text)") == ["naïve"]
    assert "naïve" in view(trace, "matrix", merge_words=True).drawing.as_svg()


@pytest.mark.parametrize("name", ["heads", "matrix", "alignment", "flow"])
def test_one_sentence_has_one_alignment_whatever_view_opens(open_page: Open, tmp_path: Path, name: str) -> None:
    trace = translation()
    opened = opened_as(open_page, tmp_path, view(trace, name))
    place = opened.ask("[p.app.layer, p.app.head]")
    links = opened.set(view="alignment").ask("p.app.shown.pharaoh")
    first = opened_as(open_page, tmp_path, view(trace, "alignment"))
    assert first.ask("[p.app.layer, p.app.head]") == place
    assert first.ask("p.app.shown.pharaoh") == links
    assert opened.set(view="heads").ask("p.app.heads") == [place[1]]


def test_what_is_chosen_stays_in_the_other_views(open_page: Open, tmp_path: Path) -> None:
    opened = opened_as(open_page, tmp_path, view(translation(), "matrix")).set(layer=1, head=0)
    opened.set(view="heads")
    assert opened.ask("[p.app.layer, p.app.head]") == [1, 0]


def test_the_first_word_written_stays_where_the_first_one_read_is_hidden(open_page: Open) -> None:
    opened = open_page(translation(), state={"attention": "cross", "sink": 1})
    assert opened.ask("p.app.shown.axes.rows.tokens[0].text") == "Ein"
    assert opened.ask("p.app.shown.axes.columns.tokens[0].text") == "brown"
    assert opened.page.locator("label", has_text="hide first token read").count() == 1
    opened.set(attention="encoder.self")
    assert opened.ask("p.app.shown.size") == {"rows": 7, "columns": 7}


def test_bars_of_an_ablation_are_of_one_scale_with_a_unit(open_page: Open) -> None:
    def of(changes: list[list[float]]) -> dict[str, Any]:
        return {"values": changes}

    large, small = [[0.08, 0, 0, 0]] * 2, [[0.04, 0, 0, 0]] * 2
    attentions = {"encoder.self": of(large), "decoder.self": of(small), "cross": of(small)}
    opened = open_page(
        translation(), view="model", extras={"ablation": {"metric": "loss", "attentions": attentions}},
        viewport={"width": 1280, "height": 2400},
    )  # fmt: skip
    assert "bars: the change of loss without the head, all on one scale" in opened.page.inner_text(".signs")
    assert "+0.080" in opened.page.inner_text(".signs")
    ctx = "document.querySelector('.pane canvas').getContext('2d')"

    def bar(attention: str) -> int:
        """How many pixels of the bar below a head are coloured."""
        item = opened.ask(
            "(({ x, y }) => ({ x, y }))"
            "(p.app.shown.items.find((one) => one.attention.name === a && !one.layer && !one.head))",
            attention,
        )
        side = opened.ask("p.app.shown.side")
        line = opened.ask(
            f"Array.from({ctx}.getImageData(a[0], a[1], a[2], 1).data)", [item["x"], item["y"] + side + 20, side]
        )
        return sum(line[at + 3] > 0 for at in range(0, len(line), 4))

    assert bar("encoder.self") == pytest.approx(2 * bar("cross"), abs=2)
    assert bar("cross") == bar("decoder.self") > 0


def test_arcs_to_tokens_out_of_sight_do_not_outshine(open_page: Open) -> None:
    opened = open_page(made(512, layers=1, heads=2, width=16), view="heads")
    away = opened.ask("p.app.shown.away")
    assert away > 0.5
    assert f"{100 * away:.0f}\u00a0% of the weight of the rows in sight" in opened.page.inner_text("main > .note")
    ctx = "document.querySelector('.pane canvas').getContext('2d')"
    middle = opened.ask("[(p.app.shown.left + p.app.shown.right) / 2, p.app.shown.picture.seen.height]")
    line = opened.ask(f"Array.from({ctx}.getImageData(a[0], a[1] - 3, 200, 2).data)", middle)
    assert sum(line[at + 3] > 160 for at in range(0, len(line), 4)) < 20  # no bundle at the edge


def test_a_model_without_a_root_shows_none(open_page: Open) -> None:
    trace = traced("relative")
    plain = open_page(trace, view="neuron").ask(NEURON)
    undivided = replace(trace, model={**trace.model, "score_scale": 1.0})
    opened = open_page(undivided, view="neuron")
    shown = opened.ask(NEURON)
    assert shown["scores"] == pytest.approx(plain["scores"], abs=1e-5)
    width = trace["encoder.self"].head_width
    assert np.array(shown["q"]) * width**0.5 == pytest.approx(np.array(plain["q"]), abs=1e-5)
    assert shown["products"] == pytest.approx(plain["products"], abs=1e-5)
    assert "√" not in view(undivided, "neuron").drawing.as_svg()
    assert "√K" in view(trace, "neuron").drawing.as_svg()


NEURON = "Object.fromEntries(['q', 'scores', 'products'].map((name) => [name, Array.from(p.app.shown[name])]))"


def painted_texts(opened: Opened, expression: str) -> list[str]:
    """The texts that an expression paints on any canvas."""
    return list(
        opened.ask(
            "await (async () => { const said = [], own = CanvasRenderingContext2D.prototype.fillText;"
            "CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {"
            "said.push(text); return own.call(this, text, ...rest); };"
            f"{expression}; CanvasRenderingContext2D.prototype.fillText = own; return said; }})()"
        )
    )


def test_score_columns_read_as_a_sum(open_page: Open) -> None:
    trace = traced("relative")
    opened = open_page(trace, view="neuron", state={"attention": "encoder.self"})
    said = painted_texts(opened, "p.app.shown.picture.paint()")
    assert [one for one in said if one in {"sum", "+ bias", "= score"}] == ["sum", "+ bias", "= score"]
    scores = trace["encoder.self"].scores(0, 0)[0]
    assert trace["encoder.self"].bias is not None
    bias = trace["encoder.self"].bias[0, 0, 0]
    line = [f"{scores[0] - bias[0]:.2f}", f"{'-' if bias[0] < 0 else '+'} {abs(bias[0]):.2f}", f"= {scores[0]:.2f}"]
    assert set(line) <= {one.replace("−", "-") for one in said}


@pytest.mark.parametrize("name", ["matrix", "text", "flow", "alignment"])
def test_numbers_have_names_and_run_as_no_formula(open_page: Open, name: str) -> None:
    trace = translation()
    out = tokens(["=1+1", "-2", "@x", "+3", "</s>"])
    trace = replace(trace, sequences={**trace.sequences, "out": out})
    opened = open_page(trace, view=name, state={"attention": "cross"})
    rows = list(csv.reader(io.StringIO(opened.ask("p.app.shown.csv()"))))
    if name == "flow":
        assert rows[0] == ["query", "key", "weight", "rollout"], "a line a cell, with the number of each panel"
        assert [row[:2] for row in rows[1:3]] == [["'=1+1", "A"], ["'=1+1", "brown"]]
        return
    if name == "alignment":
        assert rows[0][1:] == ["A", " brown", "dog", "chases", "a", "ball"] or len(rows[0]) == len(rows[1]) > 3
    else:
        assert rows[0][1:] == ["A", "brown", "dog", "chas", "es", "a", "ball", "</s>"]
    assert [row[0] for row in rows[1:5]] == ["'=1+1", "'-2", "'@x", "'+3"]
    assert all(-1 <= float(cell) <= 1.01 for row in rows[1:] for cell in row[1:])
    one = list(csv.reader(io.StringIO(opened.ask("p.app.shown.csv(1)"))))
    assert [row[0] for row in one] == [rows[0][0], "'-2"]


def copied(opened: Opened) -> list[list[str]]:
    """The lines that `r` copies."""
    return list(csv.reader(io.StringIO(opened.press("r").ask("p.app.copied"))))


def test_the_row_alone_is_copied(open_page: Open) -> None:
    opened = open_page(translation(), view="model").press("ArrowDown", "ArrowDown")
    assert opened.ask("p.app.cursor") == {"row": 1, "column": 0}
    assert [row[:3] for row in copied(opened)[1:]] == [["encoder.self", "1", str(head)] for head in range(4)]
    config = DecodeConfig(beam_size=2, max_length=4)
    opened = open_page(trace_search(model("translation"), None, config, [5, 9, 12, 30, 2]), view="beam")
    opened.press("ArrowDown", "ArrowDown")
    written = opened.ask("p.app.shown.steps.flatMap((column) => column[1]?.id ?? [])")
    assert opened.ask("p.app.cursor.row") == 1
    assert [int(row[0]) for row in copied(opened)[1:]] == written
    assert 0 < len(written) < opened.ask("p.app.shown.nodes.length")


def test_a_saved_picture_is_whole_with_its_title_and_scale(open_page: Open) -> None:
    trace = made(90)
    opened = open_page(trace, state={"zoom": 30}, title="A sentence")
    frame = opened.ask("(({ left, cell, top }) => ({ left, cell, top }))(p.app.shown.drawing.frame)")
    opened.page.evaluate("URL.createObjectURL = (blob) => { window.blob = blob; return 'data:,'; }")
    opened.press("e")
    opened.page.locator("dialog button", has_text="PNG").click()
    for _ in range(100):
        if opened.page.evaluate("Boolean(window.blob)"):
            break
        opened.page.wait_for_timeout(100)
    size = opened.page.evaluate("createImageBitmap(window.blob).then(({ width, height }) => [width, height])")
    assert size[0] >= frame["left"] + 90 * frame["cell"]
    assert size[1] >= frame["top"] + 90 * frame["cell"] + 40
    lines = painted_texts(opened, "p.painted()")
    assert "A sentence" in lines
    assert "attention weight" in lines
    assert {"0", "1", "w89"} <= set(lines)


def test_the_live_region_tells_of_layer_and_head(open_page: Open) -> None:
    opened = open_page(translation(), state={"attention": "cross"})
    assert opened.press("]").told() == "layer 1, head 0"
    assert opened.press(".").told() == "layer 1, head 1"
    opened.press("ArrowDown", "]", ",")
    assert opened.told().startswith("layer 1, head 0: query “Ein”, key “A”, weight ")


def test_a_thousand_marks_stay_in_their_place(open_page: Open) -> None:
    opened = open_page(made(["e" + "\u0301" * 1500, "b"]))
    label = opened.ask("p.app.shown.drawing.frame.rows[0]")
    assert label == "e" + "\u0301" * 6 + "…"
    assert opened.press("ArrowDown").ask("p.app.readout.reading.names[0]") == f"“{label}”"


@pytest.mark.parametrize("width", [1280, 700])
def test_the_result_of_a_search_is_in_sight(open_page: Open, width: int) -> None:
    searched = trace_search(model("translation"), None, DecodeConfig(beam_size=3, max_length=30), [5, 9, 12, 30, 7])
    opened = open_page(searched, view="beam", viewport={"width": width, "height": 800})
    steps = opened.ask("p.app.shown.steps.length")
    assert steps > 18
    seen = opened.ask("p.app.shown.picture.seen")
    at = opened.ask("p.app.shown.wide") * (steps - 1)
    assert seen["x"] <= at <= seen["x"] + seen["width"]
    headers = opened.set(table=1).page.locator("th").all_inner_texts()
    assert all(headers)


@pytest.mark.parametrize("name", ["heads", "matrix", "neuron", "alignment"])
def test_controls_take_a_fourth_of_a_phone_at_most(open_page: Open, tmp_path: Path, name: str) -> None:
    opened = opened_as(open_page, tmp_path, view(translation(), name), **PHONE)
    assert opened.page.locator(".readout").bounding_box()["y"] <= 844 / 4
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_word_is_followed_by_all_views(open_page: Open) -> None:
    opened = open_page(translation(), view="matrix", views=OF_ATTENTION, state={"attention": "cross"})
    opened.press("ArrowDown", "ArrowDown", "Enter")
    assert opened.ask("[p.get('word'), p.app.word]") == ["out:1", "out:1"]
    for name, row in (("heads", 1), ("neuron", 1), ("flow", 1), ("alignment", 1)):
        assert opened.set(view=name).ask("p.app.pin.row") == row, name
        assert "Hund" in opened.readout()
    opened.set(view="matrix", attention="decoder.self")
    assert opened.ask("p.app.shown.axes.rows.tokens[p.app.pin.row].text") == "Hund"
    opened.press("Escape")
    assert opened.ask("[p.get('word'), p.app.pin]") == ["", None]


def test_the_word_under_the_pointer_is_known(open_page: Open) -> None:
    opened = open_page(translation(), view="flow", state={"attention": "cross"})
    opened.ask("p.app.hover({ row: 2, column: 3 })")
    assert opened.ask("p.app.word") == "out:2"
    opened.ask("p.app.hover(null)")
    assert opened.ask("p.app.word") == ""


@pytest.mark.parametrize("name", ["heads", "matrix", "model", "neuron", "alignment", "flow", "compare"])
def test_colours_and_axes_are_named(open_page: Open, name: str) -> None:
    opened = open_page(translation(), view=name, state={"attention": "cross"})
    assert opened.page.locator(".signs .sign").count() > 0
    said = " ".join(painted_texts(opened, "p.app.shown.picture.paint()"))
    wanted = {"model": ["layer", "head"], "neuron": ["query", "key"]}.get(name, ["written", "read"])
    assert all(one in said for one in wanted), said


def test_figures_are_explained_in_the_page(open_page: Open) -> None:
    opened = open_page(translation(), view="model").set(order="entropy")
    assert "How widely a head looks" in opened.page.inner_text("main > .note")
    opened.press("?")
    said = opened.page.inner_text("dialog")
    for figure in ("entropy", "distance", "diagonality", "previous", "sink"):
        assert figure in said


def test_every_text_of_the_views_of_attention_has_korean() -> None:
    korean = in_node('const { ko } = await viewer("shell/ko/viewing.js"); return ko;')
    flow = in_node('const { ko } = await viewer("shell/ko/flow.js"); return ko;')
    for english, text in (korean | flow).items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", text)), english
        assert re.search("[가-힣]", text) or "→" in text, english
    missing = {
        text
        for path in [*(VIEWER / "shell").glob("*.js"), *(VIEWER / "views" / f"{name}.js" for name in OF_ATTENTION)]
        for text in re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', path.read_text(encoding="utf-8"))
        if text not in korean | flow and text not in {english for english, _ in words().values()}
    }
    assert missing == set()


def test_no_text_that_every_page_has_is_another_beside_a_view() -> None:
    others = sorted(path.stem for path in (VIEWER / "shell" / "ko").glob("*.js") if path.stem != "viewing")
    repeated = in_node(
        'const found = {}, of = async (name) => (await viewer(`shell/ko/${name}.js`)).ko, every = await of("viewing");'
        "for (const name of a) found[name] = Object.keys(await of(name)).filter((english) => english in every);"
        "return found;",
        others,
    )
    assert repeated == {name: [] for name in others}


def test_a_page_in_korean_names_its_controls_so(open_page: Open) -> None:
    opened = open_page(translation(), view="heads", views=OF_ATTENTION, state={"language": "ko"})
    assert {"행렬", "모델", "뉴런", "정렬", "흐름"} <= set(opened.page.locator(".tabs button").all_inner_texts())
    assert "층" in opened.page.inner_text(".bar")
    assert opened.press("ArrowDown").told().startswith("쿼리 “")
