"""Everything by keyboard, and everything told to those who do not see the picture."""

from pathlib import Path

import pytest

from tests.browser.conftest import Open
from tests.browser.living_pages import living, write_living_page
from tests.browser.traces import made, traced, translation

pytestmark = pytest.mark.browser

VIEWS = ["heads", "matrix", "model", "neuron"]


def test_a_walk_through_the_matrix(open_page: Open) -> None:
    trace = translation()
    opened = open_page(trace, state={"attention": "cross"})
    place = int(trace["cross"].weights(0, 0)[1].argmax())
    opened.press("ArrowDown", "ArrowDown", *["ArrowRight"] * place)
    weight = trace["cross"].weights(0, 0)[1, place]
    key = f"“{trace.sequences['src'][place].text}”"
    shown = opened.ask("p.app.attention.figure(a)", float(weight))
    assert opened.readout().split()[:6] == ["“Hund”", "→", key, "weight", shown, "rank"]
    told = opened.told()
    assert told.startswith(f"query “Hund”, key {key}, weight {shown}, rank 1 of 8, ")
    assert opened.page.evaluate("document.activeElement.getAttribute('role')") == "gridcell"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_a_grid_to_walk_through(open_page: Open, view: str) -> None:
    opened = open_page(translation(), view=view)
    opened.press("ArrowDown", "ArrowDown", "ArrowRight")
    size = opened.ask("p.app.shown.size")
    grid = opened.page.locator('[role="grid"]')
    assert grid.get_attribute("aria-rowcount") == str(size["rows"] + 1)
    assert grid.get_attribute("aria-colcount") == str(size["columns"] + 1)
    assert grid.get_attribute("aria-label")
    assert opened.page.evaluate(
        "[document.activeElement.ariaColIndex, document.activeElement.parentElement.ariaRowIndex]"
    ) == ["3", "3"]
    assert opened.page.evaluate("document.activeElement.textContent")
    assert grid.locator('[tabindex="0"]').count() == 1
    assert opened.told()
    opened.press("Escape")
    assert opened.ask("p.app.cursor") is None


def test_layers_and_heads_by_key(open_page: Open) -> None:
    opened = open_page(translation()).press("]", ".", ".", ",")
    assert (opened.ask("p.app.layer"), opened.ask("p.app.head")) == (1, 1)
    opened.press("]", "[", "[", "[", ",", ",")
    assert (opened.ask("p.app.layer"), opened.ask("p.app.head")) == (0, 0)


@pytest.mark.parametrize("view", ["overview", "matrix"])
def test_without_a_trace_keys_do_nothing(open_page: Open, tmp_path: Path, view: str) -> None:
    task, _ = living()
    path = write_living_page(tmp_path / "living.html", task, [], view)
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    opened.press("]", "[", ",", ".", "t", "/", "c", "r", "Escape")
    assert opened.ask("['layer', 'head', 'table'].map((key) => p.get(key) ?? '')") == ["", "", ""]
    opened.press("?")
    assert opened.page.locator("dialog").count() == 1


def test_a_view_without_cells_leaves_layer_and_head_alone(open_page: Open) -> None:
    opened = open_page(translation(), view="overview", views=["overview", "matrix"]).press("]", ".", "t", "/")
    assert opened.ask("['layer', 'head', 'table'].map((key) => p.get(key) ?? '')") == ["", "", ""]
    assert opened.set(view="matrix").press("]", ".").ask("[p.app.layer, p.app.head]") == [1, 1]


def test_pin_and_let_go(open_page: Open) -> None:
    opened = open_page(traced("encoder")).press("ArrowDown", "ArrowDown", "Enter")
    assert opened.ask("p.get('pin')") == "1,0"
    opened.press("ArrowDown")
    assert opened.ask("p.app.pin") == {"row": 1, "column": 0}
    opened.press("Escape")
    assert opened.ask("p.get('pin')") == ""


def test_find_goes_from_one_place_to_the_next(open_page: Open) -> None:
    opened = open_page(made(["cat", "dog", "cats", "bird"])).press("/")
    opened.page.keyboard.type("cat")
    opened.settle()
    assert opened.ask("p.app.cursor.row") == 0
    opened.press("Enter")
    assert opened.ask("p.app.cursor.row") == 2
    assert opened.page.inner_text(".find output") == "2/4"
    opened.press("Escape")
    assert opened.page.evaluate("document.activeElement === document.body")


def test_copy_a_cell_and_a_row(open_page: Open) -> None:
    trace = made(["a", 'b "quoted"', "c"])
    opened = open_page(trace, permissions=["clipboard-read", "clipboard-write"]).press("ArrowDown", "ArrowDown", "c")
    assert opened.page.evaluate("navigator.clipboard.readText()").startswith('query “b␣"quoted"”, key “a”, weight ')
    opened.press("r")
    header, row = opened.page.evaluate("navigator.clipboard.readText()").strip().split("\n")
    assert header == ',"a","b ""quoted""","c"'
    exact = trace["encoder.self"].weights(0, 0)[1]
    assert [float(one) for one in row.split(",")[1:]] == pytest.approx(list(exact), abs=1e-3)


def test_what_the_clipboard_refuses_can_be_selected(open_page: Open) -> None:
    opened = open_page(made(3))
    opened.page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(Error('refused')))")
    opened.press("ArrowDown", "c")
    assert opened.page.input_value("dialog textarea").startswith("query “w0”")


def test_help_lists_every_key(open_page: Open) -> None:
    opened = open_page(made(3)).press("?")
    keys = opened.page.locator("dialog kbd").all_inner_texts()
    assert {"←", "[", "]", ",", ".", "Enter", "Esc", "/", "e", "?", "c", "r", "t"} <= set(keys)


@pytest.mark.parametrize("view", VIEWS)
def test_save_a_picture_and_numbers(open_page: Open, view: str) -> None:
    opened = open_page(translation(), view=view)
    for name, start in (("PNG", b"\x89PNG\r\n\x1a\n"), ("All numbers", None)):
        opened.press("e")
        with opened.page.expect_download() as download:
            opened.page.locator("dialog button", has_text=name).click()
        content = download.value.path().read_bytes()
        assert download.value.suggested_filename.endswith(".png" if start else ".csv")
        assert content.startswith(start) if start else content.count(b"\n") > 3


@pytest.mark.parametrize("view", VIEWS)
def test_the_largest_numbers_as_a_table(open_page: Open, view: str) -> None:
    opened = open_page(translation(), view=view).press("t")
    assert opened.page.locator("table caption").inner_text()
    assert 3 <= opened.page.locator("tbody tr").count() <= 100
    opened.press("t")
    assert opened.page.locator("table").count() == 0


def test_the_address_holds_what_is_chosen(open_page: Open) -> None:
    opened = open_page(translation(), views=VIEWS).set(
        view="heads", attention="decoder.self", layer=1, heads="0,3", pin="2,1"
    )
    opened.page.wait_for_url("**#*decoder.self*")
    address = opened.page.url
    opened.set(layer=0, view="matrix")
    opened.page.wait_for_url(lambda url: url != address)  # it is written behind a pause
    opened.go(address)
    opened.page.reload()
    opened.settle()
    assert opened.ask("[p.app.view.name, p.app.attention.name, p.app.layer, p.app.heads, p.app.pin]") == [
        "heads", "decoder.self", 1, [0, 3], {"row": 2, "column": 1},
    ]  # fmt: skip
    opened.page.evaluate("location.hash = '#view=neuron&layer=1&head=2'")
    opened.ask("(async () => { while (p.app.view.name !== 'neuron') await new Promise((r) => setTimeout(r, 20)); })()")
    assert opened.settle().ask("[p.app.view.name, p.app.head]") == ["neuron", 2]


@pytest.mark.parametrize(
    "fragment", ["layer=99&head=-4&pin=900,900", "view=nothing&attention=none&heads=77", "trace=8&zoom=x&pin=a"]
)
def test_an_address_out_of_range_is_put_right(open_page: Open, fragment: str) -> None:
    state = dict(part.split("=") for part in fragment.split("&"))
    opened = open_page(translation(), views=VIEWS, state=state)
    assert opened.ask("p.app.layer < 2 && p.app.head < 4 && p.app.pin === null && p.app.drawn > 0")


def test_a_masked_cell_says_so(open_page: Open) -> None:
    opened = open_page(traced("decoder"))
    assert opened.ask("p.read(1, 5)")["text"].endswith("masked")
    assert opened.ask("p.app.shown.cells().cell(1, 5)") == "masked"


def test_controls_have_names(open_page: Open) -> None:
    opened = open_page(translation(), view="heads", views=VIEWS)
    for view in VIEWS:
        opened.set(view=view)
        nameless = opened.page.evaluate(
            "[...document.querySelectorAll('button, input, select')].filter((one) => "
            "!(one.ariaLabel || one.labels?.[0]?.textContent.trim() || one.textContent.trim())).length"
        )
        assert nameless == 0


def test_the_focus_stays_where_controls_are_built_anew(open_page: Open) -> None:
    opened = open_page(translation(), view="heads", views=["heads", "matrix"])
    opened.page.locator(".tabs button").first.focus()
    opened.press("Tab", "Enter")
    assert opened.ask("p.app.view.name") == "matrix"
    assert opened.page.evaluate("document.activeElement.textContent") == "Matrix"
    opened.press("Tab", "Enter")
    assert opened.ask("p.app.attention.name") == "encoder.self"
    assert opened.page.evaluate("document.activeElement.textContent") == "Encoder self"
    opened.page.click("text=Heads")
    assert opened.page.evaluate("document.activeElement === document.body")
