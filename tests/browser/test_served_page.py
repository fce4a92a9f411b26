"""The page of a server in a browser: translate, look inside, what if, documents; and no request but to the server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Opened
from tests.browser.living_pages import TEXT, living
from tests.browser.test_accessible import AXE, VIOLATIONS
from tests.unit.serve.serving import Server, serve

pytestmark = pytest.mark.browser

VIEWS = ("translate", "overview", "text", "heads", "matrix", "model", "neuron", "beam", "alignment", "flow", "lens",
         "contributions", "what_if", "card")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task, _ = living()
    path = tmp_path_factory.mktemp("served") / "run"
    task.save(path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serve([f"de-en={folder}", f"en-fr={folder}"]) as running:
        yield running


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Opened]:
    """The page of a server, which must ask nobody else and say nothing to the console."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    opened = Opened(context.new_page())
    opened.page.set_default_timeout(30_000)
    yield opened.go(f"{server.url}/?source=de&target=en")
    faults, requests = list(opened.faults), list(opened.requests)
    context.close()
    assert faults == []
    assert [url for url in requests if not url.startswith((server.url, "blob:", "data:"))] == []


def write(page: Opened, text: str) -> None:
    page.ask("pellucid.ready")
    page.page.fill("textarea", text)
    wait(page, "!document.querySelector('.paper').innerText.includes('appears here') && !p.live.lanes.size")


def wait(page: Opened, expression: str) -> None:
    """Waits until an expression of the page's surface is true."""
    for _ in range(300):
        if page.ask(expression):
            return
        page.page.wait_for_timeout(50)
    raise AssertionError(f"{expression} stays false: {page.page.inner_text('body')}")


def test_it_translates_as_python_does(page: Opened) -> None:
    task, _ = living()
    write(page, TEXT)
    [expected] = task.translate([TEXT])
    found = page.ask("p.live.translate(a, { beamSize: 1 })", TEXT)
    assert found["text"] == expected.text
    assert page.page.inner_text(".paper").startswith(expected.text)
    assert page.ask("pellucid.translate(a).then((one) => one.text)", TEXT) == expected.text


def test_each_view_shows_the_model_of_the_server_and_breaks_no_rule(page: Opened) -> None:
    page.page.evaluate(AXE.read_text(encoding="utf-8"))
    write(page, TEXT)
    _, trace = living()
    page.set(view="matrix")
    wait(page, "p.app.traces[0].attentions.has('cross')")
    assert page.ask("p.weight('cross', 1, 0, 2, 1)") == pytest.approx(
        float(trace["cross"].weights(1, 0)[2, 1]), abs=1e-4
    )
    found: dict[str, Any] = {}
    for language in ("en", "ko"):
        for view in VIEWS:
            page.set(view=view, language=language)
            page.page.wait_for_timeout(150)
            assert page.page.query_selector(".failure") is None, (view, page.page.inner_text(".failure"))
            if violations := page.page.evaluate(VIOLATIONS):
                found[f"{view} {language}"] = violations
    assert found == {}
    assert "This page as a file" not in page.page.inner_text("body")


def test_what_if_switches_off_a_head_of_the_server(page: Opened) -> None:
    write(page, TEXT)
    task, _ = living()
    page.set(view="what_if", off=",".join(f"cross.{layer}.{head}" for layer in range(2) for head in range(2)))
    wait(page, "Boolean(p.app.shown.two)")
    two = page.ask("p.app.shown.two.parts[0].logProbs")
    whole = page.ask("p.live.translate(a, { beamSize: 1 }).then((one) => one.parts[0].logProbs)", TEXT)
    assert two != pytest.approx(whole, abs=1e-6)
    assert task.translate([TEXT])[0].text == page.ask("p.app.shown.one.text")


def test_a_document_that_is_dropped_is_translated(page: Opened, server: Server, tmp_path: Path) -> None:
    page.ask("pellucid.ready")
    page.page.wait_for_selector(".server input[type=file]")
    page.page.evaluate(
        """(text) => { const data = new DataTransfer(); data.items.add(new File([text], "letter.txt"));
        dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })); }""",
        TEXT + "\n",
    )
    link = page.page.wait_for_selector(".documents a")
    with page.page.expect_download() as saved:
        link.click()
    assert saved.value.suggested_filename == "translated.txt"
    saved.value.save_as(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").strip() == server.translate(TEXT)["translatedText"]
    (tmp_path / "wrong.xyz").write_text("a")
    page.page.set_input_files(".server input[type=file]", tmp_path / "wrong.xyz")
    assert "not supported" in page.page.inner_text(".documents .failure")
    page.faults[:] = [fault for fault in page.faults if "400" not in fault]  # Chromium's own line of the refusal


def test_another_pair_is_another_page(page: Opened, server: Server) -> None:
    page.ask("pellucid.ready")
    page.page.select_option(".server select >> nth=0", "en")
    with page.page.expect_navigation():
        page.page.click(".server button")
    assert page.page.url.split("#")[0] == f"{server.url}/?source=en&target=fr"
    assert page.ask("pellucid.ready.then(() => p.live.about.served)") == ["en", "fr"]


def test_a_server_with_keys_asks_for_one(browser: Any, folder: Path) -> None:
    with serve([f"de-en={folder}"], api_keys=["secret"]) as running:
        opened = Opened(browser.new_context().new_page())
        opened.go(running.url)
        for key in ("wrong", "secret"):
            opened.page.fill(".key input", key)
            opened.page.click(".key button")
            if key == "wrong":
                assert "Invalid API key" in opened.page.inner_text(".key .failure")
        opened.ask("pellucid.ready")
        assert json.loads(json.dumps(opened.ask("p.live.encode(a)", TEXT)))
        opened.page.context.close()
