"""The sentence as running text, and heads chosen by their pictures."""

from typing import Any

import numpy as np
import pytest

from tests.browser.conftest import Open, Opened
from tests.browser.test_safety import CORPUS, strange
from tests.browser.traces import made, renamed, traced, translation

pytestmark = pytest.mark.browser

WEIGHTS = 1e-3
CROSS = {"attention": "cross", "layer": 1}


def words(opened: Opened, paragraph: int) -> Any:
    return opened.page.locator(".words").nth(paragraph).locator(".word")


def grounds(opened: Opened, paragraph: int) -> list[str]:
    """The colours behind the words of a text; an empty string where there is none."""
    found: list[str] = words(opened, paragraph).evaluate_all("(all) => all.map((one) => one.style.background)")
    return found


@pytest.mark.parametrize("by", ["", "head", "all"])
def test_the_weights_are_those_of_the_heads(open_page: Open, by: str) -> None:
    trace = translation()
    opened = open_page(trace, view="text", state={**CROSS, "head": 2, "text.by": by})
    cross = trace["cross"]
    layers, heads = {"": ([1], range(4)), "head": ([1], [2]), "all": (range(2), range(4))}[by]
    expected = np.mean([cross.weights(layer, head) for layer in layers for head in heads], axis=0)
    shown = np.array(opened.ask("p.shown()")).reshape(expected.shape)
    assert np.abs(shown - expected).max() <= WEIGHTS


def test_pointing_at_a_word_shades_the_other_text(open_page: Open) -> None:
    trace = translation()
    opened = open_page(trace, view="text", state=CROSS)
    mean = np.mean([trace["cross"].weights(1, head) for head in range(4)], axis=0)
    darkest = opened.ask("p.app.colours.of(1)").replace(" ", ", ")
    words(opened, 0).nth(2).hover()
    opened.settle()
    assert grounds(opened, 1)[int(mean[2].argmax())] == darkest
    assert not any(grounds(opened, 0))
    assert opened.readout().startswith("“jag”")
    words(opened, 1).nth(5).hover()
    opened.settle()
    assert grounds(opened, 0)[int(mean[:, 5].argmax())] == darkest
    assert not any(grounds(opened, 1))
    numbered = words(opened, 0).evaluate_all("(all) => all.map((one) => one.dataset.weight ?? '')")
    assert numbered == [f"{weight:.2f}".lstrip("0") if weight >= 0.1 else "" for weight in mean[:, 5]]


def test_a_pinned_word_stays_and_the_others_tell_their_weight(open_page: Open) -> None:
    trace = translation()
    opened = open_page(trace, view="text", state=CROSS)
    words(opened, 0).nth(3).click()
    opened.settle()
    words(opened, 1).nth(6).hover()
    opened.settle()
    mean = float(np.mean([trace["cross"].weights(1, head)[3, 6] for head in range(4)]))
    assert float(opened.page.inner_text(".tip b")) == pytest.approx(mean, abs=WEIGHTS)
    assert words(opened, 0).nth(3).get_attribute("class") == "word chosen"
    words(opened, 0).nth(3).click()
    assert opened.settle().ask("p.app.pin") is None


def test_one_text_looks_at_itself_in_two_directions(open_page: Open) -> None:
    trace = traced("decoder")
    opened = open_page(trace, view="text", state={"text.by": "head", "head": 1, "layer": 1})
    weights = trace["decoder.self"].weights(1, 1)
    assert opened.page.locator(".words").count() == 1
    opened.press(*["ArrowRight"] * 5)
    row = opened.ask("p.app.cursor.row")
    assert row == 4
    assert grounds(opened, 0)[row + 1 :] == [""] * (len(weights) - row - 1)
    opened.press("ArrowDown")
    assert opened.ask("p.get('text.side')") == "column"
    column = opened.ask("p.app.cursor.column")
    assert grounds(opened, 0)[:column] == [""] * column
    opened.page.get_by_role("button", name="where it looks").click()
    assert opened.settle().ask("p.get('text.side')") == ""


def test_the_keyboard_walks_from_word_to_word(open_page: Open) -> None:
    opened = open_page(translation(), view="text", state=CROSS).press("ArrowRight", "ArrowRight", "ArrowRight")
    assert opened.told().startswith("query “jag”, key ")
    assert opened.page.evaluate("document.activeElement.getAttribute('role')") == "gridcell"
    opened.press("ArrowDown", "ArrowLeft", "Enter")
    assert opened.ask("[p.get('text.side'), p.app.pin !== null]") == ["column", True]


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 860}, {"width": 360, "height": 740}])
def test_it_wraps_at_500_tokens(open_page: Open, viewport: dict[str, int]) -> None:
    opened = open_page(made(500, layers=1, heads=2), view="text", viewport=viewport)
    assert words(opened, 0).count() == 500
    opened.press(*["ArrowRight"] * 3)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.page.evaluate("document.querySelectorAll('*').length") < 2500
    opened.press("End")
    assert opened.ask("p.app.drawn") > 0


def test_of_a_very_long_text_the_words_around_the_chosen_one_are_there(open_page: Open) -> None:
    opened = open_page(made(1300, layers=1, heads=1, width=4), view="text")
    assert words(opened, 0).count() == 1000
    opened.ask("p.app.moveTo({ row: 1299, column: 0 })")
    opened.settle()
    assert words(opened, 0).last.get_attribute("class") == "word chosen"
    assert opened.page.locator(".words").inner_text().startswith("…")


def test_running_text_has_spaces_lines_and_directions(open_page: Open) -> None:
    texts = ["Hello", "world", "\n", "안", "##녕", "كلب", "\u202eabc", "<s>", " "]
    opened = open_page(renamed(made(len(texts)), src=texts), view="text")
    shown = opened.page.locator(".words").text_content()
    assert shown == "Hello world↵\n안녕 كلب ⟨202E⟩abc <s>␣"
    assert opened.page.locator(".words").get_attribute("dir") == "auto"


def test_nothing_comes_out_of_a_word(open_page: Open) -> None:
    opened = open_page(made(CORPUS), view="text", state={"table": 1})
    opened.press("ArrowRight", "ArrowRight", "Enter")
    assert strange(opened) == []


@pytest.mark.parametrize("views", [["matrix"], ["matrix", "model"]], ids=["computed", "carried"])
def test_a_heads_picture_is_the_head(open_page: Open, views: list[str]) -> None:
    trace = translation()
    opened = open_page(trace, view="matrix", views=views, state={**CROSS})
    opened.page.wait_for_timeout(600)
    painted = opened.page.evaluate(
        "[...document.querySelectorAll('.chip canvas')].map((one) => [...one.getContext('2d')"
        ".getImageData(0, 0, one.width, one.height).data].filter((_, i) => i % 4 === 0))"
    )
    ramp = np.array(opened.ask("p.app.colours.sequential"))[:, 0]
    for head in range(4):
        weights = trace["cross"].weights(1, head)
        expected = ramp[np.rint(255 * np.sqrt(weights)).astype(int)]
        if views == ["matrix"]:
            assert np.abs(np.array(painted[head]).reshape(expected.shape) - expected).max() <= 3
        else:
            assert len(painted[head]) == 32 * 32
            assert abs(min(painted[head]) - expected.min()) <= 8


def test_pointing_at_a_heads_picture_shows_it_and_a_click_chooses_it(open_page: Open) -> None:
    trace = translation()
    opened = open_page(trace, view="matrix", state=CROSS)

    def shown() -> float:
        values = np.array(opened.settle().ask("p.shown()")).reshape(5, 8)
        return float(np.abs(values - trace["cross"].weights(1, 2)).max())

    chip = opened.page.get_by_role("button", name="head 2")
    assert shown() > 0.01
    chip.hover()
    opened.page.wait_for_timeout(250)
    assert shown() <= WEIGHTS
    assert chip.get_attribute("aria-pressed") == "false"
    opened.page.mouse.move(5, 5)
    opened.page.wait_for_timeout(50)
    assert shown() > 0.01
    chip.click()
    opened.page.mouse.move(5, 5)
    assert shown() <= WEIGHTS
    assert chip.get_attribute("aria-pressed") == "true"


def test_the_keyboard_looks_at_heads_and_chooses_one(open_page: Open) -> None:
    opened = open_page(translation(), view="heads", state=CROSS)
    opened.page.get_by_role("button", name="head 1").focus()
    opened.page.keyboard.press("Tab")
    assert opened.settle().ask("[p.app.heads, p.app.chosenHeads.length]") == [[2], 4]
    opened.press("Enter")
    assert opened.ask("p.app.chosenHeads") == [0, 1, 3]
