"""The live figures of the lessons, in a browser: each address opens what it names, on the model of the package."""

from pathlib import Path

import pytest

from docs.lessons import LESSONS, read_addresses, write_live_page
from tests.browser.conftest import Open

pytestmark = pytest.mark.browser

ADDRESSES = [address for page in LESSONS[:13] for address in read_addresses(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "_static" / "live.html"
    write_live_page(path)
    return path


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address.get("step.at", address["view"]))
def test_an_address_opens_its_view(address: dict[str, str], open_page: Open, live: Path) -> None:
    opened = open_page.file(live, {**address, "language": "en"})  # type: ignore[attr-defined]
    opened.page.wait_for_function(
        "async () => { const p = await pellucid; await p.settled(); return p.app.traces?.length || p.app.trace }"
    )
    assert opened.ask("p.app.view.name") == address["view"]
    if "step.at" in address:
        opened.page.wait_for_selector(".stage h2")
        assert opened.ask("p.app.state.get('step.at')") == address["step.at"]
