"""What is drawn: at every size, in every scheme, in every script, and how much of it there is."""

import numpy as np
import pytest

from pellucid.views.page import page
from tests.browser.conftest import Open
from tests.browser.traces import made, pair, traced, translation

pytestmark = pytest.mark.browser

VIEWS = ["heads", "matrix", "model", "neuron"]
SCRIPTS = [
    "갈색",
    "개",
    "##가",
    "棕色的狗",
    "كلب",
    "כלב",
    "कुत्ता",
    "👩‍👩‍👧‍👦",
    "🇰🇷",
    "e\u0301",
    "\u202eabc",
    " ",
    "\n",
    "",
    "⟨EA B0⟩→가",
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "context",
    [
        {"color_scheme": "dark"},
        {"forced_colors": "active"},
        {"reduced_motion": "reduce"},
        {"viewport": {"width": 360, "height": 740}},
        {"viewport": {"width": 640, "height": 430}, "device_scale_factor": 2},
    ],
    ids=["dark", "forced", "still", "narrow", "zoomed"],
)
def test_it_draws(open_page: Open, view: str, context: dict[str, object]) -> None:
    opened = open_page(translation(), view=view, **context)
    opened.press("ArrowDown")
    assert opened.page.evaluate(
        "(() => { const c = document.querySelector('.pane canvas'), ctx = c.getContext('2d');"
        "return new Set(new Uint32Array(ctx.getImageData(0, 0, c.width, c.height).data.buffer)).size; })()"
    ) > 8  # fmt: skip
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("view", VIEWS)
def test_every_script(open_page: Open, view: str) -> None:
    opened = open_page(made(SCRIPTS), view=view, state={"table": 1})
    opened.press("ArrowDown", "ArrowDown")
    assert opened.ask("p.app.drawn") > 0


def test_what_cannot_be_seen_is_written_out(open_page: Open) -> None:
    opened = open_page(made(SCRIPTS))
    names = [opened.ask("p.read(a, a)", place)["names"][0].strip("“”") for place in range(len(SCRIPTS))]
    assert names[10:14] == ["⟨202E⟩abc", "␣", "↵", "∅"]
    assert names[7] == SCRIPTS[7]


def test_a_long_token_is_cut_between_characters(open_page: Open) -> None:
    opened = open_page(made(["👩‍👩‍👧‍👦" * 300, "x" * 10_000]))
    labels = opened.ask("p.app.shown.drawing.frame.rows")
    assert labels[0] == "👩‍👩‍👧‍👦" * 23 + "…"
    assert labels[1] == "x" * 23 + "…"


def test_pixels_of_the_matrix_are_its_weights(open_page: Open) -> None:
    trace = traced("encoder")
    opened = open_page(trace, state={"head": 1})
    ramp, frame = opened.ask("[p.app.colours.sequential, p.app.shown.drawing.frame]")
    weights = trace["encoder.self"].weights(0, 1)
    ctx = "document.querySelector('.pane canvas').getContext('2d')"
    pixel = f"Array.from({ctx}.getImageData(...a, 1, 1).data.slice(0, 3))"
    for i, j in [(0, 0), (3, 5), (7, 2)]:
        # Beside the number in the cell's middle.
        at = [frame["left"] + j * frame["cell"] + 4, frame["top"] + i * frame["cell"] + 4]
        expected = [ramp[int(np.clip(round(255 * (weights[i, j] + by)), 0, 255))] for by in (-0.004, 0, 0.004)]
        assert opened.ask(pixel, at) in expected


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log", "row"])
def test_scales_keep_the_order(open_page: Open, scale: str) -> None:
    opened = open_page(traced("encoder"), state={"scale": scale})
    assert opened.ask("p.get('scale')") == scale
    assert opened.page.locator("select", has_text="logarithm").input_value() == scale


def test_hover_tells_the_exact_number(open_page: Open) -> None:
    trace = traced("encoder")
    opened = open_page(trace)
    frame = opened.ask("p.app.shown.drawing.frame")
    box = opened.page.locator(".pane").bounding_box()
    opened.page.mouse.move(
        box["x"] + frame["left"] + 4.5 * frame["cell"], box["y"] + frame["top"] + 2.5 * frame["cell"]
    )
    weight = trace["encoder.self"].weights(0, 0)[2, 4]
    assert opened.page.inner_text(".tip b") == f"{weight:.4f}"
    assert f"{weight:.4f}" in opened.readout()
    opened.page.mouse.click(
        box["x"] + frame["left"] + 4.5 * frame["cell"], box["y"] + frame["top"] + 2.5 * frame["cell"]
    )
    assert opened.settle().ask("p.app.pin") == {"row": 2, "column": 4}


def test_heads_follow_a_token_from_either_side(open_page: Open) -> None:
    opened = open_page(translation(), view="heads", state={"attention": "cross"})
    box = opened.page.locator(".pane").bounding_box()
    opened.page.mouse.move(box["x"] + 30, box["y"] + 26 + 24 * 1.5)
    assert opened.ask("p.app.cursor.row") == 1
    opened.page.mouse.move(box["x"] + opened.ask("p.app.shown.right") + 30, box["y"] + 26 + 24 * 4.5)
    assert opened.ask("p.app.cursor.column") == 4
    opened.page.mouse.click(box["x"] + 30, box["y"] + 26 + 24 * 0.5)
    opened.page.keyboard.down("Shift")
    opened.page.mouse.click(box["x"] + 30, box["y"] + 26 + 24 * 2.5)
    assert opened.settle().ask("[p.get('pin').split(',')[0], p.get('pin2')]") == ["0", "row:2"]


def test_chips_choose_heads(open_page: Open) -> None:
    opened = open_page(translation(), view="heads")
    opened.page.locator(".chip", has_text="1").click()
    assert opened.settle().ask("p.app.chosenHeads") == [0, 2, 3]
    opened.page.locator(".chip", has_text="none").click()
    assert opened.settle().ask("p.app.chosenHeads") == []
    opened.page.locator(".chip", has_text="2").dblclick()
    assert opened.settle().ask("p.app.chosenHeads") == [2]


def test_a_click_on_a_head_opens_it(open_page: Open) -> None:
    opened = open_page(translation(), view="model", views=VIEWS)
    item = opened.ask(
        "p.app.shown.items.find((one) => one.attention.name === 'decoder.self' && one.layer === 1 && one.head === 2)"
    )
    box = opened.page.locator(".pane").bounding_box()
    opened.page.mouse.click(box["x"] + item["x"] + 9, box["y"] + item["y"] + 9)
    assert opened.settle().ask("[p.app.view.name, p.app.attention.name, p.app.layer, p.app.head]") == [
        "matrix",
        "decoder.self",
        1,
        2,
    ]


def test_a_page_carries_what_its_views_need(open_page: Open) -> None:
    sizes = {
        views: len(page([made(64, layers=4, heads=4, width=64)], view=views.split()[0], views=views.split()))
        for views in ("model", "matrix", "neuron")
    }
    assert sizes["model"] < sizes["matrix"] < sizes["neuron"]
    opened = open_page(translation(), view="model")
    assert opened.ask("p.app.traces[0].attentions.get('cross').hasWeights") is False
    assert opened.page.locator(".tabs button").all_inner_texts() == ["Model"]


def test_two_traces_can_be_chosen_between(open_page: Open) -> None:
    opened = open_page([made(3), made(5)])
    assert opened.ask("p.app.shown.size.rows") == 3
    assert opened.set(trace=1).ask("p.app.shown.size.rows") == 5


def test_the_pair_can_be_chosen_in_heads(open_page: Open) -> None:
    opened = open_page(pair(), view="heads", state={"pair": "ab"})
    assert opened.ask("p.app.shown.size") == {"rows": 5, "columns": 3}
    assert "only A → B" in opened.page.inner_text(".note")


@pytest.mark.parametrize("view", VIEWS)
def test_a_long_text_has_few_elements_and_few_arcs(open_page: Open, view: str) -> None:
    trace = made(512, layers=2, heads=12, width=64)
    opened = open_page(trace, view=view, state={"table": 1})
    opened.press("ArrowDown", "ArrowDown")
    assert opened.page.evaluate("document.querySelectorAll('*').length") <= 2500
    if view == "heads":
        assert opened.ask("p.app.shown.arcs") <= 4000
        opened.page.locator(".picture").evaluate("(one) => { one.scrollTop = 5000; }")
        opened.page.wait_for_timeout(100)
        assert 0 < opened.settle().ask("p.app.shown.arcs") <= 4000


def test_sizes_at_128_tokens() -> None:
    trace = made(128, layers=12, heads=12, width=64)
    weights = page([trace], view="heads", views=["heads", "matrix", "model"])
    assert len(weights) <= 3.5e6
    assert len(page([trace], view="neuron")) <= 7e6


def test_size_at_512_tokens() -> None:
    trace = made(512, layers=12, heads=12, width=64)
    assert len(page([trace], view="heads", views=VIEWS)) <= 27e6


def test_arcs_have_room_on_a_narrow_screen(open_page: Open) -> None:
    opened = open_page(
        made(["incomprehensibilities", *"abcdefg"], heads=12), view="heads", viewport={"width": 360, "height": 740}
    )
    assert opened.ask("p.app.shown.right - p.app.shown.left") >= 70
    opened.page.hover(".pane", position={"x": 30, "y": 40})
    assert opened.ask("p.app.cursor !== null")
