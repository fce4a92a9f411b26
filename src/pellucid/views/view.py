"""`pellucid.view`: a trace, or attention from elsewhere, as a picture in a notebook, a web page, an SVG or a PNG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any

from pellucid.analysis.aligning_head import alignment_state
from pellucid.errors import ConfigError, DataError, did_you_mean
from pellucid.tracing.file import load_trace
from pellucid.tracing.ready import trace_from_weights
from pellucid.tracing.trace import Trace
from pellucid.views.analysis_pictures import alignment_choice, compared_place
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.picture import Picture
from pellucid.views.choice import Choice
from pellucid.views.extras import view_extras
from pellucid.views.payload import VIEWS
from pellucid.views.pictured import can_serve, picture
from pellucid.views.texts import text_of
from pellucid.views.view_options import Options, check_options


@dataclass(frozen=True)
class View:
    """What `view` gives: it shows itself in a notebook, and writes itself out."""

    trace: Trace
    name: str
    choice: Choice
    options: Options

    @property
    def drawing(self) -> Drawing:
        """The still picture."""
        return picture(self.name, self.trace, self.choice, self.options)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The trace, and what comes with it: the one it is compared with, or those of the run's checkpoints."""
        if self.options.evolution is not None:
            return tuple(self.options.evolution.traces)
        return (self.trace,) if self.options.other is None else (self.trace, self.options.other)

    def svg(self, path: str | Path) -> None:
        """Writes a picture for a paper: text that stays text, and needs no library."""
        Picture(self.drawing).svg(path)

    def png(self, path: str | Path, scale: float = 2) -> None:
        """Writes a picture of `scale` dots a pixel of 1/96 inch. Raises ConfigError without the extra `plot`."""
        Picture(self.drawing).png(path, scale)

    def html(self, path: str | Path, views: Sequence[str] | str | None = None) -> None:
        """Writes one web page that needs no network. `views`: those that it can change to, "all" for every one that the
        trace can serve; None: this one alone, and the smallest file."""
        from pellucid.views.page import write_page

        offered = self.page_views(views)
        parts = self.page_parts(offered)
        write_page(path, self.traces, view=self.name, views=offered, **parts)

    def page_views(self, views: Sequence[str] | str | None = None) -> list[str]:
        """The views of a page, this one among them. Raises ConfigError for one that there is not."""
        if views == "all":
            several = {"compare"} if len(self.traces) > 1 else set()
            offered = {self.name, *several}
            return [name for name in VIEWS if name in offered or can_serve(name, self.trace, self.options)]
        names = [self.name] if views is None else [views] if isinstance(views, str) else list(views)
        for name in names:
            check_view(name)
        return names if self.name in names else [self.name, *names]

    def page_parts(self, views: Sequence[str]) -> dict[str, Any]:
        """What a page is made with beside its views: the state it opens with, what is computed for them, its title."""
        if not can_serve(self.name, self.trace, self.options):
            _ = self.drawing  # raises DataError, which says what is missing
        evolution, ablation = self.options.evolution, self.options.ablation
        extras = view_extras(self.traces, views, gold=[self.options.gold], ablation=ablation)
        if evolution is not None:
            extras["evolution"] = evolution.extras()
        if names := self.trace_names():
            extras["names"] = list(names)
        at = next((number for number, trace in enumerate(self.traces) if trace is self.trace), 0)
        state = self.state() | ({"trace": str(at)} if at else {})
        if self.name == "compare" and self.options.other is not None:
            layer, head = compared_place(self.trace, self.choice, self.options.other)
            state |= {"layer": str(layer)} | ({"head": str(head)} if isinstance(head, int) else {})
        if self.name == "alignment":
            state |= alignment_state(*alignment_choice(self.trace, self.choice, self.options))
        return {"state": state, "extras": extras, "title": self.options.title or text_of(self.trace) or "Attention"}

    def trace_names(self) -> Sequence[str]:
        """What the traces are called where there are several."""
        if self.options.evolution is not None:
            return [f"step {step}" for step in self.options.evolution.steps]
        return self.options.names or ()

    def drawing_title(self) -> str:
        """The title of the still picture."""
        return self.options.title or self.drawing.title

    def state(self) -> dict[str, str]:
        """The choice as the page's address has it."""
        choice = self.choice.resolved(self.trace)
        numbers = choice.numbers(self.trace[choice.attention or ""])
        state = {"attention": choice.attention or "", "layer": str(choice.layer), "head": str(numbers[0])}
        if self.choice.head is not None and not isinstance(self.choice.head, str):
            state["heads"] = ",".join(map(str, numbers))
        flags = {"words": choice.words, "special": not choice.special, "sink": not choice.sink}
        return state | {name: "1" for name, is_set in flags.items() if is_set} | {"pair": choice.pair or ""}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from pellucid.views.notebook import mime_bundle

        return mime_bundle(self)

    def __repr__(self) -> str:
        return f"<pellucid.View {self.name}: {self.drawing_title()}>"


def view(
    source: Any = None,
    view: str | Sequence[Any] = "heads",
    *,
    layer: int | None = None,
    head: Any = None,
    title: str | None = None,
    width: str | float | None = None,
    **options: Any,
) -> View:
    """A trace, or attention from elsewhere, to look at.

        pellucid.view(trace, "heads", layer=3).html("heads.html")
        pellucid.view("x.trace", "matrix", layer=3, head=5).svg("matrix.svg")
        pellucid.view(outputs.attentions, tokens, sentence_b_start=9)

    Args:
        source: a trace, the path of a file with one, or attention weights as libraries return them: for each layer an
            array (1, H, L, M).
        view: "heads", "matrix", "model", "neuron", "beam", "alignment", "compare", "evolution" or "flow"; or, of
            weights, their tokens (`tokens`), and then the view is `name="heads"`.
        layer: counted from 0; None: the last. head: a number, several, "mean" or "max"; None: all of the layer.
        title: what stands above; None: what is shown, in words, and above a page, where that can change, the text.
        width: of a still picture: "column" or "page" of a journal, or millimetres; None: as it comes out.
        options: of all views `attention`, `words`, `special`, `sink`, `pair` (Choice says what they are); of a single
            one `row` (neuron), `top_k` (heads), `pruned` (beam), and others (Options); of weights what
            `trace_from_weights` takes.

    Raises ConfigError for a view or an option that there is not, or tokens beside a trace; DataError for an attention,
    layer or head that the trace has not, or a view that it cannot serve.
    """
    tokens = options.pop("tokens", None) if isinstance(view, str) else view
    name = options.pop("name", view if isinstance(view, str) else "heads")
    check_view(name)
    if source is None and not isinstance(options.get("attention"), str | None):
        source = options.pop("attention")  # weights by the name that they have elsewhere
    if isinstance(options.get("other"), str | Path):
        options["other"] = load_trace(options["other"])
    of_choice, of_options = ({f.name for f in fields(kind)} for kind in (Choice, Options))
    ready = {key: value for key, value in options.items() if key not in of_choice | of_options}
    trace = _traced(source, tokens, ready)
    if not trace.attentions:
        raise DataError(
            "the trace has no attention weights: no layer of its model called attention()",
            "attention of your own is recorded where it calls pellucid.attention(q, k, v, ..., block=self)",
        )
    choice = Choice(layer=layer, head=head, **{key: options[key] for key in options if key in of_choice})
    rest = Options(title=title, width=width, **{key: options[key] for key in options if key in of_options})
    check_options(name, rest)
    return View(trace, name, choice, rest)


def check_view(name: str) -> None:
    """Raises ConfigError for a view that there is not."""
    if name not in VIEWS:
        raise ConfigError(f"unknown view `{name}`{did_you_mean(name, VIEWS)}", f"views: {', '.join(VIEWS)}")


def _traced(source: Any, tokens: Sequence[Any] | None, ready: Mapping[str, Any]) -> Trace:
    is_trace = isinstance(source, Trace | str | Path)
    known = [f.name for kind in (Choice, Options) for f in fields(kind)]
    if not is_trace:
        known += [name for name in signature(trace_from_weights).parameters if name != "tokens"]
    if unknown := next((name for name in ready if name not in known), None):
        raise ConfigError(
            f"unknown option `{unknown}` of a view{did_you_mean(unknown, known)}", f"options: {', '.join(known)}"
        )
    if not is_trace:
        weights = ready if source is None else {"attention": source, **ready}
        return trace_from_weights(tokens=tokens, **weights)
    if tokens is not None:
        raise ConfigError("`tokens` are of weights from elsewhere; a trace has its own", "leave them out")
    return source if isinstance(source, Trace) else load_trace(source)
