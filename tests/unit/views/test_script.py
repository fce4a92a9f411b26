"""The viewer's modules, linked into a script: which ones a page carries, in what order, and what is refused."""

import re

import pytest

from pellucid.views import VIEWS, script
from pellucid.views.script import link_modules, page_script


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Modules in place of those that are shipped, by their path."""
    given: dict[str, str] = {}
    monkeypatch.setattr(script, "_module", lambda path: given[path])
    return given


@pytest.mark.parametrize("view", VIEWS)
def test_a_page_of_one_view_carries_no_other(view: str) -> None:
    text = page_script((view,))
    offered = re.findall(r'\{name:"(\w+)",title:', text)
    assert offered == [view]
    assert re.search(r"\.start\(\[\$\$\d+\." + view + r"\],null\);\}\)\(\);$", text)


def test_all_views_make_one_script_of_each_module_once() -> None:
    text = page_script(VIEWS)
    assert sorted(re.findall(r'\{name:"(\w+)",title:', text)) == sorted(VIEWS)
    assert len(text) < sum(len(page_script((view,))) for view in VIEWS) / 4


def test_what_a_module_needs_stands_before_it(modules: dict[str, str]) -> None:
    modules |= {
        "a/top.js": 'import"./side.js";import{one as o,two}from"../b.js";import*as all from"../b.js";o(two);'
        "const f=1;export{f as found,o};",
        "a/side.js": "globalThis.side=1;",
        "b.js": "const x=1,two=2;export{x as one,two};",
    }
    assert link_modules(["a/top.js"], "go({a/top.js}.found);").split("\n") == [
        '(()=>{"use strict";',
        "const $$0=(()=>{globalThis.side=1;})();",
        "const $$1=(()=>{const x=1,two=2;return{one:x,two:two}})();",
        "const $$2=(()=>{const{one:o,two}=$$1;const all=$$1;o(two);const f=1;return{found:f,o:o}})();",
        "go($$2.found);})();",
    ]


def test_modules_in_a_circle_are_refused(modules: dict[str, str]) -> None:
    modules |= {"a.js": 'import{b}from"./b.js";export{b};', "b.js": 'import{a}from"./a.js";export{a};'}
    with pytest.raises(ValueError, match=r"a\.js -> b\.js -> a\.js"):
        link_modules(["a.js"])


@pytest.mark.parametrize(
    "text", ['export{x}from"./b.js";', 'export*from"./b.js";', 'import d from"./b.js";', "const x=1;export default x;"]
)
def test_a_statement_that_is_not_linked_is_refused(modules: dict[str, str], text: str) -> None:
    modules |= {"a.js": text, "b.js": "const x=1;export{x};"}
    with pytest.raises(ValueError, match=r"`a\.js` has a statement that is not linked"):
        link_modules(["a.js"])
