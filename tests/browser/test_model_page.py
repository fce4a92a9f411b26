"""The page that holds a model, in a browser: it answers offline, runs nothing that it is given, says what is wrong."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.config import DecodeConfig
from pellucid.views.model_page import to_page
from pellucid.views.page import encode_base85, read_data_blocks
from tests.browser.conftest import Open, Opened
from tests.browser.test_page_answers import CHARACTERS, TOKENIZERS, assert_same, lines, translator
from tests.unit.decoding.models import random_model

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def model() -> pellucid.Translator:
    return translator(beam_size=3)


@pytest.fixture(scope="module")
def written(model: pellucid.Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return to_page(model, tmp_path_factory.mktemp("page") / "translator.html", "float32", examples=["abc def"])


def open_file(open_page: Open, path: Path, **context: Any) -> Opened:
    opened: Opened = open_page.file(path, **context)  # type: ignore[attr-defined]
    return opened


def test_scripts_ask_it_from_the_first_moment_on(open_page: Open, written: Path, model: pellucid.Translator) -> None:
    """The fixture holds that nothing was requested but the file, and that nothing went wrong."""
    page = open_file(open_page, written).page
    assert page.evaluate("pellucid.ready") is None
    sources = lines(6)
    found = page.evaluate(
        "(texts) => Promise.all(texts.map((text) => pellucid.translate(text, {beamSize: 4, nBest: 2})))", sources
    )
    for one, expected in zip(found, model.translate(sources, beam_size=4, n_best=2), strict=True):
        assert_same(expected, one)
    assert page.evaluate("(text) => pellucid.encode(text)", "abc") == CHARACTERS.encode("abc")
    assert page.evaluate("(ids) => pellucid.decode(ids)", CHARACTERS.encode("abc")) == "abc"
    told = page.evaluate("pellucid.classify('a').catch((error) => error.message)")
    assert told == "The model of this page does not classify: its task is `translate`."


def test_its_policy_lets_a_worker_of_its_own_in_and_nothing_else(written: Path) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', written.read_text("utf-8"))
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["worker-src"] == "blob:"
    assert all(word.startswith("'sha256-") for word in rules["script-src"].split())
    assert rules["connect-src"] == "'none'"


def test_pages_without_a_model_have_no_worker_and_say_so(open_page: Open) -> None:
    from tests.browser.traces import made

    page = open_page(made(["A", "man"])).page
    assert page.evaluate("pellucid.ready") is None
    told = page.evaluate("pellucid.translate('a').catch((error) => error.message)")
    assert told == "this page carries no model"
    assert "worker-src" not in page.content()


def test_words_come_as_they_are_chosen(open_page: Open, written: Path) -> None:
    page = open_file(open_page, written).page
    found = page.evaluate(
        """async () => {
          const words = [];
          const live = (await pellucid).live;
          const onWord = (word) => words.push(word.ids.length);
          const result = await live.translate("abc def", { beamSize: 1, onWord });
          return { words, ids: result.ids };
        }"""
    )
    assert found["words"] == list(range(1, len(found["ids"]) + 1))


def test_a_newer_request_replaces_the_older_one_of_its_lane(open_page: Open, written: Path) -> None:
    page = open_file(open_page, written).page
    found = page.evaluate(
        """async () => {
          const live = (await pellucid).live;
          const told = (promise) => promise.then((one) => one.text, (error) => error.name);
          const control = new AbortController();
          const asked = [live.translate("abc", { lane: "test" }), live.translate("abcd", { lane: "test" }),
            live.translate("ab", { lane: "other" }), live.translate("b", { signal: control.signal })].map(told);
          control.abort();
          return Promise.all(asked);
        }"""
    )
    assert found[0] == found[3] == "AbortError"
    assert "AbortError" not in found[1:3]


def damaged(path: Path, to: Path, name: str, change: Callable[[str], str]) -> Path:
    """A copy of a page with an island changed."""
    html = path.read_text("utf-8")
    held = read_data_blocks(html)[name].text
    assert html.count(held) == 1
    to.write_text(html.replace(held, change(held)), encoding="utf-8")
    return to


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.weights", lambda packed: packed[: len(packed) // 2]),
        ("model.weights", lambda packed: ""),
        ("model.weights", lambda packed: encode_base85(b"\xff" * 100)),
        ("model.weights", lambda packed: encode_base85((2**62).to_bytes(8, "little") + b"{}")),
        ("model.description", lambda packed: packed[:20]),
        ("model.file.vocabulary.json", lambda packed: packed[:8]),
        ("model.about", lambda packed: "!" + packed),
    ],
    ids=["half", "empty", "noise", "boundless", "description", "tokenizer", "about"],
)
def test_damage_is_said_in_the_page(
    name: str, change: Callable[[str], str], written: Path, tmp_path: Path, browser: Any
) -> None:
    path = damaged(written, tmp_path / "damaged.html", name, change)
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    told = page.evaluate("pellucid.ready.then(() => 'ready', (error) => error.message)")
    assert told != "ready"
    page.wait_for_function("document.body.innerText.length > 0")
    page.wait_for_timeout(300)
    shown = page.inner_text("body")
    assert re.search(r"damaged|cannot|could not|not whole|no data|stopped", shown), shown
    assert {url for url in requests if not url.startswith("blob:")} == {path.as_uri()}
    page.close()


def test_a_page_cut_off_in_the_middle_says_so(written: Path, tmp_path: Path, browser: Any) -> None:
    html = written.read_text("utf-8")
    place = html.index('id="data-model.weights"') + 2000
    (tmp_path / "cut.html").write_text(html[:place], encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "cut.html").as_uri())
    page.wait_for_timeout(500)
    assert "not whole" in page.inner_text("body")
    page.close()


def test_hostile_labels_texts_and_cards_run_nothing(open_page: Open, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=window.__p=1>"
    one = pellucid.Translator(random_model(3, CHARACTERS.size, sharpness=2.0), TOKENIZERS, DecodeConfig(beam_size=2))
    one.card = f"---\nlicense: {hostile}\n---\n# {hostile}\n\n</script><script>window.__p=1</script>\n"
    one.card += "\n[x](javascript:window.__p=1)\n"
    path = to_page(one, tmp_path / "hostile.html", examples=[hostile, "</script><script>window.__p=1</script>"])
    opened = open_file(open_page, path, reduced_motion="reduce")
    for view in ("card", "overview", "what_if", "translate"):
        opened.set(view=view)
    opened.page.evaluate("(text) => pellucid.translate(text)", hostile)
    assert opened.page.evaluate("window.__p") is None
    assert opened.page.query_selector("#app img[src='x']") is None


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a namespace without a network")
def test_it_needs_no_network_at_all(written: Path) -> None:
    """A browser in a namespace without a network translates."""
    import subprocess
    import sys

    script = (
        "import sys; from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as p:\n"
        "    b = p.chromium.launch(executable_path=sys.argv[1], args=['--no-sandbox']); page = b.new_page()\n"
        "    page.goto(sys.argv[2])\n"
        "    print(page.evaluate(\"pellucid.translate('abc').then((one) => one.text)\")); b.close()\n"
    )
    from tests.browser.conftest import browser_path

    done = subprocess.run(
        ["unshare", "--net", "--map-root-user", sys.executable, "-c", script, browser_path(), written.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
