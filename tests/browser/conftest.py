"""Pages in a real browser: Debian's chromium, driven by Playwright, without any network."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from pellucid.tracing.trace import Trace
from pellucid.views.page import page as page_of

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browser_path() -> str:
    """Where a Chromium is, or what to do about it."""
    found = os.environ.get("PELLUCID_BROWSER") or next((p for name in BROWSERS if (p := shutil.which(name))), None)
    if found is None:
        pytest.exit(
            "these tests need a browser: none of " + ", ".join(BROWSERS) + " is on PATH "
            "(Debian: apt-get install chromium esbuild fonts-noto-cjk; or set PELLUCID_BROWSER to one)",
            returncode=3,
        )
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        yield running
        running.close()


class Opened:
    """A page that is open, with everything that went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.faults: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"} and "willReadFrequently" not in message.text:  # a test's own reading
            self.faults.append(f"{message.type}: {message.text}")

    def go(self, address: str) -> "Opened":
        """Opens an address and waits until its view is drawn."""
        self.page.goto(address)
        return self.settle()

    def ask(self, expression: str, argument: Any = None) -> Any:
        """The value of an expression in which `p` is the page's surface and `a` the argument."""
        return self.page.evaluate(
            f"async (a) => {{ const p = await pellucid; return await ({expression}); }}", argument
        )

    def set(self, **state: Any) -> "Opened":
        """Chooses, and waits until it is drawn."""
        self.ask("p.set(a)", state)
        return self.settle()

    def press(self, *keys: str) -> "Opened":
        """Presses keys one after another, and waits until all is drawn."""
        for key in keys:
            self.page.keyboard.press(key)
        return self.settle()

    def settle(self) -> "Opened":
        self.ask("p.settled()")
        return self

    def readout(self) -> str:
        """What the line above the picture says."""
        return str(self.page.inner_text(".readout"))

    def told(self) -> str:
        """What the live region says, once it has said it."""
        self.ask("(async () => { do await new Promise((told) => setTimeout(told, 30)); while (p.app.saying); })()")
        return str(self.page.inner_text("[aria-live]"))


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """`open_page(traces, view=..., views=..., state={...}, **context)`: writes a page and opens it offline.

    After the test nothing may have been requested but the file, and nothing may have gone wrong.
    """
    opened: list[tuple[Any, Opened, str]] = []

    def open_one(
        traces: Trace | Sequence[Trace],
        *,
        view: str = "matrix",
        views: Sequence[str] | None = None,
        state: Mapping[str, Any] | None = None,
        extras: Mapping[str, Any] | None = None,
        title: str = "Attention",
        **context: Any,
    ) -> Opened:
        path = tmp_path / f"page{len(opened)}.html"
        given = [traces] if isinstance(traces, Trace) else traces
        html = page_of(given, view=view, views=views, extras=extras, title=title)
        path.write_text(html, encoding="utf-8")
        return open_file(path, state, **context)

    def open_file(path: Path, state: Mapping[str, Any] | None = None, **context: Any) -> Opened:
        made = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, "offline": True, **context})
        page = made.new_page()
        page.set_default_timeout(60_000)
        one = Opened(page)
        opened.append((made, one, path.as_uri()))
        return one.go(path.as_uri() + ("#" + urlencode(state) if state else ""))

    open_one.file = open_file  # type: ignore[attr-defined]
    yield open_one
    for made, one, address in opened:
        faults, requests = list(one.faults), {url.split("#")[0] for url in one.requests if not url.startswith("blob:")}
        made.close()
        assert faults == []
        assert requests == {address}
