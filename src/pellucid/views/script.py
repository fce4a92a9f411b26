"""Links the viewer's modules into one script, with only the modules that a page needs.

`make viewer` writes a minified ES module for each source. A script is one expression per module, in dependency order;
the exports of a module are in a constant from which the other modules take names.
"""

import posixpath
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

SHIPPED = files("pellucid.views") / "viewer"
MAIN, WORKER = "main.js", "worker/worker.js"
CLIENT, SERVED = "live/client.js", "live/server.js"
"""The modules that carry the requests of a page to its model: to a worker in the page, or to a server."""
DICTIONARY = "shell/ko/viewing.js"
"""The Korean texts of all attention views; a page contains only the texts of its views."""
STYLE = "viewer.css"
WRITING = {"translate", "overview", "what_if", "card"}
"""The views that show text as it is generated, and share a style for it."""
_IMPORT = re.compile(r'import(?:\{(?P<names>[^{}]*)\}from|\*as (?P<all>[\w$]+) from)?"(?P<path>[^"]+)";?')
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z_]\w*|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'):(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`),?"
)
_EXPORT = re.compile(r"export\{(?P<names>[^{}]*)\};?\s*$")


@cache
def page_script(views: tuple[str, ...], client: str = "") -> str:
    """Returns the script of a page with these views, which starts by itself.

    `client` is the module that carries requests to a model; empty: the page has none.
    """
    clients = [client] if client else []
    listed = ",".join(f"{{{view_module(view)}}}.{view}" for view in views)
    asked = f"{{{client}}}.Live" if client else "null"
    starting = f"document.currentScript.started={{{MAIN}}}.start([{listed}],{asked});"
    return link_modules([MAIN, *clients, *map(view_module, views)], starting)


@cache
def worker_script() -> str:
    """Returns the script of the worker that runs a page's model."""
    return link_modules([WORKER])


@cache
def page_style(views: tuple[str, ...], client: str = "") -> str:
    """Returns the style of a page with these views: the common style, and the styles of single views and clients."""
    own = (*(f"views/{view}.css" for view in views), client.replace(".js", ".css"))
    there = (path for path in own if path and (SHIPPED / "styles" / path).is_file())
    shared = ["writing/writing.css"] if WRITING & set(views) else []
    return "\n".join(read_viewer_file(f"styles/{path}") for path in (STYLE, *shared, *there))


def view_module(view: str) -> str:
    """Returns the path of a view's module, which exports a constant of the same name."""
    return f"views/{view}.js"


def link_modules(roots: Sequence[str], last: str = "") -> str:
    """Links modules and all of their imports into one script that defines no global names.

    `last` is run at the end, and `{views/heads.js}` in it refers to the exports of that module. Modules are named by
    their path in `viewer/`. Raises ValueError for a circular import, or for an import or export form that is
    unsupported.
    """
    order: list[str] = []
    for root in roots:
        _visit(root, (), order)
    places = {path: f"$${place}" for place, path in enumerate(order)}
    bodies = {path: _body(path, places) for path in order}
    if DICTIONARY in bodies:
        bodies[DICTIONARY] = _filter_entries(
            bodies[DICTIONARY], [text for path, text in bodies.items() if path != DICTIONARY]
        )
    lines = [f"const {places[path]}=(()=>{{{bodies[path]}}})();" for path in order]
    ending = re.sub(r"\{([\w/]+\.js)\}", lambda found: places[found[1]], last)
    return "(()=>{" + "\n".join(['"use strict";', *lines, ending]) + "})();"


def _filter_entries(dictionary: str, others: Sequence[str]) -> str:
    """Keeps the entries of a dictionary whose key, the English text, occurs in the other modules.

    A text that is assembled while the page runs would not be found: `t` is called with whole texts with placeholders.
    """
    code = "\n".join(others)

    def replace(found: re.Match[str]) -> str:
        name = found["name"]
        return found[0] if (name[1:-1] if name[0] in "\"'`" else name) in code else ""

    return _ENTRY.sub(replace, dictionary)


def _visit(path: str, within: tuple[str, ...], order: list[str]) -> None:
    """Appends a module to `order` after all of its imports."""
    if path in order:
        return
    if path in within:
        raise ValueError(f"the modules import each other in a circle: {' -> '.join((*within, path))}")
    for found in _imports(path):
        _visit(_resolve(path, found["path"]), (*within, path), order)
    order.append(path)


def _imports(path: str) -> list[re.Match[str]]:
    """Returns the import statements of a module, all of which are at its beginning."""
    text, found, at = _module(path), [], 0
    while match := _IMPORT.match(text, at):
        found.append(match)
        at = match.end()
    return found


def _body(path: str, places: dict[str, str]) -> str:
    """Returns the code of a module as the body of a function that returns its exports."""
    text, imports, lines = _module(path), _imports(path), []
    for found in imports:
        module = places[_resolve(path, found["path"])]
        if found["names"]:
            lines.append(f"const{{{found['names'].replace(' as ', ':')}}}={module};")
        elif found["all"]:
            lines.append(f"const {found['all']}={module};")
    text = text[imports[-1].end() :] if imports else text
    exports = _EXPORT.search(text)
    if exports:
        # `a as b` exports `a` under the name `b`
        pairs = (name.split(" as ") for name in exports["names"].split(",") if name)
        text = text[: exports.start()] + f"return{{{','.join(f'{pair[-1]}:{pair[0]}' for pair in pairs)}}}"
    if strange := re.match(r"(?:import|export)\b.{0,40}", text) or re.search(
        r"[;}](?:import|export)[ *{\"].{0,40}", text
    ):
        raise ValueError(f"`{path}` has a statement that is not linked: {strange[0]}")
    return "".join(lines) + text


def _resolve(path: str, wanted: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))


def _module(path: str) -> str:
    return read_viewer_file(f"modules/{path}")


@cache
def read_viewer_file(name: str) -> str:
    """Returns a file of the viewer from the package."""
    return (SHIPPED / name).read_text(encoding="utf-8").rstrip("\n")
