"""Shows a trace, or attention from elsewhere: in a notebook, as a web page, as an SVG or a PNG (`pellucid.view`)."""

import unicodedata
import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any, Never

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.alignment import Extraction, Gold
from pellucid.analysis.contributions import Contributions
from pellucid.analysis.evolution import Evolution
from pellucid.analysis.lens import Lens
from pellucid.analysis.weights import word_tokens
from pellucid.errors import ConfigError, DataError, did_you_mean
from pellucid.files.writing import write_output
from pellucid.tasks.task import TextModel
from pellucid.tracing.ready import trace_from_weights
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace, load_trace
from pellucid.views import ASKING, OF_TRACES, VIEWS
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.choice import Choice, Heads, Pair
from pellucid.views.model_page import islands_within, views_of
from pellucid.views.opening import opening_of
from pellucid.views.page import page
from pellucid.views.payload import view_extras
from pellucid.views.pictures.alignment import alignment_choice, alignment_state, show_alignment
from pellucid.views.pictures.beam import show_beam
from pellucid.views.pictures.compare import compared_place, show_compare
from pellucid.views.pictures.contributions import show_contributions
from pellucid.views.pictures.evolution import show_evolution
from pellucid.views.pictures.flow import show_flow
from pellucid.views.pictures.heads import show_heads
from pellucid.views.pictures.lens import show_lens
from pellucid.views.pictures.matrix import show_matrix
from pellucid.views.pictures.model import show_model
from pellucid.views.pictures.neuron import show_neuron
from pellucid.views.pictures.text import show_text

PICTURES: Mapping[str, Callable[[Trace, Choice], Drawing]] = {
    "overview": show_model,
    "text": show_text,
    "heads": show_heads,
    "matrix": show_matrix,
    "model": show_model,
    "neuron": show_neuron,
    "beam": show_beam,
    "alignment": show_alignment,
    "compare": show_compare,
    "evolution": show_evolution,
    "flow": show_flow,
    "lens": show_lens,
    "contributions": show_contributions,
}
LARGEST_PAGE = 8_000_000
"""The most characters of a page that has every view unasked, and of a notebook's cell, which becomes slow beyond it."""
ONE_VIEW = f"all views would take more than {LARGEST_PAGE // 10**6} MB, so the page has one"
FRAME_AROUND, TALLEST_FRAME = 540, 1150
"""Pixels that a page in a notebook has around its picture, and the most that it takes in all."""
LONGEST_TITLE = 160
"""The most characters of a text that a page is called by; what follows is left out."""


@dataclass(frozen=True)
class View:
    """Holds a trace and what is shown of it; it shows itself in a notebook, and writes itself out."""

    trace: Trace
    name: str
    choice: Choice

    @property
    def drawing(self) -> Drawing:
        """Draws the still picture. Raises DataError where the trace does not have what the view shows."""
        return PICTURES[self.name](self.trace, self.choice)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Returns the trace, and what comes with it: the one it is compared with, or those of the run's checkpoints."""
        if self.choice.evolution is not None:
            return tuple(self.choice.evolution.traces)
        return (self.trace,) if self.choice.other is None else (self.trace, self.choice.other)

    def svg(self, path: str | Path) -> None:
        """Writes a picture for a paper: text stays text, and no library is needed."""
        self.drawing.svg(path)

    def png(self, path: str | Path, scale: float = 2) -> None:
        """Writes a picture of `scale` dots a pixel of 1/96 inch. Raises ConfigError without the extra `plot`."""
        self.drawing.png(path, scale)

    def html(
        self,
        path: str | Path,
        views: Sequence[str] | str | None = None,
        *,
        model: TextModel[Any] | None = None,
        examples: Sequence[str] = (),
    ) -> None:
        """Writes one web page that needs no network.

        `views` are those that it can change to: "all" for every one that the trace can serve, a name or a list for
        these and this one. None: all while the page stays under 8 MB, else this one alone, of which a warning tells.
        With the `model` that was traced, the page holds that as well where it is small enough, and offers `examples` to
        be tried. Raises ConfigError for an unknown view, DataError where the trace cannot serve this one.
        """
        html, has_all = self.fitting_page(views, model, examples)
        if not has_all:
            warnings.warn(f'{ONE_VIEW}: `views="all"` writes them all', stacklevel=2)
        write_output(path, html)

    def fitting_page(
        self,
        views: Sequence[str] | str | None = None,
        model: TextModel[Any] | None = None,
        examples: Sequence[str] = (),
    ) -> tuple[str, bool]:
        """Returns the HTML of the page that `html` writes, and whether it has all the views that it should have."""
        offered = self.page_views("all" if views is None else views)
        parts = self.page_parts(offered)
        html = page(self.traces, view=self.name, views=offered, **parts)
        if views is None and len(html) > LARGEST_PAGE:
            return self.fitting_page([self.name])[0], False
        if model is not None and views in (None, "all") and len(self.traces) == 1:
            living = [name for name in VIEWS if name in {*offered, *views_of(model)}]
            for islands in islands_within(model, LARGEST_PAGE - len(html), examples):
                found = page(self.traces, view=self.name, views=living, model=islands, **parts)
                if len(found) <= LARGEST_PAGE:
                    return found, True
        return html, True

    def page_views(self, views: Sequence[str] | str | None = None) -> list[str]:
        """Returns the views of a page, this one among them. Raises ConfigError for an unknown one."""
        if views == "all":
            several = {"compare"} if len(self.traces) > 1 else set()
            offered = {self.name, *several}
            return [name for name in VIEWS if name in offered or can_serve(name, self.trace, self.choice)]
        names = [self.name] if views is None else [views] if isinstance(views, str) else list(views)
        for name in names:
            check_view(name)
        return names if self.name in names else [self.name, *names]

    def page_parts(self, views: Sequence[str]) -> dict[str, Any]:
        """Returns what a page takes beside its views: the state it opens with, computed extras, its title."""
        if not can_serve(self.name, self.trace, self.choice):
            _ = self.drawing  # raises DataError, which says what is missing
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
            layer, head = compared_place(self.trace, choice, choice.other)
            state |= {"layer": str(layer)} | ({"head": str(head)} if isinstance(head, int) else {})
        if self.name == "contributions" and choice.row is not None:
            state |= {"contributions.row": str(choice.row)}
        # Whatever view opens, each attention shows the same head until somebody chooses another.
        openings = [opening_of(trace, choice) for trace in self.traces]
        extras["opening"] = [one.heads for one in openings]
        if self.name == "alignment":
            state |= alignment_state(*alignment_choice(self.trace, choice))
        elif "alignment" in views:
            own = openings[at].alignment
            state |= {name: value for name, value in own.items() if name.startswith("alignment.")}
        return {"state": state, "extras": extras, "title": choice.title or text_of(self.trace) or "Attention"}

    def state(self) -> dict[str, str]:
        """Returns the choice as the page's address has it."""
        choice, (attention, layer) = self.choice, self.choice.place(self.trace)
        numbers, state = choice.heads(attention), {"attention": attention.name}
        if choice.layer is not None:
            state["layer"] = str(layer)
        if isinstance(choice.head, str):
            state |= {"heads": "all", "mix": choice.head}
        elif choice.head is not None:
            state |= {"head": str(numbers[0]), "heads": ",".join(map(str, numbers))}
        flags = {"words": choice.words, "special": not choice.special, "sink": not choice.sink}
        return state | {name: "1" for name, is_set in flags.items() if is_set} | {"pair": choice.pair or ""}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Returns what a notebook shows: the page, and for where no script runs a picture and a line of text."""
        drawing = self.drawing
        return drawing._repr_mimebundle_() | {"text/html": self._frame(drawing)}

    def _frame(self, drawing: Drawing) -> str:
        """Puts the page into a frame without an origin: what runs in it cannot reach the notebook.

        The still picture lies under the frame: a notebook that is not trusted takes the frame away. A page that is too
        large has one view; where that is too large, it becomes that of the small pictures of all heads, and says so.
        """
        (html, _), note = self.fitting_page(), ""
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
        # One lies on the other; the frame in an element of its own, since marimo puts it into another one.
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
    lens: Lens | None = None,
    contributions: Contributions | Sequence[Contributions] | None = None,
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
        view: "overview", "text", "heads", "matrix", "model", "neuron", "beam", "alignment", "compare", "evolution",
            "flow", "lens" or "contributions".
        tokens: of weights from elsewhere; a trace has its own. They may stand in the place of `view`, which is `name`
            then: so users of BertViz have them.
        layer: counted from 0; None: the last.
        head: a number, several, "mean" or "max"; None: all of the layer.
        title: what stands above; None: what is shown, in words, and above a page, where that can change, the text.
        width: of a still picture: "column" or "page" of a journal, or millimetres; None: as it comes out.
        attention, words, special, sink, pair: of all views, as Choice says.
        row, top_k, pruned, other, names, gold, extraction, evolution, statistic, ablation, lens, contributions: each of
            few views, as Choice says.
        sentence_b_start, encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens: of
            weights from elsewhere, as trace_from_weights says.

    Raises ConfigError for an unknown view or option, or tokens beside a trace; DataError for an attention, layer or
    head that the trace does not have, or a view that it cannot serve.
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
    is_trace = isinstance(source, Trace | str | Path)
    if wrong := next(iter(unknown), None):
        known = [field.name for field in fields(Choice)] + ([] if is_trace else [*weights, "tokens"])
        raise ConfigError(
            f"unknown option `{wrong}` of a view{did_you_mean(wrong, known)}", f"options: {', '.join(known)}"
        )
    given = {key: value for key, value in weights.items() if value is not None}
    if is_trace and (tokens is not None or given):
        wrong = "tokens" if tokens is not None else next(iter(given))
        raise ConfigError(f"`{wrong}` are of weights from elsewhere; a trace has its own", "leave them out")
    if isinstance(source, Trace):
        trace = source
    else:
        trace = load_trace(source) if is_trace else trace_from_weights(source, tokens, **given)
    if not trace.attentions:
        raise DataError(
            "the trace has no attention weights: no layer of its model called attention()",
            "attention of your own is recorded where it calls pellucid.attention(q, k, v, ..., block=self)",
        )
    choice = Choice(
        attention=attention, layer=layer, head=head, words=words, special=special, sink=sink, pair=pair, title=title,
        width=width, row=row, top_k=top_k, pruned=pruned,
        other=load_trace(other) if isinstance(other, str | Path) else other, names=names, gold=gold,
        extraction=extraction, evolution=evolution, statistic=statistic, ablation=ablation, lens=lens,
        contributions=contributions,
    )  # fmt: skip
    choice.check(shown)
    return View(trace, shown, choice)


def check_view(name: str) -> None:
    """Raises ConfigError for an unknown view, and for one that only a page with a model has."""
    if name in ASKING:
        raise ConfigError(
            f"the view `{name}` asks a model, and a trace holds none",
            'make a page that holds the model: `pellucid.weights.to_page(model, "page.html")`',
        )
    if name not in VIEWS:
        raise ConfigError(f"unknown view `{name}`{did_you_mean(name, OF_TRACES)}", f"views: {', '.join(OF_TRACES)}")


def can_serve(name: str, trace: Trace, choice: Choice) -> bool:
    """Tells if a trace, with what comes with it, has what a view shows."""
    needs = {
        "neuron": any(attention.q is not None for attention in trace.attentions.values()),
        "beam": trace.search is not None,
        "alignment": "cross" in trace.attentions,
        "compare": choice.other is not None,
        "evolution": choice.evolution is not None,
        "lens": choice.lens is not None,
        "contributions": bool(choice.all_contributions),
        **dict.fromkeys(ASKING, False),
    }
    return needs.get(name, bool(trace.attentions))


def text_of(trace: Trace) -> str:
    """Puts the text of a trace together from its tokens: what was read and what was written, or the texts read.

    For instance "18.3.2016 → 2016-03-18"; at most 160 characters.
    """
    sides = [trace.sequences[name] for name in ("src", "out" if "src" in trace.sequences else "tgt")
             if name in trace.sequences]  # fmt: skip
    found = " → ".join(text for side in sides if (text := _joined(side)))
    return found if len(found) <= LONGEST_TITLE else found[: LONGEST_TITLE - 1].rstrip() + "…"


def _joined(tokens: Sequence[Token]) -> str:
    """Joins all but special tokens; where the vocabulary has no spaces, words are set apart as people write."""
    usable = [token for token in tokens if not token.special][: 2 * LONGEST_TITLE]
    spaced = any(token.written[:1].isspace() for token in usable)
    texts = [[token.written for token in word_tokens([one for one in usable if one.segment == s])] for s in (0, 1)]
    joined = ("".join(words) if spaced else _spaced(words) for words in texts)
    return " / ".join(unicodedata.normalize("NFC", " ".join(text.split())) for text in joined if text.strip())


def _spaced(words: Sequence[str]) -> str:
    """Sets words apart, with no space before punctuation, and none behind what opens or joins."""
    text = ""
    for word in words:
        closes = unicodedata.category(word[:1] or "a")[0] == "P" and word[:1] not in "([{¿¡"
        text += word if not text or closes or text[-1] in "([{¿¡-/'’" else f" {word}"
    return text
