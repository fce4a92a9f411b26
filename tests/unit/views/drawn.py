"""Traces to draw, and drawings to look into."""

import base64
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np

from pellucid.analysis.contributions import LogitAttribution, LogitComponent
from pellucid.analysis.lens import LogitLens
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.search import SearchNode, SearchTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Label, Raster, Shape, extent
from pellucid.views.view import View
from pellucid.views.view_options import ViewOptions

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</script><img src=x>",
    '"><svg onload=1>',
    "]]>",
    "&amp;",
    "\u202eabc",
    "\0\x1b",
    "\ud800",
    "달력",
    "W" * 90,
]


def tokens(*texts: str, segment: int = 0) -> tuple[Token, ...]:
    """Tokens of these texts: one after "##" goes on with its word, one in <> is special."""
    found, word = [], -1
    for text in texts:
        special, goes_on = text.startswith("<"), text.startswith("##")
        word += not (special or goes_on)
        shown = text if special or goes_on else f" {text}"
        found.append(
            Token(text=shown.removeprefix("##"), piece=text, word=None if special else word, special=special,
                  segment=segment)
        )  # fmt: skip
    return tuple(found)


def attention(
    name: str = "encoder.self", length: int = 4, num_keys: int | None = None, **fields: Any
) -> AttentionTrace:
    """Two layers of three heads, random, 5 wide; rows and columns of "src" unless `fields` say else."""
    generator = np.random.default_rng(3)
    q = generator.normal(size=(2, 3, length, 5)).astype(np.float32)
    k = generator.normal(size=(2, 3, num_keys or length, 5)).astype(np.float32)
    return AttentionTrace(**{"name": name, "queries": "src", "keys": "src", "q": q, "k": k} | fields)


def encoder(words: Sequence[str] = ("a", "dog", "##s", "<e>"), **fields: Any) -> Trace:
    """A trace of an encoder."""
    found = tokens(*words)
    return Trace(
        model={"name": "small"}, sequences={"src": found}, faithfulness=0.0,
        attentions={"encoder.self": attention(length=len(found), **fields)},
    )  # fmt: skip


def translation(src: Sequence[str] = ("ein", "Hund", "<e>"), out: Sequence[str] = ("a", "dog", "runs", "<e>")) -> Trace:
    """A trace of a translation with its search."""
    sequences = {"src": tokens(*src), "out": tokens(*out), "tgt": tokens("<s>", *out[:-1])}
    S, T = len(src), len(out)
    norms = np.random.default_rng(4).uniform(0.5, 2, size=(2, 3, S)).astype(np.float32)
    causal = np.tril(np.ones((T, T), np.bool_))
    return Trace(
        model={"name": "small"}, sequences=sequences, faithfulness=0.0, search=search(),
        attentions={
            "encoder.self": attention("encoder.self", S),
            "decoder.self": attention("decoder.self", T, mask=causal, queries="tgt", keys="tgt"),
            "cross": attention("cross", T, S, queries="out", keys="src", value_norms=norms),
        },
    )  # fmt: skip


def search() -> SearchTrace:
    """A beam of two over two steps: the second-ranked first word is continued, and chosen."""
    word = {text: tokens(text)[0] for text in ("<s>", "a", "b", "c", "d", "<e>")}
    nodes = [
        SearchNode(None, word["<s>"], 0.0, 0.0, 0.0, "best", -1),
        SearchNode(0, word["a"], -0.5, -0.5, -0.5, "live", 0),
        SearchNode(0, word["b"], -0.7, -0.7, -0.7, "best", 0),
        SearchNode(0, word["c"], -3.0, -3.0, -3.0, "pruned", 0),
        SearchNode(1, word["d"], -4.0, -4.5, -2.25, "pruned", 1),
        SearchNode(1, word["<e>"], -1.0, -1.5, -0.75, "finished", 1),
        SearchNode(2, word["<e>"], -0.1, -0.8, -0.4, "best", 2),
    ]
    return SearchTrace(beam_size=2, length_penalty=1.0, nodes=tuple(nodes))


def lens_of(trace: Trace, stages: int = 4) -> LogitLens:
    """A lens over what a trace wrote, whose later stages know more of it."""
    rows = trace.sequences.get("out", trace.sequences.get("src", ()))
    generator = np.random.default_rng(6)
    probabilities = -np.sort(-generator.dirichlet(np.ones(9), size=(stages, len(rows)))[..., :2], axis=-1)
    right = np.arange(len(rows))[None] * 3 % stages <= np.arange(stages)[:, None]  # (stages, R)
    top = tuple(
        tuple((row, rows[0]) if right[stage, place] else (rows[0], row) for place, row in enumerate(rows))
        for stage in range(stages)
    )
    names = ("embedding", *(f"layer {n // 2} {('self_attn', 'feed_forward')[n % 2]}" for n in range(stages - 1)))
    chosen = np.where(right, probabilities[..., 0], probabilities[..., 1])
    return LogitLens("out", rows, names, top, probabilities.astype(np.float32), chosen, np.where(right, 0, 1))


def contributions_of(trace: Trace, parts: int = 7) -> list[LogitAttribution]:
    """What heads and feed-forwards add to each word that a trace wrote."""
    rows, found = trace.sequences.get("out", trace.sequences.get("src", ())), []
    for row, word in enumerate(rows):
        values = np.random.default_rng(row).normal(size=parts).tolist()
        layers = [LogitComponent(f"feed forward {n}", value, None, n) for n, value in enumerate(values[1:])]
        against = rows[(row + 1) % len(rows)]
        found.append(
            LogitAttribution(row, word, against, sum(values), (LogitComponent("embedding", values[0]), *layers), 1e-6)
        )
    return found


def renamed(trace: Trace, name: str) -> Trace:
    """The trace as of another model."""
    return replace(trace, model={"name": name})


def parsed(svg: str) -> ElementTree.Element:
    """The root of an SVG, which must be valid XML."""
    root = ElementTree.fromstring(svg.encode("utf-8"))
    assert root.tag == f"{SVG}svg"
    return root


def texts(drawing: Drawing) -> list[str]:
    """The texts that are drawn."""
    return [shape.text for shape in drawing.shapes if isinstance(shape, Label)]


def rasters(drawing: Drawing) -> list[np.ndarray]:
    """The images that are drawn."""
    return [shape.pixels for shape in drawing.shapes if isinstance(shape, Raster)]


def read_png(data: bytes) -> np.ndarray:
    """The pixels (height, width, 3) of an unfiltered PNG; each chunk's checksum must be right."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place, found = 8, {}
    while place < len(data):
        (length,), kind = struct.unpack_from(">I", data, place), data[place + 4 : place + 8]
        body = data[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", data, place + 8 + length) == (zlib.crc32(kind + body),)
        found[kind], place = body, place + 12 + length
    width, height, depth, colours = struct.unpack_from(">IIBB", found[b"IHDR"])
    assert (depth, colours) == (8, 2)
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, 3)


def embedded(svg: str) -> list[np.ndarray]:
    """The images in an SVG."""
    return [read_png(base64.b64decode(data)) for data in re.findall(r"data:image/png;base64,([^\"]+)", svg)]


def outside(drawing: Drawing) -> list[Shape]:
    """The shapes that reach beyond the page."""
    return [shape for shape in drawing.shapes if not _within(extent(shape), drawing)]


def _within(place: tuple[float, float, float, float], drawing: Drawing) -> bool:
    left, top, right, bottom = place
    return 0 <= left <= right <= drawing.width and 0 <= top <= bottom <= drawing.height


def draw_view(view: str, trace: Trace, **choice: Any) -> Drawing:
    """The picture of a view."""
    return View(trace, view, ViewOptions(**choice)).drawing
