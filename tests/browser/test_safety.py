"""Hostile tokens: nothing runs, nothing becomes an element, nothing leaves the page; and the test would see it."""

import html
import shutil
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pellucid.views.page as page_module
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views import script
from pellucid.views.page import page
from tests.browser.conftest import Open, Opened
from tests.browser.traces import made

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
HEARD = "document.addEventListener('securitypolicyviolation', (e) => resolve(e.violatedDirective))"
VIEWS = ["heads", "matrix", "model", "neuron"]
CORPUS = [
    "</script><img src=x onerror=window.__p=1>",
    '"><svg onload=window.__p=1>',
    "<!--",
    "]]>",
    "{{7*7}}",
    "${window.__p=1}",
    "javascript:window.__p=1",
    "<base href=//x.example>",
    "\u2028\u2029",
    "a\0b",
    "\ud800",
    "\u202edrow\u2066",
    "<b>" + "x" * 10_000,
]
# What a page is made of; whatever else there is came out of a token.
OWN = [
    "html",
    "optgroup",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "noscript",
    "script",
    "div",
    "header",
    "nav",
    "main",
    "p",
    "h1",
    "h2",
    "span",
    "b",
    "bdi",
    "i",
    "canvas",
    "button",
    "label",
    "input",
    "select",
    "option",
    "output",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "dialog",
    "dl",
    "dt",
    "dd",
    "kbd",
    "textarea",
    "a",
]


def hostile() -> Trace:
    """Every text of a trace that an attacker could have written."""
    trace = made(CORPUS)
    src = tuple(Token(text=text, piece=text[::-1] + text, id=i, word=i) for i, text in enumerate(CORPUS))
    return replace(trace, sequences={"src": src}, model={"name": CORPUS[0], "family": CORPUS[1], "d_model": CORPUS[7]})


def walk(opened: Opened) -> None:
    """Lets the page show its tokens in every way that it has."""
    for view in VIEWS:
        opened.set(view=view, table=True)
        for cell in range(0, len(CORPUS), 3):
            opened.page.mouse.move(90, 300 + 24 * cell)
            opened.press("ArrowDown", "ArrowRight")
        for keys in (["Enter", "e"], ["?"], ["c"], ["r"]):
            opened.press(*keys)
            let_go(opened)


def let_go(opened: Opened) -> None:
    """Closes what has opened over the page, and waits until it is away: a browser takes it away later."""
    from playwright.sync_api import TimeoutError as StaysOpen

    dialogs = opened.page.locator("dialog")
    for _ in range(20):
        if not dialogs.count():
            return
        opened.press("Escape")
        with suppress(StaysOpen):  # the next round asks again, by the key that it may not have heard
            dialogs.first.wait_for(state="detached", timeout=500)
    raise AssertionError("a dialog stays open")


def strange(opened: Opened) -> list[str]:
    """What came out of a token."""
    names = opened.page.evaluate("[...document.querySelectorAll('*')].map((one) => one.localName)")
    handlers = opened.page.evaluate(
        "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
        ".filter((name) => name.startsWith('on'))"
    )
    ran = ["__p"] if opened.page.evaluate("window.__p !== undefined") else []
    return [name for name in names if name not in OWN] + handlers + ran + opened.faults


def test_nothing_comes_out_of_a_token(open_page: Open) -> None:
    opened = open_page(hostile(), view="heads", views=VIEWS, title=CORPUS[0], extras={"x": CORPUS[1]})
    walk(opened)
    assert strange(opened) == []
    assert opened.page.title().startswith("</script><img")


def test_the_test_sees_tokens_as_markup(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "viewer"
    shutil.copytree(ROOT / "viewer", sources)
    dom = (sources / "dom.js").read_text(encoding="utf-8")
    assert "element.textContent = text" in dom
    (sources / "dom.js").write_text(
        dom.replace("element.textContent = text", "element.innerHTML = text"), encoding="utf-8"
    )
    subprocess.run([sources / "build.sh", tmp_path / "built"], check=True)
    modules = tmp_path / "built" / "modules"
    monkeypatch.setattr(script, "_module", lambda path: (modules / path).read_text(encoding="utf-8").rstrip("\n"))
    monkeypatch.setattr(page_module, "page_script", script.page_script.__wrapped__)
    (tmp_path / "page.html").write_text(page([hostile()], view="heads", views=VIEWS), encoding="utf-8")
    context = browser.new_context(offline=True)
    opened = Opened(context.new_page()).go((tmp_path / "page.html").as_uri())
    walk(opened)
    found = strange(opened)
    context.close()
    assert {"img", "svg"} <= set(found)


def test_a_frame_without_origin_reaches_nobody(browser: Any, tmp_path: Path) -> None:
    inner = page([hostile()], view="heads", views=VIEWS)
    outer = tmp_path / "outer.html"
    attributes = f'sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(inner, quote=True)}"'
    frame = f"<iframe width=900 height=700 {attributes}></iframe>"
    outer.write_text(f"<!doctype html><meta charset=utf-8><p id=secret>secret</p>{frame}", encoding="utf-8")
    context = browser.new_context(offline=True)
    opened = Opened(context.new_page())
    opened.page.goto(outer.as_uri())
    within = opened.page.frames[1]
    within.wait_for_load_state()
    within.evaluate("pellucid.then((p) => p.settled())")
    within.evaluate("pellucid.then((p) => { p.set({ view: 'matrix', layer: 1 }); return p.settled(); })")
    assert within.evaluate("window.__p === undefined && document.querySelectorAll('canvas').length > 0")
    assert (
        within.evaluate("(() => { try { return parent.document.body.innerText; } catch (e) { return e.name; } })()")
        == "SecurityError"
    )
    assert opened.page.evaluate("window.__p === undefined")
    requests = [url for url in opened.requests if not url.startswith(("about:", "blob:"))]
    faults = [fault for fault in opened.faults if "Blocked a frame" not in fault]
    context.close()
    assert (requests, faults) == ([outer.as_uri()], [])


def test_a_page_that_has_a_module_loader_is_left_alone(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    text = page([made(4)], view="matrix")
    asked = "() => { throw Error('asked for') }"
    amd = f"<script>window.require = {asked}; window.define = {asked}; define.amd = {{}};</script>"
    policy = text.index("<meta http-equiv")
    path.write_text(text[:policy] + amd + text[policy:], encoding="utf-8")
    context = browser.new_context(offline=True)
    opened = Opened(context.new_page()).go(path.as_uri())
    shown, faults = opened.ask("p.shown().length"), opened.faults
    context.close()
    assert (shown, faults) == (16, [])


@pytest.mark.parametrize("what", ["window.__p = 1", "</script>"])
def test_the_policy_lets_no_other_script_run(browser: Any, tmp_path: Path, what: str) -> None:
    (tmp_path / "page.html").write_text(page([made(3)], view="matrix"), encoding="utf-8")
    context = browser.new_context(bypass_csp=False)
    opened = Opened(context.new_page()).go((tmp_path / "page.html").as_uri())
    violated = opened.page.evaluate(
        f"(what) => new Promise((resolve) => {{ {HEARD};"
        "const s = document.createElement('script'); s.textContent = what; document.head.append(s); })",
        what,
    )
    ran = opened.page.evaluate("window.__p !== undefined")
    context.close()
    assert (violated, ran) == ("script-src-elem", False)


@pytest.mark.parametrize(
    ("what", "directive"),
    [
        ("fetch('data:text/plain,x').catch(() => 0)", "connect-src"),
        ("fetch('https://x.example/').catch(() => 0)", "connect-src"),
        ("document.body.append(Object.assign(new Image(), { src: 'https://x.example/' }))", "img-src"),
        (
            "document.body.append(Object.assign(document.createElement('iframe'), { src: 'https://x.example/' }))",
            "frame-src",
        ),
    ],
    ids=["data", "network", "image", "frame"],
)
def test_the_policy_lets_nothing_in_or_out(browser: Any, tmp_path: Path, what: str, directive: str) -> None:
    (tmp_path / "page.html").write_text(page([made(3)], view="matrix"), encoding="utf-8")
    context = browser.new_context()
    opened = Opened(context.new_page()).go((tmp_path / "page.html").as_uri())
    violated = opened.page.evaluate(f"new Promise((resolve) => {{ {HEARD}; {what}; }})")
    context.close()
    assert violated == directive
