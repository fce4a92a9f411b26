import json
import re
import warnings
from base64 import b64decode
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.analysis.aligning_head import find_aligning_head
from pellucid.analysis.evolution import collect_evolution
from pellucid.errors import ConfigError, DataError
from pellucid.tracing.predictions import Prediction
from pellucid.tracing.trace import Trace
from pellucid.views import ASKING, VIEWS
from pellucid.views import view as view_module
from pellucid.views.initial_state import sharpest_head
from pellucid.views.page import read_data_blocks
from pellucid.views.page_data import payload
from pellucid.views.view import LONGEST_TITLE, View, get_text
from pellucid.views.view_options import ViewOptions
from tests.unit.views.drawn import contributions_of, encoder, lens_of, parsed, texts, tokens, translation

OF_PASSES = set(VIEWS) - {*ASKING, "lens", "contributions"}
"""The views that need no model, and nothing that a trace of attention does not have."""


def test_a_view_writes_svg_png_and_html(tmp_path: Path) -> None:
    view = pellucid.view(translation(), "matrix", layer=0, head=1)
    for name in ("a.svg", "a.png", "a.html"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    view.svg(tmp_path / "a.svg")
    view.png(tmp_path / "a.png", scale=1)
    view.html(tmp_path / "a.html")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == view.drawing.as_svg()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png", "a.svg"]


@pytest.mark.parametrize("kind", ["svg", "png", "html"])
def test_where_no_file_can_be_nothing_is_written(kind: str, tmp_path: Path) -> None:
    write = getattr(pellucid.view(encoder(), "matrix"), kind)
    with pytest.raises(DataError, match=r"cannot write to .*: it is a folder"):
        write(tmp_path)
    with pytest.raises(DataError, match=r"no folder"):
        write(tmp_path / "none" / "x")


def test_a_path_of_a_trace(tmp_path: Path) -> None:
    trace = encoder()
    trace.save(tmp_path / "a.trace")
    assert (
        pellucid.view(tmp_path / "a.trace", "heads").drawing.as_svg() == pellucid.view(trace, "heads").drawing.as_svg()
    )


def test_weights_of_another_library_are_made_a_trace_first() -> None:
    weights, tokens = tuple(np.full((2, 1, 3, 4, 4), 0.25, np.float32)), ["[CLS]", "a", "b", "c"]
    with pytest.raises(ConfigError, match="a view requires a trace, or a file with one, not a tuple") as raised:
        pellucid.view(weights, "matrix")  # type: ignore[arg-type]
    assert "pellucid.trace_from_weights(attentions, tokens)" in str(raised.value.hint)
    view = pellucid.view(pellucid.trace_from_weights(weights, tokens, sentence_b_start=2), "matrix", head=np.int64(1))
    assert view.drawing.title == "Layer 1, encoder self-attention, head 1"
    cross = tuple(np.full((1, 1, 2, 2, 3), 1 / 3, np.float32))
    sides: dict[str, Any] = {"encoder_tokens": ["x", "y", "z"], "decoder_tokens": ["u", "v"]}
    drawing = pellucid.view(pellucid.trace_from_weights(cross_attention=cross, **sides)).drawing
    assert {"x", "y", "z", "u", "v"} <= set(texts(drawing))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"view": "matrx"}, "unknown view `matrx`; did you mean `matrix`"),
        ({"view": "heads", "rows": 3}, "unknown option `rows` of a view; did you mean `row`"),
        ({"view": "heads", "row": 3}, "`row` has no effect with the view `heads`"),
        ({"view": "matrix", "top_k": 3}, "`top_k` has no effect with the view `matrix`"),
        ({"view": "matrix", "head": []}, "`head` is empty"),
    ],
)
def test_unknown_names(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pellucid.view(encoder(), **given)


def test_the_other_trace_may_be_a_path(tmp_path: Path) -> None:
    encoder().save(tmp_path / "a.trace")
    assert pellucid.view(encoder(), "compare", other=tmp_path / "a.trace").drawing.shapes


def test_what_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    monkeypatch.setattr("pathlib.Path.replace", full)
    view = pellucid.view(encoder(), "matrix")
    for write in (view.svg, view.png, view.html):
        with pytest.raises(DataError, match=r"cannot write to .*: No space left on device"):
            write(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_title_may_hold_what_a_file_cannot() -> None:
    drawing = pellucid.view(encoder(), "matrix", title="a\x00\udcff<").drawing
    assert "a␀�&lt;" in drawing.as_svg()


def test_layers_heads_and_rows_that_are_not_there() -> None:
    with pytest.raises(DataError, match=r"`layer=7` of `encoder.self` must be in 0..1"):
        _ = pellucid.view(encoder(), "heads", layer=7).drawing
    with pytest.raises(DataError, match=r"`row=9` of `encoder.self` must be in 0..3"):
        _ = pellucid.view(encoder(), "neuron", row=9).drawing
    with pytest.raises(DataError, match="the view neuron requires one head, not `head` 'mean'"):
        _ = pellucid.view(encoder(), "neuron", head="mean").drawing
    with pytest.raises(DataError, match="the view heads shows separate heads"):
        _ = pellucid.view(encoder(), "heads", head="mean").drawing


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("neuron", "was made from weights, and has no queries and keys"),
        ("beam", "the trace has no search"),
        ("alignment", "the trace has no attention `cross`"),
        ("compare", "nothing to compare with"),
        ("evolution", "is of one checkpoint"),
    ],
)
def test_a_view_that_a_trace_cannot_serve_says_why(view: str, message: str) -> None:
    trace = pellucid.trace_from_weights(tuple(np.full((1, 1, 2, 3, 3), 1 / 3)), ["a", "b", "c"])
    with pytest.raises(DataError, match=message):
        _ = pellucid.view(trace, view).drawing


@pytest.mark.parametrize("width", ["wide", 3, "5000"])
def test_a_width_that_no_picture_has(width: Any) -> None:
    with pytest.raises(DataError, match=rf"`width` \({width}\) must be column, page, or a number of millimetres"):
        _ = pellucid.view(encoder(), "matrix", width=width).drawing


def test_all_views_are_those_that_the_trace_can_serve() -> None:
    of_encoder = ["overview", "text", "heads", "matrix", "model", "neuron", "flow"]
    assert pellucid.view(encoder(), "heads").page_views("all") == of_encoder
    both = pellucid.view(translation(), "compare", other=translation())
    assert set(both.page_views("all")) == OF_PASSES - {"evolution"}
    assert pellucid.view(encoder(), "heads").page_views() == ["heads"]
    assert pellucid.view(encoder(), "heads").page_views(["matrix"]) == ["heads", "matrix"]
    with pytest.raises(ConfigError, match="unknown view `x`"):
        pellucid.view(encoder(), "heads").page_views(["x"])


def test_a_page_opens_with_the_choice() -> None:
    view = pellucid.view(translation(), "heads", layer=0, head=[1, 2], special=False, merge_words=True)
    assert view.state() == {
        "attention": "cross", "layer": "0", "head": "1", "heads": "1,2", "words": "1", "special": "1", "pair": "",
    }  # fmt: skip
    assert "heads" not in pellucid.view(translation(), "matrix").state()


def test_a_page_is_called_by_its_text_since_layers_change() -> None:
    assert pellucid.view(translation(), "heads").page_parts(["heads"])["title"] == "ein Hund → a dog runs"
    assert pellucid.view(translation(), "heads", title="Mine").page_parts(["heads"])["title"] == "Mine"


def test_a_comparison_opens_with_the_head_of_its_picture() -> None:
    a, cross = translation(), translation()["cross"]
    assert cross.k is not None
    k = cross.k.copy()
    k[0, 2] *= -1
    k[1, 1] *= 0.9
    other = replace(a, attentions={**a.attentions, "cross": replace(cross, k=k)})
    view = pellucid.view(a, "compare", other=other, names=("a", "b"))
    parts = view.page_parts(["compare"])
    assert (parts["state"]["layer"], parts["state"]["head"]) == ("0", "2")
    assert parts["extras"]["names"] == ["a", "b"]
    assert view.drawing.title == "Layer 0, cross-attention, head 2"
    below = pellucid.view(a, "compare", other=other, layer=1)
    assert (below.page_parts(["compare"])["state"]["layer"], below.page_parts(["compare"])["state"]["head"]) == (
        "1",
        "1",
    )
    assert below.drawing.title == "Layer 1, cross-attention, head 1"


def test_the_checkpoints_of_a_run_can_be_compared() -> None:
    first, last = translation(), translation(["zwei", "Hunde", "<e>"])
    view = pellucid.view(last, "evolution", evolution=collect_evolution([10, 20], [first, last]))
    assert set(view.page_views("all")) == OF_PASSES
    parts = view.page_parts(["evolution", "compare"])
    assert parts["extras"]["names"] == ["step 10", "step 20"]
    assert parts["state"]["trace"] == "1"
    assert "distances" in parts["extras"]["compare"]


def test_what_the_model_told_travels_in_the_page() -> None:
    trace = translation()
    told = {"lens": lens_of(trace), "contributions": contributions_of(trace)}
    view = pellucid.view(trace, "contributions", contributions=told["contributions"], row=2)
    assert {"lens", "contributions"} & set(view.page_views("all")) == {"contributions"}
    parts = View(trace, "contributions", ViewOptions(**told, row=2)).page_parts(["lens", "contributions"])  # type: ignore[arg-type]
    assert parts["extras"]["lens"]["traces"] == [told["lens"].to_json()]
    assert parts["extras"]["contributions"]["traces"] == [[one.to_json() for one in told["contributions"]]]
    assert parts["state"]["contributions.row"] == "2"
    assert "lens" not in View(trace, "heads", ViewOptions(**told)).page_parts(["heads"])["extras"]  # type: ignore[arg-type]


def test_what_the_model_said_travels_in_the_page() -> None:
    trace = translation()
    assert manifest_of(trace)["predictions"] is None
    words = trace.sequences["out"]
    predictions = tuple(Prediction(-0.25 * n, ((words[0], -0.125), (words[1], -2.0))) for n, _ in enumerate(words))
    told = manifest_of(replace(trace, predictions=predictions))["predictions"]
    assert told["sequence"] == "out"
    row = told["rows"][2]
    assert row["chosen"] == {"text": " runs", "piece": "runs", "id": None, "probability": pytest.approx(np.exp(-0.5))}
    assert [one["text"] for one in row["top"]] == [" a", " dog"]
    classes = manifest_of(replace(encoder(), classes={"good": 0.75, "bad": 0.25}))["classes"]
    assert classes == [{"label": "good", "probability": 0.75}, {"label": "bad", "probability": 0.25}]


def manifest_of(trace: Trace) -> dict[str, Any]:
    """What a page's manifest says of a trace."""
    islands = payload([trace], view="heads", views=["heads"], state={}, extras={}, title="")
    found: dict[str, Any] = json.loads(islands["manifest"])["traces"][0]
    return found


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("lens", "the logit lens requires the model's output projection"),
        ("contributions", "the contribution of each part to a word requires the model's weights"),
    ],
)
def test_what_a_trace_does_not_tell_is_said(view: str, message: str, tmp_path: Path) -> None:
    for write in (lambda v: v.svg(tmp_path / "a.svg"), lambda v: v.html(tmp_path / "a.html")):
        with pytest.raises(DataError, match=message):
            write(pellucid.view(translation(), view))


def test_a_page_of_what_there_is_not_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="search"):
        pellucid.view(encoder(), "beam").html(tmp_path / "a.html")


def test_a_notebook_shows_a_frame_that_reaches_nothing_and_a_picture() -> None:
    bundle = pellucid.view(encoder(), "matrix")._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain", "image/png"}
    both = re.fullmatch(
        r'<div style="display: grid"><img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]*)" style="([^"]*)">'
        r'<div style="([^"]*)"><iframe sandbox="([^"]*)" srcdoc="([^"]*)" title="[^"]*" style="[^"]*">'
        r"</iframe></div></div>",
        bundle["text/html"],
    )
    assert both is not None
    picture, of_picture, of_frame, sandbox, page = both.groups()
    parsed(b64decode(picture).decode("utf-8"))
    assert "grid-area: 1 / 1" in of_picture
    assert "grid-area: 1 / 1" in of_frame  # above the picture: it covers it where it may run
    assert sandbox.split() == ["allow-scripts", "allow-downloads"]
    assert "Content-Security-Policy" in unescape(page)
    assert bundle["text/plain"].startswith("Layer 1, encoder self-attention. ")


def test_without_matplotlib_the_picture_is_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.views.canvas.drawing.find_spec", lambda name: None)
    bundle = pellucid.view(encoder(), "matrix")._repr_mimebundle_()
    parsed(bundle["image/svg+xml"])
    assert "image/png" not in bundle


def views_of(html: str) -> list[str]:
    """The views that a page offers."""
    return list(json.loads(read_data_blocks(html)["manifest"].unpack())["views"])


def test_a_page_has_every_view_while_it_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = pellucid.view(encoder(), "heads")
    view.html(tmp_path / "a.html")
    assert views_of((tmp_path / "a.html").read_text(encoding="utf-8")) == view.page_views("all")
    frame = re.search(r'srcdoc="([^"]*)"', view._repr_mimebundle_()["text/html"])
    assert frame is not None
    assert views_of(unescape(frame[1])) == view.page_views("all")
    monkeypatch.setattr(view_module, "LARGEST_PAGE", 1000)
    with pytest.warns(UserWarning, match="so the page has one"):
        view.html(tmp_path / "a.html")
    assert views_of((tmp_path / "a.html").read_text(encoding="utf-8")) == ["heads"]


def test_a_script_that_no_font_has_is_shown_as_text_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*args: Any) -> bytes:
        warnings.warn("no installed font has 1 of the picture's characters", stacklevel=1)
        return b"boxes"

    monkeypatch.setattr("pellucid.views.canvas.drawing.to_png", lacking)
    bundle = pellucid.view(encoder(), "matrix")._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain", "image/svg+xml"}


def test_each_attention_opens_with_a_head_that_says_something() -> None:
    trace = translation()
    for name in ("heads", "matrix", "alignment", "model"):
        parts = pellucid.view(trace, name).page_parts(["heads", "alignment"])
        layer, head, extraction = find_aligning_head(trace, None, None)
        assert parts["extras"]["opening"][0]["cross"] == [layer, head]
        assert parts["state"]["alignment.row"] == extraction.row
        assert "heads" not in parts["state"]
    chosen = pellucid.view(trace, "heads", layer=1, head=2).page_parts(["heads"])["state"]
    assert (chosen["layer"], chosen["head"], chosen["heads"]) == ("1", "2", "2")


def test_the_sharpest_head_that_is_no_sink() -> None:
    found = encoder()
    attention, keys = found["encoder.self"], found.sequences["src"]
    ready = np.full((2, 2, len(keys), len(keys)), 1 / len(keys), np.float32)
    ready[0, 1] = np.eye(len(keys))[0]  # the sharpest, and a sink
    ready[1, 0] = np.eye(len(keys))
    ready[1, 0, 0] = np.eye(len(keys))[1]
    given = replace(attention, q=None, k=None, v=None, bias=None, mask=None, value_norms=None, ready=ready)
    assert sharpest_head(given, keys) == [1, 0]
    ready[:] = np.eye(len(keys))[0]
    ready[0, 1, 1] = np.eye(len(keys))[1]
    assert sharpest_head(given, keys) == [0, 1]


def test_what_is_too_much_for_a_notebook_becomes_thumbnails_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"heads": "x" * 900, "model": "y" * 90}
    monkeypatch.setattr(view_module, "page", lambda traces, *, view, **rest: pages[view])
    monkeypatch.setattr(view_module, "LARGEST_PAGE", 500)
    html = pellucid.view(encoder(), "heads")._repr_mimebundle_()["text/html"]
    assert "y" * 90 in html
    assert ".html(path)" in html
    monkeypatch.setattr(view_module, "LARGEST_PAGE", 50)
    html = pellucid.view(encoder(), "heads")._repr_mimebundle_()["text/html"]
    assert "<iframe" not in html
    assert html.startswith("<svg")
    assert ".html(path)" in html


@pytest.mark.slow
def test_a_hostile_title_stays_within_its_attribute() -> None:
    html = pellucid.view(encoder(), "matrix", title='"><script>alert(1)</script>')._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert html.count("<iframe") == 1


def test_a_translation_is_its_source_and_what_was_written() -> None:
    assert get_text(translation()) == "ein Hund → a dog runs"


def test_two_texts_are_told_apart() -> None:
    found = (*tokens("<c>", "a", "dog", "##s", "<e>"), *tokens("a", "cat", "<e>", segment=1))
    assert get_text(replace(encoder(), sequences={"src": found})) == "a dogs / a cat"


def test_a_long_text_is_cut() -> None:
    found = get_text(encoder(["word"] * 100))
    assert len(found) <= LONGEST_TITLE
    assert found.endswith("…")


def test_there_may_be_no_text() -> None:
    assert get_text(encoder(["<e>"])) == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["2016", "-", "03", "-", "18"], "2016-03-18"),
        (["did", "it", "?", "yes", ",", "(", "it", ")", "did", "."], "did it? yes, (it) did."),
        (["ᄒ", "##ᅡ", "##ᆫ", "글"], "한 글"),
    ],
)
def test_words_without_spaces_of_their_own_are_set_apart(words: list[str], text: str) -> None:
    found = tuple(replace(token, text=token.text.strip()) for token in tokens(*words))
    assert get_text(replace(encoder(), sequences={"src": found})) == text
