"""Builds the page that shows attention: one HTML file with the viewer and its data, without network access."""

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
from pellucid.views.page_data import payload
from pellucid.views.script import CLIENT, SERVED, page_script, page_style, read_viewer_file, worker_script

SERVER = "model.server"
"""The data block of a page whose model a server has: the language pair, and the other pairs of the server."""
DENSE_FROM = 100_000
"""The size in bytes from which a block is packed in base 85; browsers decode base64 faster, since it is built in."""
_WITHOUT_MARKUP, _WITH_MARKUP = bytes.maketrans(b"<>&", b".,:"), bytes.maketrans(b".,:", b"<>&")
_ISLAND = re.compile(r'<script type="application/octet-stream(;base85)?" id="data-([^"]+)">([^<]*)</script>')


class DataBlock(NamedTuple):
    """Holds part of a page's data: compressed bytes, as text."""

    text: str
    is_dense: bool

    def unpack(self) -> bytes:
        """Returns the uncompressed bytes."""
        packed = self.text.encode("ascii")
        decoded = base64.b85decode(packed.translate(_WITH_MARKUP)) if self.is_dense else base64.b64decode(packed)
        return zlib.decompress(decoded)


def read_data_blocks(document: str) -> dict[str, DataBlock]:
    """Returns the data blocks of a page, by name."""
    return {name: DataBlock(text, bool(dense)) for dense, name, text in _ISLAND.findall(document)}


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
    """Returns the HTML of a page that opens with `view` and offers `views`; it contains only the data for these.

    A content security policy lists the SHA-256 of scripts and style, and allows nothing else: no network, no frames, no
    other script. All data, tokens included, is compressed bytes in base64 or, if large, in base 85, whose alphabets
    cannot close an element. To save space, the viewer and its style are compressed, too, with only the modules for
    `views`: a loader of one statement decompresses them, and the policy's hashes restrict their content.

    Args:
        traces: the traces to show; the page can switch between several.
        view: the view that opens.
        views: the views that are offered; None: `view` alone.
        state: the initial state, as in the page's address: attention, layer, head, heads, scale, ...
        extras: data of single views besides the traces, by view: JSON, with numpy arrays for many numbers.
        title: the title of the page, for instance the sentence.
        model: the data blocks of a model that the page runs (model_page.py), or of a server that runs it for the page
            (`SERVER`); its views require no trace.

    Raises ConfigError for unknown views, or without any trace or model.
    """
    offered = tuple(name for name in VIEWS if name in {view, *(views or ())})
    for name in (view, *(views or ())):
        if name not in VIEWS:
            raise ConfigError(f"unknown view `{name}`", f"choose one of {', '.join(VIEWS)}")
    if not traces and model is None:
        raise ConfigError("a page requires at least one trace; `traces` is empty")
    islands = dict(model or {}) | payload(
        traces, view=view, views=offered, state=state or {}, extras=extras or {}, title=title
    )
    client = "" if model is None else SERVED if SERVER in model else CLIENT
    if client == CLIENT:
        islands["worker"] = worker_script().encode("utf-8")
    loader, script, style = read_viewer_file("loader.js"), page_script(offered, client), page_style(offered, client)
    return Template(read_viewer_file("page.html")).substitute(
        title=html.escape(_strip_controls(title)),
        loader_hash=_hash(loader),
        script_hash=_hash(script),
        style_hash=_hash(style),
        worker_policy="; worker-src blob:" if client == CLIENT else "",
        connections="'self'" if client == SERVED else "'none'",
        loader=loader,
        script=_pack(script.encode("utf-8")),
        style=_pack(style.encode("utf-8")),
        data="\n".join(_island(name, content) for name, content in islands.items()),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _island(name: str, content: bytes) -> str:
    if len(content) < DENSE_FROM:
        return f'<script type="application/octet-stream" id="data-{name}">{_pack(content)}</script>'
    return f'<script type="application/octet-stream;base85" id="data-{name}">{encode_base85(content)}</script>'


def _pack(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def encode_base85(content: bytes) -> str:
    """Returns compressed bytes in base 85, 6 % shorter than base64, without characters that could close an element."""
    return base64.b85encode(zlib.compress(content, 9)).translate(_WITHOUT_MARKUP).decode("ascii")


def _strip_controls(text: str) -> str:
    """Removes control characters, which could reorder the text of a browser's tab."""
    return "".join(" " if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c for c in text[:200])
