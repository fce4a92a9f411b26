"""A view in a notebook: a page in a frame that can reach nothing, with a still picture for where no script runs."""

from html import escape
from typing import TYPE_CHECKING

from pellucid.views.canvas.picture import still_bundle
from pellucid.views.canvas.svg import to_svg
from pellucid.views.page import page

if TYPE_CHECKING:
    from pellucid.views.view import View

LARGEST = 8_000_000
"""Characters of a cell's output: beyond it notebooks become slow to open and to save."""
HEIGHT = 640


def mime_bundle(view: "View") -> dict[str, str]:
    """What a notebook shows of a view: the page, and for where that cannot be, a picture and a line of text.

    A page that is too large is replaced by that of the small pictures of all heads, and says how to have all.
    """
    return still_bundle(view.drawing) | {"text/html": _frame(view)}


def _frame(view: "View") -> str:
    """The page within a frame without an origin: what runs in it cannot reach the notebook."""
    html, note = page(view.traces, view=view.name, views=[view.name], **view.page_parts([view.name])), ""
    if len(html) > LARGEST and view.name != "model":
        size = f"{len(html) / 1e6:.1f} MB"
        html = page(view.traces, view="model", views=["model"], **view.page_parts(["model"]))
        note = (
            f"This view takes {size}, so all heads are shown small. Write it with <code>.html(path)</code> to see all, "
            "or trace a shorter text."
        )
    if len(html) > LARGEST:
        size = f"{len(html) / 1e6:.1f} MB"
        note = f"This view takes {size}, too much for a notebook: write it with <code>.html(path)</code>."
        return f"{to_svg(view.drawing)}<p>{note}</p>"
    title = escape(view.drawing_title())
    frame = (
        f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{escape(html)}" title="{title}" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
    )
    return f"{frame}<p>{note}</p>" if note else frame
