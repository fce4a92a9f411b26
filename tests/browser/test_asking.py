"""What if, the overview and the card, on a model that is none (stub_live.js), and the overview of traces alone."""

import pytest

from tests.browser.conftest import Open, Opened
from tests.browser.test_writing import SENTENCE, asked, reads, until, writing
from tests.browser.traces import made, traced, translation

pytestmark = pytest.mark.browser

VIEWS = ["overview", "heads", "matrix"]


def side(opened: Opened, which: int) -> str:
    return " ".join(opened.page.locator(".sides .side").nth(which).locator(".word").all_inner_texts())


def test_a_hidden_word_changes_what_is_written(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE})
    reads(opened, ".verdict", "Everything is on. Switch something off, or hide a word.")
    opened.page.click(".source-word:has-text('Fußball')")
    reads(opened, ".verdict", "New words: 0. Words that are gone: 1.")
    assert side(opened, 0) == "Two young men are playing soccer ."
    assert side(opened, 1) == "Two young men are playing ."
    assert opened.page.locator(".changed").all_inner_texts() == ["soccer"]
    assert opened.page.locator(".changed").get_attribute("aria-label") != ""
    assert asked(opened)[-1][2]["hidden"] == [4]
    assert opened.page.locator(".source-word[aria-pressed=true]").inner_text() == "Fußball"
    assert opened.ask("p.get('hidden')") == "4"
    opened.page.click("text=Reset")
    reads(opened, ".verdict", "Everything is on. Switch something off, or hide a word.")
    assert opened.ask("p.get('hidden')") == ""


def test_bars_say_what_the_output_depends_on(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE})
    until(opened, "document.querySelector('.source-word i')?.style.width")
    changes = {
        one["text"]: one["change"] for one in opened.page.evaluate("live.occlusion('" + SENTENCE + "')")["words"]
    }
    most = max(changes.values())
    for chip in opened.page.locator(".source-word").all():
        width = float(chip.locator("i").evaluate("(one) => one.style.width").rstrip("%"))
        assert width == pytest.approx(max(0, 100 * changes[chip.inner_text()] / most), abs=0.01)


def test_heads_and_layers_are_switched_off(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE})
    reads(opened, ".verdict", "Everything is on. Switch something off, or hide a word.")
    page = opened.page
    assert page.locator(".switch").count() == (4 + 3 + 3) * 4 + 4 + 3
    page.click("[data-key='cross.1.3']")
    reads(opened, ".verdict", "New words: 1. Words that are gone: 1.")
    assert asked(opened)[-1][2]["off"] == ["cross.1.3"]
    assert page.get_attribute("[data-key='cross.1.3']", "aria-checked") == "false"
    page.click("[data-key='encoder.2']")
    until(opened, "live.asked.at(-1)[2].layersOff.length === 1")
    assert asked(opened)[-1][2]["layersOff"] == ["encoder.2"]
    page.click("[aria-label='0: all heads of the layer, Cross']")
    until(opened, "live.asked.at(-1)[2].off.length === 5")
    page.click("[aria-label='0: all heads of the layer, Cross']")
    until(opened, "live.asked.at(-1)[2].off.length === 1")
    assert opened.ask("[p.get('off'), p.get('layersoff')]") == ["cross.1.3", "encoder.2"]


def test_switches_by_keyboard(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE})
    page = opened.page
    page.focus("[data-key='cross.0.0']")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    until(opened, "live.asked.at(-1)[2].off?.length === 1")
    assert asked(opened)[-1][2]["off"] == ["cross.1.2"]
    assert page.locator("table:has([data-key='cross.0.0']) .switch[tabindex='0']").count() == 1


def test_what_is_off_can_be_linked_to(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE, "off": "cross.0.1", "hidden": "0"})
    reads(opened, ".verdict", "New words: 1. Words that are gone: 2.")
    assert opened.page.get_attribute("[data-key='cross.0.1']", "aria-checked") == "false"


def test_another_text_hides_no_word_of_the_one_before(open_page: Open) -> None:
    opened = writing(open_page, state={"text": SENTENCE, "hidden": "0", "off": "cross.0.1"})
    opened.page.fill("textarea", "Männer spielen .")
    for _ in range(100):
        if opened.ask("p.get('text')") == "Männer spielen .":
            break
        opened.page.wait_for_timeout(50)
    opened.set(view="what_if")
    until(opened, "document.querySelectorAll('.source-word').length === 3")
    assert opened.page.locator(".source-word[aria-pressed=true]").count() == 0
    assert opened.ask("[p.get('hidden'), p.get('off')]") == ["", "cross.0.1"]


def test_every_head_is_measured(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE})
    reads(opened, ".verdict", "Everything is on. Switch something off, or hide a word.")
    opened.page.click("text=Measure every head")
    until(opened, "document.querySelector('[data-key=\"cross.1.2\"]').textContent === '•'")
    assert opened.page.locator(".switch", has_text="•").count() == 1
    assert "log-probability" in str(opened.page.get_attribute("[data-key='cross.1.2']", "title"))


def test_temperature_draws(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE})
    reads(opened, ".verdict", "Everything is on. Switch something off, or hide a word.")
    assert opened.page.is_disabled("text=Draw again")
    opened.page.fill("[aria-label=temperature]", "1.5")
    until(opened, "live.asked.at(-1)[2].temperature === 1.5")
    assert asked(opened)[-1][2]["seed"] == 0
    opened.page.click("text=Draw again")
    until(opened, "live.asked.at(-1)[2].seed === 1")


def test_a_classifier_before_and_after(open_page: Open) -> None:
    about = {"task": "classify", "model": {"num_heads": 2, "num_encoder_layers": 2, "d_model": 8}}
    opened = writing(open_page, "what_if", about=about, state={"text": "ganz gut"})
    reads(opened, ".verdict", "Everything is on. Switch something off, or hide a word.")
    assert opened.page.locator(".switch").count() == 2 * 2 + 2
    opened.page.click(".source-word:has-text('gut')")
    until(opened, "/says/.test(document.querySelector('.verdict').textContent)")
    assert opened.page.locator(".sides .classes li").count() == 6


def test_what_the_model_cannot_is_said(open_page: Open) -> None:
    opened = writing(open_page, "what_if", state={"text": SENTENCE})
    reads(opened, ".verdict", "Everything is on. Switch something off, or hide a word.")
    opened.page.evaluate("() => { live.knobs.failure = 'this cannot be'; }")
    opened.page.click("[data-key='cross.1.3']")
    reads(opened, ".verdict.failure", "this cannot be")


@pytest.mark.parametrize("kind", ["translation", "encoder", "decoder", "grouped", "relative"])
def test_an_overview_of_a_trace_alone(open_page: Open, kind: str) -> None:
    trace = translation() if kind == "translation" else traced(kind)
    opened = open_page(trace, view="overview", views=VIEWS)
    until(opened, "document.querySelectorAll('.findings article').length")
    heads = sum(one.num_layers * one.num_heads for one in trace.attentions.values())
    assert opened.page.locator(".thumbnail").count() == heads
    assert opened.page.locator(".part").count() >= 3
    if kind == "translation":
        assert opened.page.inner_text(".source-text").split() == ["A", "brown", "dog", "chases", "a", "ball"]
        assert opened.page.locator(".sentences .word").all_inner_texts() == ["Ein", "Hund", "jagt"]
        assert "is the sharpest of the cross-attention" in opened.page.inner_text(".findings")
    opened.page.locator(".findings article button").first.click()
    opened.settle()
    assert opened.ask("p.get('view')") in {"heads", "matrix"}


def test_the_overview_names_the_head_that_follows(open_page: Open) -> None:
    trace = translation()
    opened = open_page(trace, view="overview", views=VIEWS)
    until(opened, "document.querySelectorAll('.findings article').length")
    cross, columns = trace["cross"], [i for i, token in enumerate(trace.sequences["src"]) if not token.special]
    rows = [i for i, token in enumerate(trace.sequences["out"]) if not token.special]
    scored = {}
    for layer in range(cross.num_layers):
        for head in range(cross.num_heads):
            found = cross.weights(layer, head)[rows][:, columns]
            scored[layer, head] = found.max(1).mean() * len(set(found.argmax(1).tolist())) / len(rows)
    layer, head = max(scored, key=lambda place: scored[place])
    assert f"Layer {layer}, head {head} is the sharpest of the cross-attention" in opened.page.inner_text(".findings")
    opened.page.click(".thumbnail >> nth=-1")
    opened.settle()
    assert opened.ask("[p.get('view'), p.get('layer'), p.get('head')]") == ["matrix", "1", "3"]


def test_pointing_at_a_written_word_shows_where_the_head_looked(open_page: Open) -> None:
    opened = open_page(translation(), view="overview", views=VIEWS)
    until(opened, "document.querySelectorAll('.findings article').length")
    opened.page.hover(".sentences .word:has-text('Hund')")
    until(opened, "[...document.querySelectorAll('.read')].some((one) => one.style.getPropertyValue('--seen'))")
    layer, head = opened.ask("[p.app.shown.best.layer, p.app.shown.best.head]")
    weights = translation()["cross"].weights(layer, head)[1]
    seen = opened.page.evaluate(
        "[...document.querySelectorAll('.read')].map((one) => +one.style.getPropertyValue('--seen'))"
    )
    assert seen == pytest.approx(
        [weights[0], weights[1], weights[2], weights[3] + weights[4], weights[5], weights[6]], abs=2e-3
    )


def test_an_overview_of_a_long_text_stays_light(open_page: Open) -> None:
    opened = open_page(made(300, layers=3, heads=4), view="overview", views=VIEWS)
    until(opened, "document.querySelectorAll('.thumbnail').length === 12")
    assert opened.page.evaluate("document.querySelectorAll('*').length") < 2500


def test_the_card_tells_what_the_model_is(open_page: Open) -> None:
    card = "---\nlanguage:\n  - de\n  - en\n---\n# Name\n\n| | |\n| - | - |\n| BLEU | 40.0 |\n"
    card += "\n```\ncode *no*\n```\n[a](b)\n"
    opened = writing(open_page, "card", about={"card": card, "proof": {"said": "300 of 300 equal", "deep": {"x": 1}}})
    text = opened.page.inner_text(".card")
    for part in (
        "German → English",
        "2,100,000",
        "4 that read, 3 that write",
        "300 of 300 equal",
        "pellucid train",
        "BLEU",
        "code *no*",
        "a (b)",
    ):
        assert part in text, part
    assert opened.page.locator(".card a").count() == 0
    opened.page.click("button[lang=ko]")
    opened.settle()
    assert "독일어 → 영어" in opened.page.inner_text(".card")
    assert opened.page.get_attribute("html", "lang") == "ko"


def test_the_card_tells_what_was_proved_in_sentences(open_page: Open) -> None:
    card = "---\nmodel-index:\n- name: m\n  results:\n  - metrics:\n"
    card += "    - type: bleu\n      value: 40.03\n      name: BLEU, greedy\n"
    card += "    - type: chrf\n      value: 59.44\n      name: chrF2\n---\nText.\n"
    proof = {
        "passed": True, "compared": True, "engine": "node 20", "sentences": 20, "measure": "logits",
        "largest_difference": 0.0137, "greedy_equal": 10, "tokenized_equal": 20, "rounded_to": "int8",
        "bleu": [40.1, 39.9],
    }  # fmt: skip
    opened = writing(open_page, "card", about={"card": card, "proof": proof})
    text = opened.page.inner_text(".card")
    assert "Compared with Python on 20 sentences. 10 of them are written alike, token by token." in text
    assert "All are cut into the same tokens. The logits differ by 1.4 % of the largest at most, since" in text
    assert "Their BLEU is 40.1 in Python, 39.9 in the page." in text
    assert "passed" not in text
    rows = [row.split("\t") for row in opened.page.locator(".card tr").all_inner_texts()]
    assert ["BLEU, greedy", "40.03"] in rows
    assert ["chrF2", "59.44"] in rows
    opened.page.click("button[lang=ko]")
    opened.settle()
    assert "문장 20개로 Python과 견주었습니다." in opened.page.inner_text(".card")


def test_what_was_emptied_is_asked_about_no_more(open_page: Open) -> None:
    opened = writing(open_page)
    until(opened, "document.querySelectorAll('.written .word').length > 3")
    opened.page.fill("textarea", "")
    until(opened, "document.querySelectorAll('.written .word').length === 0")
    for view in ("overview", "what_if"):
        opened.set(view=view)
        assert opened.page.inner_text(".stage") == "Nothing is written yet."
    opened.set(view="translate")
    assert opened.page.input_value("textarea") == ""


def test_a_trace_with_probabilities_says_where_it_was_least_sure(open_page: Open) -> None:
    opened = open_page(translation(), view="matrix", views=VIEWS)
    opened.page.evaluate(
        """async () => {
          const { app } = await pellucid, out = app.trace.sequences.out;
          const of = (text, probability) => ({ text, piece: text, id: 9, probability });
          const rows = out.map((token, i) => {
            const chosen = of(token.text, i === 1 ? 0.4 : 0.95);
            return { chosen, top: [chosen, of("Katze", 0.3)] };
          });
          app.trace.predictions = { sequence: "out", rows };
        }"""
    )
    opened.set(view="overview")
    until(opened, "document.querySelectorAll('.findings article').length")
    assert opened.page.inner_text(".findings article p") == (
        "The model was least sure of “Hund”: 40\u00a0%. It might have written “Katze”: 30\u00a0%."
    )
    assert opened.page.locator(".sentences .word.sure-3").all_inner_texts() == ["Hund"]
