"""Shows a trace in a notebook, as a web page, as SVG or PNG (`pellucid.view`)."""

import unicodedata
import warnings
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from pellucid.analysis.alignment import Gold, LinkExtraction
from pellucid.analysis.weights import word_tokens
from pellucid.errors import ConfigError, DataError, did_you_mean
from pellucid.files.writing import write_output
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace, load_trace
from pellucid.views import ASKING, KINDS, OF_TRACES, VIEWS, Data
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.initial_state import choose_opening
from pellucid.views.page import page
from pellucid.views.page_data import view_extras
from pellucid.views.pictures.alignment import alignment_choice, alignment_state
from pellucid.views.pictures.compare import find_compared_head
from pellucid.views.view_options import Heads, Pair, ViewOptions

if TYPE_CHECKING:  # a picture of a saved trace runs no model
    from pellucid.analysis.ablation import Ablation
    from pellucid.analysis.contributions import LogitAttribution
    from pellucid.analysis.evolution import Evolution
    from pellucid.analysis.lens import LogitLens
    from pellucid.tasks.task import TextModel

LARGEST_PAGE = 8_000_000
"""The largest number of characters of a page that has every view by default, and of a notebook cell, which becomes
slow beyond it."""
ONE_VIEW = f"all views would exceed {LARGEST_PAGE // 10**6} MB, so the page has one"
FRAME_AROUND, TALLEST_FRAME = 540, 1150
"""Height in pixels that a page in a notebook needs in addition to its picture, and the maximum total height."""
LONGEST_TITLE = 160
"""The largest number of characters of a text in a page's title; the rest is cut off."""


@dataclass(frozen=True)
class View:
    """Holds a trace and the options of its view; shows itself in a notebook, and writes pages and pictures."""

    trace: Trace
    name: str
    choice: ViewOptions

    @property
    def drawing(self) -> Drawing:
        """Draws the still picture. Raises DataError if the trace lacks the data of the view."""
        return load_picture(self.name)(self.trace, self.choice)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Returns the trace and accompanying ones: the one to compare with, or one per checkpoint of the run."""
        if self.choice.evolution is not None:
            return tuple(self.choice.evolution.traces)
        return (self.trace,) if self.choice.other is None else (self.trace, self.choice.other)

    def svg(self, path: str | Path) -> None:
        """Writes a picture for a paper: text remains text, and no library is required."""
        self.drawing.svg(path)

    def png(self, path: str | Path, scale: float = 2) -> None:
        """Writes a picture of `scale` dots per pixel of 1/96 inch. Raises ConfigError without the extra `plot`."""
        self.drawing.png(path, scale)

    def html(
        self,
        path: str | Path,
        views: Sequence[str] | str | None = None,
        *,
        model: "TextModel[Any] | None" = None,
        examples: Sequence[str] = (),
    ) -> None:
        """Writes one web page that requires no network.

        `views` are the views that the page can switch to: "all" for every view of the trace, a name or a list for these
        in addition to this one. None: all while the page is smaller than 8 MB, else this one alone, with a warning.
        With the `model` that was traced, the page also contains the model if it is small enough, and offers `examples`
        as input. Raises ConfigError for an unknown view, DataError if the trace lacks the data of this one.
        """
        html, has_all = self.make_fitting_page(views, model, examples)
        if not has_all:
            warnings.warn(f'{ONE_VIEW}: `views="all"` writes them all', stacklevel=2)
        write_output(path, html)

    def make_fitting_page(
        self,
        views: Sequence[str] | str | None = None,
        model: "TextModel[Any] | None" = None,
        examples: Sequence[str] = (),
    ) -> tuple[str, bool]:
        """Returns the HTML of the page that `html` writes, and True if it has all of the requested views."""
        offered = self.page_views("all" if views is None else views)
        parts = self.page_parts(offered)
        html = page(self.traces, view=self.name, views=offered, **parts)
        if views is None and len(html) > LARGEST_PAGE:
            return self.make_fitting_page([self.name])[0], False
        if model is not None and views in (None, "all") and len(self.traces) == 1:
            from pellucid.views.model_page import islands_within, list_views

            living = [name for name in VIEWS if name in {*offered, *list_views(model)}]
            for islands in islands_within(model, LARGEST_PAGE - len(html), examples):
                found = page(self.traces, view=self.name, views=living, model=islands, **parts)
                if len(found) <= LARGEST_PAGE:
                    return found, True
        return html, True

    def page_views(self, views: Sequence[str] | str | None = None) -> list[str]:
        """Returns the views of a page, including this one. Raises ConfigError for an unknown view."""
        if views == "all":
            several = {"compare"} if len(self.traces) > 1 else set()
            offered = {self.name, *several}
            return [name for name in VIEWS if name in offered or can_serve(name, self.trace, self.choice)]
        names = [self.name] if views is None else [views] if isinstance(views, str) else list(views)
        for name in names:
            check_view(name)
        return names if self.name in names else [self.name, *names]

    def page_parts(self, views: Sequence[str]) -> dict[str, Any]:
        """Returns a page's data besides its views: the initial state, computed extras, the title."""
        if not can_serve(self.name, self.trace, self.choice):
            _ = self.drawing  # raises DataError, which names the missing data
        choice = self.choice
        extras = view_extras(
            self.traces, views, gold=[choice.gold], ablation=choice.ablation, lens=choice.lens,
            contributions=choice.all_contributions,
        )  # fmt: skip
        names: Sequence[str] = choice.names or ()
        if choice.evolution is not None:
            extras["evolution"] = choice.evolution.extras()
            names = [f"step {step}" for step in choice.evolution.steps]
        if names:
            extras["names"] = list(names)
        at = next((number for number, trace in enumerate(self.traces) if trace is self.trace), 0)
        state = self.state() | ({"trace": str(at)} if at else {})
        if self.name == "compare" and choice.other is not None:
            layer, head = find_compared_head(self.trace, choice, choice.other)
            state |= {"layer": str(layer)} | ({"head": str(head)} if isinstance(head, int) else {})
        if self.name == "contributions" and choice.row is not None:
            state |= {"contributions.row": str(choice.row)}
        # In every view, each attention shows the same head until the user selects another.
        openings = [choose_opening(trace, choice) for trace in self.traces]
        extras["opening"] = [one.heads for one in openings]
        if self.name == "alignment":
            state |= alignment_state(*alignment_choice(self.trace, choice))
        elif "alignment" in views:
            own = openings[at].alignment
            state |= {name: value for name, value in own.items() if name.startswith("alignment.")}
        return {"state": state, "extras": extras, "title": choice.title or get_text(self.trace) or "Attention"}

    def state(self) -> dict[str, str]:
        """Returns the options as the page's address encodes them."""
        choice, (attention, layer) = self.choice, self.choice.place(self.trace)
        numbers, state = choice.heads(attention), {"attention": attention.name}
        if choice.layer is not None:
            state["layer"] = str(layer)
        if isinstance(choice.head, str):
            state |= {"heads": "all", "mix": choice.head}
        elif choice.head is not None:
            state |= {"head": str(numbers[0]), "heads": ",".join(map(str, numbers))}
        flags = {"words": choice.merge_words, "special": not choice.special, "sink": not choice.sink}
        return state | {name: "1" for name, is_set in flags.items() if is_set} | {"pair": choice.pair or ""}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Returns the representations for a notebook: the page; without scripts, a picture and a line of text."""
        drawing = self.drawing
        return drawing._repr_mimebundle_() | {"text/html": self._frame(drawing)}

    def _frame(self, drawing: Drawing) -> str:
        """Puts the page into a frame without an origin, so that its scripts cannot access the notebook.

        The still picture is below the frame: an untrusted notebook removes the frame. A page that is too large has one
        view; if that is too large, too, it shows thumbnails of all heads, with a note.
        """
        (html, _), note = self.make_fitting_page(), ""
        if len(html) > LARGEST_PAGE and self.name != "model":
            size = f"{len(html) / 1e6:.1f} MB"
            html = page(self.traces, view="model", views=["model"], **self.page_parts(["model"]))
            note = (
                f"This view takes {size}, so all heads are shown small. Write it with <code>.html(path)</code> to see "
                "all, or trace a shorter text."
            )
        if len(html) > LARGEST_PAGE:
            size = f"{len(html) / 1e6:.1f} MB"
            note = f"This view takes {size}, too much for a notebook: write it with <code>.html(path)</code>."
            return f"{drawing.as_svg()}<p>{note}</p>"
        title = escape(self.choice.title or drawing.title)
        picture = b64encode(drawing.as_svg().encode("utf-8")).decode("ascii")
        height = round(min(TALLEST_FRAME, FRAME_AROUND + drawing.height))
        # The frame covers the picture; it has a separate element, since marimo wraps it in another one.
        frame = (
            '<div style="display: grid">'
            f'<img alt="{title}" src="data:image/svg+xml;base64,{picture}" '
            f'style="grid-area: 1 / 1; max-width: 100%; max-height: {height}px">'
            '<div style="grid-area: 1 / 1">'
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{escape(html)}" title="{title}" '
            f'style="width: 100%; height: 100%; min-height: {height}px; border: 0; background: white"></iframe>'
            "</div></div>"
        )
        return f"{frame}<p>{note}</p>" if note else frame

    def __repr__(self) -> str:
        return f"<pellucid.View {self.name}: {self.choice.title or self.drawing.title}>"


def view(
    source: Trace | str | Path,
    view: str = "heads",
    *,
    layer: int | None = None,
    head: Heads = None,
    title: str | None = None,
    width: str | float | None = None,
    attention: str | None = None,
    merge_words: bool = False,
    special: bool = True,
    sink: bool = True,
    pair: Pair | None = None,
    row: int | None = None,
    top_k: int | None = None,
    pruned: bool | None = None,
    other: Trace | str | Path | None = None,
    names: tuple[str, str] | None = None,
    gold: Gold | None = None,
    extraction: LinkExtraction | None = None,
    evolution: "Evolution | None" = None,
    statistic: str | None = None,
    ablation: "Ablation | None" = None,
    lens: "LogitLens | None" = None,
    contributions: "LogitAttribution | Sequence[LogitAttribution] | None" = None,
    **unknown: Never,
) -> View:
    """Returns a view of a trace, which shows itself in a notebook, and writes a page or a picture.

        pellucid.view(trace, "heads", layer=3).html("heads.html")
        pellucid.view("x.trace", "matrix", layer=3, head=5).svg("matrix.svg")
        pellucid.view(pellucid.trace_from_weights(outputs.attentions, tokens), "matrix")

    Args:
        source: a trace, or the path of a trace file.
        view: the name of a view: "heads", "matrix", "flow" or another of `pellucid.views.OF_TRACES`.
        layer: counted from 0; None: the last.
        head: a number, several, "mean" or "max"; None: all of the layer.
        title: the heading; None: the attention, layer and head, and the text above a page, where these change.
        width: the width of a still picture: "column" or "page" of a journal, or millimeters; None: unlimited.
        attention, merge_words, special, sink, pair: options of all views, documented in ViewOptions.
        row, top_k, pruned, other, names, gold, extraction, evolution, statistic, ablation, lens, contributions: options
            of some views, documented in ViewOptions.

    Raises ConfigError for an unknown view or option, or weights instead of a trace; DataError for an attention, layer
    or head that the trace does not have, or a view whose data it lacks.
    """
    check_view(view)
    if wrong := next(iter(unknown), None):
        known = [field.name for field in fields(ViewOptions)]
        raise ConfigError(
            f"unknown option `{wrong}` of a view{did_you_mean(wrong, known)}", f"options: {', '.join(known)}"
        )
    if not isinstance(source, Trace | str | Path):
        raise ConfigError(
            f"a view requires a trace, or a file with one, not a {type(source).__name__}",
            "for attention weights of another library: pellucid.view(pellucid.trace_from_weights(attentions, tokens))",
        )
    trace = source if isinstance(source, Trace) else load_trace(source)
    if not trace.attentions:
        raise DataError(
            "the trace has no attention weights: no layer of its model called attention()",
            "custom attention is recorded if it calls pellucid.attention(q, k, v, ..., block=self)",
        )
    choice = ViewOptions(
        attention=attention, layer=layer, head=head, merge_words=merge_words, special=special, sink=sink, pair=pair,
        title=title,
        width=width, row=row, top_k=top_k, pruned=pruned,
        other=load_trace(other) if isinstance(other, str | Path) else other, names=names, gold=gold,
        extraction=extraction, evolution=evolution, statistic=statistic, ablation=ablation, lens=lens,
        contributions=contributions,
    )  # fmt: skip
    choice.check(view)
    return View(trace, view, choice)


def check_view(name: str) -> None:
    """Raises ConfigError for an unknown view, and for one that requires a page with a model."""
    if name in ASKING:
        raise ConfigError(
            f"the view `{name}` requires a model, and a trace has none",
            'make a page with the model: `pellucid.weights.to_page(model, "page.html")`',
        )
    if name not in VIEWS:
        raise ConfigError(f"unknown view `{name}`{did_you_mean(name, OF_TRACES)}", f"views: {', '.join(OF_TRACES)}")


def can_serve(name: str, trace: Trace, choice: ViewOptions) -> bool:
    """Returns True if a trace and its extra data support a view."""
    has: dict[Data, bool] = {
        "attention": bool(trace.attentions),
        "vectors": any(attention.q is not None for attention in trace.attentions.values()),
        "search": trace.search is not None,
        "cross": "cross" in trace.attentions,
        "other": choice.other is not None,
        "evolution": choice.evolution is not None,
        "lens": choice.lens is not None,
        "contributions": bool(choice.all_contributions),
        "model": False,
    }
    return has[KINDS[name].needs]


def load_picture(name: str) -> Callable[[Trace, ViewOptions], Drawing]:
    """Returns the function that draws a view of traces: `show_heads` of `pictures/heads.py` for "heads"."""
    module = KINDS[name].picture or name
    draw: Callable[[Trace, ViewOptions], Drawing] = getattr(
        import_module(f"pellucid.views.pictures.{module}"), f"show_{module}"
    )
    return draw


def get_text(trace: Trace) -> str:
    """Returns the text of a trace, joined from its tokens: input and output, or the input texts.

    For instance "18.3.2016 → 2016-03-18"; at most 160 characters.
    """
    sides = [trace.sequences[name] for name in ("src", "out" if "src" in trace.sequences else "tgt")
             if name in trace.sequences]  # fmt: skip
    found = " → ".join(text for side in sides if (text := _join(side)))
    return found if len(found) <= LONGEST_TITLE else found[: LONGEST_TITLE - 1].rstrip() + "…"


def _join(tokens: Sequence[Token]) -> str:
    """Joins all tokens except special ones; if the vocabulary has no spaces, words are separated by spaces."""
    usable = [token for token in tokens if not token.special][: 2 * LONGEST_TITLE]
    spaced = any(token.text_in_word[:1].isspace() for token in usable)
    texts = [[token.text_in_word for token in word_tokens([one for one in usable if one.segment == s])] for s in (0, 1)]
    joined = ("".join(words) if spaced else _space(words) for words in texts)
    return " / ".join(unicodedata.normalize("NFC", " ".join(text.split())) for text in joined if text.strip())


def _space(words: Sequence[str]) -> str:
    """Joins words with spaces, but without a space before punctuation, or after opening and joining characters."""
    text = ""
    for word in words:
        closes = unicodedata.category(word[:1] or "a")[0] == "P" and word[:1] not in "([{¿¡"
        text += word if not text or closes or text[-1] in "([{¿¡-/'’" else f" {word}"
    return text
