"""The views in which one writes, on a model that is none: stub_live.js answers as the page's client does."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Open, Opened
from tests.browser.traces import translation

pytestmark = pytest.mark.browser

STUB = (Path(__file__).parent / "stub_live.js").read_text(encoding="utf-8")
VIEWS = ["translate", "overview", "matrix", "what_if", "card"]
SENTENCE = "Zwei junge Männer spielen Fußball ."
HOSTILE = [
    "</script><img src=x onerror=window.__p=1>", '"><svg/onload=window.__p=1>', "<!--", "${window.__p=1}",
    "javascript:window.__p=1", "\u202edrow", "a\u0000b", "\ud800",
]  # fmt: skip


def writing(open_page: Open, view: str = "translate", about: dict[str, Any] | None = None, **context: Any) -> Opened:
    """Opens a page, gives it a model that is none, and goes to a view that asks it."""
    state = context.pop("state", {})
    opened = open_page(translation(), view="matrix", views=VIEWS, **context)
    opened.page.evaluate(
        f"async (about) => {{ (await pellucid).app.live = window.live = ({STUB})(about); }}", about or {}
    )
    return opened.set(view=view, **state)


def until(opened: Opened, expression: str, argument: Any = None) -> None:
    """Waits until an expression in which `a` is the argument is true. (The page's policy forbids Playwright's own.)"""
    for _ in range(400):
        if opened.page.evaluate(f"(a) => Boolean({expression})", argument):
            return
        opened.page.wait_for_timeout(25)
    raise AssertionError((expression, argument, opened.page.inner_text("main")))


def reads(opened: Opened, selector: str, text: str) -> None:
    """Waits until an element says this, spaces aside."""
    same = "one.textContent.replace(/\\s+/g, ' ').trim() === a[1]"
    until(opened, f"[...document.querySelectorAll(a[0])].some((one) => {same})", [selector, text])


def written(opened: Opened, text: str) -> None:
    """Waits until the whole translation says this."""
    until(
        opened,
        "document.querySelector('.written')?.getAttribute('aria-busy') === 'false'"
        " && [...document.querySelectorAll('.written p')].map((one) => one.textContent.trim()).join('\\n') === a",
        text,
    )


def asked(opened: Opened, kind: str = "translate") -> list[Any]:
    return [one for one in opened.page.evaluate("live.asked") if one[0] == kind]


def test_the_example_is_translated_when_the_page_opens(open_page: Open) -> None:
    opened = writing(open_page)
    written(opened, "Two young men are playing soccer on a green meadow.")
    assert opened.page.input_value("textarea").startswith("Zwei junge")
    word = opened.page.locator(".word", has_text="soccer")
    assert word.get_attribute("aria-label") == f"soccer, {word.get_attribute('data-chance')}"
    assert "sure-" in str(word.get_attribute("class"))
    least = opened.page.inner_text(".sure")
    shades = opened.page.evaluate(
        "[...document.querySelectorAll('.word')].map((one) => [one.innerText, parseFloat(one.dataset.chance)])"
    )
    assert f"“{min(shades, key=lambda one: one[1])[0]}”" in least


def test_typing_translates_and_what_is_newer_cancels_what_is_older(open_page: Open) -> None:
    opened = writing(open_page)
    written(opened, "Two young men are playing soccer on a green meadow.")
    opened.page.evaluate("live.knobs.delay = 40")
    opened.page.fill("textarea", "Zwei Männer spielen auf einer Wiese .")
    until(opened, "live.asked.at(-1)[1].includes('Zwei Männer spielen auf')")
    opened.page.fill("textarea", "Zwei .")
    written(opened, "Two.")
    assert opened.page.evaluate("live.knobs.cancelled") >= 1
    assert asked(opened)[-1][1] == "Zwei ."


def test_words_appear_one_by_one_and_nothing_jumps(open_page: Open) -> None:
    opened = writing(open_page)
    written(opened, "Two young men are playing soccer on a green meadow.")
    opened.page.evaluate(
        "() => { live.knobs.delay = 25; window.seen = []; window.heights = new Set();"
        "new MutationObserver(() => { const one = document.querySelector('.written');"
        "seen.push(one.querySelectorAll('.word:not(.stale)').length); heights.add(one.offsetHeight); })"
        ".observe(document.querySelector('.written'), {subtree: true, childList: true}); }"
    )
    opened.page.fill("textarea", "Zwei junge Männer spielen auf einer Wiese .")
    written(opened, "Two young men are playing on a meadow.")
    seen = opened.page.evaluate("seen")
    assert seen == sorted(seen)
    assert len(set(seen)) >= 4
    assert opened.page.evaluate("heights.size") == 1


def test_an_alternative_is_chosen_and_the_rest_is_written_anew(open_page: Open) -> None:
    opened = writing(open_page, state={"text": SENTENCE})
    written(opened, "Two young men are playing soccer.")
    opened.page.click(".word:has-text('soccer')")
    options = opened.page.locator(".alternatives [role=option]")
    assert options.count() == 3
    assert options.nth(0).get_attribute("aria-selected") == "true"
    assert options.nth(1).locator(".name").inner_text() == "football"
    assert options.nth(1).locator(".chance").inner_text().endswith("\u00a0%")
    reads(opened, ".follows", "football.")
    options.nth(1).click()
    written(opened, "Two young men are playing football.")
    forced = asked(opened)[-1][2]["prefix"]
    assert len(forced) == 1
    assert forced[0][-1] == opened.page.evaluate("live.idOf('▁football')")
    assert len(forced[0]) == 7  # Two young men are pla|ying football
    assert opened.page.inner_text(".sure").startswith("From the word that you chose on")
    chosen = opened.page.locator(".written .word.chosen")
    assert (chosen.count(), chosen.inner_text()) == (1, "football"), "which is marked as the person's"
    assert "“football”" not in opened.page.inner_text(".sure"), "and is not what the model was unsure of"
    opened.page.click("button:has-text('As the model would')")
    written(opened, "Two young men are playing soccer.")
    assert chosen.count() == 0
    assert opened.page.locator("button:has-text('As the model would')").is_hidden()
    opened.page.fill("textarea", "Zwei Männer .")
    written(opened, "Two men.")
    assert asked(opened)[-1][2]["prefix"] == []


def test_a_word_of_several_pieces_offers_each_of_them(open_page: Open) -> None:
    opened = writing(open_page, state={"text": "Wiese"})
    written(opened, "meadow")
    opened.page.click(".word")
    chips = opened.page.locator(".pieces button")
    assert [text.split()[0] for text in chips.all_inner_texts()] == ["mea", "dow"]
    chips.nth(1).click()
    assert opened.page.locator(".alternatives [aria-selected=true] .name").inner_text() == "dow"


def test_everything_by_keyboard(open_page: Open) -> None:
    opened = writing(open_page, state={"text": SENTENCE})
    written(opened, "Two young men are playing soccer.")
    page = opened.page
    page.focus("textarea")
    page.keyboard.press("End")
    for key in "[c?/e":  # the page's own keys are letters here
        page.keyboard.press(key)
    assert page.input_value("textarea").endswith("[c?/e")
    assert page.locator("dialog").count() == 0
    written(opened, "Two young men are playing soccer .[c?/e")  # else what follows could be what stood there before
    page.fill("textarea", SENTENCE)
    written(opened, "Two young men are playing soccer.")
    page.focus(".word[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "men"
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == "soccer"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "option"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "soccer"
    assert page.locator(".alternatives").is_hidden()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    written(opened, "Two young men are playing football.")
    assert page.evaluate("document.activeElement.className").startswith("word")


def test_several_translations_and_beam_size(open_page: Open) -> None:
    opened = writing(open_page, state={"text": SENTENCE})
    written(opened, "Two young men are playing soccer.")
    assert asked(opened)[0][2]["beamSize"] == 3
    assert asked(opened)[0][2]["nBest"] == 3
    others = opened.page.locator(".other")
    assert others.count() == 3, "the one above is among them, with its figures"
    assert others.nth(0).get_attribute("aria-current") == "true"
    figures = [opened.page.locator(".best .chance").nth(place).inner_text() for place in range(6)]
    ranked = [float(figure.split("\u00a0")[0].strip("<> ")) for figure in figures[::2]]
    assert ranked == sorted(ranked, reverse=True), "in the order of the first figure, which is what they are ranked by"
    assert "a token" in figures[0]
    assert opened.page.locator(".others .faint").first.inner_text().startswith("Ranked by the probability a token")
    assert others.nth(1).locator("mark").count() == 1
    others.nth(1).click()
    reads(opened, ".written", "Two thing men are playing soccer.")
    opened.page.select_option("label:has-text('Beam size') select", "1")
    until(opened, "live.asked.at(-1)[2].beamSize === 1")
    assert asked(opened)[-1][2]["nBest"] == 1
    opened.page.wait_for_selector(".best", state="hidden")


def test_lines_are_translated_one_by_one_and_kept(open_page: Open) -> None:
    opened = writing(open_page, state={"text": "Zwei .\n\njunge Männer ."})
    written(opened, "Two.\n\nyoung men.")
    assert [one[1] for one in asked(opened)] == ["Zwei .", "junge Männer ."]
    opened.page.fill("textarea", "Zwei .\n\njunge Wiese .")
    until(opened, "document.querySelector('.written').innerText.includes('meadow')")
    assert [one[1] for one in asked(opened)] == ["Zwei .", "junge Männer .", "junge Wiese ."]


def test_what_was_chosen_in_a_line_stays_in_that_line(open_page: Open) -> None:
    opened = writing(open_page, state={"text": "Zwei Männer .\nFußball ."})
    written(opened, "Two men.\nsoccer.")
    opened.page.click(".word:has-text('men')")
    opened.page.locator(".alternatives [role=option]").nth(1).click()
    written(opened, "Two guys.\nsoccer.")
    opened.page.fill("textarea", "Zwei Männer .\nZwei Männer .\nFußball .")
    written(opened, "Two guys.\nTwo men.\nsoccer.")
    opened.page.fill("textarea", "Fußball .\nZwei Männer .\nZwei Männer .")
    written(opened, "soccer.\nTwo men.\nTwo guys.")


def test_a_pasted_column_is_cut_and_leaves_the_page_free(open_page: Open) -> None:
    opened = writing(open_page)
    written(opened, "Two young men are playing soccer on a green meadow.")
    took = opened.page.evaluate(
        "async () => { const area = document.querySelector('textarea');"
        "area.value = '\\n'.repeat(19000); area.offsetHeight; const began = performance.now();"
        "area.dispatchEvent(new Event('input'));"
        "await new Promise((done) => setTimeout(done, 300)); return performance.now() - began; }"
    )
    assert took < 3000
    reads(opened, ".box + p", "Only the first 500 lines are translated.")
    assert opened.page.locator(".written p").count() == 500


def test_the_line_that_is_pointed_at_is_named_and_kept(open_page: Open) -> None:
    opened = writing(open_page, state={"text": "Zwei .\nMänner ."})
    written(opened, "Two.\nmen.")
    reads(opened, ".others h2", "Translations of line 1: “Zwei .”")
    opened.page.click(".word:has-text('men')")
    opened.page.keyboard.press("Escape")
    reads(opened, ".others h2", "Translations of line 2: “Männer .”")
    assert opened.ask("p.get('line')") == "1"
    opened.set(view="what_if")
    assert opened.page.inner_text(".sentence") == "Männer ."


def test_a_long_text_says_how_far_it_is_and_stops(open_page: Open) -> None:
    opened = writing(open_page)
    written(opened, "Two young men are playing soccer on a green meadow.")
    opened.page.evaluate("live.knobs.delay = 300")
    opened.page.fill("textarea", "Zwei .\nMänner .\nFußball .")
    reads(opened, ".side h2 .faint", "1 of 3 lines")
    opened.page.click("button:has-text('Stop')")
    until(opened, "document.querySelector('.written').getAttribute('aria-busy') === 'false'")
    assert "soccer" not in opened.page.inner_text(".written")


def test_an_input_method_is_left_alone(open_page: Open) -> None:
    opened = writing(open_page, state={"text": SENTENCE})
    page = opened.page
    page.fill("textarea", "")
    page.focus("textarea")
    session = page.context.new_cdp_session(page)
    for text in ("ㅎ", "하", "한"):
        session.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})
        assert page.input_value("textarea") == text
    session.send("Input.insertText", {"text": "한"})
    written(opened, "한")
    assert page.input_value("textarea") == "한"
    assert asked(opened)[-1][1] == "한"


@pytest.mark.parametrize(
    ("text", "direction"),
    [("رجلان يلعبان كرة القدم", "rtl"), ("두 남자가 축구를 합니다", "ltr"), ("👩‍👩‍👧 🎉 ok", "ltr")],
)
def test_other_scripts_run_in_their_direction(open_page: Open, text: str, direction: str) -> None:
    opened = writing(open_page, state={"text": text})
    opened.page.evaluate("() => { live.knobs.dictionary = {}; }")
    opened.page.fill("textarea", text + " 1")
    written(opened, text + " 1")
    assert opened.page.evaluate("getComputedStyle(document.querySelector('.written p')).direction") == direction
    if direction == "rtl":
        opened.page.focus(".word[tabindex='0']")
        opened.page.keyboard.press("ArrowLeft")
        assert opened.page.evaluate("document.activeElement.textContent") == text.split()[1]


def test_what_the_model_cannot_is_said_in_the_page(open_page: Open) -> None:
    opened = writing(open_page, state={"text": SENTENCE})
    opened.page.evaluate("() => { live.knobs.failure = 'the text has 900 tokens, the model takes at most 512'; }")
    opened.page.fill("textarea", "Wiese Wiese")
    reads(opened, ".written .failure", "the text has 900 tokens, the model takes at most 512")
    opened.page.evaluate("() => { live.knobs.failure = ''; }")
    opened.page.fill("textarea", "Wiese Wiese Wiese")
    written(opened, "meadow meadow meadow")


def test_hostile_text_stays_text(open_page: Open) -> None:
    front = "---\n" + "\n".join(f"k{i}: {text}" for i, text in enumerate(HOSTILE[:5])) + "\n---\n"
    card = front + "\n".join(
        f"# {one}\n\n{one}\n\n- {one}\n\n| {one} | b |\n| - | - |\n| {one} | `{one}` |\n" for one in HOSTILE
    )
    card += "\n[click](javascript:window.__p=1) ![x](x.png) <script>window.__p=1</script>\n"
    opened = writing(open_page, about={"card": card, "examples": HOSTILE})
    opened.page.evaluate("(others) => { live.knobs.dictionary = {}; live.knobs.others = others; }", HOSTILE[:5])
    for text in HOSTILE[:5]:
        opened.page.fill("textarea", text + " x")
        until(opened, "live.asked.at(-1)[1] === a", text + " x")
    opened.page.wait_for_selector(".word")
    opened.page.locator(".word").first.click()
    for view in ("what_if", "card", "overview"):
        opened.set(view=view)
        opened.page.wait_for_timeout(200)
        strange = "script:not(#viewer-script, [type], head script), img, svg, iframe, base, a, object, embed, form"
        assert (
            opened.page.evaluate(f"[...document.querySelectorAll('main {strange.replace(', ', ', main ')}')].length")
            == 0
        )
    assert opened.page.evaluate("window.__p") is None


def test_copy_and_save(open_page: Open) -> None:
    opened = writing(open_page, state={"text": "Zwei .\nMänner ."}, permissions=["clipboard-read", "clipboard-write"])
    written(opened, "Two.\nmen.")
    opened.page.click("text=Copy")
    opened.page.wait_for_timeout(100)
    with opened.page.expect_download() as found:
        opened.page.click("text=Save as text")
    assert found.value.suggested_filename == "translation.txt"
    assert Path(found.value.path()).read_text(encoding="utf-8") == opened.ask("p.app.copied") + "\n"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_never_scrolls_sideways(open_page: Open, view: str, scheme: str) -> None:
    long = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenhersteller" * 3
    opened = writing(
        open_page, view, state={"text": long + " Zwei ."}, viewport={"width": 390, "height": 844}, color_scheme=scheme
    )
    opened.page.wait_for_timeout(300)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.page.locator(".jump select").is_visible()
    assert opened.page.locator(".jump select").input_value() == view


def test_a_classifier_shows_its_classes(open_page: Open) -> None:
    labels = ["gut", "<b>schlecht</b>", "رائع"]
    opened = writing(open_page, about={"task": "classify", "labels": labels}, state={"text": "so gut"})
    opened.page.wait_for_selector(".classes li")
    shown = opened.page.locator(".classes .name").all_inner_texts()
    assert sorted(shown) == sorted(labels)
    chances = [float(text.split()[0]) for text in opened.page.locator(".classes .chance").all_inner_texts()]
    assert chances == sorted(chances, reverse=True)
    opened.page.fill("textarea", "ganz anders")
    until(opened, "live.asked.at(-1)[1] === 'ganz anders'")
    assert opened.page.locator("nav button[aria-current]").inner_text() == "Classify"
    opened.page.fill("textarea", "")
    opened.page.wait_for_selector(".classes li", state="detached")


def test_a_language_model_goes_on_and_stops(open_page: Open) -> None:
    opened = writing(open_page, about={"task": "generate", "examples": ["Once"]}, state={"seed": "7"})
    opened.page.click("text=Go on writing")
    written(opened, "Once the model goes on writing until somebody says that it is enough")
    how = asked(opened, "generate")[0][2]
    assert (how["seed"], how["temperature"], how["topP"], how["maxNewTokens"]) == (7, 0.8, 1, 40)
    opened.page.evaluate("live.knobs.delay = 200")
    opened.page.click("text=Go on writing")
    opened.page.wait_for_selector(".word")
    opened.page.click("text=Stop")
    opened.page.wait_for_selector(".written[aria-busy=false]")
    assert 1 <= opened.page.locator(".word").count() < 12


def test_the_page_speaks_korean(open_page: Open) -> None:
    opened = writing(open_page, locale="ko-KR", state={"text": SENTENCE})
    written(opened, "Two young men are playing soccer.")
    assert opened.page.get_attribute("html", "lang") == "ko"
    assert opened.page.locator("nav button[aria-current]").inner_text() == "번역"
    opened.page.click("button[lang=en]")
    assert opened.page.get_attribute("html", "lang") == "en"
    assert opened.page.locator("nav button[aria-current]").inner_text() == "Translate"
    written(opened, "Two young men are playing soccer.")
    assert opened.page.input_value("textarea") == SENTENCE
