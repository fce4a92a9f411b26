"""Makes the page that shows attention: one HTML file with the viewer and its data, which may use no network."""

import base64
import hashlib
import html
import re
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any, NamedTuple

from pellucid.errors import ConfigError
from pellucid.tracing.trace import Trace
from pellucid.views import VIEWS
from pellucid.views.payload import payload
from pellucid.views.script import page_script, page_style, shipped, worker_script

DENSE_FROM = 100_000
"""Bytes from which an island is packed densely, which takes a page longer to decode: base64 is built in."""
_WITHOUT_MARKUP, _WITH_MARKUP = bytes.maketrans(b"<>&", b".,:"), bytes.maketrans(b".,:", b"<>&")
_ISLAND = re.compile(r'<script type="application/octet-stream(;base85)?" id="data-([^"]+)">([^<]*)</script>')


class Island(NamedTuple):
    """Holds some of a page's data: deflated bytes, as text."""

    text: str
    is_dense: bool

    def unpacked(self) -> bytes:
        """Returns the bytes that it was made of."""
        packed = self.text.encode("ascii")
        decoded = base64.b85decode(packed.translate(_WITH_MARKUP)) if self.is_dense else base64.b64decode(packed)
        return zlib.decompress(decoded)


def islands_of(document: str) -> dict[str, Island]:
    """Returns the data of a page, by name."""
    return {name: Island(text, bool(dense)) for dense, name, text in _ISLAND.findall(document)}


def page(
    traces: Sequence[Trace],
    *,
    view: str = "heads",
    views: Sequence[str] | None = None,
    state: Mapping[str, Any] | None = None,
    extras: Mapping[str, Any] | None = None,
    title: str = "Attention",
    model: Mapping[str, bytes] | None = None,
) -> str:
    """Returns the HTML of a page that opens with `view` and offers `views`; it carries what these need, and no more.

    Scripts and style are named by their SHA-256 in a policy that allows nothing else: no network, no frames, no other
    script. All data, tokens included, is deflated bytes in base64 or, where there are many, in base 85, whose alphabets
    cannot end an element. So are the viewer, to save room, of which there are the parts that `views` need, and its
    style: a loader of one statement inflates them, and the policy's hashes say what they may be.

    Args:
        traces: what is shown; several can be chosen between.
        view: the view that opens.
        views: the views that are offered; None: `view` alone.
        state: what is chosen at first, as the page's address spells it: attention, layer, head, heads, scale, ...
        extras: what single views show beside the traces, by view: JSON, with numpy arrays where there are many numbers.
        title: what the page is called, for instance the sentence.
        model: the islands of a model that the page runs (model_page.py); its views need no trace beforehand.

    Raises ConfigError for unknown views, or with neither trace nor model.
    """
    offered = tuple(name for name in VIEWS if name in {view, *(views or ())})
    for name in (view, *(views or ())):
        if name not in VIEWS:
            raise ConfigError(f"there is no view `{name}`", f"choose among {', '.join(VIEWS)}")
    if not traces and model is None:
        raise ConfigError("a page needs at least one trace; `traces` is empty")
    islands = dict(model or {}) | payload(
        traces, view=view, views=offered, state=state or {}, extras=extras or {}, title=title
    )
    if model is not None:
        islands["worker"] = worker_script().encode("utf-8")
    loader, script, style = shipped("loader.js"), page_script(offered, model is not None), page_style(offered)
    return Template(shipped("page.html")).substitute(
        title=html.escape(_in_one_line(title)),
        loader_hash=_hash(loader),
        script_hash=_hash(script),
        style_hash=_hash(style),
        worker_policy="; worker-src blob:" if model is not None else "",
        loader=loader,
        script=_packed(script.encode("utf-8")),
        style=_packed(style.encode("utf-8")),
        data="\n".join(_island(name, content) for name, content in islands.items()),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _island(name: str, content: bytes) -> str:
    if len(content) < DENSE_FROM:
        return f'<script type="application/octet-stream" id="data-{name}">{_packed(content)}</script>'
    return f'<script type="application/octet-stream;base85" id="data-{name}">{packed_densely(content)}</script>'


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def packed_densely(content: bytes) -> str:
    """Returns deflated bytes in base 85, which takes 6 % less than base64, without what could end an element."""
    return base64.b85encode(zlib.compress(content, 9)).translate(_WITHOUT_MARKUP).decode("ascii")


def _in_one_line(text: str) -> str:
    """Leaves out controls, which could reorder a browser's tab."""
    return "".join(" " if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c for c in text[:200])
