"""`pellucid.view`: a trace, or attention from elsewhere, as a picture in a notebook, a web page, an SVG or a PNG."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Never

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.aligning_head import alignment_state
from pellucid.analysis.alignment import Extraction
from pellucid.analysis.evolution import Evolution
from pellucid.analysis.pharaoh import Gold
from pellucid.errors import ConfigError, did_you_mean
from pellucid.tracing.file import load_trace
from pellucid.tracing.ready import trace_from_weights
from pellucid.tracing.trace import Token, Trace
from pellucid.views.analysis_pictures import alignment_choice, compared_place
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.picture import Picture
from pellucid.views.choice import Choice, Heads, Pair
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
    view: str | Sequence[str | Token] = "heads",
    tokens: Sequence[str | Token] | None = None,
    *,
    layer: int | None = None,
    head: Heads = None,
    title: str | None = None,
    width: str | float | None = None,
    attention: Any = None,
    words: bool = False,
    special: bool = True,
    sink: bool = True,
    pair: Pair | None = None,
    row: int | None = None,
    top_k: int | None = None,
    pruned: bool | None = None,
    other: Trace | str | Path | None = None,
    names: tuple[str, str] | None = None,
    gold: Gold | None = None,
    extraction: Extraction | None = None,
    evolution: Evolution | None = None,
    statistic: str | None = None,
    ablation: Ablation | None = None,
    sentence_b_start: int | None = None,
    encoder_attention: Any = None,
    decoder_attention: Any = None,
    cross_attention: Any = None,
    encoder_tokens: Sequence[str | Token] | None = None,
    decoder_tokens: Sequence[str | Token] | None = None,
    name: str | None = None,
    **unknown: Never,
) -> View:
    """Returns a trace, or attention from elsewhere, as something to look at.

        pellucid.view(trace, "heads", layer=3).html("heads.html")
        pellucid.view("x.trace", "matrix", layer=3, head=5).svg("matrix.svg")
        pellucid.view(outputs.attentions, "matrix", tokens, sentence_b_start=9)

    Args:
        source: a trace, the path of a file with one, or attention weights as libraries return them: for each layer an
            array (1, H, L, M).
        view: "heads", "matrix", "model", "neuron", "beam", "alignment", "compare", "evolution" or "flow".
        tokens: of weights from elsewhere; a trace has its own. They may stand in the place of `view`, which is `name`
            then: so users of BertViz have them.
        layer: counted from 0; None: the last.
        head: a number, several, "mean" or "max"; None: all of the layer.
        title: what stands above; None: what is shown, in words, and above a page, where that can change, the text.
        width: of a still picture: "column" or "page" of a journal, or millimetres; None: as it comes out.
        attention, words, special, sink, pair: of all views, as Choice says.
        row, top_k, pruned, other, names, gold, extraction, evolution, statistic, ablation: each of a single view, as
            Options says.
        sentence_b_start, encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens: of
            weights from elsewhere, as trace_from_weights says.

    Raises ConfigError for a view or an option that does not exist, or tokens beside a trace; DataError for an
    attention, layer or head that the trace has not, or a view that it cannot serve.
    """
    if isinstance(view, str):
        shown = name or view
    else:
        shown, tokens = name or "heads", view
    check_view(shown)
    if source is None and not isinstance(attention, str | None):
        source, attention = attention, None  # weights by the name that they have elsewhere
    weights = {
        "sentence_b_start": sentence_b_start, "encoder_attention": encoder_attention,
        "decoder_attention": decoder_attention, "cross_attention": cross_attention, "encoder_tokens": encoder_tokens,
        "decoder_tokens": decoder_tokens,
    }  # fmt: skip
    if unknown:
        known = [f.name for kind in (Choice, Options) for f in fields(kind)]
        known += [] if isinstance(source, Trace | str | Path) else [*weights, "tokens"]
        first = next(iter(unknown))
        raise ConfigError(
            f"unknown option `{first}` of a view{did_you_mean(first, known)}", f"options: {', '.join(known)}"
        )
    given = {key: value for key, value in weights.items() if value is not None}
    if not isinstance(source, Trace | str | Path):
        trace = trace_from_weights(source, tokens, **given)
    elif tokens is not None or given:
        wrong = "tokens" if tokens is not None else next(iter(given))
        raise ConfigError(f"`{wrong}` are of weights from elsewhere; a trace has its own", "leave them out")
    else:
        trace = source if isinstance(source, Trace) else load_trace(source)
    choice = Choice(layer=layer, head=head, attention=attention, words=words, special=special, sink=sink, pair=pair)
    options = Options(
        title=title, width=width, row=row, top_k=top_k, pruned=pruned,
        other=load_trace(other) if isinstance(other, str | Path) else other, names=names, gold=gold,
        extraction=extraction, evolution=evolution, statistic=statistic, ablation=ablation,
    )  # fmt: skip
    check_options(shown, options)
    return View(trace, shown, choice, options)


def check_view(name: str) -> None:
    """Raises ConfigError for a view that does not exist."""
    if name not in VIEWS:
        raise ConfigError(f"unknown view `{name}`{did_you_mean(name, VIEWS)}", f"views: {', '.join(VIEWS)}")
