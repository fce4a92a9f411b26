"""Links the viewer's modules into one script: those that a page needs, and no others.

`make viewer` leaves a minified ES module for each source. A script is an expression a module, in the order in which
they need each other; what a module exports stands in a constant that the others take names from.
"""

import posixpath
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

SHIPPED = files("pellucid.views") / "viewer"
MAIN, CLIENT, WORKER = "main.js", "live/client.js", "worker/worker.js"
DICTIONARY = "shell/ko/viewing.js"
"""The Korean texts of all views of attention, of which a page has those of its own."""
STYLE = "viewer.css"
WRITING = {"translate", "overview", "what_if", "card"}
"""The views that show text as it is written, and share a style for it."""
_IMPORT = re.compile(r'import(?:\{(?P<names>[^{}]*)\}from|\*as (?P<all>[\w$]+) from)?"(?P<path>[^"]+)";?')
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z_]\w*|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'):(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`),?"
)
_EXPORT = re.compile(r"export\{(?P<names>[^{}]*)\};?\s*$")


@cache
def page_script(views: tuple[str, ...], live: bool = False) -> str:
    """Returns the script of a page with these views: it starts by itself. `live`: the page has a model to ask."""
    client = [CLIENT] if live else []
    listed = ",".join(f"{{{view_module(view)}}}.{view}" for view in views)
    asked = f"{{{CLIENT}}}.Live" if live else "null"
    starting = f"document.currentScript.started={{{MAIN}}}.start([{listed}],{asked});"
    return linked([MAIN, *client, *map(view_module, views)], starting)


@cache
def worker_script() -> str:
    """Returns the script of the worker that holds a page's model."""
    return linked([WORKER])


@cache
def page_style(views: tuple[str, ...]) -> str:
    """Returns the style of a page with these views: that of all pages, and those that views have of their own."""
    own = (f"views/{view}.css" for view in views)
    there = (path for path in own if (SHIPPED / "styles" / path).is_file())
    shared = ["writing/writing.css"] if WRITING & set(views) else []
    return "\n".join(shipped(f"styles/{path}") for path in (STYLE, *shared, *there))


def view_module(view: str) -> str:
    """Names the module of a view, which exports a constant of the same name."""
    return f"views/{view}.js"


def linked(roots: Sequence[str], last: str = "") -> str:
    """Puts modules, and all that they import, into one script that leaves no name behind.

    `last` is run at its end, and `{views/heads.js}` in it stands for what that module exports. Modules are named by
    their path in `viewer/`. Raises ValueError for a module that needs itself, or that says what no module here does.
    """
    order: list[str] = []
    for root in roots:
        _visit(root, (), order)
    places = {path: f"$${place}" for place, path in enumerate(order)}
    bodies = {path: _body(path, places) for path in order}
    if DICTIONARY in bodies:
        bodies[DICTIONARY] = _needed(bodies[DICTIONARY], [text for path, text in bodies.items() if path != DICTIONARY])
    lines = [f"const {places[path]}=(()=>{{{bodies[path]}}})();" for path in order]
    ending = re.sub(r"\{([\w/]+\.js)\}", lambda found: places[found[1]], last)
    return "(()=>{" + "\n".join(['"use strict";', *lines, ending]) + "})();"


def _needed(dictionary: str, others: Sequence[str]) -> str:
    """Keeps those entries of a dictionary whose name, the English text, stands somewhere in the other modules.

    A text that is put together while the page runs is not found there: `t` is given whole texts with places to fill.
    """
    code = "\n".join(others)

    def kept(found: re.Match[str]) -> str:
        name = found["name"]
        return found[0] if (name[1:-1] if name[0] in "\"'`" else name) in code else ""

    return _ENTRY.sub(kept, dictionary)


def _visit(path: str, within: tuple[str, ...], order: list[str]) -> None:
    """Lists a module behind all that it imports."""
    if path in order:
        return
    if path in within:
        raise ValueError(f"the modules import each other in a circle: {' -> '.join((*within, path))}")
    for found in _imports(path):
        _visit(_resolved(path, found["path"]), (*within, path), order)
    order.append(path)


def _imports(path: str) -> list[re.Match[str]]:
    """Returns the import statements of a module, all of which stand at its beginning."""
    text, found, at = _module(path), [], 0
    while match := _IMPORT.match(text, at):
        found.append(match)
        at = match.end()
    return found


def _body(path: str, places: dict[str, str]) -> str:
    """Returns what a module does, as the body of a function that returns its exports."""
    text, imports, lines = _module(path), _imports(path), []
    for found in imports:
        module = places[_resolved(path, found["path"])]
        if found["names"]:
            lines.append(f"const{{{found['names'].replace(' as ', ':')}}}={module};")
        elif found["all"]:
            lines.append(f"const {found['all']}={module};")
    text = text[imports[-1].end() :] if imports else text
    exports = _EXPORT.search(text)
    if exports:
        # `a as b` is what is `b` outside
        pairs = (name.split(" as ") for name in exports["names"].split(",") if name)
        text = text[: exports.start()] + f"return{{{','.join(f'{pair[-1]}:{pair[0]}' for pair in pairs)}}}"
    if strange := re.match(r"(?:import|export)\b.{0,40}", text) or re.search(
        r"[;}](?:import|export)[ *{\"].{0,40}", text
    ):
        raise ValueError(f"`{path}` has a statement that is not linked: {strange[0]}")
    return "".join(lines) + text


def _resolved(path: str, wanted: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))


def _module(path: str) -> str:
    return shipped(f"modules/{path}")


@cache
def shipped(name: str) -> str:
    """Reads a file of the viewer as the package has it."""
    return (SHIPPED / name).read_text(encoding="utf-8").rstrip("\n")
