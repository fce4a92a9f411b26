"""The views in which one writes, on pages that hold a model: what they show is what Python says."""

from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.analysis.ablation import Head, disable_heads
from pellucid.views.model_page import to_page
from tests.browser.conftest import Open, Opened
from tests.browser.test_page_answers import translator
from tests.browser.test_writing import until, written

pytestmark = pytest.mark.browser

TEXT = "abc defg hi"


@pytest.fixture
def held(open_page: Open, tmp_path: Path) -> tuple[pellucid.Translator, Opened]:
    """A translator, and the page that holds it, open."""
    model = translator(beam_size=2, max_length=12)
    path = to_page(model, tmp_path / "held.html", "float32", examples=["a b c"])
    opened = open_page.file(path)  # type: ignore[attr-defined]
    until(opened, "document.querySelector('textarea')")
    return model, opened


def best(model: pellucid.Translator, text: str) -> str:
    return model.translate([text])[0].text.strip()


def test_what_is_typed_is_translated(held: tuple[pellucid.Translator, Opened]) -> None:
    model, opened = held
    written(opened, best(model, "a b c"))
    opened.page.fill("textarea", TEXT)
    written(opened, best(model, TEXT))
    opened.page.fill("textarea", f"{TEXT}\n\nbad")
    written(opened, f"{best(model, TEXT)}\n\n{best(model, 'bad')}")


def test_a_chosen_token_stands_and_the_rest_is_the_models(held: tuple[pellucid.Translator, Opened]) -> None:
    model, opened = held
    opened.page.fill("textarea", TEXT)
    written(opened, best(model, TEXT))
    before = opened.page.inner_text(".written").strip()
    opened.page.locator(".word").first.click()
    options = opened.page.locator(".alternatives [role=option][aria-selected=false]").all()
    names = [option.locator(".name").inner_text() for option in options]
    option, chosen = next((one, name) for one, name in zip(options, names, strict=True) if name.isalpha())
    option.click()
    until(opened, "document.querySelector('.written').innerText.trim() !== a", before)
    until(opened, "document.querySelector('.written').getAttribute('aria-busy') === 'false'")
    assert opened.page.inner_text(".written").strip().startswith(chosen)
    assert not before.startswith(chosen)


def test_a_head_that_is_off_is_off(held: tuple[pellucid.Translator, Opened]) -> None:
    model, opened = held
    opened.page.fill("textarea", TEXT)
    written(opened, best(model, TEXT))
    opened.set(view="what_if")
    until(opened, "document.querySelectorAll('.sides .word').length")
    for layer in range(2):
        for head in range(model.model.config.num_heads):
            opened.page.click(f"[data-key='cross.{layer}.{head}']")
            with torch.inference_mode(), disable_heads(model.model, Head("cross", layer, head)):
                expected = best(model, TEXT)
            until(
                opened,
                "[...document.querySelectorAll('.sides .written')].at(-1).querySelector('p').textContent.trim() === a",
                expected,
            )
            opened.page.click("text=Reset")


def test_other_views_look_at_what_was_written(held: tuple[pellucid.Translator, Opened]) -> None:
    model, opened = held
    opened.page.fill("textarea", TEXT)
    written(opened, best(model, TEXT))
    for view in ("overview", "heads", "beam", "lens"):
        opened.set(view=view)
        until(opened, "document.querySelector('main').textContent.length > 20")
    opened.set(view="overview")
    until(opened, "document.querySelectorAll('.findings article').length === 3")
    assert opened.page.inner_text(".source-text").replace(" ", "") == TEXT.replace(" ", "")
    shown = "".join(opened.page.locator(".sentences .word").all_inner_texts())
    assert shown == best(model, TEXT).replace(" ", "")
    trace = model.trace(TEXT)
    attention = opened.ask("p.weights('cross', 1, 0)")
    assert attention == pytest.approx(trace["cross"].weights(1, 0).ravel().tolist(), abs=1e-4)


def test_a_recorded_trace_stays_until_somebody_writes(open_page: Open, tmp_path: Path) -> None:
    model = translator(beam_size=2, max_length=12)
    path = tmp_path / "recorded.html"
    pellucid.view(model.trace(TEXT), "overview").html(path, "all", model=model, examples=[TEXT])
    opened = open_page.file(path)  # type: ignore[attr-defined]
    until(opened, "document.querySelector('header')")
    opened.page.evaluate("(async () => { await (await pellucid).app.live.ready; })()")
    opened.set(view="translate")
    until(opened, "document.querySelectorAll('.written .word').length")
    opened.set(view="overview")
    opened.page.wait_for_timeout(500)
    assert "the weights shown differ" in opened.page.inner_text("header")
    assert not opened.ask("'how' in p.app.trace")
    opened.set(view="translate")
    opened.page.fill("textarea", "abc hi")
    until(opened, "document.querySelector('.written').getAttribute('aria-busy') === 'false'")
    opened.page.wait_for_timeout(300)
    opened.set(view="overview")
    until(opened, "document.querySelector('header').innerText.includes('computed in this page, with')")
